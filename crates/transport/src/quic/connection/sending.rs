//! What may leave when: window, pacer, and how much the application is asked for so that packets are full and
//! ACKs stay free.

use quinn_proto::FrameStats;
use units::{Ecn, Time};

use super::{Connection, span};
use crate::quic::farewell::Farewell;
use crate::quic::{Batch, Outlet};
use crate::{AppEvent, Event, EventKind};

/// Largest batch taken from the stack at once, packets (Linux's UDP_MAX_SEGMENTS).
const BATCH: u64 = 64;

/// Header bytes of a 1-RTT packet that carries one STREAM frame, at the least: first byte,
/// connection id, packet number (1), tag (16), frame type, stream id and offset (1 each).
const LEAST_OVERHEAD: u64 = 1 + 8 + 1 + 16 + 3;

/// Bytes of a packet that may not be left for new stream data, at the most: the overhead at its
/// longest (packet number 4, stream id 2, offset 8).
const MOST_OVERHEAD: u64 = 1 + 8 + 4 + 16 + 1 + 2 + 8;

/// Room for an ACK frame and a length field in the last packet of a burst.
const ACK_ROOM: u64 = 64;

/// After this much data the count of unsent bytes is brought to zero once, because the overhead of
/// a packet is only known within 3 bytes.
pub(super) const RECOUNT: u64 = 16 << 20;

impl Connection {
    /// Packets that window and pacer let pass now.
    fn allowance(&self, now: Time) -> (u64, bool) {
        let in_flight = self.gate.with(|shared| shared.estimator.in_flight());
        let room = self.control.cwnd.saturating_sub(in_flight) / self.mtu;
        let room = room.max(u64::from(self.may_send_one));
        if room == 0 {
            return (0, true);
        }
        let budget = self.pacer.budget(now);
        let paced = if budget == 0 { 0 } else { (budget / self.mtu).max(1) };
        let paced = paced.max(self.burst_left.div_ceil(self.mtu));
        (room.min(paced).min(BATCH), false)
    }

    /// Takes from the stack everything that may leave now.
    pub(in crate::quic) fn transmit(
        &mut self,
        now: Time,
        outlet: &mut dyn Outlet,
        events: &mut Vec<Event>,
        buffer: &mut Vec<u8>,
    ) {
        self.waits_for_pacer = false;
        let instant = self.clock.instant(now);
        let mut just_sent_data = false;
        loop {
            let (packets, window_full) = self.allowance(now);
            let open = packets > 0;
            if open {
                if let Some(datagrams) = &mut self.datagrams {
                    let room = self.mtu - MOST_OVERHEAD - ACK_ROOM;
                    datagrams.give(&mut self.inner, packets, room as usize);
                }
                self.refill(now, packets);
            } else if just_sent_data && self.has_data() && !self.sends_and_receives(now) {
                // There is no ACK to send either.
                self.waits_for_pacer = !window_full;
                return;
            }
            self.gate.with(|shared| shared.open = open);
            self.gate.take_asked();
            buffer.clear();
            let transmit = self.inner.poll_transmit(instant, packets.max(1) as usize, buffer);
            let asked = self.gate.take_asked();
            let Some(transmit) = transmit else {
                if open && self.run_dry(now) {
                    continue;
                } else if !open && asked {
                    self.waits_for_pacer = !window_full;
                } else if !open && self.has_data() {
                    // The stack has nothing left: what waits is with the application.
                    self.sent_stream_bytes = self.counters.written_bytes;
                    self.waits_for_pacer = !window_full;
                }
                return;
            };
            just_sent_data = asked;
            // After `take_asked`, for which reading the counters counts as asking.
            let frames = eliciting_frames(&self.inner.stats().frame_tx);
            let eliciting = frames > std::mem::replace(&mut self.eliciting_frames, frames);
            // A probe leaves whatever the window (RFC 9002 section 7.5), so the stack asks for none.
            if eliciting && !asked && std::mem::take(&mut self.timed_out) {
                self.counters.ptos += 1;
                self.note(events, now, EventKind::Pto, 0.0);
            }
            self.account(now, &transmit, eliciting);
            // It was let send more than this, and nothing kept it from that: a pure ACK was all it had.
            let spent =
                !eliciting && packets > 1 && transmit.segment_size.is_none() && self.is_open();
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            let ecn = match transmit.ecn {
                Some(quinn_proto::EcnCodepoint::Ect0) if self.ecn => Ecn::Ect0,
                _ => Ecn::NotEct,
            };
            let data = &buffer[..transmit.size];
            if self.brief && !self.draining && self.inner.is_closed() {
                let acknowledged = self.gate.with(|shared| shared.acknowledged);
                self.farewell = Farewell::read(data, now, ecn, acknowledged).map(Box::new);
            }
            let (to, from) = (transmit.destination, transmit.src_ip);
            outlet.put(Batch { to, from, ecn, segment, data });
            // An ACK takes nothing of window and pacer: where nobody has data, there is nothing to ask the stack for.
            if spent && !self.app.has_data() {
                self.run_dry(now);
                return;
            }
        }
    }

    /// Whether the stack has nothing to send but 1-RTT packets of frames that fit into any of them.
    fn is_open(&self) -> bool {
        self.connected_at.is_some() && !self.inner.is_closed() && self.datagrams.is_none()
    }

    fn has_data(&self) -> bool {
        self.counters.written_bytes > self.sent_stream_bytes
            || self.app.has_data()
            || self.holds_datagrams()
    }

    fn holds_datagrams(&self) -> bool {
        self.datagrams.as_ref().is_some_and(|datagrams| !datagrams.is_empty())
    }

    /// Whether data goes both ways. The stack sends no pure ACK while data waits for the window, so
    /// a sender that also receives gives it no more data than window and pacer let pass: what waits
    /// stays with the application, and ACKs are free.
    fn sends_and_receives(&self, now: Time) -> bool {
        let recently = span(self.inner.rtt()) * 2;
        self.last_read.is_some_and(|last| now.since(last) <= recently) && self.app.has_data()
    }

    /// Asks the application for more before the stack runs out, so that packets are full.
    fn refill(&mut self, now: Time, packets: u64) {
        if !self.ready || !self.app.has_data() {
            return;
        }
        let written = self.counters.written_bytes;
        let unsent = written.saturating_sub(self.sent_stream_bytes);
        if self.sends_and_receives(now) {
            let fits = packets * (self.mtu - MOST_OVERHEAD) - ACK_ROOM;
            let unsent = unsent + self.datagrams.as_ref().map_or(0, |datagrams| datagrams.given());
            if unsent < fits {
                self.ask(now, AppEvent::WantData, fits - unsent);
            }
        } else if unsent < (packets + 2) * self.mtu && written < self.recount_at {
            self.tell(now, AppEvent::WantData);
        }
    }

    /// The stack has nothing to send: whether the application gave it more.
    fn run_dry(&mut self, now: Time) -> bool {
        let (before, held) = (self.counters.written_bytes, self.holds_datagrams());
        self.sent_stream_bytes = before;
        self.recount_at = before + RECOUNT;
        if self.ready && !self.over && self.app.has_data() {
            let (packets, _) = self.allowance(now);
            if self.sends_and_receives(now) {
                self.refill(now, packets.max(1));
            } else {
                self.tell(now, AppEvent::WantData);
            }
        }
        let more = self.counters.written_bytes > before || (!held && self.holds_datagrams());
        // Data that stays with the application waits for flow control or the send window
        // (docs/decisions/0079).
        let waits = self.ready && self.app.has_data();
        if !more {
            self.gate.with(|shared| {
                if waits {
                    shared.estimator.mark_data_limited();
                } else {
                    shared.estimator.mark_app_limited();
                }
            });
        }
        more
    }

    fn account(&mut self, now: Time, transmit: &quinn_proto::Transmit, eliciting: bool) {
        let size = transmit.size as u64;
        let packets = transmit.segment_size.map_or(1, |segment| size.div_ceil(segment as u64));
        let wire = size + packets * self.header;
        self.counters.sent_packets += packets;
        self.counters.sent_bytes += wire;
        if !eliciting {
            self.counters.ack_packets += packets;
            self.counters.ack_bytes += wire;
            return;
        }
        self.may_send_one = false;
        let idle = self
            .gate
            .with(|shared| shared.estimator.in_flight() == 0 && shared.estimator.delivered() > 0);
        if idle {
            self.control = self.controller.on_event(now, &cc::ControllerEvent::RestartFromIdle);
            self.adopt();
        }
        self.gate.with(|shared| shared.estimator.on_sent(now, size));
        if idle {
            self.burst_left = self.burst;
        }
        if self.burst_left > 0 {
            self.burst_left = self.burst_left.saturating_sub(size);
        } else {
            self.pacer.on_sent(now, size);
        }
        // Counting too little as sent runs the stack dry, which sets the count right; too much would
        // let a backlog grow that holds ACKs back.
        let overhead =
            if self.sends_and_receives(now) { MOST_OVERHEAD + ACK_ROOM } else { LEAST_OVERHEAD };
        let data = size.saturating_sub(packets * overhead);
        let other = self.datagrams.as_mut().map_or(0, |datagrams| datagrams.sent(data));
        self.sent_stream_bytes += data - other;
    }
}

/// How many frames have been sent that elicit an ACK: all kinds but ACK, PADDING and
/// CONNECTION_CLOSE (RFC 9002 section 2).
fn eliciting_frames(sent: &FrameStats) -> u64 {
    sent.ack_frequency
        + sent.crypto
        + sent.data_blocked
        + sent.datagram
        + u64::from(sent.handshake_done)
        + sent.immediate_ack
        + sent.max_data
        + sent.max_stream_data
        + sent.max_streams_bidi
        + sent.max_streams_uni
        + sent.new_connection_id
        + sent.new_token
        + sent.path_challenge
        + sent.path_response
        + sent.ping
        + sent.reset_stream
        + sent.retire_connection_id
        + sent.stop_sending
        + sent.stream
        + sent.stream_data_blocked
        + sent.streams_blocked_bidi
        + sent.streams_blocked_uni
}

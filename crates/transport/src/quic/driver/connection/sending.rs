//! Sending: window, pacer, and the amount of data requested of the application. Packets are full, and ACKs are not
//! blocked.

use units::{Ecn, Time};

use super::ConnectionDriver;
use crate::endpoint_stats::add_count;
use crate::quic::driver::endpoint::closing::ClosingState;
use crate::quic::stack::{StackConnection, StackTransmit};
use crate::quic::{DatagramBatch, DatagramSink};
use crate::{AppEvent, FlowEvent, FlowEventKind};

/// Largest batch taken from the stack at once, packets (Linux's UDP_MAX_SEGMENTS).
const MAX_BATCH_PACKETS: u64 = 64;

/// Minimum header bytes of a 1-RTT packet with one STREAM frame. They are first byte, connection id, packet number (1),
/// tag (16), frame type, stream id and offset (1 each).
const MIN_OVERHEAD: u64 = 1 + 8 + 1 + 16 + 3;

/// Maximum bytes of a packet without new stream data: the longest overhead (packet number 4, stream id 2, offset 8).
const MAX_OVERHEAD: u64 = 1 + 8 + 4 + 16 + 1 + 2 + 8;

/// Bytes for an ACK frame and a length field in the last packet of a burst.
const ACK_RESERVE: u64 = 64;

/// Amount of data after which the count of unsent bytes is reset to zero once. The overhead of a packet is known only
/// within 3 bytes.
pub(super) const RECOUNT_BYTES: u64 = 16 << 20;

impl<C: StackConnection> ConnectionDriver<C> {
    /// Returns the packets that window and pacer allow now, and whether the window is full.
    fn allowance(&self, now: Time) -> (u64, bool) {
        let in_flight = self.shim.with(|shared| shared.estimator.in_flight());
        let window_packets = self.control.cwnd.saturating_sub(in_flight) / self.mtu;
        let window_packets = window_packets.max(u64::from(self.may_send_one));
        if window_packets == 0 {
            return (0, true);
        }
        let budget = self.pacer.budget(now);
        let paced = if budget == 0 { 0 } else { (budget / self.mtu).max(1) };
        let paced = paced.max(self.burst_left.div_ceil(self.mtu));
        (window_packets.min(paced).min(MAX_BATCH_PACKETS), false)
    }

    /// Sends everything of the stack that is allowed now.
    pub(in crate::quic::driver) fn transmit(
        &mut self,
        now: Time,
        sink: &mut dyn DatagramSink,
        events: &mut Vec<FlowEvent>,
        buffer: &mut Vec<u8>,
    ) {
        self.is_pacer_blocked = false;
        let mut just_sent_data = false;
        loop {
            let (packets, window_full) = self.allowance(now);
            let open = packets > 0;
            if open {
                if let Some(datagrams) = &mut self.datagrams {
                    let frame_bytes = self.mtu - MAX_OVERHEAD - ACK_RESERVE;
                    datagrams.fill_stack(&mut self.inner, packets, frame_bytes as usize);
                }
                self.refill(now, packets);
            } else if just_sent_data && self.has_data() && !self.is_bidirectional(now) {
                // There is no ACK to send either.
                self.is_pacer_blocked = !window_full;
                return;
            }
            self.shim.with(|shared| shared.window_open = open);
            self.shim.take_window_queried();
            buffer.clear();
            let transmit = self.inner.poll_transmit(now, packets.max(1) as usize, buffer);
            let window_queried = self.shim.take_window_queried();
            let Some(transmit) = transmit else {
                if open && self.on_stack_drained(now) {
                    continue;
                } else if !open && window_queried {
                    self.is_pacer_blocked = !window_full;
                } else if !open && self.has_data() {
                    // The stack has no more data: the application has the waiting data.
                    self.sent_stream_bytes = self.counters.written_bytes;
                    self.is_pacer_blocked = !window_full;
                }
                return;
            };
            just_sent_data = window_queried;
            // Called after `take_window_queried`, because reading the counters counts as a query.
            let frames = self.inner.ack_eliciting_frames();
            let eliciting = frames > std::mem::replace(&mut self.ack_eliciting_frames, frames);
            // A probe ignores the window (RFC 9002 section 7.5), so the stack does not query it.
            if eliciting && !window_queried && std::mem::take(&mut self.timed_out) {
                add_count(&mut self.counters.ptos, 1);
                self.record_event(events, now, FlowEventKind::Pto, 0.0);
            }
            self.account_transmit(now, &transmit, eliciting);
            // The stack was allowed more than this packet and was not limited: it had only a pure ACK.
            let spent = !eliciting
                && packets > 1
                && transmit.segment_size.is_none()
                && self.sends_only_small_frames();
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            let ecn = if self.ecn && transmit.ecn == Ecn::Ect0 { Ecn::Ect0 } else { Ecn::NotEct };
            let data = &buffer[..transmit.size];
            if self.compact_closing && !self.draining && self.inner.is_closed() {
                let acknowledged = self.shim.with(|shared| shared.largest_acked);
                self.closing_state = ClosingState::read(data, now, ecn, acknowledged).map(Box::new);
            }
            let (to, from) = (transmit.destination, transmit.src_ip);
            sink.send_batch(DatagramBatch {
                destination: to,
                src_ip: from,
                ecn,
                segment_size: segment,
                data,
            });
            // An ACK uses neither window nor pacer. Without data the stack need not be polled again.
            if spent && !self.app.has_data() {
                self.on_stack_drained(now);
                return;
            }
        }
    }

    /// Returns whether the stack can send only 1-RTT packets with frames that fit into any of them.
    fn sends_only_small_frames(&self) -> bool {
        self.connected_at.is_some() && !self.inner.is_closed() && self.datagrams.is_none()
    }

    fn has_data(&self) -> bool {
        self.counters.written_bytes > self.sent_stream_bytes
            || self.app.has_data()
            || self.has_queued_datagrams()
    }

    fn has_queued_datagrams(&self) -> bool {
        self.datagrams.as_ref().is_some_and(|datagrams| !datagrams.is_empty())
    }

    /// Returns whether data flows in both directions. The stack sends no pure ACK while data waits for the window. So a
    /// sender that also receives gives it only data that window and pacer allow. The rest stays in the application, and
    /// ACKs are not blocked.
    fn is_bidirectional(&self, now: Time) -> bool {
        let recently = self.inner.rtt() * 2;
        self.last_read.is_some_and(|last| now.since(last) <= recently) && self.app.has_data()
    }

    /// Requests data from the application before the stack runs out, so that packets are full.
    fn refill(&mut self, now: Time, packets: u64) {
        if !self.ready || !self.app.has_data() {
            return;
        }
        let written = self.counters.written_bytes;
        let unsent = written.saturating_sub(self.sent_stream_bytes);
        if self.is_bidirectional(now) {
            let fits = packets * (self.mtu - MAX_OVERHEAD) - ACK_RESERVE;
            let unsent = unsent
                + self.datagrams.as_ref().map_or(0, |datagrams| datagrams.handed_over_bytes());
            if unsent < fits {
                self.dispatch_with_budget(now, AppEvent::Writable, fits - unsent);
            }
        } else if unsent < (packets + 2) * self.mtu && written < self.recount_at {
            self.dispatch(now, AppEvent::Writable);
        }
    }

    /// Handles a stack without data to send. Returns whether the application gave it more.
    fn on_stack_drained(&mut self, now: Time) -> bool {
        let (before, held) = (self.counters.written_bytes, self.has_queued_datagrams());
        self.sent_stream_bytes = before;
        self.recount_at = before + RECOUNT_BYTES;
        if self.ready && !self.has_ended && self.app.has_data() {
            let (packets, _) = self.allowance(now);
            if self.is_bidirectional(now) {
                self.refill(now, packets.max(1));
            } else {
                self.dispatch(now, AppEvent::Writable);
            }
        }
        let more = self.counters.written_bytes > before || (!held && self.has_queued_datagrams());
        // Data that stays in the application waits for flow control or the send window (docs/decisions/0079).
        let waits = self.ready && self.app.has_data();
        if !more {
            self.shim.with(|shared| {
                if waits {
                    shared.estimator.mark_data_limited();
                } else {
                    shared.estimator.mark_app_limited();
                }
            });
        }
        more
    }

    fn account_transmit(&mut self, now: Time, transmit: &StackTransmit, eliciting: bool) {
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
            .shim
            .with(|shared| shared.estimator.in_flight() == 0 && shared.estimator.delivered() > 0);
        if idle {
            self.control = self.controller.on_event(now, &cc::ControllerEvent::RestartFromIdle);
            self.apply_control();
        }
        self.shim.with(|shared| shared.estimator.on_sent(now, size));
        if idle {
            self.burst_left = self.burst;
        }
        if self.burst_left > 0 {
            self.burst_left = self.burst_left.saturating_sub(size);
        } else {
            self.pacer.on_sent(now, size);
        }
        // An underestimate of the sent data drains the stack, which corrects the count. An overestimate would let a
        // backlog grow that blocks ACKs.
        let overhead =
            if self.is_bidirectional(now) { MAX_OVERHEAD + ACK_RESERVE } else { MIN_OVERHEAD };
        let data = size.saturating_sub(packets * overhead);
        let other = self.datagrams.as_mut().map_or(0, |datagrams| datagrams.take_sent(data));
        self.sent_stream_bytes += data - other;
    }
}

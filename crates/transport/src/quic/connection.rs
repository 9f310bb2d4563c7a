//! One QUIC connection, its controller, its pacer and its application.
//!
//! Calling order, always the same: give the stack a datagram or the time ([`Connection::handle`],
//! [`Connection::tick`]), then [`Connection::settle`] (controller, application), then
//! [`Connection::transmit`]; then ask [`Connection::wake_at`].

use std::net::SocketAddr;

use bytes::Bytes;
use cc::{CongestionControl, Control, Pacer};
use quinn_proto::{ConnectionEvent, StreamEvent, VarInt};
use units::{Ecn, Span, Time};

use super::clock::{Clock, span};
use super::gate::Gate;
use super::streams::StackStreams;
use super::{Batch, End, Ended, Outlet, QuicSpec};
use crate::{App, AppEvent, Counters, Event, EventKind, Gauges};

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
const RECOUNT: u64 = 16 << 20;

/// One connection.
pub struct Connection {
    inner: quinn_proto::Connection,
    index: u32,
    clock: Clock,
    gate: Gate,
    controller: Box<dyn CongestionControl>,
    control: Control,
    pacer: Pacer,
    app: Box<dyn App>,
    mtu: u64,
    header: u64,
    ecn: bool,
    counters: Counters,
    /// Stream bytes sent for the first time, as far as it can be told from outside.
    sent_stream_bytes: u64,
    recount_at: u64,
    /// Data waits for the pacer.
    waits_for_pacer: bool,
    /// Bytes that may leave unpaced when nothing is in flight, and those left of them.
    burst: u64,
    burst_left: u64,
    /// RFC 9002 section 7.3.2: one packet may leave on entering recovery whatever the window.
    may_send_one: bool,
    /// When stream data last arrived.
    last_read: Option<Time>,
    ready: bool,
    connected_at: Option<Time>,
    end: Option<End>,
    closing: bool,
    /// Closing does not wait for what is unacknowledged.
    at_once: bool,
    /// Error code of closing.
    code: VarInt,
    over: bool,
    marked: bool,
    live: bool,
    latest_rtt: Option<Span>,
    timed_out: bool,
    buffer: Vec<u8>,
}

/// What a new connection is made of.
pub(super) struct Parts {
    pub(super) inner: quinn_proto::Connection,
    pub(super) index: u32,
    pub(super) clock: Clock,
    pub(super) gate: Gate,
    pub(super) controller: Box<dyn CongestionControl>,
    pub(super) app: Box<dyn App>,
    /// On a real network.
    pub(super) live: bool,
}

impl Connection {
    pub(super) fn new(now: Time, parts: Parts, spec: &QuicSpec) -> Connection {
        let Parts { inner, index, clock, gate, mut controller, app, live } = parts;
        let control = controller.initial(now);
        let mtu = u64::from(spec.mtu_bytes);
        Connection {
            pacer: Pacer::new(&control, span(inner.rtt()), mtu),
            inner,
            index,
            clock,
            gate,
            controller,
            control,
            app,
            mtu,
            header: u64::from(spec.header_bytes),
            ecn: spec.ecn,
            counters: Counters { largest_cwnd_bytes: control.cwnd, ..Counters::default() },
            sent_stream_bytes: 0,
            recount_at: RECOUNT,
            waits_for_pacer: false,
            burst: u64::from(spec.unpaced_burst_packets) * mtu,
            burst_left: u64::from(spec.unpaced_burst_packets) * mtu,
            may_send_one: false,
            last_read: None,
            ready: false,
            connected_at: None,
            end: None,
            closing: false,
            at_once: false,
            code: VarInt::from_u32(0),
            over: false,
            marked: false,
            live,
            latest_rtt: None,
            timed_out: false,
            buffer: Vec::with_capacity(BATCH as usize * spec.mtu_bytes as usize),
        }
    }

    /// Which connection of the flow this is, from 0.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The peer.
    pub fn remote(&self) -> SocketAddr {
        self.inner.remote_address()
    }

    /// When the handshake was done on this side.
    pub fn connected_at(&self) -> Option<Time> {
        self.connected_at
    }

    /// Why it is over; none while it lives.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Whether it does no more than wait for late packets.
    pub(super) fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// The ALPN that was agreed on, with TLS by rustls.
    pub fn alpn(&self) -> Option<Vec<u8>> {
        let data = self.inner.crypto_session().handshake_data()?;
        data.downcast::<quinn_proto::crypto::rustls::HandshakeData>().ok()?.protocol
    }

    /// The largest UDP payload now in force, bytes.
    pub fn mtu(&self) -> u64 {
        self.mtu
    }

    /// What there is to say of it at its end.
    pub fn ended(&self) -> Ended {
        Ended {
            index: self.index,
            remote: self.remote(),
            end: self.end.clone().unwrap_or(End::Here),
            mtu: self.mtu,
            connected_at: self.connected_at,
            counters: self.counters(),
            gauges: self.gauges(),
            streams: self.app.streams().to_vec(),
        }
    }

    /// Closes it at once.
    pub(super) fn abort(&mut self, now: Time) {
        if !self.over {
            self.over = true;
            self.end = Some(End::Here);
            self.inner.close(self.clock.instant(now), VarInt::from_u32(0), Bytes::new());
        }
    }

    /// Its application.
    pub fn app(&self) -> &dyn App {
        self.app.as_ref()
    }

    /// Its controller.
    pub fn controller(&self) -> &dyn CongestionControl {
        self.controller.as_ref()
    }

    /// Counters, with what the application has received.
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters;
        let path = self.inner.stats().path;
        counters.lost_packets = path.lost_packets;
        counters.lost_bytes = path.lost_bytes;
        // The frames of every packet declared lost are sent again, once.
        counters.retransmitted_bytes = path.lost_bytes;
        for stream in self.app.streams() {
            counters.received_bytes += stream.received;
            counters.received_in_order_bytes += stream.received_in_order;
        }
        counters
    }

    /// Packets and bytes declared lost, and congestion signals, so far.
    pub fn losses(&self) -> (u64, u64, u64) {
        let path = self.inner.stats().path;
        (path.lost_packets, path.lost_bytes, self.counters.congestion_events)
    }

    /// State of the sender.
    pub fn gauges(&self) -> Gauges {
        let sampled = |value| self.latest_rtt.map(|_| value);
        Gauges {
            cwnd: self.control.cwnd,
            ssthresh: self.controller.ssthresh(),
            in_flight: self.gate.with(|shared| shared.estimator.in_flight()),
            smoothed_rtt: sampled(span(self.inner.rtt())),
            latest_rtt: self.latest_rtt,
            min_rtt: sampled(span(self.inner.min_rtt())),
            pacing_rate_bit_s: self.pacer.rate().bits_per_second(),
        }
    }

    /// When the connection must be given the time.
    pub fn wake_at(&mut self) -> Time {
        let mut at = self.control.wake_at.min(self.app.wake_at());
        if let Some(timeout) = self.inner.poll_timeout() {
            at = at.min(self.clock.time(timeout));
        }
        if self.waits_for_pacer {
            at = at.min(self.pacer.ready_at());
        }
        at
    }

    /// It has been given something and is to be run.
    pub(super) fn mark(&mut self) {
        self.marked = true;
    }

    pub(super) fn unmark(&mut self) -> bool {
        std::mem::take(&mut self.marked)
    }

    pub(super) fn handle(&mut self, event: ConnectionEvent) {
        self.inner.handle_event(event);
    }

    pub(super) fn endpoint_event(&mut self) -> Option<quinn_proto::EndpointEvent> {
        self.inner.poll_endpoint_events()
    }

    pub(super) fn is_drained(&self) -> bool {
        self.inner.is_drained()
    }

    /// Runs the stack's and the controller's timers.
    pub(super) fn tick(&mut self, now: Time) {
        let instant = self.clock.instant(now);
        if self.inner.poll_timeout().is_some_and(|timeout| timeout <= instant) {
            self.inner.handle_timeout(instant);
            self.timed_out = true;
        }
        if self.control.wake_at <= now {
            self.control = self.controller.on_event(now, &cc::Event::Timer);
            self.adopt();
        }
    }

    /// Tells the controller and the application what the stack has learnt.
    pub(super) fn settle(&mut self, now: Time, events: &mut Vec<Event>) {
        self.adapt_size(now);
        self.feed_controller(now, events);
        if !self.ready && self.inner.has_0rtt() && self.inner.is_handshaking() {
            self.become_ready(now);
        }
        while let Some(event) = self.inner.poll() {
            match event {
                quinn_proto::Event::Connected => {
                    self.connected_at = Some(now);
                    self.note(events, now, EventKind::Connected, 0.0);
                    self.become_ready(now);
                }
                quinn_proto::Event::ConnectionLost { reason } => {
                    self.over = true;
                    self.end.get_or_insert_with(|| end(&reason));
                    let (kind, code) = match reason {
                        quinn_proto::ConnectionError::ApplicationClosed(close) => {
                            (EventKind::Closed, close.error_code.into_inner() as f64)
                        }
                        quinn_proto::ConnectionError::LocallyClosed => (EventKind::Closed, 0.0),
                        _ => (EventKind::Lost, 0.0),
                    };
                    self.note(events, now, kind, code);
                    self.tell(now, AppEvent::Closed);
                }
                quinn_proto::Event::Stream(event) => self.on_stream(now, event),
                quinn_proto::Event::HandshakeDataReady
                | quinn_proto::Event::DatagramReceived
                | quinn_proto::Event::DatagramsUnblocked => {}
            }
        }
        if self.app.wake_at() <= now {
            self.tell(now, AppEvent::Timer);
        }
        let done = self.at_once || self.inner.streams().send_streams() == 0;
        if self.closing && !self.over && done {
            self.over = true;
            self.end = Some(End::Here);
            self.note(events, now, EventKind::Closed, self.code.into_inner() as f64);
            self.inner.close(self.clock.instant(now), self.code, Bytes::new());
        }
    }

    fn become_ready(&mut self, now: Time) {
        if !std::mem::replace(&mut self.ready, true) {
            self.tell(now, AppEvent::Ready);
        }
    }

    fn on_stream(&mut self, now: Time, event: StreamEvent) {
        match event {
            StreamEvent::Opened { dir } => {
                while let Some(stream) = self.inner.streams().accept(dir) {
                    self.tell(now, AppEvent::Opened(stream.into()));
                }
            }
            StreamEvent::Readable { id } => {
                self.last_read = Some(now);
                self.tell(now, AppEvent::Readable(id.into()));
            }
            StreamEvent::Finished { id } => self.tell(now, AppEvent::Finished(id.into())),
            StreamEvent::Stopped { id, .. } => self.tell(now, AppEvent::Stopped(id.into())),
            StreamEvent::Available { .. } => self.tell(now, AppEvent::Ready),
            // Writers are asked by `transmit`, when window and pacer let data pass.
            StreamEvent::Writable { .. } => {}
        }
    }

    /// Takes over the size that the peer or the path allows, if it is another than the one asked for.
    fn adapt_size(&mut self, now: Time) {
        let mtu = u64::from(self.inner.current_mtu());
        if mtu != self.mtu {
            self.mtu = mtu;
            self.control = self.controller.on_event(now, &cc::Event::Mss(mtu));
            self.adopt();
        }
    }

    /// A sixteenth of the window: small against a round trip, large against a packet.
    fn chunk(&self) -> u64 {
        (self.control.cwnd / 16).clamp(32 << 10, 1 << 20)
    }

    fn tell(&mut self, now: Time, event: AppEvent) {
        self.ask(now, event, self.chunk());
    }

    fn ask(&mut self, now: Time, event: AppEvent, appetite: u64) {
        let mut streams = StackStreams {
            inner: &mut self.inner,
            counters: &mut self.counters,
            closing: &mut self.closing,
            at_once: &mut self.at_once,
            code: &mut self.code,
            appetite: appetite as usize,
        };
        self.app.on(now, event, &mut streams);
    }

    fn note(&self, events: &mut Vec<Event>, time: Time, kind: EventKind, value: f64) {
        events.push(Event { time, connection: self.index, kind, value });
    }

    fn feed_controller(&mut self, now: Time, events: &mut Vec<Event>) {
        let (smoothed, least) = (span(self.inner.rtt()), span(self.inner.min_rtt()));
        let ack = self.gate.with(|shared| shared.estimator.flush(now, smoothed, least));
        let Some(mut ack) = ack else { return };
        // A sender whose processor is its limit is held back by neither window nor pacer: Linux too lets
        // a window grow to twice what is in flight at the most (tcp_is_cwnd_limited).
        if self.live && ack.prior_in_flight * 2 < self.control.cwnd {
            ack.cwnd_limited = false;
        }
        if ack.latest_rtt.is_some() {
            self.latest_rtt = ack.latest_rtt;
        }
        self.sent_stream_bytes = self.sent_stream_bytes.saturating_sub(ack.lost);
        if ack.congestion {
            self.counters.congestion_events += 1;
            self.may_send_one = ack.lost > 0;
            self.note(events, now, EventKind::Congestion, ack.lost as f64);
        }
        if ack.persistent {
            self.counters.persistent_congestion += 1;
            self.note(events, now, EventKind::PersistentCongestion, ack.lost as f64);
        }
        self.control = self.controller.on_event(now, &cc::Event::Ack(ack));
        self.adopt();
    }

    fn adopt(&mut self) {
        self.pacer.update(&self.control, span(self.inner.rtt()), self.mtu);
        let largest = &mut self.counters.largest_cwnd_bytes;
        *largest = (*largest).max(self.control.cwnd);
    }

    /// Packets that window and pacer let pass now.
    fn allowance(&self, now: Time) -> (u64, bool) {
        let in_flight = self.gate.with(|shared| shared.estimator.in_flight());
        let room = self.control.cwnd.saturating_sub(in_flight) / self.mtu;
        let room = room.max(u64::from(self.may_send_one));
        let budget = self.pacer.budget(now);
        let paced = if budget == 0 { 0 } else { (budget / self.mtu).max(1) };
        let paced = paced.max(self.burst_left.div_ceil(self.mtu));
        (room.min(paced).min(BATCH), room == 0)
    }

    /// Takes from the stack everything that may leave now.
    pub(super) fn transmit(&mut self, now: Time, outlet: &mut dyn Outlet, events: &mut Vec<Event>) {
        self.waits_for_pacer = false;
        let instant = self.clock.instant(now);
        let mut just_sent_data = false;
        loop {
            let (packets, window_full) = self.allowance(now);
            let open = packets > 0;
            if open {
                self.refill(now, packets);
            } else if just_sent_data && self.has_data() && !self.sends_and_receives(now) {
                // There is no ACK to send either.
                self.blocked(window_full);
                return;
            }
            self.gate.with(|shared| shared.open = open);
            self.gate.take_asked();
            self.buffer.clear();
            let transmit =
                self.inner.poll_transmit(instant, packets.max(1) as usize, &mut self.buffer);
            let asked = self.gate.take_asked();
            let Some(transmit) = transmit else {
                if open && self.run_dry(now) {
                    continue;
                } else if !open && asked {
                    self.blocked(window_full);
                } else if !open && self.has_data() {
                    // The stack has nothing left: what waits is with the application.
                    self.sent_stream_bytes = self.counters.written_bytes;
                    self.blocked(window_full);
                }
                self.timed_out = false;
                return;
            };
            just_sent_data = asked;
            self.account(now, &transmit, asked, events);
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            let ecn = match transmit.ecn {
                Some(quinn_proto::EcnCodepoint::Ect0) if self.ecn => Ecn::Ect0,
                _ => Ecn::NotEct,
            };
            let data = &self.buffer[..transmit.size];
            let (to, from) = (transmit.destination, transmit.src_ip);
            outlet.put(Batch { to, from, ecn, segment, data });
        }
    }

    fn has_data(&self) -> bool {
        self.counters.written_bytes > self.sent_stream_bytes || self.app.has_data()
    }

    /// Data waits for the window or the pacer; neither counts as application-limited (RFC 9002
    /// section 7.8).
    fn blocked(&mut self, window_full: bool) {
        self.gate.with(|shared| shared.estimator.mark_cwnd_limited());
        self.waits_for_pacer = !window_full;
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
            if unsent < fits {
                self.ask(now, AppEvent::WantData, fits - unsent);
            }
        } else if unsent < (packets + 2) * self.mtu && written < self.recount_at {
            self.tell(now, AppEvent::WantData);
        }
    }

    /// The stack has nothing to send: whether the application gave it more.
    fn run_dry(&mut self, now: Time) -> bool {
        let before = self.counters.written_bytes;
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
        let more = self.counters.written_bytes > before;
        if !more {
            self.gate.with(|shared| shared.estimator.mark_app_limited());
        }
        more
    }

    fn account(
        &mut self,
        now: Time,
        transmit: &quinn_proto::Transmit,
        asked: bool,
        events: &mut Vec<Event>,
    ) {
        let size = transmit.size as u64;
        let packets = transmit.segment_size.map_or(1, |segment| size.div_ceil(segment as u64));
        let wire = size + packets * self.header;
        self.counters.sent_packets += packets;
        self.counters.sent_bytes += wire;
        // Without a question for the window it is a pure ACK or a probe. A probe follows a timer,
        // and is no smaller than the least stream frame would make it.
        let probe = !asked && self.timed_out && size > 64;
        if probe {
            self.timed_out = false;
            self.counters.ptos += 1;
            self.note(events, now, EventKind::Pto, 0.0);
        }
        if !asked && !probe {
            self.counters.ack_packets += packets;
            self.counters.ack_bytes += wire;
            return;
        }
        self.may_send_one = false;
        let idle = self
            .gate
            .with(|shared| shared.estimator.in_flight() == 0 && shared.estimator.delivered() > 0);
        if idle {
            self.control = self.controller.on_event(now, &cc::Event::Restart);
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
        self.sent_stream_bytes += size.saturating_sub(packets * overhead);
    }
}

/// Why the stack gave a connection up.
fn end(reason: &quinn_proto::ConnectionError) -> End {
    match reason {
        quinn_proto::ConnectionError::LocallyClosed => End::Here,
        quinn_proto::ConnectionError::ApplicationClosed(close)
            if close.error_code.into_inner() == 0 =>
        {
            End::There
        }
        other => End::Lost(other.to_string()),
    }
}

//! One QUIC connection, its controller, its pacer and its application.
//!
//! Calling order, always the same: give the stack a datagram or the time ([`Connection::handle`],
//! [`Connection::tick`]), then [`Connection::settle`] (controller, application), then
//! [`Connection::transmit`]; then ask [`Connection::wake_at`].

use std::net::SocketAddr;

use bytes::Bytes;
use cc::{CongestionControl, ControlOutput, Pacer};
use quinn_proto::{ConnectionEvent, StreamEvent, VarInt};
use units::{Span, Time, prefetch};

use super::choice::Choice;
use super::clock::{Clock, span};
use super::datagrams::Datagrams;
use super::farewell::Farewell;
use super::gate::Gate;
use super::streams::StackStreams;
use super::{End, Ended, QuicSpec};
use crate::places::Place;
use crate::{App, AppEvent, Asker, Counters, Event, EventKind, Gauges, Notice, Order};

mod cue;
mod sending;

/// Why a connection ended that gave its place to another.
const GAVE_WAY: &str = "it was slow, and gave way to a new connection";

/// What the peer is told then: H3_EXCESSIVE_LOAD (RFC 9114 section 8.1), and the same where no code is defined.
const EXCESSIVE_LOAD: u32 = 0x107;

use cue::Cue;
use sending::RECOUNT;

/// One connection.
pub struct Connection {
    inner: quinn_proto::Connection,
    index: u32,
    clock: Clock,
    gate: Gate,
    controller: Box<dyn CongestionControl>,
    control: ControlOutput,
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
    /// The way is there again, and nothing has been acknowledged since.
    cue: Option<Cue>,
    /// When data last arrived.
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
    /// The peer has closed it (RFC 9000 section 10.2.2).
    draining: bool,
    /// The packet that closed it is kept, and all that is needed then.
    brief: bool,
    farewell: Option<Box<Farewell>>,
    place: Place,
    choice: Option<Choice>,
    /// Those that wait, where there are any.
    datagrams: Option<Box<Datagrams>>,
    /// What the application has said since it was last taken.
    said: Vec<Notice>,
    latest_rtt: Option<Span>,
    /// The stack was given the time last, not a datagram, and one of its timers was due.
    timed_out: bool,
    /// Frames sent so far that elicit an ACK.
    eliciting_frames: u64,
    /// When it was last let work.
    settled_at: Time,
}

/// What a new connection is made of.
pub(super) struct Parts {
    pub(super) inner: quinn_proto::Connection,
    pub(super) index: u32,
    pub(super) clock: Clock,
    pub(super) gate: Gate,
    pub(super) controller: Box<dyn CongestionControl>,
    pub(super) app: Box<dyn App>,
    /// All that is kept when this side has closed it is how late packets are answered.
    pub(super) brief: bool,
    /// What its client has a say in.
    pub(super) choice: Option<Choice>,
    /// Bytes of datagrams that may wait, where there are any.
    pub(super) datagram_bytes: Option<u32>,
}

impl Connection {
    pub(super) fn new(now: Time, parts: Parts, spec: &QuicSpec) -> Connection {
        let Parts { inner, index, clock, gate, mut controller, app, .. } = parts;
        let Parts { brief, choice, datagram_bytes, .. } = parts;
        let control = controller.start(now);
        let mtu = u64::from(spec.mtu_bytes);
        gate.with(|shared| shared.estimator.set_window(control.cwnd, mtu));
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
            cue: None,
            last_read: None,
            ready: false,
            connected_at: None,
            end: None,
            closing: false,
            at_once: false,
            code: VarInt::from_u32(0),
            over: false,
            draining: false,
            brief,
            farewell: None,
            place: Place::new(now),
            choice,
            datagrams: datagram_bytes.map(|most| Box::new(Datagrams::new(most as usize))),
            said: Vec::new(),
            latest_rtt: None,
            timed_out: false,
            eliciting_frames: 0,
            settled_at: now,
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

    /// Whether the peer has opened it.
    pub(super) fn is_accepted(&self) -> bool {
        self.inner.side().is_server()
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
            controller: self.controller_name().map(str::to_owned),
            told: self.app.told().cloned(),
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

    /// Gives its place to another: closes it at once, with a reason for the peer.
    pub(super) fn give_way(&mut self, now: Time) {
        if !self.over {
            self.over = true;
            self.end = Some(End::Lost(GAVE_WAY.to_owned()));
            let code = VarInt::from_u32(EXCESSIVE_LOAD);
            self.inner.close(
                self.clock.instant(now),
                code,
                Bytes::from_static(GAVE_WAY.as_bytes()),
            );
        }
    }

    /// What it has moved of late. To be asked whenever it has worked: what was moved before counts from then on.
    pub(super) fn place(&mut self, now: Time) -> Place {
        let moved = self.counters.written_bytes + self.inner.stats().udp_rx.bytes;
        self.place.note(now, moved);
        self.place
    }

    /// Its application.
    pub fn app(&self) -> &dyn App {
        self.app.as_ref()
    }

    /// Says something to its application.
    pub(super) fn say(&mut self, order: Order) {
        self.app.hear(order);
    }

    /// Appends what its application has said since the last call.
    pub(super) fn take_said(&mut self, into: &mut Vec<(u32, Notice)>) {
        if !self.said.is_empty() {
            into.extend(self.said.drain(..).map(|notice| (self.index, notice)));
        }
    }

    /// The name of its controller, where its client has a say in it.
    pub fn controller_name(&self) -> Option<&str> {
        self.choice.as_ref().map(|choice| choice.name.as_str())
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
        let mut at = self.control.timer_at.min(self.app.wake_at()).min(self.cue_at());
        if let Some(timeout) = self.inner.poll_timeout() {
            // A timeout that has grown shorter meanwhile may be over already: it expires now.
            at = at.min(self.clock.time(timeout).max(self.settled_at));
        }
        if self.waits_for_pacer {
            at = at.min(self.pacer.ready_at());
        }
        at
    }

    /// The same, with whose wish it is.
    pub(super) fn asker(&mut self) -> (Time, Asker) {
        let controller = (self.control.timer_at, Asker::Controller);
        let app = (self.app.wake_at(), Asker::Application);
        controller.min(app).min((self.wake_at(), Asker::Transport))
    }

    pub(super) fn handle(&mut self, event: ConnectionEvent) {
        self.timed_out = false;
        self.inner.handle_event(event);
    }

    /// Has the memory brought that a packet after `others` needs.
    pub(super) fn expect(&self, others: usize) {
        self.gate.expect(others);
        if others > 0 {
            prefetch(&*self.controller);
            prefetch(&*self.app);
        }
    }

    pub(super) fn endpoint_event(&mut self) -> Option<quinn_proto::EndpointEvent> {
        self.inner.poll_endpoint_events()
    }

    /// Until when late packets are to be ignored or answered, if it is closed and nothing else is waited for.
    pub(super) fn drains_until(&mut self) -> Option<Time> {
        let idle = self.is_parting()
            && self.app.call().is_none()
            && self.app.wake_at().min(self.control.timer_at) == Time::MAX
            && !self.waits_for_pacer;
        let timeout = if idle { self.inner.poll_timeout() } else { None };
        timeout.map(|at| self.clock.time(at).max(self.settled_at))
    }

    /// What is asked of it when it is gone, and what late packets are answered with, if they are.
    pub(super) fn into_rest(mut self) -> (Box<dyn CongestionControl>, Option<Box<Farewell>>) {
        if let Some(farewell) = &mut self.farewell
            && self.inner.stats().frame_rx.connection_close > 0
        {
            farewell.hear();
        }
        (self.controller, self.farewell)
    }

    /// Whether late packets are all that can come, and the stack is not needed for them.
    pub(super) fn is_parting(&self) -> bool {
        self.draining || self.farewell.is_some()
    }

    pub(super) fn is_drained(&self) -> bool {
        self.inner.is_drained()
    }

    /// Runs the stack's and the controller's timers.
    pub(super) fn tick(&mut self, now: Time) {
        let instant = self.clock.instant(now);
        self.timed_out = self.inner.poll_timeout().is_some_and(|timeout| timeout <= instant);
        if self.timed_out {
            self.inner.handle_timeout(instant);
        }
        if self.control.timer_at <= now {
            self.control = self.controller.on_event(now, &cc::ControllerEvent::Timer);
            self.adopt();
        }
        self.cue_again(now);
    }

    /// Tells the controller and the application what the stack has learnt.
    pub(super) fn settle(&mut self, now: Time, events: &mut Vec<Event>) {
        self.settled_at = now;
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
                    self.draining = closed_there(&reason);
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
                quinn_proto::Event::DatagramReceived => {
                    if self.datagrams.is_some() {
                        self.last_read = Some(now);
                        self.tell(now, AppEvent::Datagrams);
                    }
                }
                quinn_proto::Event::HandshakeDataReady | quinn_proto::Event::DatagramsUnblocked => {
                }
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
            self.control = self.controller.on_event(now, &cc::ControllerEvent::MssChanged(mtu));
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
        let (mut chosen, mut cued) = (None, false);
        let mut streams = StackStreams {
            inner: &mut self.inner,
            counters: &mut self.counters,
            closing: &mut self.closing,
            at_once: &mut self.at_once,
            code: &mut self.code,
            appetite: appetite as usize,
            choice: &mut self.choice,
            chosen: &mut chosen,
            datagrams: self.datagrams.as_deref_mut(),
            said: &mut self.said,
            cued: &mut cued,
            mtu: self.mtu,
        };
        self.app.on(now, event, &mut streams);
        if cued {
            self.on_cue(now);
        }
        if let Some(mut controller) = chosen {
            self.control = controller.start(now);
            self.controller = controller;
            // The window that was largest is to be this one's.
            self.counters.largest_cwnd_bytes = self.control.cwnd;
            self.adopt();
        }
    }

    fn note(&self, events: &mut Vec<Event>, time: Time, kind: EventKind, value: f64) {
        events.push(Event { time, connection: self.index, kind, value });
    }

    fn feed_controller(&mut self, now: Time, events: &mut Vec<Event>) {
        let (smoothed, least) = (span(self.inner.rtt()), span(self.inner.min_rtt()));
        let controller = &*self.controller;
        let ack = self.gate.with(|shared| shared.estimator.flush(now, smoothed, least, controller));
        let Some(ack) = ack else { return };
        if ack.acked > 0 {
            self.cue = None;
        }
        if ack.latest_rtt.is_some() {
            self.latest_rtt = ack.latest_rtt;
        }
        self.sent_stream_bytes = self.sent_stream_bytes.saturating_sub(ack.lost);
        if ack.is_congestion_event {
            self.counters.congestion_events += 1;
            self.may_send_one = ack.lost > 0;
            self.note(events, now, EventKind::Congestion, ack.lost as f64);
        }
        if ack.is_persistent_congestion {
            self.counters.persistent_congestion += 1;
            self.note(events, now, EventKind::PersistentCongestion, ack.lost as f64);
        }
        self.control = self.controller.on_event(now, &cc::ControllerEvent::Ack(ack));
        self.adopt();
    }

    fn adopt(&mut self) {
        self.gate.with(|shared| shared.estimator.set_window(self.control.cwnd, self.mtu));
        self.pacer.update(&self.control, span(self.inner.rtt()), self.mtu);
        let largest = &mut self.counters.largest_cwnd_bytes;
        *largest = (*largest).max(self.control.cwnd);
    }
}

/// Whether the peer has closed the connection.
fn closed_there(reason: &quinn_proto::ConnectionError) -> bool {
    use quinn_proto::ConnectionError::{ApplicationClosed, ConnectionClosed};
    matches!(reason, ApplicationClosed(_) | ConnectionClosed(_))
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

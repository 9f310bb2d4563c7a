//! One connection: its handshake, its two halves, and its segments (`segments`). Connections of a pool are established
//! before the run (`preestablished`).
//!
//! The calling order is fixed. Pass a segment or the time ([`TcpConnection::receive`], [`TcpConnection::poll`]), then
//! read and write. Then call [`TcpConnection::transmit`] and [`TcpConnection::poll_at`].

mod preestablished;
mod segments;

use bytes::Bytes;
use cc::CongestionControl;
use units::{Span, Time};

pub use self::preestablished::preestablished_pair;
use super::ack::is_plain;
use super::handshake::{self, SYN_RETRIES};
use super::receiver::Receiver;
use super::sender::Sender;
use super::{Flags, Segment, TcpSpec, timestamp_ms};
use crate::{FlowCounters, FlowEventKind, Payload, SenderGauges, TimerSource};

/// State of the handshake (RFC 9293 section 3.3.2). The effects of FIN are in the two halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TcpState {
    /// SYN is due, or was sent.
    SynSent,
    /// SYN was received; SYN-ACK is due, or was sent.
    SynReceived,
    /// The handshake is complete.
    Established,
    /// Ended early: by a reset, or without an answer.
    Aborted,
}

/// One connection.
pub struct TcpConnection {
    spec: TcpSpec,
    number: u32,
    state: TcpState,
    client: bool,
    sender: Sender,
    receiver: Receiver,
    /// SYN or SYN-ACK is due (again).
    syn_due: bool,
    /// The SYN-ACK waits for [`TcpConnection::release_syn_ack`].
    syn_ack_held: bool,
    syn_sent_at: Option<Time>,
    syn_retries: u32,
    syn_at: Time,
    /// Data was sent with the SYN, or was received with it and accepted.
    fast_opened: bool,
    reset_due: bool,
    reset_seen: bool,
    /// Packets, bytes and ACKs of this end.
    sent_counters: FlowCounters,
    events: Vec<(FlowEventKind, f64)>,
}

impl TcpConnection {
    fn new(
        now: Time,
        spec: &TcpSpec,
        controller: Box<dyn CongestionControl>,
        number: u32,
        client: bool,
    ) -> TcpConnection {
        TcpConnection {
            sender: Sender::new(now, spec, handshake::assumed_options(spec), controller),
            receiver: Receiver::new(spec),
            spec: spec.clone(),
            number,
            state: if client { TcpState::SynSent } else { TcpState::SynReceived },
            client,
            syn_due: true,
            syn_ack_held: false,
            syn_sent_at: None,
            syn_retries: 0,
            syn_at: Time::MAX,
            fast_opened: false,
            reset_due: false,
            reset_seen: false,
            sent_counters: FlowCounters::default(),
            events: Vec::new(),
        }
    }

    /// Opens connection `number` of a flow: [`TcpConnection::transmit`] sends the SYN, with data that was
    /// written before if Fast Open is on.
    pub fn connect(
        now: Time,
        spec: &TcpSpec,
        controller: Box<dyn CongestionControl>,
        number: u32,
    ) -> TcpConnection {
        TcpConnection::new(now, spec, controller, number, true)
    }

    /// Accepts the connection that `syn` opens. With `hold_syn_ack` the answer waits for
    /// [`TcpConnection::release_syn_ack`].
    pub fn accept(
        now: Time,
        spec: &TcpSpec,
        controller: Box<dyn CongestionControl>,
        syn: &Segment,
        hold_syn_ack: bool,
    ) -> TcpConnection {
        let mut connection = TcpConnection::new(now, spec, controller, syn.connection, false);
        connection.syn_ack_held = hold_syn_ack;
        connection.negotiate(now, syn);
        let opens = syn.syn.as_ref().is_some_and(|options| options.fast_open);
        connection.fast_opened = spec.fast_open && opens;
        // RFC 7413 section 3: data in a SYN without a known cookie is ignored.
        let mut first = syn.clone();
        if !connection.fast_opened {
            first.data = Bytes::new();
        }
        connection.receiver.receive(now, &first);
        connection
    }

    /// Releases a held SYN-ACK.
    pub fn release_syn_ack(&mut self) {
        self.syn_ack_held = false;
    }

    fn negotiate(&mut self, now: Time, peer: &Segment) {
        let scaling = peer.syn.as_ref().is_some_and(|options| options.window_scaling);
        if !scaling || !self.spec.window_scaling {
            self.receiver.disable_window_scaling();
        }
        self.sender.set_options(handshake::negotiated_options(&self.spec, peer));
        self.sender.send_window_edge = 1 + peer.window;
        self.receiver.init_timestamps(now, peer.timestamps.map(|(value, _)| value));
    }

    /// Handles a segment that has arrived.
    pub fn receive(&mut self, now: Time, segment: Segment) {
        if self.state == TcpState::Aborted {
            return;
        }
        if segment.flags.has(Flags::RST) {
            self.abort();
            self.reset_seen = true;
            self.events.push((FlowEventKind::Closed, 1.0));
            return;
        }
        if segment.flags.has(Flags::SYN) {
            self.on_syn(now, &segment);
            return;
        }
        match self.state {
            TcpState::SynSent | TcpState::Aborted => return,
            TcpState::SynReceived => {
                if self.syn_ack_held
                    || !segment.flags.has(Flags::ACK)
                    || segment.acknowledgement < 1
                {
                    return;
                }
                self.establish(now, &segment);
            }
            TcpState::Established => {}
        }
        if self.sender.options.timestamps && self.receiver.fails_paws(now, &segment) {
            if !is_plain(&segment) {
                self.receiver.reject_old(&segment);
                return;
            }
            // A late ACK that others overtook. Linux answers it at most twice a second, which is omitted.
            if segment.acknowledgement != self.sender.board.una() {
                return;
            }
        }
        if segment.flags.has(Flags::ACK) {
            self.sender.on_ack(now, &segment);
        }
        self.receiver.receive(now, &segment);
    }

    fn on_syn(&mut self, now: Time, segment: &Segment) {
        match self.state {
            TcpState::SynSent if segment.flags.has(Flags::ACK) => {
                self.negotiate(now, segment);
                self.establish(now, segment);
                let all = self.sender.board.next();
                if self.fast_opened && segment.acknowledgement < all {
                    // RFC 7413 section 4.2.2: the client retransmits data that the server did not accept at once.
                    self.sender.mark_syn_data_lost(now);
                }
                self.sender.on_ack(now, segment);
                self.receiver.receive(now, segment);
                self.receiver.acknowledge_now();
            }
            // The SYN-ACK was lost.
            TcpState::SynReceived => self.syn_due = true,
            TcpState::Established => self.receiver.acknowledge_now(),
            TcpState::SynSent | TcpState::Aborted => {}
        }
    }

    fn establish(&mut self, now: Time, syn_ack: &Segment) {
        self.state = TcpState::Established;
        self.syn_at = Time::MAX;
        self.syn_due = false;
        // Karn's algorithm (RFC 6298 section 3). An echo identifies the answered SYN (RFC 7323).
        let echo = syn_ack.timestamps.filter(|_| self.sender.options.timestamps);
        let measured = match (self.syn_sent_at, self.syn_retries, echo) {
            (Some(sent), 0, _) => Some(now.since(sent)),
            (Some(_), _, Some((_, echo))) if echo > 0 => {
                Some(Span::from_millis(u64::from(timestamp_ms(now).wrapping_sub(echo))))
            }
            _ => None,
        };
        match measured {
            Some(rtt) => {
                let (una, next) = (self.sender.board.una(), self.sender.board.next());
                self.sender.rtt.set_latest(rtt);
                self.sender.rtt.sample(rtt, una, next);
            }
            None => self.sender.rtt.on_unmeasured_handshake(),
        }
        self.sender.on_established(now);
        self.events.push((FlowEventKind::Connected, 0.0));
    }

    fn abort(&mut self) {
        self.state = TcpState::Aborted;
        self.syn_at = Time::MAX;
    }

    /// Runs the timers that are due.
    pub fn poll(&mut self, now: Time) {
        match self.state {
            TcpState::Aborted => {}
            TcpState::Established => self.sender.poll(now),
            TcpState::SynSent | TcpState::SynReceived => {
                if self.syn_at <= now {
                    self.syn_retries += 1;
                    self.syn_due = true;
                    self.sent_counters.rtos += 1;
                    self.events.push((FlowEventKind::Timeout, 0.0));
                    if self.syn_retries > SYN_RETRIES {
                        self.abort();
                        self.events.push((FlowEventKind::Lost, 0.0));
                    }
                }
                if self.fast_opened && self.state == TcpState::SynReceived {
                    self.sender.poll(now);
                }
            }
        }
    }

    /// Returns the time of the next [`TcpConnection::poll`].
    pub fn poll_at(&self) -> Time {
        match self.state {
            TcpState::Aborted => Time::MAX,
            TcpState::SynSent => self.syn_at,
            TcpState::SynReceived if !self.fast_opened => self.syn_at,
            TcpState::SynReceived | TcpState::Established => {
                self.syn_at.min(self.sender.poll_at()).min(self.receiver.poll_at())
            }
        }
    }

    /// Returns the next deadline and its source.
    pub fn poll_source(&self) -> (Time, TimerSource) {
        let at = self.poll_at();
        let controller = self.sender.controller_poll_at() <= at && at != Time::MAX;
        (at, if controller { TimerSource::Controller } else { TimerSource::Transport })
    }

    /// Pushes everything that may be sent now.
    pub fn transmit(&mut self, now: Time, out: &mut Vec<Payload>) {
        if std::mem::take(&mut self.reset_due) {
            let reset = self.segment(now, Flags::RST.with(Flags::ACK));
            self.push_segment(reset, out);
        }
        match self.state {
            TcpState::Aborted => return,
            TcpState::SynSent => {
                if std::mem::take(&mut self.syn_due) {
                    self.send_syn(now, out);
                }
                return;
            }
            TcpState::SynReceived => {
                if !self.syn_ack_held && std::mem::take(&mut self.syn_due) {
                    self.send_syn(now, out);
                }
                // RFC 7413 section 4.2.2: data in the SYN may be answered at once.
                if !self.fast_opened || self.syn_ack_held {
                    return;
                }
            }
            TcpState::Established => {}
        }
        if self.receiver.is_ack_due(now) && self.receiver.has_sack_blocks() {
            // Blocks use a separate segment: a full segment has no space for them.
            self.send_ack(now, out);
        }
        while let Some(outgoing) = self.sender.next_segment(now) {
            self.send_data(now, outgoing, out);
        }
        if self.receiver.is_ack_due(now) {
            self.send_ack(now, out);
        }
    }

    /// Gives data to the connection. Returns the number of accepted bytes.
    pub fn write(&mut self, data: Bytes) -> usize {
        if self.state == TcpState::Aborted { 0 } else { self.sender.write(data) }
    }

    /// Returns the bytes that [`TcpConnection::write`] accepts.
    pub fn writable(&self) -> u64 {
        if self.state == TcpState::Aborted { 0 } else { self.sender.buffer.free_bytes() }
    }

    /// Returns the bytes written and not sent.
    pub fn unsent(&self) -> u64 {
        self.sender.unsent()
    }

    /// Returns the next bytes of the stream. Reading opens the window.
    pub fn read(&mut self) -> Option<Bytes> {
        let data = self.receiver.read()?;
        self.receiver.after_read();
        Some(data)
    }

    /// Does the same, and returns the offset of the first byte in the stream.
    pub(super) fn read_at(&mut self) -> Option<(u64, Bytes)> {
        let offset = self.receiver.in_order() - self.receiver.readable();
        self.read().map(|data| (offset, data))
    }

    /// Returns the bytes accepted by [`TcpConnection::write`] so far.
    pub(super) fn written(&self) -> u64 {
        self.sender.counters.written_bytes
    }

    /// Returns the congestion window, bytes.
    pub(super) fn cwnd(&self) -> u64 {
        self.sender.control.cwnd
    }

    /// Returns the bytes that arrived in order and were not read.
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// Ends the stream after what was written.
    pub fn finish(&mut self) {
        self.sender.finish();
    }

    /// Ends the connection at once, with a reset to the peer.
    pub fn reset(&mut self) {
        if self.state != TcpState::Aborted {
            self.reset_due = self.state != TcpState::SynSent || self.syn_sent_at.is_some();
            self.abort();
            self.events.push((FlowEventKind::Closed, 1.0));
        }
    }

    /// Returns whether the handshake is done on this side.
    pub fn is_established(&self) -> bool {
        self.state == TcpState::Established
    }

    /// Returns whether data may be written and sent: the handshake is done, or Fast Open needs none.
    pub fn may_send(&self) -> bool {
        match self.state {
            TcpState::Established => true,
            TcpState::SynSent => self.spec.fast_open && self.syn_sent_at.is_none(),
            TcpState::SynReceived => self.fast_opened && !self.syn_ack_held,
            TcpState::Aborted => false,
        }
    }

    /// Returns whether FIN and all bytes before it have arrived.
    pub fn peer_finished(&self) -> bool {
        self.receiver.is_finished()
    }

    /// Returns whether both ends have finished and know it, or the connection was aborted.
    pub fn is_closed(&self) -> bool {
        self.state == TcpState::Aborted
            || (self.sender.is_finished() && self.receiver.is_finished())
    }

    /// Returns whether the peer has reset the connection.
    pub fn was_reset(&self) -> bool {
        self.reset_seen
    }

    /// Returns whether the connection ended by a reset or without an answer.
    pub fn is_aborted(&self) -> bool {
        self.state == TcpState::Aborted
    }

    /// Returns whether everything written has been acknowledged.
    pub fn all_acked(&self) -> bool {
        self.sender.all_acked()
    }

    /// Returns whether FIN was sent and acknowledged.
    pub fn is_finished(&self) -> bool {
        self.sender.is_finished()
    }

    /// Returns whether [`TcpConnection::finish`] was called.
    pub fn is_finishing(&self) -> bool {
        self.sender.is_finishing()
    }

    /// Returns the bytes of new data that window and peer allow now.
    pub fn usable_window(&self) -> u64 {
        self.sender.usable_window()
    }

    /// Returns the payload of a full segment.
    pub fn segment_bytes(&self) -> u64 {
        self.sender.options.mss
    }

    /// Marks the end of sending. `writer_blocked`: the writer has more data than [`TcpConnection::write`] accepts.
    pub fn update_app_limited(&mut self, writer_blocked: bool) {
        self.sender.update_app_limited(writer_blocked);
    }

    /// Returns the number of the connection in the flow.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> FlowCounters {
        let mut counters = self.sender.counters;
        counters.sent_packets = self.sent_counters.sent_packets;
        counters.sent_bytes = self.sent_counters.sent_bytes;
        counters.ack_packets = self.sent_counters.ack_packets;
        counters.ack_bytes = self.sent_counters.ack_bytes;
        counters.rtos += self.sent_counters.rtos;
        counters.received_bytes = self.receiver.received();
        counters.received_in_order_bytes = self.receiver.in_order();
        counters.tcp.duplicate_segments = self.receiver.counters.duplicate_segments;
        counters.tcp.ack_pairs = self.receiver.counters.ack_pairs;
        counters.tcp.ack_pair_wait_ns = self.receiver.counters.ack_pair_wait_ns;
        counters.tcp.ack_pairs_within = self.receiver.counters.ack_pairs_within;
        counters
    }

    /// Returns the state of the sender.
    pub fn gauges(&self) -> SenderGauges {
        self.sender.gauges()
    }

    /// Returns its controller.
    pub fn controller(&self) -> &dyn CongestionControl {
        self.sender.controller.as_ref()
    }

    /// Takes the events since the last call, each with the value of [`crate::FlowEvent`].
    pub fn take_events(&mut self) -> impl Iterator<Item = (FlowEventKind, f64)> {
        self.events.drain(..).chain(self.sender.events.drain(..))
    }

    /// Returns whether [`TcpConnection::take_events`] has any.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty() || !self.sender.events.is_empty()
    }
}

//! One connection: its handshake, its two halves, and the segments they make (`segments`). Those of a pool
//! stand before the run (`established`).
//!
//! Calling order, always the same: give it a segment or the time ([`Connection::receive`],
//! [`Connection::tick`]), read and write, then [`Connection::transmit`]; then ask
//! [`Connection::wake_at`].

mod established;
mod segments;

use bytes::Bytes;
use cc::CongestionControl;
use units::{Span, Time};

pub use self::established::established_pair;
use super::ack::is_plain;
use super::handshake::{self, SYN_RETRIES};
use super::receiver::Receiver;
use super::sender::Sender;
use super::{Flags, Segment, TcpSpec, milliseconds};
use crate::{Asker, Counters, EventKind, Gauges, Payload};

/// How far the handshake is (RFC 9293 section 3.3.2; what FIN does is in the two halves).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// SYN is to be sent, or was.
    SynSent,
    /// SYN has come; SYN-ACK is to be sent, or was.
    SynReceived,
    /// Both ends know each other.
    Established,
    /// Over before its end: reset, or no answer.
    Aborted,
}

/// One connection.
pub struct Connection {
    spec: TcpSpec,
    number: u32,
    state: State,
    client: bool,
    sender: Sender,
    receiver: Receiver,
    /// SYN or SYN-ACK is to be sent (again).
    syn_due: bool,
    /// The SYN-ACK waits for [`Connection::answer`].
    held: bool,
    syn_sent_at: Option<Time>,
    syn_retries: u32,
    syn_at: Time,
    /// Data went with the SYN, or came with it and was taken.
    fast_opened: bool,
    reset_due: bool,
    reset_seen: bool,
    /// Packets, bytes and ACKs of this end.
    sent: Counters,
    events: Vec<(EventKind, f64)>,
}

impl Connection {
    fn new(
        now: Time,
        spec: &TcpSpec,
        controller: Box<dyn CongestionControl>,
        number: u32,
        client: bool,
    ) -> Connection {
        Connection {
            sender: Sender::new(now, spec, handshake::assumed(spec), controller),
            receiver: Receiver::new(spec),
            spec: spec.clone(),
            number,
            state: if client { State::SynSent } else { State::SynReceived },
            client,
            syn_due: true,
            held: false,
            syn_sent_at: None,
            syn_retries: 0,
            syn_at: Time::MAX,
            fast_opened: false,
            reset_due: false,
            reset_seen: false,
            sent: Counters::default(),
            events: Vec::new(),
        }
    }

    /// Opens connection `number` of a flow: [`Connection::transmit`] sends the SYN, with data that was
    /// written before if Fast Open is on.
    pub fn connect(
        now: Time,
        spec: &TcpSpec,
        controller: Box<dyn CongestionControl>,
        number: u32,
    ) -> Connection {
        Connection::new(now, spec, controller, number, true)
    }

    /// Accepts the connection that `syn` opens. With `hold` the answer waits for
    /// [`Connection::answer`].
    pub fn accept(
        now: Time,
        spec: &TcpSpec,
        controller: Box<dyn CongestionControl>,
        syn: &Segment,
        hold: bool,
    ) -> Connection {
        let mut connection = Connection::new(now, spec, controller, syn.connection, false);
        connection.held = hold;
        connection.agree(now, syn);
        let opens = syn.syn.as_ref().is_some_and(|options| options.fast_open);
        connection.fast_opened = spec.fast_open && opens;
        // RFC 7413 section 3: data in a SYN without a cookie we know is ignored.
        let mut first = syn.clone();
        if !connection.fast_opened {
            first.data = Bytes::new();
        }
        connection.receiver.take(now, &first);
        connection
    }

    /// Lets a held SYN-ACK go.
    pub fn answer(&mut self) {
        self.held = false;
    }

    fn agree(&mut self, now: Time, peer: &Segment) {
        let scaling = peer.syn.as_ref().is_some_and(|options| options.window_scaling);
        if !scaling || !self.spec.window_scaling {
            self.receiver.without_scaling();
        }
        self.sender.agree(handshake::agreed(&self.spec, peer));
        self.sender.peer_edge = 1 + peer.window;
        self.receiver.begin_timestamps(now, peer.timestamps.map(|(value, _)| value));
    }

    /// Has the memory brought that a segment needs which will arrive.
    pub fn expect(&self) {
        self.sender.expect();
    }

    /// A segment arrived.
    pub fn receive(&mut self, now: Time, segment: Segment) {
        if self.state == State::Aborted {
            return;
        }
        if segment.flags.has(Flags::RST) {
            self.abort();
            self.reset_seen = true;
            self.events.push((EventKind::Closed, 1.0));
            return;
        }
        if segment.flags.has(Flags::SYN) {
            self.on_syn(now, &segment);
            return;
        }
        match self.state {
            State::SynSent | State::Aborted => return,
            State::SynReceived => {
                if self.held || !segment.flags.has(Flags::ACK) || segment.acknowledgement < 1 {
                    return;
                }
                self.establish(now, &segment);
            }
            State::Established => {}
        }
        if self.sender.rules.timestamps && self.receiver.is_old(now, &segment) {
            if !is_plain(&segment) {
                self.receiver.refuse(&segment);
                return;
            }
            // An ACK that later ones have overtaken; Linux answers it twice a second at most, which is left out.
            if segment.acknowledgement != self.sender.board.una() {
                return;
            }
        }
        if segment.flags.has(Flags::ACK) {
            self.sender.on_ack(now, &segment);
        }
        self.receiver.take(now, &segment);
    }

    fn on_syn(&mut self, now: Time, segment: &Segment) {
        match self.state {
            State::SynSent if segment.flags.has(Flags::ACK) => {
                self.agree(now, segment);
                self.establish(now, segment);
                let all = self.sender.board.next();
                if self.fast_opened && segment.acknowledgement < all {
                    // RFC 7413 section 4.2.2: what the server did not take goes again at once.
                    self.sender.lose_syn_data(now);
                }
                self.sender.on_ack(now, segment);
                self.receiver.take(now, segment);
                self.receiver.acknowledge_now();
            }
            // Our answer was lost.
            State::SynReceived => self.syn_due = true,
            State::Established => self.receiver.acknowledge_now(),
            State::SynSent | State::Aborted => {}
        }
    }

    fn establish(&mut self, now: Time, answer: &Segment) {
        self.state = State::Established;
        self.syn_at = Time::MAX;
        self.syn_due = false;
        // Karn's algorithm (RFC 6298 section 3); an echo tells which SYN was answered (RFC 7323).
        let echo = answer.timestamps.filter(|_| self.sender.rules.timestamps);
        let measured = match (self.syn_sent_at, self.syn_retries, echo) {
            (Some(sent), 0, _) => Some(now.since(sent)),
            (Some(_), _, Some((_, echo))) if echo > 0 => {
                Some(Span::from_millis(u64::from(milliseconds(now).wrapping_sub(echo))))
            }
            _ => None,
        };
        match measured {
            Some(rtt) => {
                let (una, next) = (self.sender.board.una(), self.sender.board.next());
                self.sender.rtt.newest(rtt);
                self.sender.rtt.sample(rtt, una, next);
            }
            None => self.sender.rtt.was_not_measured(),
        }
        self.sender.established(now);
        self.events.push((EventKind::Connected, 0.0));
    }

    fn abort(&mut self) {
        self.state = State::Aborted;
        self.syn_at = Time::MAX;
    }

    /// Runs the timers that are due.
    pub fn tick(&mut self, now: Time) {
        match self.state {
            State::Aborted => {}
            State::Established => self.sender.tick(now),
            State::SynSent | State::SynReceived => {
                if self.syn_at <= now {
                    self.syn_retries += 1;
                    self.syn_due = true;
                    self.sent.timeouts += 1;
                    self.events.push((EventKind::Timeout, 0.0));
                    if self.syn_retries > SYN_RETRIES {
                        self.abort();
                        self.events.push((EventKind::Lost, 0.0));
                    }
                }
                if self.fast_opened && self.state == State::SynReceived {
                    self.sender.tick(now);
                }
            }
        }
    }

    /// When the connection must be given the time.
    pub fn wake_at(&self) -> Time {
        match self.state {
            State::Aborted => Time::MAX,
            State::SynSent => self.syn_at,
            State::SynReceived if !self.fast_opened => self.syn_at,
            State::SynReceived | State::Established => {
                self.syn_at.min(self.sender.wake_at()).min(self.receiver.wake_at())
            }
        }
    }

    /// The same, with whose wish it is.
    pub fn asker(&self) -> (Time, Asker) {
        let at = self.wake_at();
        let controller = self.sender.controller_at() <= at && at != Time::MAX;
        (at, if controller { Asker::Controller } else { Asker::Transport })
    }

    /// Pushes everything that may leave now.
    pub fn transmit(&mut self, now: Time, out: &mut Vec<Payload>) {
        if std::mem::take(&mut self.reset_due) {
            let reset = self.segment(now, Flags::RST.with(Flags::ACK));
            self.push(reset, out);
        }
        match self.state {
            State::Aborted => return,
            State::SynSent => {
                if std::mem::take(&mut self.syn_due) {
                    self.send_syn(now, out);
                }
                return;
            }
            State::SynReceived => {
                if !self.held && std::mem::take(&mut self.syn_due) {
                    self.send_syn(now, out);
                }
                // RFC 7413 section 4.2.2: data that came with the SYN may be answered at once.
                if !self.fast_opened || self.held {
                    return;
                }
            }
            State::Established => {}
        }
        if self.receiver.is_ack_due(now) && self.receiver.has_blocks() {
            // Blocks go alone: a full segment has no room for them.
            self.send_ack(now, out);
        }
        while let Some(outgoing) = self.sender.next(now) {
            self.send_data(now, outgoing, out);
        }
        if self.receiver.is_ack_due(now) {
            self.send_ack(now, out);
        }
    }

    /// Gives data to the connection; returns how many bytes were taken.
    pub fn write(&mut self, data: Bytes) -> usize {
        if self.state == State::Aborted { 0 } else { self.sender.write(data) }
    }

    /// Bytes that [`Connection::write`] would take.
    pub fn writable(&self) -> u64 {
        if self.state == State::Aborted { 0 } else { self.sender.buffer.room() }
    }

    /// Bytes written and not sent.
    pub fn unsent(&self) -> u64 {
        self.sender.unsent()
    }

    /// The next bytes in order. Reading opens the window.
    pub fn read(&mut self) -> Option<Bytes> {
        let data = self.receiver.read()?;
        self.receiver.after_read();
        Some(data)
    }

    /// The same with the offset of the first byte in the stream.
    pub(super) fn read_at(&mut self) -> Option<(u64, Bytes)> {
        let offset = self.receiver.in_order() - self.receiver.readable();
        self.read().map(|data| (offset, data))
    }

    /// Bytes taken by [`Connection::write`] so far.
    pub(super) fn written(&self) -> u64 {
        self.sender.counters.written_bytes
    }

    /// The congestion window, bytes.
    pub(super) fn cwnd(&self) -> u64 {
        self.sender.control.cwnd
    }

    /// Bytes in order and not read.
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// Ends the stream after what was written.
    pub fn finish(&mut self) {
        self.sender.finish();
    }

    /// Ends the connection at once; the peer is told.
    pub fn reset(&mut self) {
        if self.state != State::Aborted {
            self.reset_due = self.state != State::SynSent || self.syn_sent_at.is_some();
            self.abort();
            self.events.push((EventKind::Closed, 1.0));
        }
    }

    /// The handshake is done on this side.
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Data may be given and may leave: the handshake is done, or Fast Open needs none.
    pub fn may_send(&self) -> bool {
        match self.state {
            State::Established => true,
            State::SynSent => self.spec.fast_open && self.syn_sent_at.is_none(),
            State::SynReceived => self.fast_opened && !self.held,
            State::Aborted => false,
        }
    }

    /// FIN has come and all before it.
    pub fn peer_finished(&self) -> bool {
        self.receiver.is_finished()
    }

    /// Both ends have finished and know it, or the connection was aborted.
    pub fn is_closed(&self) -> bool {
        self.state == State::Aborted || (self.sender.is_finished() && self.receiver.is_finished())
    }

    /// The peer has reset the connection.
    pub fn was_reset(&self) -> bool {
        self.reset_seen
    }

    /// The connection ended by a reset or for want of an answer.
    pub fn is_aborted(&self) -> bool {
        self.state == State::Aborted
    }

    /// Everything written has been acknowledged.
    pub fn all_acked(&self) -> bool {
        self.sender.all_acked()
    }

    /// FIN was sent and acknowledged.
    pub fn is_finished(&self) -> bool {
        self.sender.is_finished()
    }

    /// [`Connection::finish`] was called.
    pub fn is_finishing(&self) -> bool {
        self.sender.is_finishing()
    }

    /// Bytes of new data that window and peer would let pass now.
    pub fn room(&self) -> u64 {
        self.sender.room()
    }

    /// Payload of a full segment.
    pub fn segment_bytes(&self) -> u64 {
        self.sender.rules.mss
    }

    /// All that may leave has left. `waiting`: the writer has more than [`Connection::write`] takes.
    pub fn ran_dry(&mut self, waiting: bool) {
        self.sender.ran_dry(waiting);
    }

    /// Which connection of the flow this is.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Counters so far.
    pub fn counters(&self) -> Counters {
        let mut counters = self.sender.counters;
        counters.sent_packets = self.sent.sent_packets;
        counters.sent_bytes = self.sent.sent_bytes;
        counters.ack_packets = self.sent.ack_packets;
        counters.ack_bytes = self.sent.ack_bytes;
        counters.timeouts += self.sent.timeouts;
        counters.received_bytes = self.receiver.received();
        counters.received_in_order_bytes = self.receiver.in_order();
        counters.tcp.duplicate_segments = self.receiver.counted.duplicate_segments;
        counters.tcp.ack_pairs = self.receiver.counted.ack_pairs;
        counters.tcp.pair_wait_ns = self.receiver.counted.pair_wait_ns;
        counters.tcp.pairs_within = self.receiver.counted.pairs_within;
        counters
    }

    /// State of the sender.
    pub fn gauges(&self) -> Gauges {
        self.sender.gauges()
    }

    /// Its controller.
    pub fn controller(&self) -> &dyn CongestionControl {
        self.sender.controller.as_ref()
    }

    /// What happened since the last call, with a number each as in [`crate::Event`].
    pub fn take_events(&mut self) -> impl Iterator<Item = (EventKind, f64)> {
        self.events.drain(..).chain(self.sender.signals.drain(..))
    }

    /// Whether [`Connection::take_events`] has any.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty() || !self.sender.signals.is_empty()
    }
}

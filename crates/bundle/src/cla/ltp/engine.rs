//! The LTP engine of one side of a span (RFC 5326 sections 6 and 8): sessions in both directions.
//! `receive` handles segments, `expiry` timers, and `transmit` schedules segments.

mod expiry;
mod receive;
mod transmit;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use units::{Rate, Span, Time};

use super::block_rx::ReceivedBlock;
use super::block_tx::SentBlock;
use super::segment::{Canceller, LtpSegment, LtpSessionId, SegmentBody, reason};
use super::spec::{Colour, LtpSpec, engine_id};
use super::timers::{LtpTimers, TimerKey};
use crate::cla::reassembly::ByteQuota;
use crate::cla::{ConnectionParameters, InitialNumbers};
use crate::{DeliveryMode, LinkState, RefusalReason, SessionEvent, Transfer};

/// The number of closed sessions of the peer to record, so that late segments do not reopen them.
const MAX_CLOSED: usize = 4096;

/// The maximum number of queued control segments. Further ones are dropped.
const MAX_QUEUED_CONTROL: usize = 4096;

/// A segment that precedes data (RFC 5326 section 5: the queue of internal operations).
enum ControlSegment {
    /// A segment without retransmission.
    Plain(LtpSegment),
    Report(LtpSessionId, u64),
    CancelOutgoing(u64),
    CancelIncoming(LtpSessionId),
}

/// A session that this side cancelled, without an acknowledgement of the peer.
struct CancelledSession {
    reason_code: u8,
    transmissions: u32,
}

pub(super) struct LtpEngine {
    spec: LtpSpec,
    /// The ID of this engine.
    engine_id: u64,
    /// The ID of the peer. Segments of other engines are ignored.
    peer_engine: Option<u64>,
    initial_numbers: InitialNumbers,
    link_state: LinkState,
    timers: LtpTimers,
    control_queue: VecDeque<ControlSegment>,
    waiting: BTreeMap<(Reverse<u8>, u64), Transfer>,
    /// The positions of waiting transfers by the number of the node.
    waiting_keys: BTreeMap<u64, (Reverse<u8>, u64)>,
    enqueued_count: u64,
    outgoing: BTreeMap<u64, SentBlock>,
    /// The block in its first transmission.
    current_block: Option<u64>,
    /// Blocks with retransmissions.
    retransmit_queue: VecDeque<u64>,
    incoming: BTreeMap<LtpSessionId, ReceivedBlock>,
    /// The time of the last segment of each session.
    last_received_at: BTreeMap<LtpSessionId, Time>,
    cancelled_outgoing: BTreeMap<u64, CancelledSession>,
    cancelled_incoming: BTreeMap<LtpSessionId, CancelledSession>,
    closed: BTreeSet<LtpSessionId>,
    closed_order: VecDeque<LtpSessionId>,
    /// Received bundles without an answer of the node.
    received: BTreeMap<u64, LtpSessionId>,
    next_received: u64,
    quota: ByteQuota,
    /// New sessions of the peer are rejected.
    rejects_new_sessions: bool,
    /// The earliest time of the next segment, and whether a segment waited for it.
    next_send_at: Time,
    is_paced: bool,
    last_session_number: u64,
}

/// Returns an initial serial number of 14 bits, to be short. It differs for every session and after every start.
fn initial_serial(session: LtpSessionId, now: Time, secret: u64) -> u64 {
    let mut mixed =
        session.originator ^ session.number.rotate_left(24) ^ now.nanos().rotate_left(48);
    mixed ^= secret;
    // The finaliser of SplitMix64.
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % (1 << 14) + 1
}

impl LtpEngine {
    pub fn new(spec: &LtpSpec, local_id: u64, parameters: &ConnectionParameters) -> LtpEngine {
        LtpEngine {
            spec: spec.clone(),
            engine_id: local_id,
            peer_engine: parameters.expected_peer.as_deref().map(engine_id),
            initial_numbers: parameters.initial_numbers,
            link_state: LinkState::default(),
            timers: LtpTimers::default(),
            control_queue: VecDeque::new(),
            waiting: BTreeMap::new(),
            waiting_keys: BTreeMap::new(),
            enqueued_count: 0,
            outgoing: BTreeMap::new(),
            current_block: None,
            retransmit_queue: VecDeque::new(),
            incoming: BTreeMap::new(),
            last_received_at: BTreeMap::new(),
            cancelled_outgoing: BTreeMap::new(),
            cancelled_incoming: BTreeMap::new(),
            closed: BTreeSet::new(),
            closed_order: VecDeque::new(),
            received: BTreeMap::new(),
            next_received: 0,
            quota: ByteQuota::new(spec.incoming_bytes, parameters.shared_quota.clone()),
            rejects_new_sessions: false,
            next_send_at: Time::ZERO,
            is_paced: false,
            last_session_number: 0,
        }
    }

    /// Rejects new sessions of the peer; existing ones continue.
    pub fn reject_new_sessions(&mut self) {
        self.rejects_new_sessions = true;
    }

    /// Returns whether a bundle of this side is unanswered.
    pub fn has_outgoing(&self) -> bool {
        !self.waiting.is_empty() || !self.outgoing.is_empty()
    }

    /// Returns whether a session of the peer is open.
    pub fn has_incoming(&self) -> bool {
        !self.incoming.is_empty()
    }

    fn rate(&self) -> Option<Rate> {
        let configured = self.spec.rate_bit_s.map(Rate);
        self.link_state.rate.or(configured).filter(|rate| rate.bits_per_second() > 0)
    }

    fn can_send(&self) -> bool {
        self.link_state.can_send && self.rate().is_some()
    }

    fn has_data(&self) -> bool {
        let can_start = !self.waiting.is_empty() && self.can_start_block();
        !self.control_queue.is_empty()
            || !self.retransmit_queue.is_empty()
            || self.current_block.is_some()
            || can_start
    }

    fn can_start_block(&self) -> bool {
        self.outgoing.len() < self.spec.max_outgoing_sessions as usize
    }

    pub fn poll_at(&self) -> Time {
        let sends = self.can_send() && self.has_data();
        self.timers.poll_at().min(if sends { self.next_send_at } else { Time::MAX })
    }

    /// Updates the planned link state (section 6).
    pub fn set_link_state(&mut self, now: Time, mut link_state: LinkState) {
        let light = Span(self.spec.owlt_ns);
        (link_state.owlt_out, link_state.owlt_in) =
            (link_state.owlt_out.max(light), link_state.owlt_in.max(light));
        let before = std::mem::replace(&mut self.link_state, link_state);
        if before.can_receive && !link_state.can_receive {
            self.timers.suspend(now);
        } else if !before.can_receive && link_state.can_receive {
            self.timers.resume(now, self.margin(), &link_state);
            // Silence does not count while the peer could not send.
            self.last_received_at.values_mut().for_each(|received_at| *received_at = now);
        }
        self.timers.on_owlt_change(now, &before, &link_state);
        self.next_send_at = self.next_send_at.max(now);
    }

    fn margin(&self) -> Span {
        Span(self.spec.margin_ns)
    }

    /// Returns the maximum time until the next segment of the peer, including its retransmissions.
    fn silence_timeout(&self) -> Span {
        let round = self.link_state.owlt_out + self.link_state.owlt_in + self.margin();
        round * u64::from(self.spec.max_retransmissions + 2)
    }

    pub fn enqueue(&mut self, transfer: Transfer, out: &mut Vec<SessionEvent>) {
        let is_red = self.spec.colour == Colour::Red;
        if is_red && transfer.mode == DeliveryMode::Notified || transfer.bytes() == 0 {
            return out.push(SessionEvent::Refused {
                id: transfer.id,
                reason: RefusalReason::UnsupportedMode,
            });
        }
        self.enqueued_count += 1;
        let waiting_key = (Reverse(transfer.priority), self.enqueued_count);
        self.waiting_keys.insert(transfer.id, waiting_key);
        self.waiting.insert(waiting_key, transfer);
    }

    /// Cancels the transmission of a bundle.
    pub fn cancel(&mut self, now: Time, id: u64, out: &mut Vec<SessionEvent>) {
        if let Some(waiting_key) = self.waiting_keys.remove(&id) {
            self.waiting.remove(&waiting_key);
            return out.push(SessionEvent::Refused { id, reason: RefusalReason::Unknown });
        }
        let number = self.current_block.filter(|number| {
            self.outgoing.get(number).is_some_and(|one| one.id == id && !one.is_fully_sent())
        });
        if let Some(number) = number {
            self.cancel_outgoing(now, number, reason::CANCELLED, out);
        }
    }

    fn close_outgoing(&mut self, number: u64) -> Option<SentBlock> {
        let one = self.outgoing.remove(&number)?;
        for serial in one.open_checkpoints() {
            self.timers.stop(TimerKey::Checkpoint(number, serial));
        }
        if self.current_block == Some(number) {
            self.current_block = None;
        }
        if one.is_queued {
            self.retransmit_queue.retain(|other| *other != number);
        }
        Some(one)
    }

    /// Cancels a block of this side (section 6.19). The node dispatches the bundle again.
    fn cancel_outgoing(
        &mut self,
        _: Time,
        number: u64,
        reason_code: u8,
        out: &mut Vec<SessionEvent>,
    ) {
        let Some(one) = self.close_outgoing(number) else { return };
        let refusal = if reason_code == reason::CANCELLED {
            RefusalReason::Unknown
        } else {
            RefusalReason::Retransmit
        };
        out.push(SessionEvent::Refused { id: one.id, reason: refusal });
        self.cancelled_outgoing.insert(number, CancelledSession { reason_code, transmissions: 0 });
        self.control_queue.push_back(ControlSegment::CancelOutgoing(number));
    }

    fn close_incoming(&mut self, session: LtpSessionId) {
        let Some(one) = self.incoming.remove(&session) else { return };
        self.last_received_at.remove(&session);
        self.quota.release(one.quota_bytes);
        for serial in one.unacked_reports.keys() {
            self.timers.stop(TimerKey::Report(session, *serial));
        }
        self.timers.stop(TimerKey::Silence(session));
        if self.closed.insert(session) {
            self.closed_order.push_back(session);
        }
        if self.closed_order.len() > MAX_CLOSED
            && let Some(oldest) = self.closed_order.pop_front()
        {
            self.closed.remove(&oldest);
        }
    }

    /// Cancels the reception of a block (section 6.19).
    fn cancel_incoming(&mut self, session: LtpSessionId, reason_code: u8) {
        self.close_incoming(session);
        if self.cancelled_incoming.len() >= MAX_CLOSED {
            // Without a record the cancellation is sent only once.
            self.queue_control(session, SegmentBody::Cancel(Canceller::Receiver, reason_code));
        } else if self.control_queue.len() < MAX_QUEUED_CONTROL {
            self.cancelled_incoming
                .insert(session, CancelledSession { reason_code, transmissions: 0 });
            self.control_queue.push_back(ControlSegment::CancelIncoming(session));
        }
    }

    fn queue_control(&mut self, session: LtpSessionId, body: SegmentBody) {
        if self.control_queue.len() < MAX_QUEUED_CONTROL {
            self.control_queue.push_back(ControlSegment::Plain(LtpSegment { session, body }));
        }
    }

    fn queue_retransmission(&mut self, number: u64) {
        let Some(one) = self.outgoing.get_mut(&number) else { return };
        if one.has_data() && !std::mem::replace(&mut one.is_queued, true) {
            self.retransmit_queue.push_back(number);
        }
    }
}

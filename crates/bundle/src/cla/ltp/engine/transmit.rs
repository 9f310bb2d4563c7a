//! The transmission sequence and rate of segments.

use bytes::Bytes;
use units::{Span, Time};

use super::super::block_tx::SentBlock;
use super::super::segment::{Canceller, LtpSegment, LtpSessionId, SegmentBody};
use super::super::timers::TimerKey;
use super::{Colour, ControlSegment, LtpEngine, initial_serial};
use crate::{DeliveryMode, SessionEvent};

/// The maximum delay that is caught up. A larger burst would queue at the link.
const MAX_CATCH_UP: Span = Span::from_millis(10);

impl LtpEngine {
    /// Returns the next segment, and the timer that starts with its transmission.
    fn next_segment(
        &mut self,
        now: Time,
        out: &mut Vec<SessionEvent>,
    ) -> Option<(LtpSegment, Option<TimerKey>)> {
        while let Some(control) = self.control_queue.pop_front() {
            match control {
                ControlSegment::Plain(segment) => return Some((segment, None)),
                ControlSegment::Report(session, serial) => {
                    let one = self.incoming.get_mut(&session);
                    let Some(one) = one.and_then(|one| one.unacked_reports.get_mut(&serial)) else {
                        continue;
                    };
                    one.transmissions += 1;
                    let body = SegmentBody::Report(one.report.clone());
                    return Some((
                        LtpSegment { session, body },
                        Some(TimerKey::Report(session, serial)),
                    ));
                }
                ControlSegment::CancelOutgoing(number) => {
                    let Some(one) = self.cancelled_outgoing.get_mut(&number) else { continue };
                    one.transmissions += 1;
                    let session = LtpSessionId { originator: self.engine_id, number };
                    let body = SegmentBody::Cancel(Canceller::Sender, one.reason_code);
                    return Some((
                        LtpSegment { session, body },
                        Some(TimerKey::CancelOutgoing(number)),
                    ));
                }
                ControlSegment::CancelIncoming(session) => {
                    let Some(one) = self.cancelled_incoming.get_mut(&session) else { continue };
                    one.transmissions += 1;
                    let body = SegmentBody::Cancel(Canceller::Receiver, one.reason_code);
                    return Some((
                        LtpSegment { session, body },
                        Some(TimerKey::CancelIncoming(session)),
                    ));
                }
            }
        }
        let max_bytes = usize::from(self.spec.segment_bytes);
        while let Some(number) = self.retransmit_queue.front().copied() {
            let Some(one) = self.outgoing.get_mut(&number) else {
                self.retransmit_queue.pop_front();
                continue;
            };
            let next = one.next_segment(max_bytes);
            if !one.has_data() {
                one.is_queued = false;
                self.retransmit_queue.pop_front();
            }
            if let Some((segment, serial)) = next {
                return Some((segment, serial.map(|serial| TimerKey::Checkpoint(number, serial))));
            }
        }
        if self.current_block.is_none() && self.can_start_block() {
            self.current_block = self.start_block(now);
        }
        let number = self.current_block.take()?;
        let one = self.outgoing.get_mut(&number)?;
        let (segment, serial) = one.next_segment(max_bytes)?;
        let (id, is_red) = (one.id, one.is_red());
        if !one.is_fully_sent() {
            self.current_block = Some(number);
        } else {
            out.push(SessionEvent::Transmitted(id));
            if !is_red {
                // A green block gets no response.
                self.outgoing.remove(&number);
                out.push(SessionEvent::Acknowledged { id, durable: false });
            }
        }
        Some((segment, serial.map(|serial| TimerKey::Checkpoint(number, serial))))
    }

    /// Starts a session for the next bundle. Session numbers follow the clock, so that none repeats after a restart.
    fn start_block(&mut self, now: Time) -> Option<u64> {
        let (_, transfer) = self.waiting.pop_first()?;
        self.waiting_keys.remove(&transfer.id);
        let clock = self.initial_numbers.session_epoch_us + now.nanos() / 1000;
        let number = (self.last_session_number + 1).max(clock);
        self.last_session_number = number;
        let session = LtpSessionId { originator: self.engine_id, number };
        let is_red = self.spec.colour == Colour::Red && transfer.mode == DeliveryMode::Reliable;
        let first_serial = initial_serial(session, now, self.initial_numbers.serial_secret);
        let one =
            SentBlock::new(session, transfer.id, transfer.data, is_red, first_serial, &self.spec);
        self.outgoing.insert(number, one);
        Some(number)
    }

    /// Transmits due segments at the contact rate. A late call catches up, so that the average rate is exact.
    pub fn transmit(
        &mut self,
        now: Time,
        out: &mut Vec<SessionEvent>,
        sink: &mut dyn FnMut(Bytes),
    ) {
        let late = now.since(self.next_send_at.min(now));
        let mut from = if self.is_paced && late <= MAX_CATCH_UP { self.next_send_at } else { now };
        while self.can_send() && self.next_send_at <= now {
            let Some(rate) = self.rate() else { break };
            let Some((segment, key)) = self.next_segment(now, out) else { break };
            let bytes = Bytes::from(segment.encode());
            let tx_time = rate.time_for(bytes.len() as u64 + u64::from(self.spec.header_bytes));
            from += tx_time;
            self.next_send_at = from;
            if let Some(key) = key {
                self.timers.start(key, self.next_send_at, self.margin(), &self.link_state);
            }
            sink(bytes);
        }
        self.is_paced = self.can_send() && self.has_data();
    }
}

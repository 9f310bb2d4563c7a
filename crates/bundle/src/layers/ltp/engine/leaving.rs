//! What leaves an engine, in which order and at which rate.

use bytes::Bytes;
use units::{Span, Time};

use super::super::outgoing::Outgoing;
use super::super::segment::{Body, Canceller, Segment, SessionNumber};
use super::super::timers::Key;
use super::{Answer, Colour, Engine, serial};
use crate::{Said, Service};

/// Who is woken later than this does not catch up: what leaves in one go is a queue at the link.
const MOST_LATE: Span = Span::from_millis(10);

impl Engine {
    /// The next segment, and the timer that begins as it has left.
    fn next(&mut self, now: Time, said: &mut Vec<Said>) -> Option<(Segment, Option<Key>)> {
        while let Some(answer) = self.answers.pop_front() {
            match answer {
                Answer::Plain(segment) => return Some((segment, None)),
                Answer::Report(session, serial) => {
                    let one = self.incoming.get_mut(&session);
                    let Some(one) = one.and_then(|one| one.reports.get_mut(&serial)) else {
                        continue;
                    };
                    one.times += 1;
                    let body = Body::Report(one.report.clone());
                    return Some((Segment { session, body }, Some(Key::Report(session, serial))));
                }
                Answer::CancelOut(number) => {
                    let Some(one) = self.cancelled_out.get_mut(&number) else { continue };
                    one.times += 1;
                    let session = SessionNumber { engine: self.own, number };
                    let body = Body::Cancel(Canceller::Sender, one.why);
                    return Some((Segment { session, body }, Some(Key::CancelOut(number))));
                }
                Answer::CancelIn(session) => {
                    let Some(one) = self.cancelled_in.get_mut(&session) else { continue };
                    one.times += 1;
                    let body = Body::Cancel(Canceller::Receiver, one.why);
                    return Some((Segment { session, body }, Some(Key::CancelIn(session))));
                }
            }
        }
        let most = usize::from(self.spec.segment_bytes);
        while let Some(number) = self.again.front().copied() {
            let Some(one) = self.outgoing.get_mut(&number) else {
                self.again.pop_front();
                continue;
            };
            let next = one.next(most);
            if !one.has_data() {
                one.lined_up = false;
                self.again.pop_front();
            }
            if let Some((segment, serial)) = next {
                return Some((segment, serial.map(|serial| Key::Checkpoint(number, serial))));
            }
        }
        if self.fresh.is_none() && self.may_begin() {
            self.fresh = self.begin(now);
        }
        let number = self.fresh.take()?;
        let one = self.outgoing.get_mut(&number)?;
        let (segment, serial) = one.next(most)?;
        let (id, red) = (one.id, one.is_red());
        if !one.has_left() {
            self.fresh = Some(number);
        } else {
            said.push(Said::Sent(id));
            if !red {
                // Nobody will say more of it.
                self.outgoing.remove(&number);
                said.push(Said::Accepted { id, durable: false });
            }
        }
        Some((segment, serial.map(|serial| Key::Checkpoint(number, serial))))
    }

    /// A session for the next bundle. Numbers go by the clock, so that none comes again after a stop.
    fn begin(&mut self, now: Time) -> Option<u64> {
        let (_, transfer) = self.waiting.pop_first()?;
        self.places.remove(&transfer.id);
        let clock = self.first.session + now.nanos() / 1000;
        let number = (self.last_number + 1).max(clock);
        self.last_number = number;
        let session = SessionNumber { engine: self.own, number };
        let red = self.spec.colour == Colour::Red && transfer.service == Service::Reliable;
        let first = serial(session, now, self.first.secret);
        let one = Outgoing::new(session, transfer.id, transfer.data, red, first, &self.spec);
        self.outgoing.insert(number, one);
        Some(number)
    }

    /// What may leave by `now`, at the rate of the contact. Who is woken late catches up, so that the rate stays what it is.
    pub fn send(&mut self, now: Time, said: &mut Vec<Said>, out: &mut dyn FnMut(Bytes)) {
        let late = now.since(self.free_at.min(now));
        let mut from = if self.paced && late <= MOST_LATE { self.free_at } else { now };
        while self.may_send() && self.free_at <= now {
            let Some(rate) = self.rate() else { break };
            let Some((segment, key)) = self.next(now, said) else { break };
            let bytes = Bytes::from(segment.encode());
            let air = rate.time_for(bytes.len() as u64 + u64::from(self.spec.header_bytes));
            from += air;
            self.free_at = from;
            if let Some(key) = key {
                self.timers.start(key, self.free_at, self.margin(), &self.way);
            }
            out(bytes);
        }
        self.paced = self.may_send() && self.has_data();
    }
}

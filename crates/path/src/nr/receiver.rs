//! The receiving side of RLC in acknowledged mode (TS 38.322 sections 5.2.3.2 and 5.3.4): what is missing, and when
//! it says so.

use units::{Span, Time};

use super::bearer::Bearer;
use super::sender::Status;
use crate::AcknowledgedSpec;

#[derive(Debug)]
pub(super) struct Receiver {
    spec: AcknowledgedSpec,
    /// `RX_Next`: the first number of which not all has come.
    next: u64,
    /// `RX_Highest_Status`: up to here a report speaks.
    highest_status: u64,
    /// `RX_Next_Highest`: after the highest of which something has come.
    next_highest: u64,
    /// `RX_Next_Status_Trigger`, and when `t-Reassembly` expires.
    trigger: u64,
    reassembly: Time,
    /// Polls that are answered when it is known what of the packets before has come.
    polls: Vec<u64>,
    /// A report is to be sent, and may from this instant on (`t-StatusProhibit`).
    triggered: bool,
    prohibited: Time,
    reports: u64,
}

impl Receiver {
    pub fn new(spec: AcknowledgedSpec) -> Receiver {
        Receiver {
            spec,
            next: 0,
            highest_status: 0,
            next_highest: 0,
            trigger: 0,
            reassembly: Time::MAX,
            polls: Vec::new(),
            triggered: false,
            prohibited: Time::ZERO,
            reports: 0,
        }
    }

    /// The bearer begins anew with `number`.
    pub fn reset(&mut self, number: u64) {
        *self = Receiver {
            next: number,
            highest_status: number,
            next_highest: number,
            reports: self.reports,
            ..Receiver::new(self.spec)
        };
    }

    /// When there is work next. A report that is to be sent is, at once or when it may be.
    pub fn wake(&self) -> Time {
        self.reassembly.min(if self.triggered { self.prohibited } else { Time::MAX })
    }

    /// The packet with `number` is polled for; `again`: all of it was there already.
    pub fn polled(&mut self, number: u64, again: bool) {
        if again || number < self.highest_status {
            self.triggered = true;
        } else {
            self.polls.push(number);
        }
    }

    /// Something of the packet with `number` has come, or it was given up.
    pub fn placed(&mut self, due: Time, number: u64, bearer: &Bearer) {
        self.next_highest = self.next_highest.max(number + 1);
        if bearer.is_settled(number) {
            if number == self.highest_status {
                self.report_up_to(bearer.first_open(number + 1));
            }
            if number == self.next {
                self.next = bearer.first_open(number + 1);
            }
        }
        let known = self.trigger <= self.next
            || (self.trigger == self.next + 1 && !bearer.has_a_gap(self.next));
        if self.reassembly != Time::MAX && known {
            self.reassembly = Time::MAX;
        }
        if self.reassembly == Time::MAX && self.misses_after(self.next, bearer) {
            self.expect(due);
        }
    }

    /// Does what is due at `due`; a report, if one is to be sent.
    pub fn work(&mut self, due: Time, bearer: &Bearer) -> Option<Status> {
        if self.reassembly <= due {
            self.reassembly = Time::MAX;
            self.report_up_to(bearer.first_open(self.trigger));
            self.triggered = true;
            if self.misses_after(self.highest_status, bearer) {
                self.expect(due);
            }
        }
        if !self.triggered || self.prohibited > due {
            return None;
        }
        self.triggered = false;
        self.prohibited = due + Span(self.spec.status_prohibit_ns);
        self.reports += 1;
        let open = (self.next..self.highest_status).filter(|number| !bearer.is_settled(*number));
        let missing = open.filter_map(|number| Some((number, bearer.get(number)?)));
        let missing = missing.flat_map(|(number, sdu)| {
            sdu.received.missing(sdu.bytes).map(move |(from, to)| (number, from, to))
        });
        Some(Status { number: self.reports, next: self.highest_status, missing: missing.collect() })
    }

    /// Polls before `number` are answered from now on.
    fn report_up_to(&mut self, number: u64) {
        self.highest_status = number;
        let waiting = self.polls.len();
        self.polls.retain(|poll| *poll >= number);
        self.triggered |= self.polls.len() < waiting;
    }

    /// Whether it is seen that something from `number` on is missing.
    fn misses_after(&self, number: u64, bearer: &Bearer) -> bool {
        self.next_highest > number + 1
            || (self.next_highest == number + 1 && bearer.has_a_gap(number))
    }

    /// `t-Reassembly` starts.
    fn expect(&mut self, due: Time) {
        self.reassembly = due + Span(self.spec.reassembly_ns);
        self.trigger = self.next_highest;
    }
}

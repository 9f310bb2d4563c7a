//! The receiving RLC entity in acknowledged mode (TS 38.322 sections 5.2.3.2 and 5.3.4): detection of missing packets
//! and status reports.

use units::{Span, Time};

use super::bearer::Bearer;
use super::rlc_tx::StatusPdu;
use crate::RlcAcknowledgedSpec;

#[derive(Debug)]
pub(super) struct RlcReceiver {
    spec: RlcAcknowledgedSpec,
    /// `RX_Next`: the first number that is not received completely.
    next: u64,
    /// `RX_Highest_Status`: the highest `ACK_SN` of a report.
    highest_status: u64,
    /// `RX_Next_Highest`: the number after the highest one of which a part was received.
    next_highest: u64,
    /// `RX_Next_Status_Trigger`, and the expiry of `t-Reassembly`.
    status_trigger: u64,
    reassembly_deadline: Time,
    /// Polls that wait until the state of all earlier packets is known.
    polls: Vec<u64>,
    /// Whether a report is triggered, and the time from which it is permitted (`t-StatusProhibit`).
    is_status_triggered: bool,
    prohibited_until: Time,
    reports: u64,
}

impl RlcReceiver {
    pub fn new(spec: RlcAcknowledgedSpec) -> RlcReceiver {
        RlcReceiver {
            spec,
            next: 0,
            highest_status: 0,
            next_highest: 0,
            status_trigger: 0,
            reassembly_deadline: Time::MAX,
            polls: Vec::new(),
            is_status_triggered: false,
            prohibited_until: Time::ZERO,
            reports: 0,
        }
    }

    /// Re-establishes the entity with first number `number`.
    pub fn reset(&mut self, number: u64) {
        *self = RlcReceiver {
            next: number,
            highest_status: number,
            next_highest: number,
            reports: self.reports,
            ..RlcReceiver::new(self.spec)
        };
    }

    /// Returns the time of the next work. A triggered report is sent as soon as it is permitted.
    pub fn poll_at(&self) -> Time {
        self.reassembly_deadline.min(if self.is_status_triggered {
            self.prohibited_until
        } else {
            Time::MAX
        })
    }

    /// Handles a poll for the packet with `number`; `is_retransmission`: it was complete already.
    pub fn on_poll(&mut self, number: u64, is_retransmission: bool) {
        if is_retransmission || number < self.highest_status {
            self.is_status_triggered = true;
        } else {
            self.polls.push(number);
        }
    }

    /// Handles a received segment of the packet with `number`, or its abandonment.
    pub fn on_segment(&mut self, due: Time, number: u64, bearer: &Bearer) {
        self.next_highest = self.next_highest.max(number + 1);
        if bearer.is_resolved(number) {
            if number == self.highest_status {
                self.advance_highest_status(bearer.first_unresolved(number + 1));
            }
            if number == self.next {
                self.next = bearer.first_unresolved(number + 1);
            }
        }
        let known = self.status_trigger <= self.next
            || (self.status_trigger == self.next + 1 && !bearer.has_gap(self.next));
        if self.reassembly_deadline != Time::MAX && known {
            self.reassembly_deadline = Time::MAX;
        }
        if self.reassembly_deadline == Time::MAX && self.is_missing_after(self.next, bearer) {
            self.start_reassembly_timer(due);
        }
    }

    /// Does the work due at `due` and returns a report if one is triggered and permitted.
    pub fn poll(&mut self, due: Time, bearer: &Bearer) -> Option<StatusPdu> {
        if self.reassembly_deadline <= due {
            self.reassembly_deadline = Time::MAX;
            self.advance_highest_status(bearer.first_unresolved(self.status_trigger));
            self.is_status_triggered = true;
            if self.is_missing_after(self.highest_status, bearer) {
                self.start_reassembly_timer(due);
            }
        }
        if !self.is_status_triggered || self.prohibited_until > due {
            return None;
        }
        self.is_status_triggered = false;
        self.prohibited_until = due + Span(self.spec.status_prohibit_ns);
        self.reports += 1;
        let open = (self.next..self.highest_status).filter(|number| !bearer.is_resolved(*number));
        let missing = open.filter_map(|number| Some((number, bearer.get(number)?)));
        let missing = missing.flat_map(|(number, sdu)| {
            sdu.received.missing(sdu.bytes).map(move |(from, to)| (number, from, to))
        });
        Some(StatusPdu {
            report_number: self.reports,
            ack_sn: self.highest_status,
            missing: missing.collect(),
        })
    }

    /// Advances `RX_Highest_Status` to `number` and triggers a report for earlier polls.
    fn advance_highest_status(&mut self, number: u64) {
        self.highest_status = number;
        let waiting = self.polls.len();
        self.polls.retain(|poll| *poll >= number);
        self.is_status_triggered |= self.polls.len() < waiting;
    }

    /// Returns whether a packet from `number` onwards is known to be missing.
    fn is_missing_after(&self, number: u64, bearer: &Bearer) -> bool {
        self.next_highest > number + 1
            || (self.next_highest == number + 1 && bearer.has_gap(number))
    }

    /// Starts `t-Reassembly`.
    fn start_reassembly_timer(&mut self, due: Time) {
        self.reassembly_deadline = due + Span(self.spec.reassembly_ns);
        self.status_trigger = self.next_highest;
    }
}

//! In-order delivery of PDCP (TS 38.323 sections 5.2.2 and 7.1).

use units::{Span, Time};

use super::bearer::{Bearer, SduState};
use crate::{DropReason, PdcpReorderingSpec, StageOutput};

/// The receiving PDCP entity: delivers packets, in order unless it is disabled.
#[derive(Debug)]
pub(super) struct PdcpReordering {
    spec: Option<PdcpReorderingSpec>,
    /// `RX_DELIV`: the first number that was not delivered.
    pub deliver: u64,
    /// `RX_NEXT`: the number after the highest received one.
    next: u64,
    /// `RX_REORD`, and the expiry of `t-Reordering`.
    reorder: u64,
    pub reordering_deadline: Time,
}

impl PdcpReordering {
    pub fn new(spec: Option<PdcpReorderingSpec>) -> PdcpReordering {
        PdcpReordering { spec, deliver: 0, next: 0, reorder: 0, reordering_deadline: Time::MAX }
    }

    /// Handles the complete packet with `number`. Returns whether it is in time: later packets are discarded.
    pub fn on_sdu_received(
        &mut self,
        due: Time,
        number: u64,
        bearer: &mut Bearer,
        out: &mut StageOutput,
    ) -> bool {
        let Some(sdu) = bearer.get_mut(number) else { return false };
        if self.spec.is_none() {
            sdu.state = SduState::Delivered;
            out.emit(due, sdu.packet);
        } else if number < self.deliver {
            sdu.state = SduState::Lost { is_known: true };
            out.drop(due, sdu.packet, DropReason::LinkLayer);
            return false;
        } else {
            sdu.state = SduState::Received;
        }
        self.next = self.next.max(number + 1);
        self.deliver_in_order(due, bearer, out);
        true
    }

    /// Advances the delivery after a packet was lost.
    pub fn on_sdu_lost(&mut self, due: Time, bearer: &mut Bearer, out: &mut StageOutput) {
        self.deliver_in_order(due, bearer, out);
    }

    /// Handles the expiry of `t-Reordering`: delivers all packets before `RX_REORD` and those that follow in order.
    pub fn on_timeout(&mut self, due: Time, bearer: &mut Bearer, out: &mut StageOutput) {
        self.reordering_deadline = Time::MAX;
        for number in self.deliver..self.reorder {
            deliver(due, number, bearer, out);
        }
        self.deliver = self.deliver.max(self.reorder);
        self.deliver_in_order(due, bearer, out);
    }

    /// Re-establishes the entity with first number `number`.
    pub fn reset(&mut self, number: u64) {
        *self = PdcpReordering {
            deliver: number,
            next: number,
            reorder: number,
            ..PdcpReordering::new(self.spec)
        };
    }

    fn deliver_in_order(&mut self, due: Time, bearer: &mut Bearer, out: &mut StageOutput) {
        while let Some(sdu) = bearer.get(self.deliver) {
            match sdu.state {
                SduState::Received => deliver(due, self.deliver, bearer, out),
                SduState::Delivered | SduState::Lost { is_known: true } => {}
                SduState::Lost { is_known: false } if self.spec.is_none() => {}
                SduState::Pending | SduState::Lost { is_known: false } => break,
            }
            self.deliver += 1;
        }
        if self.reordering_deadline != Time::MAX && self.deliver >= self.reorder {
            self.reordering_deadline = Time::MAX;
        }
        if self.reordering_deadline == Time::MAX
            && self.deliver < self.next
            && let Some(limit) = self.spec.and_then(|spec| spec.time_limit_ns)
        {
            self.reorder = self.next;
            self.reordering_deadline = due + Span(limit);
        }
    }
}

fn deliver(due: Time, number: u64, bearer: &mut Bearer, out: &mut StageOutput) {
    if let Some(sdu) = bearer.get_mut(number)
        && sdu.state == SduState::Received
    {
        sdu.state = SduState::Delivered;
        out.emit(due, sdu.packet);
    }
}

//! PDCP's delivery in order (TS 38.323 sections 5.2.2 and 7.1).

use units::{Span, Time};

use super::bearer::{Bearer, Fate};
use crate::{Cause, Cx, OrderSpec};

/// The receiving end of PDCP: hands packets on, in order unless it is told otherwise.
#[derive(Debug)]
pub(super) struct Order {
    spec: Option<OrderSpec>,
    /// `RX_DELIV`: the first that has not been handed on.
    pub deliver: u64,
    /// `RX_NEXT`: after the highest that has come.
    next: u64,
    /// `RX_REORD`, and when `t-Reordering` expires.
    reorder: u64,
    pub timer: Time,
}

impl Order {
    pub fn new(spec: Option<OrderSpec>) -> Order {
        Order { spec, deliver: 0, next: 0, reorder: 0, timer: Time::MAX }
    }

    /// All of the packet with `number` has come. Whether it is of use: what comes after its turn is not.
    pub fn came(&mut self, due: Time, number: u64, bearer: &mut Bearer, cx: &mut Cx) -> bool {
        let Some(sdu) = bearer.get_mut(number) else { return false };
        if self.spec.is_none() {
            sdu.fate = Fate::Left;
            cx.emit(due, sdu.packet);
        } else if number < self.deliver {
            sdu.fate = Fate::Lost { known: true };
            cx.drop(due, sdu.packet, Cause::Link);
            return false;
        } else {
            sdu.fate = Fate::Here;
        }
        self.next = self.next.max(number + 1);
        self.go_on(due, bearer, cx);
        true
    }

    /// Nobody waits for the packet with `number` any more.
    pub fn given_up(&mut self, due: Time, bearer: &mut Bearer, cx: &mut Cx) {
        self.go_on(due, bearer, cx);
    }

    /// `t-Reordering` expires: all before `RX_REORD` leave, and what follows on it.
    pub fn time_out(&mut self, due: Time, bearer: &mut Bearer, cx: &mut Cx) {
        self.timer = Time::MAX;
        for number in self.deliver..self.reorder {
            hand_on(due, number, bearer, cx);
        }
        self.deliver = self.deliver.max(self.reorder);
        self.go_on(due, bearer, cx);
    }

    /// The bearer begins anew with `number`.
    pub fn reset(&mut self, number: u64) {
        *self = Order { deliver: number, next: number, reorder: number, ..Order::new(self.spec) };
    }

    fn go_on(&mut self, due: Time, bearer: &mut Bearer, cx: &mut Cx) {
        while let Some(sdu) = bearer.get(self.deliver) {
            match sdu.fate {
                Fate::Here => hand_on(due, self.deliver, bearer, cx),
                Fate::Left | Fate::Lost { known: true } => {}
                Fate::Lost { known: false } if self.spec.is_none() => {}
                Fate::Open | Fate::Lost { known: false } => break,
            }
            self.deliver += 1;
        }
        if self.timer != Time::MAX && self.deliver >= self.reorder {
            self.timer = Time::MAX;
        }
        if self.timer == Time::MAX
            && self.deliver < self.next
            && let Some(limit) = self.spec.and_then(|spec| spec.time_limit_ns)
        {
            self.reorder = self.next;
            self.timer = due + Span(limit);
        }
    }
}

fn hand_on(due: Time, number: u64, bearer: &mut Bearer, cx: &mut Cx) {
    if let Some(sdu) = bearer.get_mut(number)
        && sdu.fate == Fate::Here
    {
        sdu.fate = Fate::Left;
        cx.emit(due, sdu.packet);
    }
}

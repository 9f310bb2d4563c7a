//! Connections that are closed, until nothing of theirs can be on its way any more (RFC 9000 section 10.2).
//!
//! Where the peer has closed it nothing is sent any more, where this side has, nothing but that. So what the stack keeps is
//! not needed: it goes at once, and late packets are ignored or answered here by the connection's number, which nobody uses
//! again. Who asks for the newest connection's state still gets it.

use std::collections::{BTreeMap, BTreeSet};

use cc::CongestionControl;
use quinn_proto::ConnectionHandle;
use units::Time;

use super::farewell::Farewell;
use crate::Gauges;

/// What is left of one.
pub(super) struct Rest {
    pub(super) gauges: Gauges,
    pub(super) controller: Box<dyn CongestionControl>,
    /// What late packets are answered with; none: they are ignored.
    pub(super) farewell: Option<Box<Farewell>>,
    /// What the stack knows it by, if it still does.
    pub(super) handle: Option<ConnectionHandle>,
}

/// Those that are closed, by number.
#[derive(Default)]
pub(super) struct Draining {
    rests: BTreeMap<u32, Rest>,
    /// A bit for each number, since it is looked at for every packet.
    bits: Vec<u64>,
    ends: BTreeSet<(Time, u32)>,
}

impl Draining {
    /// Connection `number` drains until then.
    pub(super) fn enter(&mut self, number: u32, until: Time, rest: Rest) {
        self.ends.insert((until, number));
        let word = number as usize / 64;
        self.bits.resize(self.bits.len().max(word + 1), 0);
        self.bits[word] |= 1 << (number % 64);
        self.rests.insert(number, rest);
    }

    /// Whether a packet of connection `number` is late.
    #[inline]
    pub(super) fn has(&self, number: u32) -> bool {
        self.bits.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// What late packets of connection `number` are answered with.
    pub(super) fn farewell(&mut self, number: u32) -> Option<&mut Farewell> {
        self.rests.get_mut(&number)?.farewell.as_deref_mut()
    }

    /// Lets connection `number` go before its time.
    pub(super) fn remove(&mut self, number: u32) -> Option<Rest> {
        let until = self.ends.iter().find(|end| end.1 == number)?.0;
        self.leave(until, number)
    }

    fn leave(&mut self, until: Time, number: u32) -> Option<Rest> {
        self.ends.remove(&(until, number));
        self.bits[number as usize / 64] &= !(1 << (number % 64));
        self.rests.remove(&number)
    }

    /// When the first has drained.
    pub(super) fn wake_at(&self) -> Time {
        self.ends.first().map_or(Time::MAX, |(until, _)| *until)
    }

    /// Lets the first go that has drained.
    pub(super) fn forget(&mut self, now: Time) -> Option<Rest> {
        let (until, number) = self.ends.first().copied().filter(|end| end.0 <= now)?;
        self.leave(until, number)
    }

    /// The newest, if it is newer than connection `than`.
    pub(super) fn newest(&self, than: Option<u32>) -> Option<(Gauges, &dyn CongestionControl)> {
        let (number, rest) = self.rests.last_key_value()?;
        than.is_none_or(|than| than < *number).then_some((rest.gauges, rest.controller.as_ref()))
    }
}

//! Connections that the peer has closed, until nothing of theirs can be on its way any more (RFC 9000 section 10.2.2).
//!
//! Nothing is sent for them, so what the stack keeps is not needed: it goes at once, and late packets are ignored here by
//! the connection's number, which nobody uses again. Who asks for the newest connection's state still gets it.

use std::collections::{BTreeMap, BTreeSet};

use cc::CongestionControl;
use units::Time;

use crate::Gauges;

/// What is left of one.
struct Rest {
    gauges: Gauges,
    controller: Box<dyn CongestionControl>,
}

/// Those that are draining, by number.
#[derive(Default)]
pub(super) struct Draining {
    rests: BTreeMap<u32, Rest>,
    /// A bit for each number, since it is looked at for every packet.
    bits: Vec<u64>,
    ends: BTreeSet<(Time, u32)>,
}

impl Draining {
    /// Connection `number` drains until then.
    pub(super) fn enter(
        &mut self,
        number: u32,
        until: Time,
        gauges: Gauges,
        controller: Box<dyn CongestionControl>,
    ) {
        self.ends.insert((until, number));
        let word = number as usize / 64;
        self.bits.resize(self.bits.len().max(word + 1), 0);
        self.bits[word] |= 1 << (number % 64);
        self.rests.insert(number, Rest { gauges, controller });
    }

    /// Whether a packet of connection `number` is late.
    #[inline]
    pub(super) fn has(&self, number: u32) -> bool {
        self.bits.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// When the first has drained.
    pub(super) fn wake_at(&self) -> Time {
        self.ends.first().map_or(Time::MAX, |(until, _)| *until)
    }

    /// Lets those go that have drained: the gauges of the last of them.
    pub(super) fn forget(&mut self, now: Time) -> Option<Gauges> {
        let mut last = None;
        while let Some((until, number)) = self.ends.first().copied().filter(|end| end.0 <= now) {
            self.ends.remove(&(until, number));
            self.bits[number as usize / 64] &= !(1 << (number % 64));
            last = self.rests.remove(&number).map(|rest| rest.gauges);
        }
        last
    }

    /// The newest, if it is newer than connection `than`.
    pub(super) fn newest(&self, than: Option<u32>) -> Option<(Gauges, &dyn CongestionControl)> {
        let (number, rest) = self.rests.last_key_value()?;
        than.is_none_or(|than| than < *number).then_some((rest.gauges, rest.controller.as_ref()))
    }
}

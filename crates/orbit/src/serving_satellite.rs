//! Selects the serving satellite of a ground station, for policies other than the shortest path.

use units::{RandomStream, Span, Time};

use crate::spec::HandoverPolicy;

/// A visible satellite, and the sine of its elevation.
pub(crate) type HandoverCandidate = (u32, f64);

/// The serving satellite of one ground station, or of the pair without inter-satellite links.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServingSatellite {
    satellite: Option<u32>,
}

impl ServingSatellite {
    /// Returns the new serving satellite. `boundary` means that a slot has started since the last call.
    pub fn select(
        &mut self,
        policy: &HandoverPolicy,
        boundary: bool,
        within: &[HandoverCandidate],
    ) -> Option<u32> {
        let current = self.satellite.filter(|held| within.iter().any(|(one, _)| one == held));
        let again = match policy {
            HandoverPolicy::ShortestPath | HandoverPolicy::BestElevation => true,
            HandoverPolicy::KeepUntilLost => false,
            HandoverPolicy::Periodic { .. } => boundary,
        };
        self.satellite =
            if again || current.is_none() { highest_elevation(within) } else { current };
        self.satellite
    }
}

fn highest_elevation(within: &[HandoverCandidate]) -> Option<u32> {
    let mut best: Option<HandoverCandidate> = None;
    for one in within {
        if best.is_none_or(|(_, sine)| one.1 > sine) {
            best = Some(*one);
        }
    }
    best.map(|(one, _)| one)
}

/// The boundaries of slots, each with a random delay.
pub(crate) struct SlotBoundaries {
    period: Span,
    jitter: Span,
    random: RandomStream,
    /// The next boundary without its jitter, and with it.
    nominal: Time,
    next: Time,
}

impl SlotBoundaries {
    /// Returns `None` for policies without slots.
    pub fn new(policy: &HandoverPolicy) -> Option<SlotBoundaries> {
        let HandoverPolicy::Periodic { interval_ns, phase_ns, jitter_ns, seed } = *policy else {
            return None;
        };
        let mut chance = RandomStream::named(seed, "orbit", "slots");
        let due = Time(phase_ns);
        let next = due + chance.span_below(Span(jitter_ns));
        Some(SlotBoundaries {
            period: Span(interval_ns),
            jitter: Span(jitter_ns),
            random: chance,
            nominal: due,
            next,
        })
    }

    /// Returns whether a boundary has passed since the last call.
    pub fn advance(&mut self, now: Time) -> bool {
        let mut any = false;
        while self.next <= now {
            any = true;
            self.nominal += self.period;
            self.next = self.nominal + self.random.span_below(self.jitter);
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: HandoverPolicy = HandoverPolicy::Periodic {
        interval_ns: 15_000_000_000,
        phase_ns: 12_000_000_000,
        jitter_ns: 1_000_000_000,
        seed: 7,
    };

    #[test]
    fn each_policy_changes_at_its_criterion() {
        let (low, high) = ([(3, 0.5), (8, 0.4)], [(3, 0.5), (8, 0.6)]);
        for (policy, boundary, expected) in [
            (HandoverPolicy::BestElevation, false, 8),
            (HandoverPolicy::KeepUntilLost, false, 3),
            (SLOTS, false, 3),
            (SLOTS, true, 8),
        ] {
            let mut hold = ServingSatellite::default();
            assert_eq!(hold.select(&policy, false, &low), Some(3));
            assert_eq!(hold.select(&policy, boundary, &high), Some(expected), "{policy:?}");
            assert_eq!(hold.select(&policy, false, &[(5, 0.1)]), Some(5), "lost: {policy:?}");
            assert_eq!(hold.select(&policy, false, &[]), None);
        }
    }

    #[test]
    fn boundaries_come_every_period_and_are_late_by_less_than_the_jitter() {
        let mut boundaries = SlotBoundaries::new(&SLOTS).unwrap();
        let found: Vec<u64> = (0..1000)
            .map(|n| n * 100)
            .filter(|ms| boundaries.advance(Time(ms * 1_000_000)))
            .collect();
        assert_eq!(found.len(), 6, "{found:?}");
        for (number, ms) in found.iter().enumerate() {
            let due = 12_000 + 15_000 * number as u64;
            assert!((due..due + 1100).contains(ms), "{found:?}");
        }
        assert!(found.iter().any(|ms| ms % 1000 != 0), "jitter has a part in it");
    }
}

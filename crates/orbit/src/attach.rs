//! Which satellite a ground station holds on to, where that is not the way's to say.

use units::{RandomStream, Span, Time};

use crate::spec::Policy;

/// A satellite within reach, and the sine of its elevation.
pub(crate) type Candidate = (u32, f64);

/// What one ground station (or, with bent pipes, the pair) holds on to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hold {
    held: Option<u32>,
}

impl Hold {
    /// The satellite from now on; `boundary`: a slot has begun since the last time.
    pub fn choose(&mut self, policy: &Policy, boundary: bool, within: &[Candidate]) -> Option<u32> {
        let kept = self.held.filter(|held| within.iter().any(|(one, _)| one == held));
        let again = match policy {
            Policy::ShortestPath | Policy::BestElevation => true,
            Policy::KeepUntilLost => false,
            Policy::Slots { .. } => boundary,
        };
        self.held = if again || kept.is_none() { highest(within) } else { kept };
        self.held
    }
}

fn highest(within: &[Candidate]) -> Option<u32> {
    let mut best: Option<Candidate> = None;
    for one in within {
        if best.is_none_or(|(_, sine)| one.1 > sine) {
            best = Some(*one);
        }
    }
    best.map(|(one, _)| one)
}

/// The boundaries of slots, each late by a random time.
pub(crate) struct Boundaries {
    period: Span,
    jitter: Span,
    chance: RandomStream,
    /// The next boundary without its jitter, and with it.
    due: Time,
    next: Time,
}

impl Boundaries {
    /// None for policies without slots.
    pub fn new(policy: &Policy) -> Option<Boundaries> {
        let Policy::Slots { period_ns, phase_ns, jitter_ns, seed } = *policy else { return None };
        let mut chance = RandomStream::named(seed, "orbit", "slots");
        let due = Time(phase_ns);
        let next = due + chance.span_below(Span(jitter_ns));
        Some(Boundaries { period: Span(period_ns), jitter: Span(jitter_ns), chance, due, next })
    }

    /// Whether a boundary has passed since the last time.
    pub fn passed(&mut self, now: Time) -> bool {
        let mut any = false;
        while self.next <= now {
            any = true;
            self.due += self.period;
            self.next = self.due + self.chance.span_below(self.jitter);
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: Policy = Policy::Slots {
        period_ns: 15_000_000_000,
        phase_ns: 12_000_000_000,
        jitter_ns: 1_000_000_000,
        seed: 7,
    };

    #[test]
    fn each_policy_changes_when_it_says() {
        let (low, high) = ([(3, 0.5), (8, 0.4)], [(3, 0.5), (8, 0.6)]);
        for (policy, boundary, expected) in [
            (Policy::BestElevation, false, 8),
            (Policy::KeepUntilLost, false, 3),
            (SLOTS, false, 3),
            (SLOTS, true, 8),
        ] {
            let mut hold = Hold::default();
            assert_eq!(hold.choose(&policy, false, &low), Some(3));
            assert_eq!(hold.choose(&policy, boundary, &high), Some(expected), "{policy:?}");
            assert_eq!(hold.choose(&policy, false, &[(5, 0.1)]), Some(5), "lost: {policy:?}");
            assert_eq!(hold.choose(&policy, false, &[]), None);
        }
    }

    #[test]
    fn boundaries_come_every_period_and_are_late_by_less_than_the_jitter() {
        let mut boundaries = Boundaries::new(&SLOTS).unwrap();
        let found: Vec<u64> = (0..1000)
            .map(|n| n * 100)
            .filter(|ms| boundaries.passed(Time(ms * 1_000_000)))
            .collect();
        assert_eq!(found.len(), 6, "{found:?}");
        for (number, ms) in found.iter().enumerate() {
            let due = 12_000 + 15_000 * number as u64;
            assert!((due..due + 1100).contains(ms), "{found:?}");
        }
        assert!(found.iter().any(|ms| ms % 1000 != 0), "jitter has a part in it");
    }
}

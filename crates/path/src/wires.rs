//! What the stages of a line tell each other: an event with a due time, late or lost.

use units::{RandomStream, Span, Time};

use crate::departures::Heap;
use crate::{Feedback, FeedbackSpec};

/// How what one stage of a line tells comes to another of the same line, or to itself: a transmitter that models both
/// of its sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wire {
    /// Who tells, by its index.
    pub from: usize,
    /// Who hears it.
    pub to: usize,
    /// How long it takes, and its chance to be lost.
    pub spec: FeedbackSpec,
}

/// What was told in a line since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Feedback on each wire.
    pub sent: u64,
    /// Of that, what was lost.
    pub lost: u64,
}

/// The wires of a line.
#[derive(Default)]
pub(crate) struct Wires {
    /// The stages to which somebody listens.
    sources: Vec<Source>,
    /// What was told and is not heard yet, and by whom it will be.
    under_way: Heap<(usize, Feedback)>,
    told: Told,
}

struct Source {
    from: usize,
    wires: Vec<(Wire, RandomStream)>,
}

impl Wires {
    pub fn add(&mut self, wire: Wire, random: RandomStream) {
        match self.sources.iter_mut().find(|source| source.from == wire.from) {
            Some(source) => source.wires.push((wire, random)),
            None => self.sources.push(Source { from: wire.from, wires: vec![(wire, random)] }),
        }
    }

    /// Sends what was told on its way: `take` moves what the stage with an index has told since the last call into
    /// a list.
    pub fn collect(&mut self, mut take: impl FnMut(usize, &mut Vec<(Time, Feedback)>)) {
        let mut told = Vec::new();
        for Source { from, wires } in &mut self.sources {
            take(*from, &mut told);
            for (at, feedback) in told.drain(..) {
                for (wire, random) in wires.iter_mut() {
                    self.told.sent += 1;
                    if random.chance(wire.spec.loss) {
                        self.told.lost += 1;
                    } else {
                        self.under_way.push(at + Span(wire.spec.delay_ns), (wire.to, feedback));
                    }
                }
            }
        }
    }

    /// What is heard next, and by whom, if it is due by `now`.
    pub fn hear(&mut self, now: Time) -> Option<(usize, Feedback)> {
        self.under_way.pop(now).map(|(_, heard)| heard)
    }

    /// When something is heard next; [`Time::MAX`]: nothing is under way.
    pub fn next(&self) -> Time {
        self.under_way.next()
    }

    pub fn told(&self) -> Told {
        self.told
    }
}

//! When a line has work, and when something comes of it.

use units::{Span, Time};

/// Places behind the stages': where a change makes packets leave, or stages hear each other.
pub(crate) const LOSS: usize = 0;
pub(crate) const HEARD: usize = 1;

/// The next wake-up of each stage of a line, and of what is work but no stage's.
#[derive(Debug)]
pub(crate) struct Wakes {
    stages: usize,
    /// Beside each other for the search of the first; behind the stages' that of [`LOSS`] and [`HEARD`], if there is any.
    times: Vec<Time>,
    /// How long a packet that leaves each stage takes from there to the far end, at the least.
    beyond: Vec<Span>,
    /// The first of all.
    next: Time,
    /// The stage whose it is; none: it is of what is ahead.
    stage: Option<usize>,
    /// When a packet may come to the far end next.
    leaves: Time,
}

impl Wakes {
    /// Of stages that wake at `times`, of whose delays nothing is known.
    pub fn new(times: Vec<Time>) -> Wakes {
        let (stages, beyond) = (times.len(), vec![Span::ZERO; times.len()]);
        Wakes { stages, times, beyond, next: Time::MAX, stage: None, leaves: Time::MAX }
    }

    /// No packet is faster through each stage than `delays`.
    pub fn bound(&mut self, delays: impl DoubleEndedIterator<Item = Span>) {
        let mut sum = Span::ZERO;
        self.beyond.fill(sum);
        let places = self.beyond[..self.stages].iter_mut().rev();
        for (beyond, delay) in places.zip(delays.rev()) {
            *beyond = sum;
            sum += delay;
        }
    }

    /// When the stage at `index` wakes.
    #[inline]
    pub fn at(&self, index: usize) -> Time {
        self.times[index]
    }

    /// The stage at `index` wakes at `at`.
    #[inline]
    pub fn set(&mut self, index: usize, at: Time) {
        self.times[index] = at;
    }

    /// There is work at `at` that is no stage's: [`LOSS`] or [`HEARD`].
    pub fn set_besides(&mut self, which: usize, at: Time) {
        let place = self.stages + which;
        if self.times.len() <= place {
            self.times.resize(place + 1, Time::MAX);
            self.beyond.resize(place + 1, Span::ZERO);
        }
        self.times[place] = at;
    }

    /// When there is work next; [`Time::MAX`]: none.
    #[inline]
    pub fn next(&self) -> Time {
        self.next
    }

    /// The place whose work that is; none: a packet is ahead.
    #[inline]
    pub fn stage(&self) -> Option<usize> {
        self.stage
    }

    /// Nothing comes to the far end before; no earlier than [`Wakes::next`].
    #[inline]
    pub fn leaves(&self) -> Time {
        self.leaves
    }

    /// Finds who is first, where a packet comes to a stage at `ahead`.
    #[inline]
    pub fn settle(&mut self, ahead: Time) {
        let (mut next, mut stage, mut leaves) = (Time::MAX, None, ahead);
        for (index, (wake, beyond)) in self.times.iter().zip(&self.beyond).enumerate() {
            if *wake < next {
                (next, stage) = (*wake, Some(index));
            }
            leaves = leaves.min(*wake + *beyond);
        }
        if ahead < next {
            (next, stage) = (ahead, None);
        }
        (self.next, self.stage, self.leaves) = (next, stage, leaves);
    }
}

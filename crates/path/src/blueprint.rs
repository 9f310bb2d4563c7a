//! What the specification of a stage says of it: each stage answers for itself, in its own file.

use std::cell::Cell;

use units::{RandomStream, Time};

use crate::{Change, Decider, FeedbackSpec, OwnSpec, Stage};

/// A message for a person, or nothing wrong.
pub(crate) type Verdict = Result<(), String>;

/// The specification of a stage, as its line sees it.
pub(crate) trait Blueprint {
    /// The name of its kind, as in the specification.
    fn kind(&self) -> &'static str;

    /// What is wrong with it.
    fn check(&self) -> Verdict {
        Ok(())
    }

    /// The stage; only of what is right.
    fn make(&self, place: &Place) -> Box<dyn Stage>;

    /// The scheduler that it needs from outside.
    fn own(&self) -> Option<&OwnSpec> {
        None
    }

    /// What the stage tells itself: how long that takes, and its chance to be lost.
    fn feedback(&self) -> Option<FeedbackSpec> {
        None
    }

    /// Whether the stage can be changed so.
    fn takes(&self, _change: &Change) -> bool {
        false
    }

    /// Its own scheduled changes, in order of time.
    fn changes(&self) -> Vec<(Time, Change)> {
        Vec::new()
    }

    /// The smallest delay before any change; none: it has none that is known before.
    fn least_delay_ns(&self) -> Option<u64> {
        None
    }

    /// The largest rate before any change; none: it is no transmitter.
    fn most_rate_bit_s(&self) -> Option<u64> {
        None
    }
}

/// Where a stage is made, by which its chance is named.
pub(crate) struct Place<'a> {
    /// The line, `"<link>.up"` or `"<link>.down"`.
    pub line: &'a str,
    /// Of the run.
    pub seed: u64,
    /// The stage in its line.
    pub purpose: String,
    /// The scheduler that is given from outside, until the stage has taken it.
    pub decider: Cell<Option<Box<dyn Decider>>>,
}

impl Place<'_> {
    /// The stage's own chance.
    pub fn random(&self) -> RandomStream {
        RandomStream::named(self.seed, self.line, &self.purpose)
    }

    /// That of what it tells itself.
    pub fn feedback(&self) -> RandomStream {
        RandomStream::named(self.seed, self.line, &format!("{}.feedback", self.purpose))
    }
}

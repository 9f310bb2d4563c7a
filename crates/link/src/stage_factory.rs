//! The factory of a stage: validates the specification and builds the stage. Each stage implements it in its own file.

use std::cell::Cell;

use units::{RandomStream, Time};

use crate::checks::ValidationResult;
use crate::{ExternalScheduler, ExternalSchedulerSpec, FeedbackSpec, Stage, StageUpdate};

/// The specification of a stage, as seen by its simplex link.
pub(crate) trait StageFactory {
    /// Returns the name of the kind, as in the specification.
    fn kind(&self) -> &'static str;

    /// Validates the specification.
    fn validate(&self) -> ValidationResult {
        Ok(())
    }

    /// Builds the stage. The specification must be valid.
    fn build(&self, context: &BuildContext) -> Box<dyn Stage>;

    /// Returns the external scheduler that the stage needs.
    fn external_scheduler(&self) -> Option<&ExternalSchedulerSpec> {
        None
    }

    /// Returns the delay and the loss probability of the stage's feedback to itself.
    fn feedback(&self) -> Option<FeedbackSpec> {
        None
    }

    /// Returns whether the stage supports an update.
    fn supports(&self, _update: &StageUpdate) -> bool {
        false
    }

    /// Returns the scheduled updates of the stage, in order of time.
    fn scheduled_updates(&self) -> Vec<(Time, StageUpdate)> {
        Vec::new()
    }

    /// Returns the smallest delay before any update; `None` if no minimum is known.
    fn min_delay_ns(&self) -> Option<u64> {
        None
    }

    /// Returns the largest delay before any update, without queueing; `None` if no maximum is known.
    fn max_delay_ns(&self) -> Option<u64> {
        Some(self.min_delay_ns().unwrap_or(0))
    }

    /// Returns the largest rate before any update; `None` for a stage without a transmitter.
    fn max_rate_bit_s(&self) -> Option<u64> {
        None
    }
}

/// The context in which a stage is built. It names the random streams of the stage.
pub(crate) struct BuildContext<'a> {
    /// The simplex link, `"<link>.up"` or `"<link>.down"`.
    pub link_name: &'a str,
    /// The seed of the run.
    pub seed: u64,
    /// The name of the stage within its simplex link.
    pub purpose: String,
    /// The external scheduler, until the stage takes it.
    pub external_scheduler: Cell<Option<Box<dyn ExternalScheduler>>>,
}

impl BuildContext<'_> {
    /// Returns the random stream of the stage.
    pub fn random_stream(&self) -> RandomStream {
        RandomStream::named(self.seed, self.link_name, &self.purpose)
    }

    /// Returns the random stream of the stage's feedback to itself.
    pub fn feedback_stream(&self) -> RandomStream {
        RandomStream::named(self.seed, self.link_name, &format!("{}.feedback", self.purpose))
    }
}

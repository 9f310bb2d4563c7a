//! The boundary of the specification of a queue discipline.

use units::Opt;

use crate::checks::ValidationResult;
use crate::stage_factory::BuildContext;
use crate::{ExternalSchedulerSpec, Queue, QueueLimit};

/// The specification of a queue discipline.
pub(crate) trait QueueFactory {
    /// Validates the specification.
    fn validate(&self) -> ValidationResult;

    /// Builds the queue of a valid specification.
    fn build(&self, context: &BuildContext) -> Box<dyn Queue>;

    /// Returns whether the limit can change to `limit` during a run.
    fn supports_limit(&self, limit: Option<QueueLimit>) -> bool {
        let _ = limit;
        true
    }

    /// Returns the external scheduler that the queue needs.
    fn external_scheduler(&self) -> Option<&ExternalSchedulerSpec> {
        None
    }
}

/// The limit, which the planner computes from the key `queue` of a direction.
pub(super) const LIMIT: Opt = Opt::hook("", "limit", "limit", "the limit of the queue");

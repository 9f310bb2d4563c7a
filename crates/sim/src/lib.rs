//! Simulation in virtual time: a deterministic event loop over links and transport endpoints. [`run`] takes a resolved
//! run and returns its measurements.

use std::sync::atomic::AtomicBool;

use spec::RunSpec;

mod nodes;
mod recorder;
mod trace;
mod world;

pub use link::{
    BackloggedUser, ExternalDecision, ExternalOutcome, ExternalScheduler, ExternalSchedulerSpec,
    ExternalSchedulers,
};
pub use nodes::attachment::{AttachedNode, Attachment, ForwardingEntry, NodeInterface, ProbedNode};
pub use nodes::flow::ExternalControllers;
pub use recorder::tables::{Column, ColumnData, EncodedMeasurements, Measurements, Table};
pub use world::{RunLimits, World};

/// Builds the nodes of `spec` for a driver with another clock. Client and server of each flow come first.
///
/// # Errors
/// An invalid specification; the message names the reason.
pub fn build_attachments(
    spec: &RunSpec,
    topology: &topology::Topology,
) -> Result<Vec<Attachment>, String> {
    nodes::NodeSet::build(spec, topology, &mut |_, _| None).map(|node_set| node_set.attachments)
}

/// Runs `spec` to its end. `controllers` creates the controllers that are not in the catalogue.
///
/// # Errors
/// An invalid specification, or the component that prevents virtual time from advancing.
pub fn run(
    spec: &RunSpec,
    controllers: &mut ExternalControllers<'_>,
) -> Result<Measurements, String> {
    run_until_stopped(spec, controllers, &AtomicBool::new(false))
}

/// Does the same as [`run`], but ends early when `stop` is set. The caller then discards the measurements.
///
/// # Errors
/// The same as [`run`].
pub fn run_until_stopped(
    spec: &RunSpec,
    controllers: &mut ExternalControllers<'_>,
    stop: &AtomicBool,
) -> Result<Measurements, String> {
    run_with_external(spec, controllers, &|_, _, _| None, stop, RunLimits::NONE)
}

/// Does the same as [`run_until_stopped`], with external user schedulers and with limits.
///
/// # Errors
/// The same as [`run`], and a limit that the run reached.
pub fn run_with_external(
    spec: &RunSpec,
    controllers: &mut ExternalControllers<'_>,
    external_schedulers: &ExternalSchedulers<'_>,
    stop: &AtomicBool,
    limits: RunLimits,
) -> Result<Measurements, String> {
    let memory_before = (limits.memory_in_use)();
    let mut world = World::build_with_external(spec, controllers, external_schedulers)?
        .with_limits(limits, memory_before);
    world.run(stop)?;
    Ok(world.finish())
}

//! Virtual time: one deterministic event loop over the stages of a path and the transports at its
//! ends. [`run`] takes a resolved run and returns its measurements.

use std::sync::atomic::AtomicBool;

use spec::RunSpec;

mod addresses;
mod admission;
mod bundles;
mod calls;
mod cast;
mod flow;
mod groups;
mod host;
mod pages;
mod proxies;
mod recorder;
mod route;
mod seat;
mod tables;
mod trace;
mod watch;
mod world;

pub use flow::Controllers;
pub use path::conformance as scheduler_conformance;
pub use path::{Decider, Deciders, Decision, Outcome, OwnSpec, Waiter};
pub use seat::{Leg, Seat, Way};
pub use tables::{Column, Data, Encoded, Measurements, Table};
pub use world::World;

/// The nodes of `spec` at their seats, client and server of each flow first, for who drives them by another clock.
///
/// # Errors
/// What is wrong with the specification, in words.
pub fn seats(spec: &RunSpec, topology: &path::Topology) -> Result<Vec<Seat>, String> {
    cast::Cast::of(spec, topology, &mut |_, _| None).map(|cast| cast.seats)
}

/// Runs `spec` to its end. `controllers` makes controllers that the catalogue does not know.
///
/// # Errors
/// What is wrong with the specification, or who does not let time pass, in words.
pub fn run(spec: &RunSpec, controllers: &mut Controllers<'_>) -> Result<Measurements, String> {
    run_unless(spec, controllers, &AtomicBool::new(false))
}

/// As [`run`], but ends early when `stop` is set: whoever set it throws the measurements away.
///
/// # Errors
/// As [`run`].
pub fn run_unless(
    spec: &RunSpec,
    controllers: &mut Controllers<'_>,
    stop: &AtomicBool,
) -> Result<Measurements, String> {
    run_own(spec, controllers, &|_, _, _| None, stop)
}

/// As [`run_unless`], with schedulers of users that are given from outside too.
///
/// # Errors
/// As [`run`].
pub fn run_own(
    spec: &RunSpec,
    controllers: &mut Controllers<'_>,
    deciders: &Deciders<'_>,
    stop: &AtomicBool,
) -> Result<Measurements, String> {
    let mut world = World::build_with(spec, controllers, deciders)?;
    world.run(stop)?;
    Ok(world.finish())
}

//! Congestion controllers, one file or folder each, and the [`Estimator`] and [`Pacer`] they
//! share. The simulated TCP, QUIC in virtual time and QUIC over real UDP all drive this one trait.

pub mod aimd;
mod bbr;
pub mod bbr1;
pub mod bbr3;
mod catalogue;
pub mod conformance;
mod control;
pub mod cubic;
mod estimator;
pub mod fast;
mod filter;
pub mod fixed;
pub mod hybla;
pub mod newreno;
pub mod noop;
pub mod open_loop;
mod options;
mod pacer;
mod reno;
pub mod slow_start;
pub mod westwood;
mod window;

pub use catalogue::{build, catalogue, entry, of_kernel};
pub use control::*;
pub use estimator::Estimator;
pub use options::{BuildError, Entry, Kernel, Kind, Opt};
pub use pacer::Pacer;

/// The controllers, in the order in which they are documented.
pub const ENTRIES: &[&Entry] = &[
    &newreno::ENTRY,
    &cubic::ENTRY,
    &hybla::ENTRY,
    &westwood::ENTRY,
    &bbr1::ENTRY,
    &bbr3::ENTRY,
    &fast::ENTRY,
    &aimd::ENTRY,
    &fixed::ENTRY,
    &open_loop::ENTRY,
    &noop::ENTRY,
];

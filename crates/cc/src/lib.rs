//! Congestion controllers, one file or folder each, and the shared [`Estimator`] and [`Pacer`]. The simulated TCP, QUIC
//! in virtual time and QUIC over real UDP all use the trait [`CongestionControl`].

pub mod aimd;
pub mod bbr1;
pub mod bbr3;
mod bbr_common;
mod catalogue;
mod controller;
pub mod cubic;
mod estimator;
pub mod fast;
pub mod fixed;
pub mod hybla;
mod max_filter;
pub mod newreno;
pub mod noop;
pub mod open_loop;
mod options;
mod pacer;
mod reno;
pub mod slow_start;
#[cfg(any(test, feature = "test-support"))]
pub mod test_support;
pub mod westwood;
mod window;

pub use catalogue::{
    PreparedController, build_controller, catalogue_json, find_entry, find_kernel_twin,
    prepare_controller,
};
pub use controller::*;
pub use estimator::Estimator;
pub use options::{BuildError, CatalogueEntry, KernelTwin};
pub use pacer::Pacer;

/// The controllers in the order of the documentation.
pub const ENTRIES: &[&CatalogueEntry] = &[
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

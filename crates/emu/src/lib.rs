//! The stages of a path under the real clock, between TUN devices in network namespaces.
mod calibration;
mod check;
mod clock;
mod direction;
#[doc(hidden)]
pub mod frame;
mod lab;
pub mod namespace;
mod port;
mod rehearsal;

pub use calibration::Calibration;
pub use check::{Check, check};
pub use clock::Clock;
pub use direction::{Direction, Progress};
pub use lab::{Lab, LabSpec, Running};
pub use namespace::Address;

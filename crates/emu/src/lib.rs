//! The stages of a path under the real clock, between TUN devices in network namespaces.
// What goes wrong with a message must end nothing: `endpoint::say` writes them all.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod calibration;
mod check;
mod clock;
mod direction;
#[doc(hidden)]
pub mod frame;
mod guests;
mod io;
mod lab;
pub mod namespace;
mod net;
mod port;
mod present;
mod rehearsal;

pub use calibration::Calibration;
pub use check::{Check, check, check_takes};
pub use clock::Clock;
pub use direction::Progress;
pub use guests::{Inlet, Left, Part};
pub use lab::{Lab, LabSpec, Outline, Running, attend};
pub use namespace::Address;
pub use net::{Leg, Place, Promise, Route, Version};
#[doc(hidden)]
pub use port::{Cutter, Pieces};
pub use present::{ByHand, Present};

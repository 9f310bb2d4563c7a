//! The stages of a path in real time, between TUN devices in network namespaces.
// A failed write of a message must not end the process: `runtime::log_stderr` writes all messages.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod calibration;
#[doc(hidden)]
pub mod classifier;
mod clock;
mod forwarder;
mod injection;
mod lab;
mod lab_spec;
mod layout;
mod live_settings;
pub mod namespace;
mod path_check;
mod tun_io;
mod tun_port;

pub use calibration::Calibration;
pub use clock::EmulatorClock;
pub use forwarder::ForwarderStats;
pub use injection::{EmulatedDirection, InjectionResult, PacketInjector};
pub use lab::{Lab, LabLayout, RunningLab, prepare_thread};
pub use lab_spec::LabSpec;
pub use layout::{EmulatedInterface, HostRoute, NamespaceNode, PathBounds, TimedHostRoutes};
pub use live_settings::{LiveSettings, ManualChange};
pub use namespace::DeviceAddress;
pub use path_check::{PathCheck, check_path, estimate_check_duration};
#[doc(hidden)]
pub use tun_port::{GsoSplitter, ReceivedFrames};

//! Real sockets: QUIC over UDP with the controllers, the pacer and the applications of the simulation, and the
//! same applications over the kernel's TCP.
//!
//! Reading order: `say` and `kept` (where messages and results go), `ticks` (how late a process wakes), `socket` (batches in and out), `driver`
//! (the poll loop), `tls` (certificates and who trusts them), `identity` (who a bundle node's neighbour has to be), `tcp_socket`, `wire`, `watch` and `tcp_info` (the
//! kernel's TCP: options, bytes, readiness, what it says), `host` (an agent over both transports), `dtn` (bundle nodes), `sender` (what is measured of a connection), `perf` (the measuring server and client), `http` (the page
//! server), `pep` (the splitting proxy).

// What goes wrong with a message must end nothing: `endpoint::say` writes them all.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bounded;
pub mod calls;
mod clock;
mod driver;
pub mod dtn;
pub mod host;
pub mod http;
pub mod identity;
mod kept;
pub mod kernel;
pub mod pep;
pub mod perf;
mod say;
mod sender;
mod socket;
mod tcp_info;
mod tcp_socket;
mod ticks;
pub mod tls;
mod watch;
mod wire;

pub use bounded::Bounded;
pub use clock::Clock;
pub use driver::Driver;
pub use kept::Kept;
pub use say::{Screen, Unwritten, put, say};
pub use socket::{Observer, Socket};

//! Real sockets: QUIC over UDP with the controllers, the pacer and the applications of the simulation, and the
//! same applications over the kernel's TCP.
//!
//! Reading order: `socket` (batches in and out), `driver` (the poll loop), `tls` (certificates and who
//! trusts them), `tcp_info` (what the kernel says of its TCP), `sender` (what is measured of a
//! connection), `perf` (the measuring server and client),
//! `http` (the page server), `pep` (the splitting proxy).

mod bounded;
mod clock;
mod driver;
pub mod http;
pub mod pep;
pub mod perf;
mod sender;
mod socket;
mod tcp_info;
pub mod tls;

pub use bounded::Bounded;
pub use clock::Clock;
pub use driver::Driver;
pub use socket::{Observer, Socket};

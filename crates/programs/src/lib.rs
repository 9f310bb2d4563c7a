//! The programs of `bentpipe-rt` on real sockets, with the applications of the simulation. Each folder contains one
//! program.
//!
//! Reading order: `error`, `perf` (measuring server and client), `media` (calls), `http` (page server), `pep`
//! (splitting proxy), `dtn` (bundle nodes).

// `runtime::log_stderr` writes all messages: a failed write of a message must not end the process.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod dtn;
mod error;
pub mod http;
pub mod media;
pub mod pep;
pub mod perf;
#[cfg(feature = "test-support")]
#[doc(hidden)]
pub mod test_support;

pub use error::ProgramError;

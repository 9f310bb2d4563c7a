//! `bentpipe perf call-client` and `call-server`: media calls over UDP between two machines, by source and receiver of the
//! simulation.
//!
//! A call is negotiated over TCP to the listening port of the callee. One JSON line in each direction contains load,
//! ports and clocks; a last line is the callee's report. Datagrams thus go only to an address that has requested them
//! by a connection.
//!
//! Reading order: `plan`, `signalling` (the lines), `session` (the datagrams), `caller`, `callee`, `report` (the
//! result).

pub(crate) mod callee;
mod caller;
mod plan;
pub(crate) mod report;
pub(crate) mod session;
pub(crate) mod signalling;

pub use callee::Callee;
pub use caller::run_caller;
pub use plan::{CallFlow, CalleePlan, CallerPlan};

/// The maximum duration of a call in seconds.
const MAX_CALL_SECONDS: u64 = 3600;

/// The maximum rate per side of a call in bit/s: forty live streams of high definition.
const MAX_BIT_S: u64 = 200_000_000;

//! `bentpipe perf`: the perf protocol between two machines, measured while it runs.
//!
//! Reading order: `plan`; `client` and `server`, which select the transport; `quic_client`, `quic_server`, `tcp`;
//! `report` (lines), `frames` (for programs), `summary`.

mod client;
mod frames;
mod plan;
mod qlog;
mod quic_client;
mod quic_server;
mod report;
mod server;
mod summary;
mod tcp;

pub use crate::sender_report::SenderReport;
pub use client::MeasuringClient;
pub(crate) use client::resolve_host;
pub use plan::{
    CertificateFiles, CongestionPlan, ControllerPolicy, CsvPlan, FramesPlan, PerfClientPlan,
    PerfPlan, PerfServerLimits, PerfServerPlan, PerfTcpPlan, PerfTransport, ReportPlan,
    ServerVerificationPlan,
};
pub use report::Reporter;
pub use server::MeasuringServer;
pub use summary::PerfSummary;
#[doc(hidden)]
pub use tcp::exercise_tcp;

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::media::{Callee, run_caller};
use crate::stdio::{StdoutError, log_stderr};

/// The reason why a measurement failed.
#[derive(Debug)]
pub enum ProgramError {
    /// The request is invalid.
    Input(String),
    /// The run failed after its start, or the network prevented it.
    Run(String),
    /// The result could not be written.
    Output(String),
    /// A result file is incomplete; a message was logged when its disk filled.
    IncompleteResults,
}

impl ProgramError {
    /// Logs the error to standard error, unless it was logged before. Returns the exit status: 1 if the measurement
    /// failed, 2 for an invalid request or incomplete results.
    pub fn log_and_exit_status(&self) -> u8 {
        if !matches!(self, ProgramError::IncompleteResults) {
            log_stderr(format_args!("error: {self}"));
        }
        if matches!(self, ProgramError::Run(_)) { 1 } else { 2 }
    }
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramError::Input(text) | ProgramError::Run(text) | ProgramError::Output(text) => {
                f.write_str(text)
            }
            ProgramError::IncompleteResults => f.write_str("a file of results is not whole"),
        }
    }
}

impl std::error::Error for ProgramError {}

impl From<io::Error> for ProgramError {
    fn from(error: io::Error) -> ProgramError {
        let text = error.to_string();
        if StdoutError::is_source_of(&error) {
            ProgramError::Output(text)
        } else {
            ProgramError::Run(text)
        }
    }
}

/// Runs a plan until it is complete or `stop` is set; results go to `screen`. Returns whether it was stopped.
///
/// # Errors
/// A message for the user.
pub fn run(
    plan: PerfPlan,
    stop: &AtomicBool,
    screen: Box<dyn Write>,
) -> Result<bool, ProgramError> {
    // TCP needs a file descriptor per stream. If the limit cannot be raised, it stays unchanged.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
    match plan {
        PerfPlan::Server(plan) => MeasuringServer::bind(plan)?.run(stop, screen),
        PerfPlan::Client(plan) => MeasuringClient::start(plan)?.run(stop, screen),
        PerfPlan::Callee(plan) => Callee::bind(plan)?.run(stop, screen),
        PerfPlan::Caller(plan) => run_caller(&plan, stop, screen),
    }
}

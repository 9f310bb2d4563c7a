//! `bentpipe perf`: the perf protocol between two machines, measured while it runs.
//!
//! Reading order: `plan`; `client` and `server`, which choose; `quic_client`, `quic_server`, `tcp`;
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

pub use crate::sender::Sender;
pub use client::Client;
pub(crate) use client::resolve;
pub use plan::{
    CertificateFiles, Choose, ClientPlan, CongestionPlan, Csv, FramesPlan, Limits, Plan,
    ReportPlan, ServerPlan, TcpPlan, Transport, TrustPlan,
};
pub use report::Reporter;
pub use server::Server;
pub use summary::Summary;
#[doc(hidden)]
pub use tcp::exercise_tcp;

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::calls::{Answering, call};
use crate::say::{Unwritten, say};

/// Why a measurement did not come to its end.
#[derive(Debug)]
pub enum Failure {
    /// What was asked for cannot be done.
    Input(String),
    /// It began, or the network would not let it.
    Run(String),
    /// Its result could not be written.
    Output(String),
    /// A file of results is not whole, which was said when its disk filled.
    Cut,
}

impl Failure {
    /// Says it on standard error, unless that is done; returns the exit status: 1 the measurement failed, 2 it could
    /// not be begun as asked, or its results are not all written.
    pub fn tell(&self) -> u8 {
        if !matches!(self, Failure::Cut) {
            say(format_args!("error: {self}"));
        }
        if matches!(self, Failure::Run(_)) { 1 } else { 2 }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Input(text) | Failure::Run(text) | Failure::Output(text) => f.write_str(text),
            Failure::Cut => f.write_str("a file of results is not whole"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        let text = error.to_string();
        if Unwritten::is(&error) { Failure::Output(text) } else { Failure::Run(text) }
    }
}

/// Runs a plan until it is done or `stop` is set; results go to `screen`. Whether it was stopped.
///
/// # Errors
/// In words, for the user.
pub fn run(plan: Plan, stop: &AtomicBool, screen: Box<dyn Write>) -> Result<bool, Failure> {
    // TCP has a file for each stream. Where it cannot be raised, the limit is what it is.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
    match plan {
        Plan::Server(plan) => Server::bind(plan)?.run(stop, screen),
        Plan::Client(plan) => Client::start(plan)?.run(stop, screen),
        Plan::Answer(plan) => Answering::bind(plan)?.run(stop, screen),
        Plan::Call(plan) => call(&plan, stop, screen),
    }
}

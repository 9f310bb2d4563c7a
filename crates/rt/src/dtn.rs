//! `dtn`: a bundle node on real sockets.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use programs::dtn::{BundleNodePlan, CertificatePlan, issue_certificate, run as work};
use runtime::{Stdout, log_stderr};

/// Issues the certificate of the plan in file `plan` and writes its description as a line of JSON. Returns the exit
/// status: 0 success, 2 failure.
///
/// # Errors
/// Returns an error if the plan is invalid or standard output cannot be written.
pub fn issue(plan: &str) -> io::Result<u8> {
    let plan: CertificatePlan = serde_json::from_str(&std::fs::read_to_string(plan)?)?;
    match issue_certificate(&plan) {
        Ok(made) => {
            writeln!(Stdout::open()?, "{made}")?;
            Ok(0)
        }
        Err(why) => {
            log_stderr(format_args!("error: {why}"));
            Ok(2)
        }
    }
}

/// Runs the node of the plan in file `plan` until a signal. Returns the exit status: 0 success, 1 it failed, 2 it could
/// not start as planned.
///
/// # Errors
/// Returns an error if the plan is invalid.
pub fn run(plan: &str) -> io::Result<u8> {
    // The process ends with the program that started it.
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    let plan: BundleNodePlan = serde_json::from_str(&std::fs::read_to_string(plan)?)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        // The second signal ends the process at once.
        signal_hook::flag::register_conditional_default(signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    match work(&plan, &stop, Box::new(Stdout::open()?)) {
        Ok(()) => Ok(0),
        Err(failure) => Ok(failure.log_and_exit_status()),
    }
}

//! `perf`: one side of a measurement over real sockets.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use programs::perf::{PerfPlan, run as measure};
use runtime::Stdout;

/// Exit status of a measurement that Ctrl-C ended, in the convention of shells.
const INTERRUPTED: u8 = 130;

/// Runs the plan in file `plan` and returns the exit status: 0 success, 1 the measurement failed, 2 it could not start
/// as planned.
///
/// # Errors
/// Returns an error if the plan is invalid.
pub fn run(plan: &str) -> io::Result<u8> {
    // The process ends with the program that started it.
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    let plan: PerfPlan = serde_json::from_str(&std::fs::read_to_string(plan)?)?;
    let server = matches!(plan, PerfPlan::Server(_) | PerfPlan::Callee(_));
    let stop = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        // The second signal ends the process at once.
        signal_hook::flag::register_conditional_default(signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    match measure(plan, &stop, Box::new(Stdout::open()?)) {
        Ok(true) if !server => Ok(INTERRUPTED),
        Ok(_) => Ok(0),
        Err(failure) => Ok(failure.log_and_exit_status()),
    }
}

//! `perf`: one side of a measurement over real sockets.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use endpoint::Screen;
use endpoint::perf::{Plan, run as measure};
use nix::sys::prctl;
use nix::sys::signal::Signal;

/// Exit status of a measurement that Ctrl-C ended, as shells have it.
const INTERRUPTED: u8 = 130;

/// Runs the plan in file `plan`; returns the exit status: 0 done, 1 the measurement failed, 2 it could not
/// be begun as asked.
///
/// # Errors
/// What is wrong with the plan.
pub fn run(plan: &str) -> io::Result<u8> {
    // Started by another program, it ends with it.
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    let plan: Plan = serde_json::from_str(&std::fs::read_to_string(plan)?)?;
    let server = matches!(plan, Plan::Server(_) | Plan::Answer(_));
    let stop = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        // The second one ends it at once.
        signal_hook::flag::register_conditional_default(signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    match measure(plan, &stop, Box::new(Screen::open()?)) {
        Ok(true) if !server => Ok(INTERRUPTED),
        Ok(_) => Ok(0),
        Err(failure) => Ok(failure.tell()),
    }
}

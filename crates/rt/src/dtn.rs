//! `dtn`: a bundle node on real sockets.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use endpoint::Screen;
use endpoint::dtn::{NodePlan, run as work};
use nix::sys::prctl;
use nix::sys::signal::Signal;

/// Runs the node of the plan in file `plan` until it is told to end; returns the exit status: 0 done, 1 it failed, 2 it could
/// not be begun as asked.
///
/// # Errors
/// What is wrong with the plan.
pub fn run(plan: &str) -> io::Result<u8> {
    // Started by another program, it ends with it.
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    let plan: NodePlan = serde_json::from_str(&std::fs::read_to_string(plan)?)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        // The second one ends it at once.
        signal_hook::flag::register_conditional_default(signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    match work(&plan, &stop, Box::new(Screen::open()?)) {
        Ok(()) => Ok(0),
        Err(failure) => Ok(failure.tell()),
    }
}

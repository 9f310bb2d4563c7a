//! `dtn`: a bundle node on real sockets.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use endpoint::dtn::{IssuePlan, NodePlan, issue as make, run as work};
use endpoint::{Screen, say};
use nix::sys::prctl;
use nix::sys::signal::Signal;

/// Makes the certificate of the plan in file `plan`, and says in a line of JSON what it is; returns the exit status: 0 done, 2 it
/// could not be.
///
/// # Errors
/// What is wrong with the plan; standard output takes nothing.
pub fn issue(plan: &str) -> io::Result<u8> {
    let plan: IssuePlan = serde_json::from_str(&std::fs::read_to_string(plan)?)?;
    match make(&plan) {
        Ok(made) => {
            writeln!(Screen::open()?, "{made}")?;
            Ok(0)
        }
        Err(why) => {
            say(format_args!("error: {why}"));
            Ok(2)
        }
    }
}

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

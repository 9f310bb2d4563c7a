//! `pep`: a transparent proxy that splits TCP, in the network namespace it was started in.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use endpoint::Screen;
use endpoint::pep::{Plan, run as split};
use nix::sys::prctl;
use nix::sys::signal::Signal;

/// Runs the plan in file `plan` until it is asked to end; returns the exit status: 0 done, 1 it broke
/// off, 2 it could not be begun as asked.
///
/// # Errors
/// What is wrong with the plan.
pub fn run(plan: &str) -> io::Result<u8> {
    // Started by another program, it ends with it.
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    let text = std::fs::read_to_string(plan)
        .map_err(|error| io::Error::other(format!("{plan}: {error}")))?;
    let plan: Plan = serde_json::from_str(&text)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        // The second one ends it at once.
        signal_hook::flag::register_conditional_default(signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let mut screen = Screen::open()?;
    let mut ready = |line: &str| {
        writeln!(screen, "{line}")?;
        screen.flush()
    };
    match split(&plan, &stop, &mut ready) {
        Ok(()) => Ok(0),
        Err(failure) => Ok(failure.tell()),
    }
}

//! `pep`: a transparent proxy that splits TCP, in the network namespace of its start.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use programs::pep::{ProxyPlan, run as split};
use runtime::Stdout;

/// Runs the plan in file `plan` until a signal and returns the exit status: 0 success, 1 it failed, 2 it could not
/// start as planned.
///
/// # Errors
/// Returns an error if the plan is invalid.
pub fn run(plan: &str) -> io::Result<u8> {
    // The process ends with the program that started it.
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    let text = std::fs::read_to_string(plan)
        .map_err(|error| io::Error::other(format!("{plan}: {error}")))?;
    let plan: ProxyPlan = serde_json::from_str(&text)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        // The second signal ends the process at once.
        signal_hook::flag::register_conditional_default(signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let mut screen = Stdout::open()?;
    let mut ready = |line: &str| {
        writeln!(screen, "{line}")?;
        screen.flush()
    };
    match split(&plan, &stop, &mut ready) {
        Ok(()) => Ok(0),
        Err(failure) => Ok(failure.log_and_exit_status()),
    }
}

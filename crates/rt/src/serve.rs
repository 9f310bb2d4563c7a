//! `serve`: the page server.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use endpoint::Screen;
use endpoint::http::{ServePlan, Server};
use nix::sys::prctl;
use nix::sys::signal::Signal;

/// Runs the plan in file `plan` until SIGINT, SIGTERM or SIGHUP; returns the exit status: 0 done, 1 it
/// failed, 2 it could not be begun as asked.
///
/// # Errors
/// What is wrong with the plan's text.
pub fn run(plan: &str) -> io::Result<u8> {
    // Started by another program, it ends with it.
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    let plan: ServePlan = serde_json::from_str(&std::fs::read_to_string(plan)?)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        // The second one ends it at once.
        signal_hook::flag::register_conditional_default(signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let mut screen = Screen::open()?;
    match Server::bind(plan).and_then(|server| server.run(&stop, &mut screen)) {
        Ok(()) => Ok(0),
        Err(failure) => Ok(failure.tell()),
    }
}

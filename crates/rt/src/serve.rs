//! `serve`: the page server.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use programs::http::{HttpServer, HttpServerPlan};
use runtime::Stdout;

/// Runs the plan in file `plan` until SIGINT, SIGTERM or SIGHUP and returns the exit status: 0 success, 1 it failed, 2
/// it could not start as planned.
///
/// # Errors
/// Returns an error if the text of the plan is invalid.
pub fn run(plan: &str) -> io::Result<u8> {
    // The process ends with the program that started it.
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    let plan: HttpServerPlan = serde_json::from_str(&std::fs::read_to_string(plan)?)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        // The second signal ends the process at once.
        signal_hook::flag::register_conditional_default(signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let mut screen = Stdout::open()?;
    match HttpServer::bind(plan).and_then(|server| server.run(&stop, &mut screen)) {
        Ok(()) => Ok(0),
        Err(failure) => Ok(failure.log_and_exit_status()),
    }
}

//! Subcommands that run one program each: `perf`, `serve`, `pep`, `dtn` and `issue`.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use programs::dtn::{BundleNodePlan, CertificatePlan};
use programs::http::{HttpServer, HttpServerPlan};
use programs::pep::ProxyPlan;
use programs::perf::PerfPlan;
use programs::{dtn, pep, perf};
use runtime::{Stdout, log_stderr};

/// Exit status of a measurement that Ctrl-C ended, in the convention of shells.
const INTERRUPTED: u8 = 130;

/// Returns a flag that SIGINT, SIGTERM and SIGHUP set.
fn stop_on_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        // The second signal ends the process at once.
        signal_hook::flag::register_conditional_default(signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Runs one side of a measurement over real sockets by the plan in file `plan`. Returns the exit status: 0 for success,
/// 1 for a failed measurement, 2 for one that could not start as planned.
///
/// # Errors
/// Returns an error if the plan is invalid.
pub fn run_perf(plan: &str) -> io::Result<u8> {
    // The process ends with the program that started it.
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    let plan: PerfPlan = serde_json::from_str(&std::fs::read_to_string(plan)?)?;
    let server = matches!(plan, PerfPlan::Server(_) | PerfPlan::Callee(_));
    let stop = stop_on_signals()?;
    match perf::run(plan, &stop, Box::new(Stdout::open()?)) {
        Ok(true) if !server => Ok(INTERRUPTED),
        Ok(_) => Ok(0),
        Err(failure) => Ok(failure.log_and_exit_status()),
    }
}

/// Runs the page server of the plan in file `plan` until SIGINT, SIGTERM or SIGHUP. Returns the exit status: 0 for
/// success,
/// 1 for a failure, 2 for a server that could not start as planned.
///
/// # Errors
/// Returns an error if the text of the plan is invalid.
pub fn run_serve(plan: &str) -> io::Result<u8> {
    // The process ends with the program that started it.
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    let plan: HttpServerPlan = serde_json::from_str(&std::fs::read_to_string(plan)?)?;
    let stop = stop_on_signals()?;
    let mut screen = Stdout::open()?;
    match HttpServer::bind(plan).and_then(|server| server.run(&stop, &mut screen)) {
        Ok(()) => Ok(0),
        Err(failure) => Ok(failure.log_and_exit_status()),
    }
}

/// Runs the transparent TCP-splitting proxy of the plan in file `plan`, in the network namespace of its start, until a
/// signal. Returns the exit status: 0 success, 1 it failed, 2 it could not start as planned.
///
/// # Errors
/// Returns an error if the plan is invalid.
pub fn run_pep(plan: &str) -> io::Result<u8> {
    // The process ends with the program that started it.
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    let text = std::fs::read_to_string(plan)
        .map_err(|error| io::Error::other(format!("{plan}: {error}")))?;
    let plan: ProxyPlan = serde_json::from_str(&text)?;
    let stop = stop_on_signals()?;
    let mut screen = Stdout::open()?;
    let mut ready = |line: &str| {
        writeln!(screen, "{line}")?;
        screen.flush()
    };
    match pep::run(&plan, &stop, &mut ready) {
        Ok(()) => Ok(0),
        Err(failure) => Ok(failure.log_and_exit_status()),
    }
}

/// Runs the bundle node of the plan in file `plan` until a signal. Returns the exit status: 0 success, 1 it failed, 2
/// it could not start as planned.
///
/// # Errors
/// Returns an error if the plan is invalid.
pub fn run_dtn(plan: &str) -> io::Result<u8> {
    // The process ends with the program that started it.
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    let plan: BundleNodePlan = serde_json::from_str(&std::fs::read_to_string(plan)?)?;
    let stop = stop_on_signals()?;
    match dtn::run(&plan, &stop, Box::new(Stdout::open()?)) {
        Ok(()) => Ok(0),
        Err(failure) => Ok(failure.log_and_exit_status()),
    }
}

/// Issues the certificate of the plan in file `plan` and writes its description as a line of JSON. Returns the exit
/// status: 0 success, 2 failure.
///
/// # Errors
/// Returns an error if the plan is invalid or standard output cannot be written.
pub fn issue_certificate(plan: &str) -> io::Result<u8> {
    let plan: CertificatePlan = serde_json::from_str(&std::fs::read_to_string(plan)?)?;
    match dtn::issue_certificate(&plan) {
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

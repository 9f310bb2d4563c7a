//! The executable for everything in bentpipe that runs in real time. The Python side starts it. `lab PLAN [PARENT
//! DESCRIPTOR FOLDER...]` runs commands behind a path, `perf PLAN` measures between two machines. `serve PLAN` is a
//! page server, `pep PLAN` a TCP proxy, `dtn PLAN` a bundle node, `issue PLAN` issues a certificate for it. All other
//! subcommands are helper processes.

// A failed write of a message must not end the process: `runtime::log_stderr` writes all messages.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod lab;
mod namespace;
mod parent_process;
mod subcommands;
mod sysctl_lease;
mod uplink;
mod watchdog;

use std::io;
use std::process::ExitCode;

use crate::namespace::supervisor;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["lab", plan] => lab::run(plan, None),
        ["lab", plan, starter, rest, folders @ ..] => lab::run(
            plan,
            Some(lab::ParentHandles { parent: starter, lifetime_descriptor: rest, folders }),
        ),
        ["perf", plan] => subcommands::run_perf(plan),
        ["serve", plan] => subcommands::run_serve(plan),
        ["pep", plan] => subcommands::run_pep(plan),
        ["dtn", plan] => subcommands::run_dtn(plan),
        ["issue", plan] => subcommands::issue_certificate(plan),
        ["keep", parent] => supervisor::hold_namespace(parent),
        ["init"] => supervisor::run_init(),
        ["enter", parent, supervisor, directory, "--", command @ ..] if !command.is_empty() => {
            supervisor::enter_namespace(parent, supervisor, directory, command)
        }
        ["outside", tool, process] => uplink::user_network::exec_tool(tool, process),
        ["guard", settings, lab] => sysctl_lease::restore_on_exit(settings, lab),
        ["warden", lab, folders @ ..] => watchdog::run(lab, folders),
        _ => Err(io::Error::other(
            "usage: bentpipe-rt lab|perf|serve|pep|dtn|issue PLAN (bentpipe writes the plan)",
        )),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            if !error.get_ref().is_some_and(|error| error.is::<supervisor::AlreadyReported>()) {
                runtime::log_stderr(format_args!("bentpipe: {error}"));
            }
            ExitCode::from(2)
        }
    }
}

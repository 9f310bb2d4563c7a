//! Everything of bentpipe that runs in real time. Started by the Python side: `lab PLAN [STARTER REST FOLDER...]` puts
//! commands behind a path, `perf PLAN` measures between two machines, `serve PLAN` serves pages, `pep PLAN` splits TCP, `dtn PLAN` is a
//! bundle node, `issue PLAN` makes the certificate of one;
//! `keep`, `init`, `enter`, `guard`, `outside` and `warden` are the executable's own helpers.

// What goes wrong with a message must end nothing: `endpoint::say` writes them all.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod dtn;
mod keeper;
mod lab;
mod nat;
mod outside;
mod pep;
mod perf;
mod serve;
mod shared;
mod starter;
mod warden;

use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["lab", plan] => lab::run(plan, None),
        ["lab", plan, starter, rest, folders @ ..] => {
            lab::run(plan, Some(lab::Hands { starter, rest, folders }))
        }
        ["perf", plan] => perf::run(plan),
        ["serve", plan] => serve::run(plan),
        ["pep", plan] => pep::run(plan),
        ["dtn", plan] => dtn::run(plan),
        ["issue", plan] => dtn::issue(plan),
        ["keep", parent] => keeper::keep(parent),
        ["init"] => keeper::init(),
        ["enter", parent, keeper, directory, "--", command @ ..] if !command.is_empty() => {
            keeper::enter(parent, keeper, directory, command)
        }
        ["outside", tool, process] => outside::lead(tool, process),
        ["guard", settings, lab] => shared::guard(settings, lab),
        ["warden", lab, folders @ ..] => warden::watch(lab, folders),
        _ => Err(io::Error::other(
            "usage: bentpipe-rt lab|perf|serve|pep|dtn|issue PLAN (bentpipe writes the plan)",
        )),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            if !error.get_ref().is_some_and(|error| error.is::<keeper::Said>()) {
                endpoint::say(format_args!("bentpipe: {error}"));
            }
            ExitCode::from(2)
        }
    }
}

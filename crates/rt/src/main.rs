//! Everything of bentpipe that runs in real time. Started by the Python side: `shell PLAN` puts a
//! command behind a path, `perf PLAN` measures between two machines, `serve PLAN`
//! serves pages; `keep`, `init` and `guard` are the executable's own helpers.

mod keeper;
mod nat;
mod perf;
mod serve;
mod shell;

use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["shell", plan] => shell::run(plan),
        ["perf", plan] => perf::run(plan),
        ["serve", plan] => serve::run(plan),
        ["keep", parent, "--", command @ ..] if !command.is_empty() => {
            keeper::keep(parent, command)
        }
        ["init", "--", command @ ..] if !command.is_empty() => keeper::init(command),
        ["guard", settings @ ..] => nat::guard(settings),
        _ => Err(io::Error::other(
            "usage: bentpipe-rt shell|perf|serve PLAN (bentpipe writes the plan)",
        )),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("bentpipe: {error}");
            ExitCode::from(2)
        }
    }
}

//! `shell`: a command in a namespace of its own, behind a path.

use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use emu::{Address, Check, Lab, LabSpec, Progress, namespace};
use serde::{Deserialize, Serialize};

use crate::keeper::{LOOK, code};
use crate::nat;

/// Longest wait for a keeper to make its namespaces.
const PATIENCE: u32 = 5_000;

/// What the Python side asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    /// The path.
    lab: LabSpec,
    /// The command and its arguments.
    command: Vec<String>,
    /// Measure the path before the command starts.
    check: bool,
    /// Let the command reach what this machine reaches.
    outside: bool,
    /// Where the result is written; none: nowhere.
    result: Option<String>,
}

/// What a session measured.
#[derive(Debug, Serialize)]
struct Outcome {
    status: u8,
    check: Option<Check>,
    up: Way,
    down: Way,
}

/// One direction.
#[derive(Debug, Serialize)]
struct Way {
    packets_in: u64,
    packets_out: u64,
    bytes_out: u64,
    dropped: u64,
    refused: u64,
    late_p50_ms: Option<f64>,
    late_p99_ms: Option<f64>,
    late_max_ms: Option<f64>,
}

impl From<&Progress> for Way {
    fn from(progress: &Progress) -> Way {
        let late = |q| progress.lateness.quantile(q).map(|span| span.millis());
        Way {
            packets_in: progress.packets_in,
            packets_out: progress.packets_out,
            bytes_out: progress.bytes_out,
            dropped: progress.dropped,
            refused: progress.refused,
            late_p50_ms: late(0.5),
            late_p99_ms: late(0.99),
            late_max_ms: late(1.0),
        }
    }
}

/// What was measured beside what the path promises.
fn said(check: &Check, lab: &Lab) -> String {
    let mega = |rate: Option<u64>| {
        rate.map_or("unlimited".to_owned(), |rate| format!("{:.4} Mbit/s", rate as f64 / 1e6))
    };
    format!(
        "measured RTT {:.1} ms, up {}, down {}; the path promises at least {:.1} ms, {} and {}",
        check.rtt_ns as f64 / 1e6,
        mega(check.up_bit_s),
        mega(check.down_bit_s),
        lab.propagation.millis(),
        mega(lab.rates[0]),
        mega(lab.rates[1]),
    )
}

/// Runs the plan in file `plan`; returns the command's exit status.
///
/// # Errors
/// What is wrong with the plan, or what the kernel refuses.
pub fn run(plan: &str) -> io::Result<u8> {
    let plan: Plan = serde_json::from_str(&std::fs::read_to_string(plan)?)?;
    let ordinary = !nix::unistd::geteuid().is_root();
    if ordinary {
        namespace::become_root()?;
    }
    // Ctrl-C is the command's; the others end it.
    let ended = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::default())?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, ended.clone())?;
    }
    let own = std::fs::read_link("/proc/self/ns/net")?;
    let mut keeper = Command::new("/proc/self/exe")
        .args(["keep", &std::process::id().to_string(), "--"])
        .args(&plan.command)
        .spawn()?;
    let place = format!("/proc/{}/ns/net", keeper.id());
    let mut looks = 0;
    while std::fs::read_link(&place)? == own {
        looks += 1;
        if let Some(status) = keeper.try_wait()? {
            return Err(io::Error::other(format!("no namespace could be made ({status})")));
        }
        if looks > PATIENCE {
            keeper.kill()?;
            return Err(io::Error::other("no namespace could be made in 5 s"));
        }
        std::thread::sleep(LOOK);
    }
    let near = namespace::of_process(keeper.id())?;
    let ends = Address::pair(namespace::free_network()?);
    let lab = Lab::start(&plan.lab, &near, &ends)?;
    let check = if plan.check { Some(lab.check(&near, &ends)?) } else { None };
    if let Some(check) = &check {
        eprintln!("bentpipe: {}", said(check, &lab));
    }
    let _way = if plan.outside && !ordinary {
        Some(nat::open(&ends[1].device, ends[0].v4, ends[0].v6)?)
    } else {
        None
    };
    namespace::within(&near, || {
        namespace::ip(&["link", "set", "lo", "up"])?;
        namespace::ip(&["-6", "route", "add", "default", "dev", &ends[0].device])?;
        namespace::ip(&["route", "add", "default", "dev", &ends[0].device])
    })?;
    let status = loop {
        if let Some(status) = keeper.try_wait()? {
            break code(status);
        }
        if ended.load(Ordering::Relaxed) {
            keeper.kill()?;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let [up, down] = lab.stop()?;
    if let Some(file) = &plan.result {
        let outcome = Outcome { status, check, up: Way::from(&up), down: Way::from(&down) };
        std::fs::write(file, serde_json::to_vec(&outcome)?)?;
    }
    Ok(status)
}

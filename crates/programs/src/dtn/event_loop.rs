//! The event loop of a bundle node, which writes bundle events as they occur.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use runtime::host::Host;
use runtime::{Clock, WakeupLag};
use serde_json::json;
use units::{Span, Time};

use super::event_log::{self, EventLog};
use super::plan::build_with_store;
use super::{BundleHost, BundleNodePlan};
use crate::ProgramError;

/// The interval between writes of pending events.
const POLL_INTERVAL: Span = Span::from_millis(100);

/// The maximum wait for neighbours at the shutdown: an unreachable neighbour does not delay it longer.
const SHUTDOWN_GRACE: Span = Span::from_secs(2);

/// The interval of checks for time zero.
const ZERO_POLL_INTERVAL: Duration = Duration::from_micros(500);

/// Runs the node of a plan until its duration is over or `stop` is set. Writes JSON lines to `out`. The
/// first has the addresses when the node is ready. Then each bundle event has a line with the columns of the table
/// `bundles`. Other rows name their table in `table`.
///
/// # Errors
/// The defect of the plan, an error of the kernel, or a failed write.
pub fn run(
    plan: &BundleNodePlan,
    stop: &AtomicBool,
    mut out: Box<dyn Write>,
) -> Result<(), ProgramError> {
    let (mut host, found) = build_with_store(plan)?;
    let listens = (0..plan.neighbours.len()).map(|end| Ok(host.local_addr(end)?.to_string()));
    let listens: Vec<String> = listens.collect::<io::Result<_>>()?;
    let mut ready = json!({"ready": true, "node": plan.name, "listen": listens});
    if let Some(found) = &found {
        ready["store"] = event_log::recovered_store(found);
    }
    writeln!(out, "{ready}")?;
    out.flush()?;
    if let Some(file) = &plan.time_zero_file {
        match wait_for_time_zero(file, stop)? {
            Some(ns) => host.set_clock(Clock::with_zero_at(ns)),
            None => return Ok(()),
        }
    }
    let end = plan.duration_ns.map_or(Time::MAX, Time);
    let (mut log, mut looks) = (EventLog::new(plan), WakeupLag::new(host.now(), POLL_INTERVAL));
    let mut lost = false;
    while !stop.load(Ordering::Relaxed) && !lost && host.now() < end {
        let until = looks.next_at().min(end);
        while host.now() < until && !stop.load(Ordering::Relaxed) {
            host.poll_once(until)?;
        }
        log.add_lags(looks.take_lags(host.now(), end));
        log.write_events(host.now(), &mut host.manager(), &mut out)?;
        lost = host.manager().has_store_failed();
    }
    log.add_lags(looks.take_lags(host.now(), end));
    if stop.load(Ordering::Relaxed) || lost {
        shut_down(&mut host)?;
    }
    host.manager().flush();
    let now = host.now().min(end);
    log.write_final(now, &mut host.manager(), &mut out)?;
    lost |= host.manager().has_store_failed();
    host.close();
    if lost {
        let why = "the bundle store failed: stored bundles remain, and the node acknowledged no unsaved bundle";
        return Err(ProgramError::Run(why.to_owned()));
    }
    Ok(())
}

/// Terminates the sessions of the node, limited by the grace period.
fn shut_down(host: &mut Host<BundleHost>) -> io::Result<()> {
    host.manager().shut_down();
    let until = host.now() + SHUTDOWN_GRACE;
    while host.manager().session_count() > 0 && host.now() < until {
        host.poll_once(until)?;
    }
    Ok(())
}

/// Waits for `file` and returns CLOCK_MONOTONIC at time zero, `None` after a stop.
fn wait_for_time_zero(file: &Path, stop: &AtomicBool) -> Result<Option<u64>, ProgramError> {
    while !stop.load(Ordering::Relaxed) {
        match std::fs::read_to_string(file) {
            // The writer may not have finished.
            Ok(text) if text.ends_with('\n') => {
                let wrong =
                    |_| ProgramError::Input(format!("{}: expected a time in ns", file.display()));
                return text.trim_end().parse().map(Some).map_err(wrong);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        std::thread::sleep(ZERO_POLL_INTERVAL);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A write that takes 350 ms once skips three polls: 150 ms is the 95th percentile of ten lags.
    #[test]
    fn missed_polls_count_as_late() {
        struct Slow(Arc<Mutex<Vec<u8>>>, u32);

        impl Write for Slow {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }

            fn flush(&mut self) -> io::Result<()> {
                self.1 += 1;
                if self.1 == 3 {
                    std::thread::sleep(Duration::from_millis(350));
                }
                Ok(())
            }
        }

        let plan = json!({
            "name": "1",
            "dtn": {"epoch_ms": 0, "links": [], "nodes": [{"name": "1", "eid": "ipn:1.0"}], "plan": {"contacts": [], "ranges": []}},
            "neighbours": [],
            "duration_ns": 1_000_000_000,
        });
        let asked: BundleNodePlan = serde_json::from_value(plan).unwrap();
        let output = Arc::new(Mutex::new(Vec::new()));
        run(&asked, &AtomicBool::new(false), Box::new(Slow(output.clone(), 0))).unwrap();
        let output = String::from_utf8(output.lock().unwrap().clone()).unwrap();
        let node: serde_json::Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
        assert!(node["lateness_p95_ns"].as_u64().unwrap() >= 150_000_000, "{node}");
    }
}

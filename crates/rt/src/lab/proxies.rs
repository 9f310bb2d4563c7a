//! The proxies of a path: each a process in the namespace of its node.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use emu::Address;
use serde_json::json;
use transport::pep::{ProxySpec, Setup};

use super::plan::Record;
use super::space::Space;
use crate::keeper::ended;

/// Port between two proxies that hold a pool of connections.
const POOL_PORT: u16 = 7010;

/// Connections that a pool keeps ready.
const POOL: u32 = 16;

/// Starts the proxy of every node that `specs` names, and waits until all of them work. `spaces` and `ends` are
/// those of the whole path.
///
/// # Errors
/// A proxy says no: then in its words.
pub fn start(
    specs: &[ProxySpec],
    nodes: &[String],
    spaces: &[Space],
    ends: &[[Address; 2]],
    record: Option<&Record>,
) -> io::Result<Vec<(String, Child)>> {
    if let Some(spec) = specs.iter().find(|spec| !nodes.contains(&spec.node)) {
        let message = format!("proxy {:?}: no node of kind proxy on the path", spec.node);
        return Err(io::Error::other(message));
    }
    let mut started = Vec::new();
    for (place, node) in nodes.iter().enumerate() {
        let Some(spec) = specs.iter().find(|spec| spec.node == *node) else { continue };
        let before = place.checked_sub(1).map(|place| &nodes[place]);
        let pooled = |name: &String| {
            specs.iter().any(|spec| spec.node == *name && spec.setup == Setup::Pooled)
        };
        // Between two nodes lies a segment: its far end is the next node's, with the pool's port.
        let to_pool = (spec.setup == Setup::Pooled).then(|| {
            let next = &ends[place + 1][1];
            json!({"address": format!("{}:{POOL_PORT}", next.v4), "ready": POOL})
        });
        let from_pool = before.filter(|name| pooled(name)).map(|_| {
            let [peer, own] = &ends[place];
            json!({"listen": format!("{}:{POOL_PORT}", own.v4), "peer": peer.v4.to_string()})
        });
        let plan = json!({
            "proxy": spec,
            "near_device": ends[place][1].device,
            "far_device": ends[place + 1][0].device,
            "to_pool": to_pool,
            "from_pool": from_pool,
            "counters": counters(record, node)?,
        });
        let words = ["/proc/self/exe", "pep", "/dev/stdin"].map(str::to_owned);
        let mut child = spaces[place + 1]
            .command(&words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(&serde_json::to_vec(&plan)?)?;
        }
        started.push((node.clone(), child));
    }
    // All have to run before a pool can stand.
    for (node, child) in &mut started {
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        if !line.contains("\"ready\"") {
            let status = child.wait()?;
            return Err(ended(status, &format!("the proxy at {node:?} did not start")));
        }
    }
    Ok(started)
}

/// Where a proxy's counters go: beside the series of the path, if it is recorded.
fn counters(record: Option<&Record>, node: &str) -> io::Result<Option<serde_json::Value>> {
    let Some(record) = record else { return Ok(None) };
    let directory = std::path::absolute(&record.directory)?;
    std::fs::create_dir_all(&directory)?;
    let file = directory.join(format!("proxy-{node}.jsonl"));
    Ok(Some(json!({"file": file, "interval_ns": record.interval_ns})))
}

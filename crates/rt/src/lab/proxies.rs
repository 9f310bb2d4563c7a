//! The proxies of a path. Each is a process in the namespace of its node.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use emu::DeviceAddress;
use serde_json::json;
use transport::pep::{HandshakeMode, ProxySpec};

use super::plan::RecordPlan;
use crate::namespace::handle::Namespace;
use crate::namespace::supervisor::start_error;

/// Port between two proxies with a connection pool.
const POOL_PORT: u16 = 7010;

/// Number of idle connections in a pool.
const POOL_CONNECTIONS: u32 = 16;

/// Starts the proxy of each node in `specs`, and waits until all are ready. `namespaces` and `link_addresses` cover the
/// complete path.
///
/// # Errors
/// Returns the error message of a proxy.
pub fn start(
    specs: &[ProxySpec],
    nodes: &[String],
    namespaces: &[Namespace],
    link_addresses: &[[DeviceAddress; 2]],
    record: Option<&RecordPlan>,
) -> io::Result<Vec<(String, Child)>> {
    if let Some(spec) = specs.iter().find(|spec| !nodes.contains(&spec.node)) {
        let message = format!("proxy {:?}: no node of kind proxy on the path", spec.node);
        return Err(io::Error::other(message));
    }
    let mut started = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let Some(spec) = specs.iter().find(|spec| spec.node == *node) else { continue };
        let previous = index.checked_sub(1).map(|previous| &nodes[previous]);
        let pooled = |name: &String| {
            specs.iter().any(|spec| spec.node == *name && spec.handshake == HandshakeMode::Pooled)
        };
        // The link between two nodes: its far end is the next node, which listens on the port of the pool.
        let to_pool = (spec.handshake == HandshakeMode::Pooled).then(|| {
            let next = &link_addresses[index + 1][1];
            json!({"address": format!("{}:{POOL_PORT}", next.v4), "ready": POOL_CONNECTIONS})
        });
        let from_pool = previous.filter(|name| pooled(name)).map(|_| {
            let [peer, local] = &link_addresses[index];
            json!({"listen": format!("{}:{POOL_PORT}", local.v4), "peer": peer.v4.to_string()})
        });
        let plan = json!({
            "proxy": spec,
            "client_device": link_addresses[index][1].device,
            "server_device": link_addresses[index + 1][0].device,
            "to_pool": to_pool,
            "from_pool": from_pool,
            "counters": counters_plan(record, node)?,
        });
        let words = ["/proc/self/exe", "pep", "/dev/stdin"].map(str::to_owned);
        let mut child = namespaces[index + 1]
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
    // All proxies must run before a pool can connect.
    for (node, child) in &mut started {
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        if !line.contains("\"ready\"") {
            let status = child.wait()?;
            return Err(start_error(status, &format!("the proxy at {node:?} did not start")));
        }
    }
    Ok(started)
}

/// Returns the counter file of a proxy, next to the time series of the path, if they are recorded.
fn counters_plan(record: Option<&RecordPlan>, node: &str) -> io::Result<Option<serde_json::Value>> {
    let Some(record) = record else { return Ok(None) };
    let directory = std::path::absolute(&record.directory)?;
    std::fs::create_dir_all(&directory)?;
    let file = directory.join(format!("proxy-{node}.jsonl"));
    Ok(Some(json!({"file": file, "interval_ns": record.interval_ns})))
}

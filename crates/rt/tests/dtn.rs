//! Two bundle nodes, each a process, over loopback.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use transport::quic::QuicSpec;

/// Ten bundles of 1 MB.
const BUNDLES: usize = 10;
const BYTES: u64 = 1_000_000;

struct Node {
    child: Child,
    lines: BufReader<ChildStdout>,
    plan: PathBuf,
}

impl Node {
    fn start(case: &str, plan: &Value) -> Node {
        let name = plan["name"].as_str().unwrap();
        let file = format!("bentpipe-dtn-{case}-{name}-{}.json", std::process::id());
        let path = std::env::temp_dir().join(file);
        std::fs::File::create(&path).unwrap().write_all(plan.to_string().as_bytes()).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_bentpipe-rt"))
            .arg("dtn")
            .arg(&path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Node { child, lines, plan: path }
    }

    /// Returns the next line; `None` after the end of the process.
    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
    }

    /// Reads lines until `count` data events of this kind.
    fn until(&mut self, event: &str, count: usize) -> Vec<Value> {
        let mut all: Vec<Value> = Vec::new();
        while all.iter().filter(|row| row["event"] == event && row["kind"] == "data").count()
            < count
        {
            all.push(self.next().expect("it goes on"));
        }
        all
    }

    /// Sends SIGTERM, and waits for the exit status.
    fn end(mut self) -> Option<i32> {
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        while self.next().is_some() {}
        self.child.wait().unwrap().code()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.plan);
    }
}

fn plan(name: &str, layer: &str, peer: Option<&str>) -> Value {
    let other = if name == "1" { "2" } else { "1" };
    let node = |name: &str, other: &str| json!({"name": name, "eid": format!("ipn:{name}.0"), "routes": [{"to": other, "via": other}]});
    let quic = QuicSpec {
        receive_window_bytes: 16 << 20,
        stream_receive_window_bytes: 16 << 20,
        send_window_bytes: 16 << 20,
        initial_rtt_ns: 10_000_000,
        unpaced_burst_packets: 10,
        ..QuicSpec::default()
    };
    json!({
        "name": name,
        "dtn": {
            "epoch_ms": 800_000_000_000_u64,
            "nodes": [node("1", "2"), node("2", "1")],
            "links": [],
            "plan": {"contacts": []},
            "perf": [{
                "name": "main", "client": "1", "server": "2", "start_ns": 0,
                "amount": {"kind": "data", "bytes": BUNDLES as u64 * BYTES},
                "pace": {"kind": "window", "bundles": 4}, "payload_bytes": BYTES,
                "lifetime_ns": 600_000_000_000_u64, "priority": "normal", "crc": "crc32c",
                "do_not_fragment": true,
            }],
        },
        "neighbours": [{
            "neighbour": other, "cla": {"kind": layer}, "listen": "127.0.0.1:0", "peer": peer,
            "can_send": true, "opens_with_contact": false, "closes_after_contact": false, "quic": quic,
            "congestion": {"name": "cubic"}, "idle_timeout_ns": 10_000_000_000_u64,
        }],
    })
}

#[test]
fn two_processes_exchange_bundles_over_udp_and_tcp() {
    for layer in ["quiccl", "tcpcl"] {
        let mut server = Node::start(layer, &plan("2", layer, None));
        let ready = server.next().unwrap();
        assert_eq!((&ready["ready"], &ready["node"]), (&json!(true), &json!("2")), "{ready}");
        let at = ready["listen"][0].as_str().unwrap().to_owned();
        let mut client = Node::start(layer, &plan("1", layer, Some(&at)));
        assert_eq!(client.next().unwrap()["ready"], json!(true));
        let sent = client.until("acknowledged", BUNDLES);
        let delivered = server.until("delivered", BUNDLES);
        let of = |rows: &[Value], event: &str| {
            let rows = rows.iter().filter(|row| row["event"] == event && row["kind"] == "data");
            let mut numbers: Vec<u64> = rows.map(|row| row["sequence"].as_u64().unwrap()).collect();
            numbers.sort_unstable();
            numbers
        };
        let generated = of(&sent, "generated");
        assert_eq!(generated.len(), BUNDLES, "{layer}");
        assert_eq!(of(&delivered, "delivered"), generated, "{layer}: each once");
        assert_eq!(of(&delivered, "received"), generated, "{layer}: each once");
        assert_eq!(of(&sent, "acknowledged"), generated, "{layer}");
        assert!(delivered.iter().all(|row| row["payload_bytes"] == BYTES || row["kind"] != "data"));
        assert_eq!((client.end(), server.end()), (Some(0), Some(0)), "{layer}");
    }
}

/// An invalid plan is rejected before any socket is opened.
#[test]
fn a_node_missing_in_the_plan_is_rejected() {
    let mut wrong = plan("1", "quiccl", None);
    wrong["name"] = json!("3");
    let mut node = Node::start("refused", &wrong);
    assert!(node.next().is_none());
    assert_eq!(node.child.wait().unwrap().code(), Some(2));
}

//! Scenarios with splitting proxies, in the form that a planner writes.

use serde_json::{Value, json};
use sim::Measurements;
use spec::RunSpec;
use transport::tcp::TcpSpec;

/// A link: name, one-way delay in ms, rate in bit/s and loss probability of both directions.
#[derive(Clone, Copy, Debug)]
pub struct Link(pub &'static str, pub f64, pub u64, pub f64);

/// A chain of links between a client and a server, with a proxy or a router at every joint.
#[derive(Clone, Debug)]
pub struct Split {
    pub links: Vec<Link>,
    /// The nodes between the links: a proxy's options, or `None` for a router.
    pub joints: Vec<Option<Value>>,
    pub tcp: Value,
    pub congestion: Value,
    pub load: Value,
    pub duration_s: f64,
    pub seed: u64,
    pub packets: bool,
    pub queue_bytes: u64,
}

/// Returns the options of a TCP endpoint with `changes`.
pub fn tcp(changes: &Value) -> Value {
    with(
        serde_json::to_value(TcpSpec {
            restart_after_idle: false,
            receive_buffer_bytes: 1 << 26,
            send_buffer_bytes: 1 << 26,
            ..TcpSpec::default()
        })
        .unwrap(),
        changes,
    )
}

fn with(mut value: Value, changes: &Value) -> Value {
    for (key, change) in changes.as_object().into_iter().flatten() {
        value[key] = change.clone();
    }
    value
}

/// Returns a socket of a proxy.
pub fn socket(congestion: &str, changes: &Value) -> Value {
    json!({"tcp": tcp(changes), "congestion": congestion})
}

/// Returns a proxy with two equal sockets.
pub fn proxy(setup: &str) -> Value {
    let socket = socket("cubic", &json!({}));
    json!({"handshake": setup, "buffer_bytes": 1u64 << 22, "client_side": socket, "server_side": socket})
}

/// Returns `proxy` with other options.
pub fn proxy_with(setup: &str, changes: &Value) -> Value {
    with(proxy(setup), changes)
}

pub const OUTER: Link = Link("outer", 5.0, 100_000_000, 0.0);
pub const SATELLITE: Link = Link("satellite", 250.0, 10_000_000, 0.0);
pub const CORE: Link = Link("core", 10.0, 100_000_000, 0.0);

impl Split {
    /// Returns client, joint, joint, server over a satellite.
    pub fn over_satellite(first: Option<Value>, second: Option<Value>, load: Value) -> Split {
        Split {
            links: vec![OUTER, SATELLITE, CORE],
            joints: vec![first, second],
            tcp: tcp(&json!({})),
            congestion: json!({"name": "cubic"}),
            load,
            duration_s: 60.0,
            seed: 1,
            packets: false,
            queue_bytes: 1 << 20,
        }
    }

    pub fn json(&self) -> Value {
        let mut nodes = vec![json!({"name": "client", "kind": "host"})];
        let mut proxies = Vec::new();
        for (index, joint) in self.joints.iter().enumerate() {
            let name = format!("p{}", index + 1);
            let kind = if joint.is_some() { "proxy" } else { "router" };
            nodes.push(json!({"name": name, "kind": kind}));
            proxies.extend(joint.clone().map(|mut proxy| {
                proxy["node"] = json!(name);
                proxy
            }));
        }
        nodes.push(json!({"name": "server", "kind": "host"}));
        let stages = |link: &Link| {
            json!([
                {"kind": "loss", "model": {"kind": "bernoulli", "probability": link.3}},
                {"kind": "transmit",
                 "queue": {"kind": "drop_tail", "limit": {"bytes": self.queue_bytes}},
                 "service": {"kind": "rate", "rate_bit_s": link.2}},
                {"kind": "delay", "delay_ns": (link.1 * 1e6) as u64}
            ])
        };
        let links: Vec<Value> = self
            .links
            .iter()
            .enumerate()
            .map(|(index, link)| {
                json!({"name": link.0, "client_side": nodes[index]["name"],
                "server_side": nodes[index + 1]["name"], "up": stages(link), "down": stages(link)})
            })
            .collect();
        json!({
            "seed": self.seed, "duration_ns": (self.duration_s * 1e9) as u64,
            "sample_interval_ns": 100_000_000u64, "graph": {"nodes": nodes, "links": links},
            "proxies": proxies, "trace": {"packets": self.packets},
            "flows": [{
                "name": "main", "client": "client", "server": "server", "start_ns": 0,
                "start_jitter_ns": 0, "client_congestion": self.congestion,
                "server_congestion": self.congestion,
                "transport": {"kind": "tcp", "client": self.tcp, "server": self.tcp},
                "load": self.load
            }]
        })
    }

    pub fn spec(&self) -> RunSpec {
        RunSpec::from_json(&self.json().to_string()).expect("a valid specification")
    }

    pub fn run(&self) -> Measurements {
        sim::run(&self.spec(), &mut |_, _| None).expect("the run is valid")
    }
}

/// Returns the first arrival of a packet with `label` at `node`, in s.
pub fn arrival(run: &Measurements, node: &str, label: &str) -> Option<f64> {
    let table = run.table("packets");
    let (labels, nodes) = (table.names("label"), table.names("to_node"));
    let times = table.numbers("received_s");
    (0..table.row_count())
        .filter(|row| labels[*row] == label && nodes[*row] == node && times[*row].is_finite())
        .map(|row| times[row])
        .reduce(f64::min)
}

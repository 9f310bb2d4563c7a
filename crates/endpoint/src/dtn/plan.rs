//! A bundle node as it is asked for, and its run: what happens to its bundles is written while it happens.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bundle::layers::LayerSpec;
use bundle::{Agent, Door, DtnSpec, Record, ReturnSpec};
use serde::Deserialize;
use serde_json::json;
use transport::quic::{LiveTls, QuicSpec};
use units::Span;

use super::{BundleHost, Gate};
use crate::host::{EndPlan, Host, Patience, QuicPlan, TcpOptions, TcpPlan};
use crate::perf::{CongestionPlan, Failure};
use crate::tls;

/// Between two looks at what has happened.
const LOOK: Span = Span::from_millis(100);

/// Accepted connections of an end at once, and handshakes before peers prove their address.
const CONNECTIONS: usize = 64;
const HANDSHAKES: usize = 16;

/// A bundle node of this machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodePlan {
    /// Which of the nodes it is.
    pub name: String,
    /// All nodes, the contact plan and who sends; times are from this node's start on.
    pub dtn: DtnSpec,
    /// Its neighbours.
    pub doors: Vec<DoorPlan>,
}

/// A neighbour, and how it is reached.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoorPlan {
    /// The neighbour's name.
    pub neighbour: String,
    /// The convergence layer.
    pub layer: LayerSpec,
    /// Where the neighbour's connections are answered, and for QUIC where this node's come from.
    pub listen: SocketAddr,
    /// Where the neighbour answers; none: it opens the connections.
    pub peer: Option<SocketAddr>,
    /// Whether this node sends its bundles there.
    pub sends: bool,
    /// Whether a connection is opened with a contact, or when there is a bundle.
    pub with_contact: bool,
    /// Whether it is closed when the contact is over.
    pub closes: bool,
    /// Options of connections, if the layer is over QUIC.
    pub quic: QuicSpec,
    /// The controller; over TCP the kernel's of that name.
    pub congestion: CongestionPlan,
    /// How long a connection may be silent.
    pub idle_timeout_ns: u64,
}

impl DoorPlan {
    fn end(&self) -> Result<EndPlan, Failure> {
        let Some(needs) = self.layer.needs() else {
            let name = crate::kernel::kernel_name(&self.congestion.name).map_err(Failure::Input)?;
            let idle = Some(Span(self.idle_timeout_ns));
            return Ok(EndPlan::Tcp(TcpPlan {
                listen: Some(self.listen),
                options: TcpOptions { congestion: name.to_owned(), mss: None, buffer: None },
                keys: None,
                patience: Patience { handshake: Span::from_secs(60), idle },
                connections: CONNECTIONS,
            }));
        };
        let alpn = self.layer.alpn().unwrap_or_default();
        let (mut server, _) = tls::server(None).map_err(Failure::Input)?;
        server.alpn_protocols = vec![alpn.into()];
        let (client, _) = tls::client(alpn, tls::Trust::Anyone).map_err(Failure::Input)?;
        let spec = QuicSpec { idle_timeout_ns: Some(self.idle_timeout_ns), ..self.quic.clone() };
        Ok(EndPlan::Quic(Box::new(QuicPlan {
            listen: self.listen,
            tls: LiveTls::Both(Arc::new(client), Arc::new(server)),
            make_controller: self.congestion.maker(&spec)?,
            spec,
            needs,
            connections: CONNECTIONS,
            handshakes: HANDSHAKES,
        })))
    }
}

/// The node of a plan, ready to run.
///
/// # Errors
/// What is wrong with the plan, in words; the kernel's.
pub fn node(plan: &NodePlan) -> Result<Host<BundleHost>, Failure> {
    let door = |(end, door): (usize, &DoorPlan)| Door {
        neighbour: door.neighbour.clone(),
        end,
        sends: door.sends,
        opens: door.peer.is_some(),
        with_contact: door.with_contact,
        closes: door.closes,
        on_return: ReturnSpec::Alone,
    };
    let doors: Vec<Door> = plan.doors.iter().enumerate().map(door).collect();
    let agent = Agent::new(&plan.dtn, &plan.name, &doors).map_err(Failure::Input)?;
    let gate = |door: &DoorPlan| Gate {
        layer: door.layer.clone(),
        peer: door.peer.map(|peer| peer.to_string()),
    };
    let gates = plan.doors.iter().map(gate).collect();
    let ends = plan.doors.iter().map(DoorPlan::end).collect::<Result<_, _>>()?;
    let host = Host::new(BundleHost::new(agent, gates), ends);
    host.map_err(|error| Failure::Input(error.to_string()))
}

/// Runs the node of a plan until `stop` is set. A line of JSON is written to `out` when it is ready, with its addresses, and
/// one for each thing that happens to a bundle, with the columns of the table `bundles`.
///
/// # Errors
/// What is wrong with the plan, in words; the kernel's; a file that takes nothing.
pub fn run(plan: &NodePlan, stop: &AtomicBool, mut out: Box<dyn Write>) -> Result<(), Failure> {
    let mut host = node(plan)?;
    let listens = (0..plan.doors.len()).map(|end| Ok(host.local(end)?.to_string()));
    let listens: Vec<String> = listens.collect::<io::Result<_>>()?;
    writeln!(out, "{}", json!({"ready": true, "node": plan.name, "listens": listens}))?;
    out.flush()?;
    while !stop.load(Ordering::Relaxed) {
        let until = host.now() + LOOK;
        while host.now() < until && !stop.load(Ordering::Relaxed) {
            host.turn(until)?;
        }
        tell(&plan.name, &mut host, &mut out)?;
    }
    host.close();
    tell(&plan.name, &mut host, &mut out)
}

/// Writes what has happened, and forgets it.
fn tell(name: &str, host: &mut Host<BundleHost>, out: &mut dyn Write) -> Result<(), Failure> {
    let records = host.agent().agent_mut().take_records();
    for one in &records {
        writeln!(out, "{}", line(name, one))?;
    }
    Ok(out.flush()?)
}

fn line(node: &str, one: &Record) -> serde_json::Value {
    json!({
        "time_s": one.at.seconds(), "node": node, "event": one.what.name(), "kind": one.kind,
        "source": one.bundle.source, "destination": one.destination,
        "created_ms": one.bundle.created_ms, "sequence": one.bundle.sequence,
        "offset_bytes": one.bundle.offset, "payload_bytes": one.payload_bytes, "peer": one.peer,
        "reason": one.reason,
    })
}

//! The plan of a bundle node and its run, which writes bundle events as they occur.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bundle::cla::{
    ClaSpec, ClaTransport, ConnectionParameters, InitialNumbers, LinkProperties, SharedByteQuota,
    TlsPolicy,
};
use bundle::{BundleProtocolAgent, ContactStartSpec, DtnSpec, NeighbourConfig, Secrets};
use ring::rand::{SecureRandom as _, SystemRandom};
use runtime::host::{
    ConnectionTimeouts, Host, HostSocketConfig, QuicHostConfig, TcpHostConfig, TcpProtocol,
    TcpSocketOptions, TlsKeys, UdpHostConfig,
};
use runtime::peer_identity::{ExpectedPeer, build_tls_configs};
use runtime::tls::{Fingerprint, ServerVerification};
use runtime::{BatchedUdpSocket, Clock, WakeupLag};
use serde::Deserialize;
use serde_json::json;
use transport::quic::{QuicSpec, TlsConfig};
use units::{Span, Time};

use super::event_log::EventLog;
use super::{BundleHost, ClaEndpoint, RecoveredStore, event_log, recovery};
use crate::ProgramError;
use crate::perf::{CertificateFiles, CongestionPlan};

/// The interval between writes of pending events.
const POLL_INTERVAL: Span = Span::from_millis(100);

/// The maximum wait for neighbours at the shutdown: an unreachable neighbour does not delay it longer.
const SHUTDOWN_GRACE: Span = Span::from_secs(2);

/// The interval of checks for time zero.
const ZERO_POLL_INTERVAL: Duration = Duration::from_micros(500);

/// The maximum of accepted connections per interface, and of handshakes before peers have to validate their address.
const MAX_CONNECTIONS: usize = 64;
const MAX_HANDSHAKES: usize = 16;

/// The limits of the bytes in incomplete incoming bundles, independent of the store size.
const MIN_INCOMING_BYTES: u64 = 1 << 26;
const MAX_INCOMING_BYTES: u64 = 1 << 30;

/// A bundle node on this machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleNodePlan {
    /// The name of this node among the nodes.
    pub name: String,
    /// All nodes, the contact plan and the senders. Times start at time zero of this node.
    pub dtn: DtnSpec,
    /// The neighbours of this node.
    #[serde(rename = "doors")]
    pub neighbours: Vec<NeighbourPlan>,
    /// A file with the value of CLOCK_MONOTONIC at time zero, in ns. The node waits for it once it is reachable.
    /// `None`: time zero is the start.
    #[serde(default)]
    pub zero: Option<PathBuf>,
    /// The duration of the run in ns, `None` to run until stopped.
    #[serde(default)]
    pub duration_ns: Option<u64>,
    /// The folder of the store, `None` for a store in memory.
    #[serde(default)]
    pub store: Option<PathBuf>,
    /// The file that the client of this node sends, `None` for zeros.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// A folder for files from clients, `None` to write no files.
    #[serde(default)]
    pub files: Option<PathBuf>,
    /// Keys to sign and verify bundles, by name, in hexadecimal digits.
    #[serde(default)]
    pub keys: Secrets,
}

impl BundleNodePlan {
    /// Returns the maximum of bytes in incomplete incoming bundles, for all connections together: the store size, as
    /// far as it is memory.
    fn incoming_bytes(&self) -> u64 {
        let node = self.dtn.nodes.iter().find(|node| node.name == self.name);
        let store = node.and_then(|node| node.store_bytes);
        store.unwrap_or(u64::MAX).clamp(MIN_INCOMING_BYTES, MAX_INCOMING_BYTES)
    }
}

/// A neighbour and its connection.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeighbourPlan {
    /// The name of the neighbour.
    pub neighbour: String,
    /// The convergence-layer adapter.
    #[serde(rename = "layer")]
    pub cla: ClaSpec,
    /// The address for connections from the neighbour; with QUIC also the source of connections to it.
    pub listen: SocketAddr,
    /// The address of the neighbour, `None` if only the neighbour opens connections. Over UDP it is required.
    pub peer: Option<SocketAddr>,
    /// Whether this node sends bundles to the neighbour.
    #[serde(rename = "sends")]
    pub can_send: bool,
    /// Whether a connection is opened at the start of a contact, or when a bundle is queued.
    #[serde(rename = "with_contact")]
    pub opens_with_contact: bool,
    /// Whether the connection is closed at the end of a contact.
    #[serde(rename = "closes")]
    pub closes_after_contact: bool,
    /// The action on an open connection when a contact starts.
    #[serde(default)]
    #[serde(rename = "on_return")]
    pub on_contact_start: ContactStartSpec,
    /// Options of QUIC connections.
    pub quic: QuicSpec,
    /// The controller; over TCP the kernel's controller of that name.
    pub congestion: CongestionPlan,
    /// The idle timeout in ns, `None` for no timeout.
    pub idle_timeout_ns: Option<u64>,
    /// Whether timers and windows are raised to the delays and gaps of the contact plan.
    #[serde(default = "by_plan")]
    #[serde(rename = "by_plan")]
    pub adapts_to_plan: bool,
    /// Credentials for TLS. QUIC always uses TLS; over TCP the CLA decides.
    #[serde(default)]
    pub tls: NeighbourTls,
}

/// TLS with a neighbour.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NeighbourTls {
    /// The certificate of this node. `None`: a self-signed one for this run, shown to peers that open a connection.
    pub certificate: Option<CertificateFiles>,
    /// SHA-256 of the certificate that the neighbour has to present as a server, `None` for any.
    pub fingerprint: Option<String>,
    /// Authorities in PEM. The neighbour has to present a certificate of one of them with its node id.
    pub authority: Option<PathBuf>,
    /// SHA-256 of the neighbour's public key.
    pub pin: Option<String>,
}

impl NeighbourTls {
    /// Returns whether the neighbour has to prove its identity.
    fn requires_proof(&self) -> bool {
        self.authority.is_some() || self.pin.is_some()
    }

    /// Returns the expected identity of the neighbour `node`, `None` to accept its claim.
    fn build_expected_peer(&self, node: Option<&str>) -> Result<Option<Arc<ExpectedPeer>>, String> {
        let known = node.ok_or("tls: the neighbour has no node id, expected one of nodes");
        let expected = match (&self.authority, &self.pin) {
            (None, None) => return Ok(None),
            _ if self.fingerprint.is_some() => {
                return Err("tls: found fingerprint with authority or pin, expected one".to_owned());
            }
            // A known key needs no authority.
            (_, Some(pin)) => ExpectedPeer::by_pin(known?, pin)?,
            (Some(file), None) => ExpectedPeer::by_authority(known?, file)?,
        };
        Ok(Some(Arc::new(expected)))
    }

    /// Builds the TLS keys for the neighbour `node`. With `at_once` the handshake refuses another node id.
    fn build_keys(&self, node: Option<&str>, at_once: bool) -> Result<TlsKeys, String> {
        let files = self.certificate.as_ref().map(|files| (&*files.certificate, &*files.key));
        let pinned = self.fingerprint.as_deref().map(Fingerprint::parse).transpose()?;
        let trust = pinned.map_or(ServerVerification::AcceptAny, ServerVerification::Pinned);
        let expected = self.build_expected_peer(node)?;
        let (client, server) = build_tls_configs(files, expected.as_ref(), trust, at_once)?;
        Ok(TlsKeys { client: Arc::new(client), server: Arc::new(server), expected_peer: expected })
    }

    /// Builds the TLS keys of a CLA over TCP with `policy`, `None` without TLS.
    fn build_tcp_keys(
        &self,
        policy: TlsPolicy,
        node: Option<&str>,
    ) -> Result<Option<TlsKeys>, String> {
        if self.requires_proof() && policy != TlsPolicy::Require {
            return Err(
                "tls: found authority or pin, expected a layer that requires TLS".to_owned()
            );
        }
        if policy == TlsPolicy::No {
            return Ok(None);
        }
        // Another node id is refused by SESS_TERM (RFC 9174 section 4.4.4).
        let mut keys = self.build_keys(node, false)?;
        // No tickets: they would follow the handshake, but these connections never resume a session.
        Arc::make_mut(&mut keys.server).send_tls13_tickets = 0;
        Ok(Some(keys))
    }
}

fn by_plan() -> bool {
    true
}

impl NeighbourPlan {
    /// Returns a copy with timers and windows adapted to the contacts of `plan` between the two nodes.
    fn with_link_properties(&self, plan: &BundleNodePlan) -> NeighbourPlan {
        let outlook = LinkProperties::between(&plan.dtn.plan, &plan.name, &self.neighbour);
        let spec = QuicSpec { idle_timeout_ns: self.idle_timeout_ns, ..self.quic.clone() };
        let Some(outlook) = outlook.filter(|_| self.adapts_to_plan) else {
            return NeighbourPlan { quic: spec, ..self.clone() };
        };
        let quic = outlook.adjust_quic(&spec);
        // The kernel takes no TCP timers from a program, and its buffers grow up to tcp_rmem and tcp_wmem. The idle
        // timeout is implemented here.
        NeighbourPlan {
            cla: outlook.adjust_cla(&self.cla),
            idle_timeout_ns: quic.idle_timeout_ns,
            quic,
            ..self.clone()
        }
    }

    /// Builds the interface of the host; `node` is the neighbour's id.
    fn build_socket_config(&self, node: Option<&str>) -> Result<HostSocketConfig, ProgramError> {
        let input = |text: String| Err(ProgramError::Input(text));
        if let (ClaSpec::Mtcp(_) | ClaSpec::Ltp(_), true) = (&self.cla, self.tls.requires_proof()) {
            return input("tls: found authority or pin with a layer in clear".to_owned());
        }
        let needs = match self.cla.transport() {
            ClaTransport::Quic(needs) => Some(needs),
            ClaTransport::Tcp => None,
            ClaTransport::Udp => {
                return match self.peer {
                    Some(peer) => {
                        Ok(HostSocketConfig::Udp(UdpHostConfig { listen: self.listen, peer }))
                    }
                    None => input("peer: missing, expected one: LTP has no connections".to_owned()),
                };
            }
        };
        let Some(needs) = needs else {
            let name = runtime::tcp::kernel::kernel_controller_name(&self.congestion.name)
                .map_err(ProgramError::Input)?;
            let idle = self.idle_timeout_ns.map(Span);
            let options = TcpSocketOptions { congestion: name.to_owned(), mss: None, buffer: None };
            let timeouts = ConnectionTimeouts { handshake: Span::from_secs(60), idle };
            let keys = self.tls.build_tcp_keys(self.cla.tls_policy(), node);
            let listener = options.listen(self.listen).map_err(io::Error::from);
            let listener = listener.map_err(|error| ProgramError::Input(error.to_string()))?;
            return Ok(HostSocketConfig::Tcp(TcpHostConfig {
                protocol: TcpProtocol::Plain(keys.map_err(ProgramError::Input)?),
                ..TcpHostConfig::new(Some(listener), options, timeouts, MAX_CONNECTIONS)
            }));
        };
        let alpn = self.cla.alpn().unwrap_or_default();
        let TlsKeys { mut client, mut server, .. } =
            self.tls.build_keys(node, true).map_err(ProgramError::Input)?;
        Arc::make_mut(&mut client).alpn_protocols = vec![alpn.into()];
        Arc::make_mut(&mut server).alpn_protocols = vec![alpn.into()];
        let spec = self.quic.clone();
        let tls = TlsConfig::ClientAndServer(client, server);
        let builder = self.congestion.controller_builder(&spec)?;
        let socket = BatchedUdpSocket::bind(self.listen, None);
        let socket = socket.map_err(|error| ProgramError::Input(error.to_string()))?;
        Ok(HostSocketConfig::Quic(Box::new(QuicHostConfig {
            requirements: needs,
            max_connections: MAX_CONNECTIONS,
            max_handshakes: MAX_HANDSHAKES,
            ..QuicHostConfig::new(socket, tls, spec, builder)
        })))
    }
}

/// Builds the node of a plan, ready to run.
///
/// # Errors
/// The defect of the plan, or an error of the kernel.
pub fn build_node(plan: &BundleNodePlan) -> Result<Host<BundleHost>, ProgramError> {
    Ok(build_with_store(plan)?.0)
}

/// Builds the node, and returns the content of its store.
fn build_with_store(
    plan: &BundleNodePlan,
) -> Result<(Host<BundleHost>, Option<RecoveredStore>), ProgramError> {
    let doors: Vec<NeighbourPlan> =
        plan.neighbours.iter().map(|door| door.with_link_properties(plan)).collect();
    let door = |(end, door): (usize, &NeighbourPlan)| NeighbourConfig {
        neighbour: door.neighbour.clone(),
        interface: end,
        can_send: door.can_send,
        can_open: door.peer.is_some(),
        opens_with_contact: door.opens_with_contact,
        closes_after_contact: door.closes_after_contact,
        on_contact_start: door.on_contact_start,
        needs_link_state: door.cla.needs_link_state(),
    };
    let of_agent: Vec<NeighbourConfig> = doors.iter().enumerate().map(door).collect();
    let agent = BundleProtocolAgent::with_keys(&plan.dtn, &plan.name, &of_agent, &plan.keys);
    let mut agent = agent.map_err(ProgramError::Input)?;
    let folder = plan.store.as_ref();
    let opened = folder.map(|folder| recovery::recover(folder, &mut agent, plan.dtn.epoch_ms));
    let opened = opened.transpose()?;
    if let Some(path) = &plan.file {
        send_file(&mut agent, path, plan.dtn.epoch_ms).map_err(ProgramError::Input)?;
    }
    let eid = |name: &String| {
        let known = plan.dtn.nodes.iter().find(|node| node.name == *name);
        known.map(|node| node.eid.clone())
    };
    let room = SharedByteQuota::new(plan.incoming_bytes());
    // Microseconds since 2000: no session number repeats after a restart.
    let first = InitialNumbers {
        session_epoch_us: plan.dtn.epoch_ms.saturating_mul(1000),
        serial_secret: random_secret()?,
    };
    let gate = |door: &NeighbourPlan| ClaEndpoint {
        cla: door.cla.clone(),
        peer: door.peer.map(|peer| peer.to_string()),
        parameters: ConnectionParameters {
            expected_peer: eid(&door.neighbour),
            shared_quota: Some(room.clone()),
            initial_numbers: first,
        },
    };
    let gates = doors.iter().map(gate).collect();
    let end = |door: &NeighbourPlan| door.build_socket_config(eid(&door.neighbour).as_deref());
    let ends = doors.iter().map(end).collect::<Result<_, _>>()?;
    let mut node = BundleHost::new(agent, gates);
    if let Some(folder) = &plan.files {
        let wrong = |error| ProgramError::Input(format!("{}: {error}", folder.display()));
        node.set_files_folder(folder).map_err(wrong)?;
    }
    let (mut bell, mut tells) = (None, None);
    if let Some((disk, found)) = opened {
        (bell, tells) = (Some(disk.wakeup_fd()?), Some(found));
        node = node.with_store(Box::new(disk));
    }
    let mut host = Host::new(node, ends).map_err(|error| ProgramError::Input(error.to_string()))?;
    bell.into_iter().for_each(|bell| host.add_wakeup_fd(bell));
    Ok((host, tells))
}

/// Returns an unpredictable number.
fn random_secret() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(u64::from_le_bytes(bytes))
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

/// Makes the only client of the node send a file.
fn send_file(agent: &mut BundleProtocolAgent, path: &Path, sending: u64) -> Result<(), String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let data = std::fs::read(path).map_err(|error| wrong(&error))?;
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| wrong(&"expected a name in UTF-8"))?;
    agent.send_file(0, name, sending, data.into()).map_err(|error| wrong(&error))
}

/// Runs the node of a plan until its duration is over or `stop` is set. Writes JSON lines to `out`: one with the
/// addresses when the node is ready, then one per bundle event with the columns of the table `bundles`. Other rows name
/// their table in `table`.
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
    let mut ready = json!({"ready": true, "node": plan.name, "listens": listens});
    if let Some(found) = &found {
        ready["store"] = event_log::recovered_store(found);
    }
    writeln!(out, "{ready}")?;
    out.flush()?;
    if let Some(file) = &plan.zero {
        match wait_for_time_zero(file, stop)? {
            Some(ns) => host.set_clock(Clock::with_zero_at(ns)),
            None => return Ok(()),
        }
    }
    let end = plan.duration_ns.map_or(Time::MAX, Time);
    let (mut told, mut looks) = (EventLog::new(plan), WakeupLag::new(host.now(), POLL_INTERVAL));
    let mut lost = false;
    while !stop.load(Ordering::Relaxed) && !lost && host.now() < end {
        let until = looks.next_at().min(end);
        while host.now() < until && !stop.load(Ordering::Relaxed) {
            host.poll_once(until)?;
        }
        told.add_lags(looks.take_lags(host.now(), end));
        told.write_events(host.now(), &mut host.manager(), &mut out)?;
        lost = host.manager().has_store_failed();
    }
    told.add_lags(looks.take_lags(host.now(), end));
    if stop.load(Ordering::Relaxed) || lost {
        shut_down(&mut host)?;
    }
    host.manager().flush();
    let now = host.now().min(end);
    told.write_final(now, &mut host.manager(), &mut out)?;
    lost |= host.manager().has_store_failed();
    host.close();
    if lost {
        let why =
            "the store has failed: what it had stays, what was not durable was not acknowledged";
        return Err(ProgramError::Run(why.to_owned()));
    }
    Ok(())
}

/// Waits for `file` and returns CLOCK_MONOTONIC at time zero, `None` after a stop.
fn wait_for_time_zero(file: &Path, stop: &AtomicBool) -> Result<Option<u64>, ProgramError> {
    while !stop.load(Ordering::Relaxed) {
        match std::fs::read_to_string(file) {
            // The writer may not have finished.
            Ok(text) if text.ends_with('\n') => {
                let wrong = |_| ProgramError::Input(format!("{}: no time", file.display()));
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
    use std::sync::Mutex;

    use super::*;

    /// A delay of 10 s, 20 Mbit/s, and a gap of 100 s: all Internet timers would be too short.
    fn plan(by_plan: bool) -> BundleNodePlan {
        let contact = |start: u64, stop: u64, from: &str, to: &str| {
            json!({"from": from, "to": to, "start_ns": start * 1_000_000_000, "stop_ns": stop * 1_000_000_000,
                   "rate_bit_s": 20_000_000, "at": format!("{start} {from}")})
        };
        let range = json!({"from": "1", "to": "2", "start_ns": 0, "stop_ns": 400_000_000_000_u64,
                           "owlt_ns": 10_000_000_000_u64, "implies_reverse": true, "at": "range"});
        let both = [(0, 100), (200, 300)].into_iter().flat_map(|(start, stop)| {
            [contact(start, stop, "1", "2"), contact(start, stop, "2", "1")]
        });
        let plan = json!({
            "name": "1",
            "dtn": {
                "epoch_ms": 0, "links": [],
                "nodes": [{"name": "1", "eid": "ipn:1.0"}, {"name": "2", "eid": "ipn:2.0"}],
                "plan": {"contacts": both.collect::<Vec<_>>(), "ranges": [range]},
            },
            "doors": [{
                "neighbour": "2", "layer": {"kind": "tcpcl"}, "listen": "127.0.0.1:0", "peer": null,
                "sends": true, "with_contact": false, "closes": false, "quic": QuicSpec { receive_window_bytes: 1 << 20, ..QuicSpec::default() },
                "congestion": {"name": "cubic"}, "idle_timeout_ns": 30_000_000_000_u64, "by_plan": by_plan,
            }],
        });
        serde_json::from_value(plan).unwrap()
    }

    #[test]
    fn timers_and_windows_follow_the_contacts() {
        let second = 1_000_000_000_u64;
        let asked = plan(true);
        let door = asked.neighbours[0].with_link_properties(&asked);
        assert_eq!(door.quic.initial_rtt_ns, 20 * second);
        assert_eq!(door.idle_timeout_ns, Some((100 + 9 * 20) * second));
        assert_eq!(door.quic.idle_timeout_ns, door.idle_timeout_ns);
        // Two round trips.
        let window = 2 * 20 * 20_000_000 / 8;
        assert_eq!(door.quic.receive_window_bytes, window);
        let ClaSpec::Tcpcl(spec) = &door.cla else { panic!("{:?}", door.cla) };
        assert_eq!(spec.response_timeout_ns, (100 + 4 * 20) * second);
        let HostSocketConfig::Tcp(end) = door.build_socket_config(None).unwrap() else {
            panic!("TCP")
        };
        assert_eq!(end.timeouts.idle, Some(Span::from_secs(280)));
    }

    #[test]
    fn timers_and_windows_are_unchanged_without_adaptation() {
        let asked = plan(false);
        let door = asked.neighbours[0].with_link_properties(&asked);
        assert_eq!(door.idle_timeout_ns, Some(30_000_000_000));
        assert_eq!(door.cla, asked.neighbours[0].cla);
        assert_eq!(door.quic.initial_rtt_ns, QuicSpec::default().initial_rtt_ns);
    }

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

        let mut asked = plan(false);
        asked.neighbours.clear();
        asked.duration_ns = Some(1_000_000_000);
        let told = Arc::new(Mutex::new(Vec::new()));
        run(&asked, &AtomicBool::new(false), Box::new(Slow(told.clone(), 0))).unwrap();
        let told = String::from_utf8(told.lock().unwrap().clone()).unwrap();
        let node: serde_json::Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
        assert!(node["late_p95_ns"].as_u64().unwrap() >= 150_000_000, "{node}");
    }
}

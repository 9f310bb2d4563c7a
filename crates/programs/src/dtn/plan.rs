//! The plan of a bundle node.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bundle::cla::{
    ClaSpec, ClaTransport, ConnectionParameters, InitialNumbers, LinkProperties, SharedByteQuota,
    TlsPolicy,
};
use bundle::{BundleProtocolAgent, ContactStartSpec, DtnSpec, NeighbourConfig, Secrets};
use ring::rand::{SecureRandom as _, SystemRandom};
use runtime::BatchedUdpSocket;
use runtime::host::{
    ConnectionTimeouts, Host, HostSocketConfig, QuicHostConfig, TcpHostConfig, TcpProtocol,
    TcpSocketOptions, TlsKeys, UdpHostConfig,
};
use runtime::peer_identity::{ExpectedPeer, build_tls_configs};
use runtime::tls::{Fingerprint, ServerVerification};
use serde::Deserialize;
use transport::quic::{QuicSpec, TlsConfig};
use units::Span;

use super::{BundleHost, ClaEndpoint, RecoveredStore, recovery};
use crate::ProgramError;
use crate::perf::{CertificateFiles, CongestionPlan};

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
    pub neighbours: Vec<NeighbourPlan>,
    /// A file with the value of CLOCK_MONOTONIC at time zero, in ns. The node waits for it once it is reachable.
    /// `None`: time zero is the start.
    #[serde(default)]
    pub time_zero_file: Option<PathBuf>,
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
    pub cla: ClaSpec,
    /// The address for connections from the neighbour; with QUIC also the source of connections to it.
    pub listen: SocketAddr,
    /// The address of the neighbour, `None` if only the neighbour opens connections. Over UDP it is required.
    pub peer: Option<SocketAddr>,
    /// Whether this node sends bundles to the neighbour.
    pub can_send: bool,
    /// Whether a connection is opened at the start of a contact, or when a bundle is queued.
    pub opens_with_contact: bool,
    /// Whether the connection is closed at the end of a contact.
    pub closes_after_contact: bool,
    /// The action on an open connection when a contact starts.
    #[serde(default)]
    pub on_contact_start: ContactStartSpec,
    /// Options of QUIC connections.
    pub quic: QuicSpec,
    /// The controller; over TCP the kernel's controller of that name.
    pub congestion: CongestionPlan,
    /// The idle timeout in ns, `None` for no timeout.
    pub idle_timeout_ns: Option<u64>,
    /// Whether timers and windows are raised to the delays and gaps of the contact plan.
    #[serde(default = "by_plan")]
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
                "tls: found authority or pin, expected a convergence layer with TLS".to_owned()
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
            return input(
                "tls: found authority or pin, expected a convergence layer with TLS".to_owned(),
            );
        }
        let needs = match self.cla.transport() {
            ClaTransport::Quic(needs) => Some(needs),
            ClaTransport::Tcp => None,
            ClaTransport::Udp => {
                return match self.peer {
                    Some(peer) => {
                        Ok(HostSocketConfig::Udp(UdpHostConfig { listen: self.listen, peer }))
                    }
                    None => input(
                        "peer: missing, expected an address: LTP has no connections".to_owned(),
                    ),
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
pub(super) fn build_with_store(
    plan: &BundleNodePlan,
) -> Result<(Host<BundleHost>, Option<RecoveredStore>), ProgramError> {
    let neighbours: Vec<NeighbourPlan> =
        plan.neighbours.iter().map(|neighbour| neighbour.with_link_properties(plan)).collect();
    let to_config = |(end, neighbour): (usize, &NeighbourPlan)| NeighbourConfig {
        neighbour: neighbour.neighbour.clone(),
        interface: end,
        can_send: neighbour.can_send,
        can_open: neighbour.peer.is_some(),
        opens_with_contact: neighbour.opens_with_contact,
        closes_after_contact: neighbour.closes_after_contact,
        on_contact_start: neighbour.on_contact_start,
        needs_link_state: neighbour.cla.needs_link_state(),
    };
    let of_agent: Vec<NeighbourConfig> = neighbours.iter().enumerate().map(to_config).collect();
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
    let quota = SharedByteQuota::new(plan.incoming_bytes());
    // Microseconds since 2000: no session number repeats after a restart.
    let first = InitialNumbers {
        session_epoch_us: plan.dtn.epoch_ms.saturating_mul(1000),
        serial_secret: random_secret()?,
    };
    let cla_endpoint = |neighbour: &NeighbourPlan| ClaEndpoint {
        cla: neighbour.cla.clone(),
        peer: neighbour.peer.map(|peer| peer.to_string()),
        parameters: ConnectionParameters {
            expected_peer: eid(&neighbour.neighbour),
            shared_quota: Some(quota.clone()),
            initial_numbers: first,
        },
    };
    let cla_endpoints = neighbours.iter().map(cla_endpoint).collect();
    let socket_config = |neighbour: &NeighbourPlan| {
        neighbour.build_socket_config(eid(&neighbour.neighbour).as_deref())
    };
    let socket_configs = neighbours.iter().map(socket_config).collect::<Result<_, _>>()?;
    let mut node = BundleHost::new(agent, cla_endpoints);
    if let Some(folder) = &plan.files {
        let wrong = |error| ProgramError::Input(format!("{}: {error}", folder.display()));
        node.set_files_folder(folder).map_err(wrong)?;
    }
    let (mut bell, mut recovered) = (None, None);
    if let Some((disk, found)) = opened {
        (bell, recovered) = (Some(disk.wakeup_fd()?), Some(found));
        node = node.with_store(Box::new(disk));
    }
    let mut host =
        Host::new(node, socket_configs).map_err(|error| ProgramError::Input(error.to_string()))?;
    bell.into_iter().for_each(|bell| host.add_wakeup_fd(bell));
    Ok((host, recovered))
}

/// Returns an unpredictable number.
fn random_secret() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| io::Error::other("the system supplies no random numbers"))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Makes the only client of the node send a file.
fn send_file(agent: &mut BundleProtocolAgent, path: &Path, sending: u64) -> Result<(), String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let data = std::fs::read(path).map_err(|error| wrong(&error))?;
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| wrong(&"expected a name in UTF-8"))?;
    agent.send_file(0, name, sending, data.into()).map_err(|error| wrong(&error))
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

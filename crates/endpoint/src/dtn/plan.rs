//! A bundle node as it is asked for, and its run: what happens to its bundles is written while it happens.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bundle::layers::{First, LayerSpec, Outlook, Over, SharedRoom, Terms, TlsPolicy};
use bundle::{Agent, Door, DtnSpec, ReturnSpec, Secrets};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::Deserialize;
use serde_json::json;
use transport::quic::{LiveTls, QuicSpec};
use units::{Span, Time};

use super::told::Told;
use super::{BundleHost, FoundStore, Gate, found, told};
use crate::host::{EndPlan, Host, Keys, Patience, QuicPlan, TcpOptions, TcpPlan, UdpPlan};
use crate::identity::{Expected, sides};
use crate::perf::{CertificateFiles, CongestionPlan, Failure};
use crate::ticks::Ticks;
use crate::tls::{Fingerprint, Trust};

/// Between two looks at what has happened.
const LOOK: Span = Span::from_millis(100);

/// How long the end of a node waits for its neighbours: who is dark or dead does not hold it up.
const GOODBYE: Span = Span::from_secs(2);

/// Between two looks at whether time zero is known.
const WAIT: Duration = Duration::from_micros(500);

/// Accepted connections of an end at once, and handshakes before peers prove their address.
const CONNECTIONS: usize = 64;
const HANDSHAKES: usize = 16;

/// Bytes of bundles on the way in to a node, whatever it may store.
const LEAST_INCOMING: u64 = 1 << 26;
const MOST_INCOMING: u64 = 1 << 30;

/// A bundle node of this machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodePlan {
    /// Which of the nodes it is.
    pub name: String,
    /// All nodes, the contact plan and who sends; times are from this node's time zero on.
    pub dtn: DtnSpec,
    /// Its neighbours.
    pub doors: Vec<DoorPlan>,
    /// A file with what CLOCK_MONOTONIC shows at time zero, ns, for which it waits once it can be reached; none: zero is
    /// its start.
    #[serde(default)]
    pub zero: Option<PathBuf>,
    /// When it ends; none: when it is told to.
    #[serde(default)]
    pub duration_ns: Option<u64>,
    /// The folder of its store; none: it stores in memory.
    #[serde(default)]
    pub store: Option<PathBuf>,
    /// What this node's client sends; none: zeros.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// A folder for the files that clients send here; none: they are not written.
    #[serde(default)]
    pub files: Option<PathBuf>,
    /// Keys that it signs and checks bundles with, in hexadecimal digits by their names.
    #[serde(default)]
    pub keys: Secrets,
}

impl NodePlan {
    /// Bytes of bundles that may be on the way in at once, on all connections together: what the node may store, as far as that is
    /// memory.
    fn incoming_bytes(&self) -> u64 {
        let node = self.dtn.nodes.iter().find(|node| node.name == self.name);
        let store = node.and_then(|node| node.store_bytes);
        store.unwrap_or(u64::MAX).clamp(LEAST_INCOMING, MOST_INCOMING)
    }
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
    /// Where the neighbour answers; none: it opens the connections. Over UDP, which has none, it has to be known.
    pub peer: Option<SocketAddr>,
    /// Whether this node sends its bundles there.
    pub sends: bool,
    /// Whether a connection is opened with a contact, or when there is a bundle.
    pub with_contact: bool,
    /// Whether it is closed when the contact is over.
    pub closes: bool,
    /// What becomes of a connection that is there as a contact begins again.
    #[serde(default)]
    pub on_return: ReturnSpec,
    /// Options of connections, if the layer is over QUIC.
    pub quic: QuicSpec,
    /// The controller; over TCP the kernel's of that name.
    pub congestion: CongestionPlan,
    /// How long a connection may be silent; none: for ever.
    pub idle_timeout_ns: Option<u64>,
    /// Whether timers and windows are no shorter than the plan's light and dark ask for.
    #[serde(default = "by_plan")]
    pub by_plan: bool,
    /// What TLS goes by; over QUIC it is always spoken, over TCP as the layer says.
    #[serde(default)]
    pub tls: DoorTls,
}

/// TLS with a neighbour.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DoorTls {
    /// What this node shows; none: a self-signed certificate for this run, to those who open a connection.
    pub certificate: Option<CertificateFiles>,
    /// SHA-256 of the certificate that the neighbour has to show where this node opens the connection; none: any.
    pub fingerprint: Option<String>,
    /// Authorities in PEM: the neighbour has to show a certificate of one of them with its node id.
    pub authority: Option<PathBuf>,
    /// SHA-256 of the public key that the neighbour has to have.
    pub pin: Option<String>,
}

impl DoorTls {
    /// Whether the neighbour has to prove who it is.
    fn proves(&self) -> bool {
        self.authority.is_some() || self.pin.is_some()
    }

    /// Who the neighbour, `node`, has to be; none: who it says that it is.
    fn expected(&self, node: Option<&str>) -> Result<Option<Arc<Expected>>, String> {
        let known = node.ok_or("tls: the neighbour has no node id, expected one of nodes");
        let expected = match (&self.authority, &self.pin) {
            (None, None) => return Ok(None),
            _ if self.fingerprint.is_some() => {
                return Err("tls: found fingerprint with authority or pin, expected one".to_owned());
            }
            // A key that is known needs nobody's word.
            (_, Some(pin)) => Expected::by_pin(known?, pin)?,
            (Some(file), None) => Expected::by_authority(known?, file)?,
        };
        Ok(Some(Arc::new(expected)))
    }

    /// Keys of connections with the neighbour `node`. `at_once`: one that names another node is refused in the handshake.
    fn keys(&self, node: Option<&str>, at_once: bool) -> Result<Keys, String> {
        let files = self.certificate.as_ref().map(|files| (&*files.certificate, &*files.key));
        let pinned = self.fingerprint.as_deref().map(Fingerprint::parse).transpose()?;
        let trust = pinned.map_or(Trust::Anyone, Trust::Pinned);
        let expected = self.expected(node)?;
        let (client, server) = sides(files, expected.as_ref(), trust, at_once)?;
        Ok(Keys { client: Arc::new(client), server: Arc::new(server), expected })
    }

    /// The same of a layer over TCP that goes by `policy`; none where no TLS is spoken.
    fn keys_over_tcp(&self, policy: TlsPolicy, node: Option<&str>) -> Result<Option<Keys>, String> {
        if self.proves() && policy != TlsPolicy::Require {
            return Err(
                "tls: found authority or pin, expected a layer that requires TLS".to_owned()
            );
        }
        if policy == TlsPolicy::No {
            return Ok(None);
        }
        // Another name is refused in SESS_TERM (RFC 9174 section 4.4.4).
        let mut keys = self.keys(node, false)?;
        // No tickets: they would come behind the handshake, for connections that resume nothing.
        Arc::make_mut(&mut keys.server).send_tls13_tickets = 0;
        Ok(Some(keys))
    }
}

fn by_plan() -> bool {
    true
}

impl DoorPlan {
    /// The same with timers and windows as the contacts of `plan` between its two nodes ask for.
    fn with_outlook(&self, plan: &NodePlan) -> DoorPlan {
        let outlook = Outlook::between(&plan.dtn.plan, &plan.name, &self.neighbour);
        let spec = QuicSpec { idle_timeout_ns: self.idle_timeout_ns, ..self.quic.clone() };
        let Some(outlook) = outlook.filter(|_| self.by_plan) else {
            return DoorPlan { quic: spec, ..self.clone() };
        };
        let quic = outlook.quic(&spec);
        // Of TCP's timers the kernel takes none from a program, and its buffers grow by themselves as far as they may
        // (tcp_rmem, tcp_wmem); idle is ours.
        DoorPlan {
            layer: outlook.layer(&self.layer),
            idle_timeout_ns: quic.idle_timeout_ns,
            quic,
            ..self.clone()
        }
    }

    /// Its end of the host; `node` is the neighbour's id.
    fn end(&self, node: Option<&str>) -> Result<EndPlan, Failure> {
        let input = |text: String| Err(Failure::Input(text));
        if let (LayerSpec::Mtcp(_) | LayerSpec::Ltp(_), true) = (&self.layer, self.tls.proves()) {
            return input("tls: found authority or pin with a layer in clear".to_owned());
        }
        let needs = match self.layer.over() {
            Over::Quic(needs) => Some(needs),
            Over::Tcp => None,
            Over::Udp => {
                return match self.peer {
                    Some(peer) => Ok(EndPlan::Udp(UdpPlan { listen: self.listen, peer })),
                    None => input("peer: missing, expected one: LTP has no connections".to_owned()),
                };
            }
        };
        let Some(needs) = needs else {
            let name = crate::kernel::kernel_name(&self.congestion.name).map_err(Failure::Input)?;
            let idle = self.idle_timeout_ns.map(Span);
            return Ok(EndPlan::Tcp(TcpPlan {
                listen: Some(self.listen),
                options: TcpOptions { congestion: name.to_owned(), mss: None, buffer: None },
                keys: self.tls.keys_over_tcp(self.layer.tls(), node).map_err(Failure::Input)?,
                patience: Patience { handshake: Span::from_secs(60), idle },
                connections: CONNECTIONS,
            }));
        };
        let alpn = self.layer.alpn().unwrap_or_default();
        let Keys { mut client, mut server, .. } =
            self.tls.keys(node, true).map_err(Failure::Input)?;
        Arc::make_mut(&mut client).alpn_protocols = vec![alpn.into()];
        Arc::make_mut(&mut server).alpn_protocols = vec![alpn.into()];
        let spec = self.quic.clone();
        Ok(EndPlan::Quic(Box::new(QuicPlan {
            listen: self.listen,
            tls: LiveTls::Both(client, server),
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
    Ok(begin(plan)?.0)
}

/// The same, and what its store had.
fn begin(plan: &NodePlan) -> Result<(Host<BundleHost>, Option<FoundStore>), Failure> {
    let doors: Vec<DoorPlan> = plan.doors.iter().map(|door| door.with_outlook(plan)).collect();
    let door = |(end, door): (usize, &DoorPlan)| Door {
        neighbour: door.neighbour.clone(),
        end,
        sends: door.sends,
        opens: door.peer.is_some(),
        with_contact: door.with_contact,
        closes: door.closes,
        on_return: door.on_return,
        by_plan: door.layer.goes_by_plan(),
    };
    let of_agent: Vec<Door> = doors.iter().enumerate().map(door).collect();
    let agent = Agent::with_keys(&plan.dtn, &plan.name, &of_agent, &plan.keys);
    let mut agent = agent.map_err(Failure::Input)?;
    let folder = plan.store.as_ref();
    let opened = folder.map(|folder| found::open(folder, &mut agent, plan.dtn.epoch_ms));
    let opened = opened.transpose()?;
    if let Some(path) = &plan.file {
        send_file(&mut agent, path, plan.dtn.epoch_ms).map_err(Failure::Input)?;
    }
    let eid = |name: &String| {
        let known = plan.dtn.nodes.iter().find(|node| node.name == *name);
        known.map(|node| node.eid.clone())
    };
    let room = SharedRoom::new(plan.incoming_bytes());
    // Microseconds since 2000: no session number comes again after a start.
    let first = First { session: plan.dtn.epoch_ms.saturating_mul(1000), secret: secret()? };
    let gate = |door: &DoorPlan| Gate {
        layer: door.layer.clone(),
        peer: door.peer.map(|peer| peer.to_string()),
        terms: Terms { peer: eid(&door.neighbour), room: Some(room.clone()), first },
    };
    let gates = doors.iter().map(gate).collect();
    let end = |door: &DoorPlan| door.end(eid(&door.neighbour).as_deref());
    let ends = doors.iter().map(end).collect::<Result<_, _>>()?;
    let mut node = BundleHost::new(agent, gates);
    if let Some(folder) = &plan.files {
        let wrong = |error| Failure::Input(format!("{}: {error}", folder.display()));
        node.keep_files(folder).map_err(wrong)?;
    }
    let (mut bell, mut tells) = (None, None);
    if let Some((disk, found)) = opened {
        (bell, tells) = (Some(disk.bell()?), Some(found));
        node = node.with_store(Box::new(disk));
    }
    let mut host = Host::new(node, ends).map_err(|error| Failure::Input(error.to_string()))?;
    bell.into_iter().for_each(|bell| host.watch(bell));
    Ok((host, tells))
}

/// A number that nobody guesses.
fn secret() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Ends the node's sessions, as far as its neighbours answer in time.
fn goodbye(host: &mut Host<BundleHost>) -> io::Result<()> {
    host.agent().end();
    let until = host.now() + GOODBYE;
    while host.agent().sessions() > 0 && host.now() < until {
        host.turn(until)?;
    }
    Ok(())
}

/// Has the node's only client send a file.
fn send_file(agent: &mut Agent, path: &Path, sending: u64) -> Result<(), String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let data = std::fs::read(path).map_err(|error| wrong(&error))?;
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| wrong(&"expected a name in UTF-8"))?;
    agent.send_file(0, name, sending, data.into()).map_err(|error| wrong(&error))
}

/// Runs the node of a plan until its time is over or `stop` is set. A line of JSON is written to `out` when it is ready, with
/// its addresses, and one for each thing that happens to a bundle, with the columns of the table `bundles`; others say in
/// `table` which one they are of.
///
/// # Errors
/// What is wrong with the plan, in words; the kernel's; a file that takes nothing.
pub fn run(plan: &NodePlan, stop: &AtomicBool, mut out: Box<dyn Write>) -> Result<(), Failure> {
    let (mut host, found) = begin(plan)?;
    let listens = (0..plan.doors.len()).map(|end| Ok(host.local(end)?.to_string()));
    let listens: Vec<String> = listens.collect::<io::Result<_>>()?;
    let mut ready = json!({"ready": true, "node": plan.name, "listens": listens});
    if let Some(found) = &found {
        ready["store"] = told::found(found);
    }
    writeln!(out, "{ready}")?;
    out.flush()?;
    if let Some(file) = &plan.zero {
        match zero(file, stop)? {
            Some(ns) => host.set_zero(ns),
            None => return Ok(()),
        }
    }
    let end = plan.duration_ns.map_or(Time::MAX, Time);
    let (mut told, mut looks) = (Told::new(plan), Ticks::new(host.now(), LOOK));
    let mut lost = false;
    while !stop.load(Ordering::Relaxed) && !lost && host.now() < end {
        let until = looks.next().min(end);
        while host.now() < until && !stop.load(Ordering::Relaxed) {
            host.turn(until)?;
        }
        told.late(looks.take(host.now(), end));
        told.tell(host.now(), &mut host.agent(), &mut out)?;
        lost = host.agent().has_lost_its_store();
    }
    told.late(looks.take(host.now(), end));
    if stop.load(Ordering::Relaxed) || lost {
        goodbye(&mut host)?;
    }
    host.agent().flush();
    let now = host.now().min(end);
    told.end(now, &mut host.agent(), &mut out)?;
    lost |= host.agent().has_lost_its_store();
    host.close();
    if lost {
        let why =
            "the store has failed: what it had stays, what was not durable was not acknowledged";
        return Err(Failure::Run(why.to_owned()));
    }
    Ok(())
}

/// What CLOCK_MONOTONIC shows at time zero, as soon as it stands in `file`; none: it is to stop.
fn zero(file: &Path, stop: &AtomicBool) -> Result<Option<u64>, Failure> {
    while !stop.load(Ordering::Relaxed) {
        match std::fs::read_to_string(file) {
            // Whoever writes it may not be done.
            Ok(text) if text.ends_with('\n') => {
                let wrong = |_| Failure::Input(format!("{}: no time", file.display()));
                return text.trim_end().parse().map(Some).map_err(wrong);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        std::thread::sleep(WAIT);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Light of 10 s each way, 20 Mbit/s, and dark for 100 s: the timers of the Internet would all be too short.
    fn plan(by_plan: bool) -> NodePlan {
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
        let door = asked.doors[0].with_outlook(&asked);
        assert_eq!(door.quic.initial_rtt_ns, 20 * second);
        assert_eq!(door.idle_timeout_ns, Some((100 + 9 * 20) * second));
        assert_eq!(door.quic.idle_timeout_ns, door.idle_timeout_ns);
        // two round trips
        let window = 2 * 20 * 20_000_000 / 8;
        assert_eq!(door.quic.receive_window_bytes, window);
        let LayerSpec::Tcpcl(spec) = &door.layer else { panic!("{:?}", door.layer) };
        assert_eq!(spec.patience_ns, (100 + 4 * 20) * second);
        let EndPlan::Tcp(end) = door.end(None).unwrap() else { panic!("TCP") };
        assert_eq!(end.patience.idle, Some(Span::from_secs(280)));
    }

    #[test]
    fn they_stay_as_they_are_where_that_is_asked_for() {
        let asked = plan(false);
        let door = asked.doors[0].with_outlook(&asked);
        assert_eq!(door.idle_timeout_ns, Some(30_000_000_000));
        assert_eq!(door.layer, asked.doors[0].layer);
        assert_eq!(door.quic.initial_rtt_ns, QuicSpec::default().initial_rtt_ns);
    }

    /// A disk that takes 350 ms once: three looks are slept through, and 150 ms are among the 95 % of ten.
    #[test]
    fn looks_that_were_slept_through_are_late() {
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
        asked.doors.clear();
        asked.duration_ns = Some(1_000_000_000);
        let told = Arc::new(Mutex::new(Vec::new()));
        run(&asked, &AtomicBool::new(false), Box::new(Slow(told.clone(), 0))).unwrap();
        let told = String::from_utf8(told.lock().unwrap().clone()).unwrap();
        let node: serde_json::Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
        assert!(node["late_p95_ns"].as_u64().unwrap() >= 150_000_000, "{node}");
    }
}

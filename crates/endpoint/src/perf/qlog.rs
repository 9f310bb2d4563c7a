//! qlog of real QUIC connections: a file each, as JSON text sequences of qlog 0.3
//! (draft-ietf-quic-qlog-main-schema-04, draft-ietf-quic-qlog-quic-events-03).
//!
//! Packets are encrypted: they are shown with the type of a datagram's first packet and the datagram's
//! length. The sender's state is the controller's own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};
use transport::quic::QuicSpec;
use units::{Ecn, Time};

use super::{Failure, Sender};
use crate::say::say;
use crate::socket::Observer;
use crate::{Clock, Kept};

/// Peers whose handshake is not done and whose datagrams are remembered; beyond them the first are forgotten.
const WAITING: usize = 64;
/// Of each so many bytes of events: several handshakes.
const REMEMBERED: usize = 64 << 10;
/// Files of one server, at most.
const FILES: u32 = 1000;
/// Record separator (RFC 7464 section 2.2).
const SEPARATOR: u8 = 0x1e;

/// Where the events of a connection go.
enum Out {
    /// Its handshake is not done.
    Waiting(Vec<u8>),
    File(Kept),
}

struct Trace {
    out: Out,
    began: Time,
    original_id: String,
    metrics: Map<String, Value>,
    lost: (u64, u64),
    /// Where its file is.
    path: PathBuf,
}

struct Traces {
    folder: PathBuf,
    role: &'static str,
    spec: QuicSpec,
    clock: Clock,
    by_peer: BTreeMap<SocketAddr, Trace>,
    files: u32,
    /// A file could not be written; no more are begun.
    cut: bool,
}

/// The traces of a process; its copies are one.
#[derive(Clone)]
pub struct Qlog(Arc<Mutex<Traces>>);

impl Qlog {
    /// Traces in directory `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(
        folder: PathBuf,
        role: &'static str,
        spec: &QuicSpec,
        clock: Clock,
    ) -> Result<Qlog, Failure> {
        std::fs::create_dir_all(&folder)
            .map_err(|error| Failure::Input(format!("qlog: {}: {error}", folder.display())))?;
        let by_peer = BTreeMap::new();
        let spec = spec.clone();
        let traces = Traces { folder, role, spec, clock, by_peer, files: 0, cut: false };
        Ok(Qlog(Arc::new(Mutex::new(traces))))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Traces) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Connection `number` with `peer` has done its handshake: it gets its file, named after the controller that this side
    /// has `own`.
    pub fn connected(&self, number: u32, peer: SocketAddr, local: SocketAddr, own: &str) {
        self.with(|traces| traces.connected(number, peer, local, own));
    }

    /// The controller that this side of connection `number` has `own` now: a server's client may ask for another one
    /// once the file is there.
    pub fn controller(&self, number: u32, peer: SocketAddr, own: &str) {
        self.with(|traces| {
            let path = traces.path(number, own);
            let Some(trace) = traces.by_peer.get_mut(&peer) else { return };
            let Out::File(file) = &mut trace.out else { return };
            if trace.path == path {
                return;
            }
            // Not again, whatever came of it.
            let before = std::mem::replace(&mut trace.path, path);
            if let Err(why) = file.rename("qlog", &before, &trace.path) {
                say(format_args!("error: {why}; the file keeps its name"));
            }
        });
    }

    /// A connection's sender as it stands; what changed is written.
    pub fn state(&self, now: Time, peer: SocketAddr, sender: &Sender) {
        self.with(|traces| traces.state(now, peer, sender));
    }

    /// A connection has ended.
    pub fn ended(&self, now: Time, peer: SocketAddr, why: &str) {
        self.with(|traces| {
            let Some(mut trace) = traces.by_peer.remove(&peer) else { return };
            trace.put(now, "connectivity:connection_closed", &json!({"reason": why}));
            if let Out::File(mut file) = trace.out {
                file.flush();
                traces.cut |= file.is_cut();
            }
        });
    }

    /// Whether events are missing, because the disk was full.
    pub fn is_cut(&self) -> bool {
        self.with(|traces| traces.cut || traces.by_peer.values().any(Trace::is_cut))
    }
}

impl Observer for Qlog {
    fn datagram(&mut self, peer: SocketAddr, sent: bool, ecn: Ecn, data: &[u8]) {
        self.with(|traces| traces.datagram(peer, sent, ecn, data));
    }
}

impl Traces {
    fn datagram(&mut self, peer: SocketAddr, sent: bool, ecn: Ecn, data: &[u8]) {
        let now = self.clock.now();
        if !self.by_peer.contains_key(&peer) {
            let waiting = |trace: &Trace| matches!(trace.out, Out::Waiting(_));
            if self.by_peer.values().filter(|trace| waiting(trace)).count() >= WAITING {
                let first = self.by_peer.iter().find(|(_, trace)| waiting(trace));
                if let Some(first) = first.map(|(peer, _)| *peer) {
                    self.by_peer.remove(&first);
                }
            }
            let original_id = original_id(data);
            let (out, metrics) = (Out::Waiting(Vec::new()), Map::new());
            let path = PathBuf::new();
            let trace = Trace { out, began: now, original_id, metrics, lost: (0, 0), path };
            self.by_peer.insert(peer, trace);
        }
        let Some(trace) = self.by_peer.get_mut(&peer) else { return };
        let name = if sent { "transport:packet_sent" } else { "transport:packet_received" };
        let mut event = json!({
            "header": {"packet_type": packet_type(data)}, "raw": {"length": data.len()},
        });
        let mark = match ecn {
            Ecn::NotEct => None,
            Ecn::Ect0 => Some("ECT(0)"),
            Ecn::Ect1 => Some("ECT(1)"),
            Ecn::Ce => Some("CE"),
        };
        if let Some(mark) = mark {
            event["ecn"] = mark.into();
        }
        trace.put(now, name, &event);
    }

    /// The file of connection `number`: side, number and that side's controller.
    fn path(&self, number: u32, own: &str) -> PathBuf {
        self.folder.join(format!("{}-{number}.{own}.sqlog", self.role))
    }

    fn connected(&mut self, number: u32, peer: SocketAddr, local: SocketAddr, own: &str) {
        let path = self.path(number, own);
        self.cut |= self.by_peer.values().any(Trace::is_cut);
        let Some(trace) = self.by_peer.get_mut(&peer) else { return };
        let Out::Waiting(before) = &mut trace.out else { return };
        if self.files >= FILES || self.cut {
            return;
        }
        self.files += 1;
        let before = std::mem::take(before);
        let (role, title) = (self.role, format!("{}-{number}", self.role));
        match Kept::create("qlog", &path) {
            Ok(file) => (trace.out, trace.path) = (Out::File(file), path),
            Err(why) => {
                say(format_args!("error: {why}; the measurement goes on without"));
                self.cut = true;
                return;
            }
        }
        let reference = self.clock.monotonic_ns(Time::ZERO) as f64 / 1e6;
        let header = json!({
            "qlog_version": "0.3", "qlog_format": "JSON-SEQ", "title": title,
            "description": "Measured by bentpipe perf. reference_time is the machine's CLOCK_MONOTONIC. Packets \
                            are encrypted: a datagram is shown with the type of its first packet.",
            "trace": {
                "vantage_point": {"name": title, "type": role},
                "common_fields": {
                    "ODCID": trace.original_id, "protocol_type": ["QUIC"],
                    "time_format": "relative", "reference_time": reference,
                },
            },
        });
        trace.record(&header);
        let (from, to) = (local.ip().to_canonical(), peer.ip().to_canonical());
        let version = if to.is_ipv4() { "v4" } else { "v6" };
        let started = json!({
            "ip_version": version, "src_ip": from.to_string(), "dst_ip": to.to_string(),
            "protocol": "QUIC", "src_port": local.port(), "dst_port": peer.port(),
        });
        trace.put(trace.began, "connectivity:connection_started", &started);
        let spec = &self.spec;
        let parameters = json!({
            "reordering_threshold": spec.packet_threshold, "max_datagram_size": spec.mtu_bytes,
            "initial_congestion_window": spec.initial_window_bytes,
            "initial_rtt": spec.initial_rtt_ns as f64 / 1e6,
        });
        trace.put(trace.began, "recovery:parameters_set", &parameters);
        if let Out::File(file) = &mut trace.out {
            file.put(&before);
            file.flush();
        }
    }

    fn state(&mut self, now: Time, peer: SocketAddr, sender: &Sender) {
        let Some(trace) = self.by_peer.get_mut(&peer) else { return };
        let lost = (sender.lost_packets, sender.lost_bytes.unwrap_or(0));
        if lost.0 > trace.lost.0 {
            let (packets, bytes) = (lost.0 - trace.lost.0, lost.1 - trace.lost.1);
            let words =
                format!("declared lost, numbers not known: {packets} packets, {bytes} bytes");
            trace.put(now, "generic:info", &json!({"message": words}));
            trace.lost = lost;
        }
        let mut changed = Map::new();
        for (name, value) in [
            ("min_rtt", sender.min_rtt_ms.map(Value::from)),
            ("smoothed_rtt", sender.smoothed_rtt_ms.map(Value::from)),
            ("latest_rtt", sender.latest_rtt_ms.map(Value::from)),
            ("congestion_window", sender.cwnd_bytes.map(Value::from)),
            ("bytes_in_flight", Some(sender.in_flight_bytes.into())),
            ("ssthresh", sender.ssthresh_bytes.map(Value::from)),
            ("pacing_rate", Some(sender.pacing_rate_bit_s.into())),
        ] {
            let Some(value) = value else { continue };
            if trace.metrics.get(name) != Some(&value) {
                trace.metrics.insert(name.to_owned(), value.clone());
                changed.insert(name.to_owned(), value);
            }
        }
        if !changed.is_empty() {
            trace.put(now, "recovery:metrics_updated", &Value::Object(changed));
        }
    }
}

impl Trace {
    fn is_cut(&self) -> bool {
        matches!(&self.out, Out::File(file) if file.is_cut())
    }

    fn put(&mut self, at: Time, name: &str, data: &Value) {
        let time = at.nanos() as f64 / 1e6;
        self.record(&json!({"time": time, "name": name, "data": data}));
    }

    fn record(&mut self, value: &Value) {
        let mut record = vec![SEPARATOR];
        record.extend(serde_json::to_vec(value).unwrap_or_default());
        record.push(b'\n');
        match &mut self.out {
            Out::Waiting(events) if events.len() >= REMEMBERED => {}
            Out::Waiting(events) => events.extend(record),
            Out::File(file) => file.put(&record),
        }
    }
}

/// Destination id of a client's first packet (RFC 9000 section 17.2), hexadecimal; empty of anything else.
fn original_id(data: &[u8]) -> String {
    let long = data.first().is_some_and(|first| first & 0x80 != 0);
    let length = data.get(5).copied().unwrap_or(0) as usize;
    let id = data.get(6..6 + length).filter(|_| long && length <= 20).unwrap_or_default();
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Type of a datagram's first packet, from what encryption leaves (RFC 9000 section 17).
fn packet_type(data: &[u8]) -> &'static str {
    match data {
        [first, ..] if first & 0x80 == 0 => "1RTT",
        [_, 0, 0, 0, 0, ..] => "version_negotiation",
        [first, ..] => ["initial", "0RTT", "handshake", "retry"][usize::from(first >> 4 & 3)],
        [] => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::RandomStream;

    #[test]
    fn packets_are_named() {
        let initial = [0xc3, 0, 0, 0, 1, 2, 0xab, 0xcd, 0];
        assert_eq!((packet_type(&initial), original_id(&initial)), ("initial", "abcd".to_owned()));
        assert_eq!(packet_type(&[0xe0, 0, 0, 0, 1]), "handshake");
        assert_eq!(packet_type(&[0x80, 0, 0, 0, 0]), "version_negotiation");
        assert_eq!((packet_type(&[0x41]), original_id(&[0x41])), ("1RTT", String::new()));
        assert_eq!(original_id(&[0xc0, 0, 0, 0, 1, 255, 1]), "");
    }

    /// Whatever comes from however many peers: a bounded memory, and no file without a handshake.
    #[test]
    fn noise_leaves_nothing() {
        let folder = std::env::temp_dir().join(format!("bentpipe-qlog-{}", std::process::id()));
        let spec = QuicSpec { header_bytes: 48, ..QuicSpec::default() };
        let mut qlog = Qlog::new(folder.clone(), "server", &spec, Clock::start()).unwrap();
        let mut random = RandomStream::named(1, "qlog", "noise");
        for port in 1..3000_u16 {
            for length in [0, 1, 5, 7, 30, 1200] {
                let mut data = vec![0; length];
                random.fill(&mut data);
                let peer = SocketAddr::from(([127, 0, 0, 1], port % 500 + 1));
                qlog.datagram(peer, port % 2 == 0, Ecn::Ect0, &data);
            }
        }
        qlog.with(|traces| {
            assert!(traces.by_peer.len() <= WAITING && !traces.cut);
            for trace in traces.by_peer.values() {
                let Out::Waiting(events) = &trace.out else { panic!("a file") };
                assert!(events.len() < REMEMBERED + 1000);
            }
        });
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

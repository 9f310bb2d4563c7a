//! qlog of real QUIC connections: one file each, as JSON text sequences of qlog 0.3
//! (draft-ietf-quic-qlog-main-schema-04, draft-ietf-quic-qlog-quic-events-03).
//!
//! Packets are encrypted: an event has the type of a datagram's first packet and the datagram's length. The sender
//! state is that of the controller.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use runtime::host::canonical_addr;
use runtime::{Clock, DatagramObserver, ResultFile, log_stderr};
use serde_json::{Map, Value, json};
use transport::quic::QuicSpec;
use units::{Ecn, Time};

use super::SenderReport;
use crate::ProgramError;

/// The maximum of peers with an incomplete handshake and buffered events; beyond it the first are discarded.
const MAX_PENDING_PEERS: usize = 64;
/// The maximum of buffered bytes per peer: several handshakes.
const MAX_PENDING_BYTES: usize = 64 << 10;
/// The maximum of files per server.
const MAX_FILES: u32 = 1000;
/// Record separator (RFC 7464 section 2.2).
const SEPARATOR: u8 = 0x1e;

/// The output of a connection's events.
enum TraceOutput {
    /// The handshake is incomplete.
    Pending(Vec<u8>),
    File(ResultFile),
}

struct ConnectionTrace {
    out: TraceOutput,
    started_at: Time,
    original_id: String,
    metrics: Map<String, Value>,
    lost: (u64, u64),
    /// The path of the file.
    path: PathBuf,
}

struct TraceSet {
    folder: PathBuf,
    role: &'static str,
    spec: QuicSpec,
    clock: Clock,
    by_peer: BTreeMap<SocketAddr, ConnectionTrace>,
    files: u32,
    /// A file could not be written; no further files are created.
    is_incomplete: bool,
}

/// The traces of a process. Clones share one state.
#[derive(Clone)]
pub struct QlogWriter(Arc<Mutex<TraceSet>>);

impl QlogWriter {
    /// Creates a writer to the directory `folder`, which is created if necessary.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn new(
        folder: PathBuf,
        role: &'static str,
        spec: &QuicSpec,
        clock: Clock,
    ) -> Result<QlogWriter, ProgramError> {
        std::fs::create_dir_all(&folder)
            .map_err(|error| ProgramError::Input(format!("qlog: {}: {error}", folder.display())))?;
        let by_peer = BTreeMap::new();
        let spec = spec.clone();
        let traces =
            TraceSet { folder, role, spec, clock, by_peer, files: 0, is_incomplete: false };
        Ok(QlogWriter(Arc::new(Mutex::new(traces))))
    }

    fn with_traces<T>(&self, act: impl FnOnce(&mut TraceSet) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Creates the file of connection `number` with `peer` after its handshake. The file name contains the name
    /// of the local controller.
    pub fn on_connected(&self, number: u32, peer: SocketAddr, local: SocketAddr, controller: &str) {
        self.with_traces(|traces| traces.on_connected(number, peer, local, controller));
    }

    /// Renames the file of connection `number` after its local controller: a client can request another
    /// controller after the file was created.
    pub fn on_controller(&self, number: u32, peer: SocketAddr, controller: &str) {
        self.with_traces(|traces| {
            let path = traces.file_path(number, controller);
            let Some(trace) = traces.by_peer.get_mut(&peer) else { return };
            let TraceOutput::File(file) = &mut trace.out else { return };
            if trace.path == path {
                return;
            }
            // No retry, whatever the result.
            let before = std::mem::replace(&mut trace.path, path);
            if let Err(why) = file.rename("qlog", &before, &trace.path) {
                log_stderr(format_args!("error: {why}; the file keeps its name"));
            }
        });
    }

    /// Writes the changed values of a sender.
    pub fn on_state(&self, now: Time, peer: SocketAddr, sender: &SenderReport) {
        self.with_traces(|traces| traces.on_state(now, peer, sender));
    }

    /// Writes the close of a connection and finishes its file.
    pub fn on_closed(&self, now: Time, peer: SocketAddr, why: &str) {
        self.with_traces(|traces| {
            let Some(mut trace) = traces.by_peer.remove(&peer) else { return };
            trace.write_event(now, "connectivity:connection_closed", &json!({"reason": why}));
            if let TraceOutput::File(mut file) = trace.out {
                file.flush();
                traces.is_incomplete |= file.is_incomplete();
            }
        });
    }

    /// Returns whether events are missing because the disk was full.
    pub fn is_incomplete(&self) -> bool {
        self.with_traces(|traces| {
            traces.is_incomplete || traces.by_peer.values().any(ConnectionTrace::is_incomplete)
        })
    }
}

impl DatagramObserver for QlogWriter {
    fn on_datagram(&mut self, peer: SocketAddr, sent: bool, ecn: Ecn, data: &[u8]) {
        self.with_traces(|traces| traces.on_datagram(canonical_addr(peer), sent, ecn, data));
    }
}

impl TraceSet {
    fn on_datagram(&mut self, peer: SocketAddr, sent: bool, ecn: Ecn, data: &[u8]) {
        let now = self.clock.now();
        if !self.by_peer.contains_key(&peer) {
            let waiting = |trace: &ConnectionTrace| matches!(trace.out, TraceOutput::Pending(_));
            if self.by_peer.values().filter(|trace| waiting(trace)).count() >= MAX_PENDING_PEERS {
                let first = self.by_peer.iter().find(|(_, trace)| waiting(trace));
                if let Some(first) = first.map(|(peer, _)| *peer) {
                    self.by_peer.remove(&first);
                }
            }
            let original_id = original_id(data);
            let (out, metrics) = (TraceOutput::Pending(Vec::new()), Map::new());
            let path = PathBuf::new();
            let trace =
                ConnectionTrace { out, started_at: now, original_id, metrics, lost: (0, 0), path };
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
        trace.write_event(now, name, &event);
    }

    /// Returns the path for connection `number`: side, number and local controller.
    fn file_path(&self, number: u32, controller: &str) -> PathBuf {
        self.folder.join(format!("{}-{number}.{controller}.sqlog", self.role))
    }

    fn on_connected(&mut self, number: u32, peer: SocketAddr, local: SocketAddr, controller: &str) {
        let path = self.file_path(number, controller);
        self.is_incomplete |= self.by_peer.values().any(ConnectionTrace::is_incomplete);
        let Some(trace) = self.by_peer.get_mut(&peer) else { return };
        let TraceOutput::Pending(before) = &mut trace.out else { return };
        if self.files >= MAX_FILES || self.is_incomplete {
            return;
        }
        self.files += 1;
        let before = std::mem::take(before);
        let (role, title) = (self.role, format!("{}-{number}", self.role));
        match ResultFile::create("qlog", &path) {
            Ok(file) => (trace.out, trace.path) = (TraceOutput::File(file), path),
            Err(why) => {
                log_stderr(format_args!(
                    "error: {why}; the measurement continues without this file"
                ));
                self.is_incomplete = true;
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
        trace.write_record(&header);
        let (from, to) = (local.ip().to_canonical(), peer.ip());
        let version = if to.is_ipv4() { "v4" } else { "v6" };
        let started = json!({
            "ip_version": version, "src_ip": from.to_string(), "dst_ip": to.to_string(),
            "protocol": "QUIC", "src_port": local.port(), "dst_port": peer.port(),
        });
        trace.write_event(trace.started_at, "connectivity:connection_started", &started);
        let spec = &self.spec;
        let parameters = json!({
            "reordering_threshold": spec.packet_threshold, "max_datagram_size": spec.mtu_bytes,
            "initial_congestion_window": spec.initial_window_bytes,
            "initial_rtt": spec.initial_rtt_ns as f64 / 1e6,
        });
        trace.write_event(trace.started_at, "recovery:parameters_set", &parameters);
        if let TraceOutput::File(file) = &mut trace.out {
            file.append_line(&before);
            file.flush();
        }
    }

    fn on_state(&mut self, now: Time, peer: SocketAddr, sender: &SenderReport) {
        let Some(trace) = self.by_peer.get_mut(&peer) else { return };
        let lost = (sender.lost_packets, sender.lost_bytes.unwrap_or(0));
        if lost.0 > trace.lost.0 {
            let (packets, bytes) = (lost.0 - trace.lost.0, lost.1 - trace.lost.1);
            let words =
                format!("declared lost, numbers not known: {packets} packets, {bytes} bytes");
            trace.write_event(now, "generic:info", &json!({"message": words}));
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
            trace.write_event(now, "recovery:metrics_updated", &Value::Object(changed));
        }
    }
}

impl ConnectionTrace {
    fn is_incomplete(&self) -> bool {
        matches!(&self.out, TraceOutput::File(file) if file.is_incomplete())
    }

    fn write_event(&mut self, at: Time, name: &str, data: &Value) {
        let time = at.nanos() as f64 / 1e6;
        self.write_record(&json!({"time": time, "name": name, "data": data}));
    }

    fn write_record(&mut self, value: &Value) {
        let mut record = vec![SEPARATOR];
        record.extend(serde_json::to_vec(value).unwrap_or_default());
        record.push(b'\n');
        match &mut self.out {
            TraceOutput::Pending(events) if events.len() >= MAX_PENDING_BYTES => {}
            TraceOutput::Pending(events) => events.extend(record),
            TraceOutput::File(file) => file.append_line(&record),
        }
    }
}

/// Returns the hexadecimal destination id of a client's first packet (RFC 9000 section 17.2), else an empty text.
fn original_id(data: &[u8]) -> String {
    let long = data.first().is_some_and(|first| first & 0x80 != 0);
    let length = data.get(5).copied().unwrap_or(0) as usize;
    let id = data.get(6..6 + length).filter(|_| long && length <= 20).unwrap_or_default();
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the type of a datagram's first packet, from the unencrypted bits (RFC 9000 section 17).
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
    fn packet_types_are_detected() {
        let initial = [0xc3, 0, 0, 0, 1, 2, 0xab, 0xcd, 0];
        assert_eq!((packet_type(&initial), original_id(&initial)), ("initial", "abcd".to_owned()));
        assert_eq!(packet_type(&[0xe0, 0, 0, 0, 1]), "handshake");
        assert_eq!(packet_type(&[0x80, 0, 0, 0, 0]), "version_negotiation");
        assert_eq!((packet_type(&[0x41]), original_id(&[0x41])), ("1RTT", String::new()));
        assert_eq!(original_id(&[0xc0, 0, 0, 0, 1, 255, 1]), "");
    }

    /// Arbitrary datagrams from many peers use bounded memory and create no file without a handshake.
    #[test]
    fn arbitrary_datagrams_create_no_file() {
        let folder = std::env::temp_dir().join(format!("bentpipe-qlog-{}", std::process::id()));
        let spec = QuicSpec { header_bytes: 48, ..QuicSpec::default() };
        let mut qlog = QlogWriter::new(folder.clone(), "server", &spec, Clock::start()).unwrap();
        let mut random = RandomStream::named(1, "qlog", "noise");
        for port in 1..3000_u16 {
            for length in [0, 1, 5, 7, 30, 1200] {
                let mut data = vec![0; length];
                random.fill(&mut data);
                let peer = SocketAddr::from(([127, 0, 0, 1], port % 500 + 1));
                qlog.on_datagram(peer, port % 2 == 0, Ecn::Ect0, &data);
            }
        }
        qlog.with_traces(|traces| {
            assert!(traces.by_peer.len() <= MAX_PENDING_PEERS && !traces.is_incomplete);
            for trace in traces.by_peer.values() {
                let TraceOutput::Pending(events) = &trace.out else { panic!("a file") };
                assert!(events.len() < MAX_PENDING_BYTES + 1000);
            }
        });
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

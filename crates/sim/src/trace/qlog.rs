//! qlog (draft-ietf-quic-qlog-main-schema-04 and draft-ietf-quic-qlog-quic-events-03, `qlog_version`
//! 0.3): one file per flow and side, in it one trace per connection.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::IpAddr;

use transport::quic::{self, Connection, Crypto, QuicSpec};
use transport::{Datagram, Gauges, Payload, Side};
use units::{Ecn, Time};

use super::frames::{Frame, Packet, PacketType, packets};
use super::json::{frame, header, hex, millis, packet_type, put, string};
use super::track::{Track, Way};
use crate::addresses::Addresses;
use crate::flow::FlowSide;

/// Losses and congestion signals of a connection when the tracer last looked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    lost_packets: u64,
    lost_bytes: u64,
    congestion_events: u64,
}

/// One connection.
#[derive(Debug)]
struct Trace {
    /// Its events, each followed by a comma.
    events: Vec<u8>,
    original_id: Vec<u8>,
    track: Track,
    seen: Seen,
    metrics: Option<Gauges>,
    state: Option<&'static str>,
    /// When the recovery that lasts began (RFC 9002 section 7.3.2).
    recovery: Option<Time>,
    datagrams: u32,
    /// The peer's transport parameters have arrived.
    peer_known: bool,
    closed: bool,
}

/// Both sides have one clock. qvis shifts them against each other by a guess at the one-way delay unless an
/// offset is given and is not 0; this one is 1 ns.
const QVIS_OFFSET_MS: &str = "0.000001";

/// The qlog file of one host.
#[derive(Debug)]
pub struct Qlog {
    addresses: Addresses,
    name: String,
    side: Side,
    spec: QuicSpec,
    /// By connection.
    traces: BTreeMap<u32, Trace>,
}

impl Trace {
    fn event(&mut self, now: Time, name: &str) -> &mut Vec<u8> {
        let out = &mut self.events;
        put!(out, "{{\"time\":");
        millis(out, now.nanos());
        put!(out, ",\"name\":\"{name}\",\"data\":{{");
        out
    }

    fn end(&mut self) {
        self.events.extend_from_slice(b"}},\n");
    }

    /// The limits of flow control that `owner` begins with; both sides of a flow have the same.
    fn transport_parameters(&mut self, now: Time, owner: &str, (connection, stream): (u64, u64)) {
        let out = self.event(now, "transport:parameters_set");
        put!(out, "\"owner\":\"{owner}\",\"initial_max_data\":{connection}");
        for kind in ["bidi_local", "bidi_remote", "uni"] {
            put!(out, ",\"initial_max_stream_data_{kind}\":{stream}");
        }
        self.end();
    }

    fn packets(&mut self, now: Time, way: Way, datagram: &Datagram, plain: bool) {
        self.datagrams += 1;
        let payload = datagram.payload();
        let coalesced = packets(&payload).count() > 1;
        for packet in packets(&payload).flatten() {
            let opened = if plain { packet.open().ok() } else { None };
            // With encryption nobody outside can tell a stateless reset from a packet.
            let reset = plain && !self.track.knows(way, &packet);
            let opened = opened.filter(|_| !reset);
            let number = opened.as_ref().map(|opened| self.track.packet(now, way, &packet, opened));
            let name =
                if way == Way::Out { "transport:packet_sent" } else { "transport:packet_received" };
            let datagram_id = self.datagrams;
            let out = self.event(now, name);
            put!(out, "\"header\":");
            if reset {
                put!(out, "{{\"packet_type\":\"stateless_reset\"}}");
            } else {
                header(out, &packet, number);
            }
            // No payload_length: the draft's is without the tag, and qvis takes the tag off once more.
            put!(out, ",\"raw\":{{\"length\":{}}}", packet.bytes);
            if coalesced {
                put!(out, ",\"is_coalesced\":true,\"datagram_id\":{datagram_id}");
            }
            match datagram.ecn {
                Ecn::NotEct => {}
                Ecn::Ect0 => put!(out, ",\"ecn\":\"ECT(0)\""),
                Ecn::Ect1 => put!(out, ",\"ecn\":\"ECT(1)\""),
                Ecn::Ce => put!(out, ",\"ecn\":\"CE\""),
            }
            let mut close = None;
            if let Some(opened) = &opened {
                put!(out, ",\"frames\":[");
                for (index, read) in opened.frames.enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    match read {
                        Ok(read) => {
                            frame(out, &read);
                            if let Frame::ConnectionClose { error, frame_type, .. } = read {
                                close = Some((error, frame_type.is_some()));
                            }
                        }
                        Err(_) => put!(out, "{{\"frame_type\":\"unknown\"}}"),
                    }
                }
                out.push(b']');
            }
            self.end();
            if let Some((error, transport)) = close {
                self.close(now, way, error, transport);
            }
        }
    }

    fn close(&mut self, now: Time, way: Way, error: u64, transport: bool) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        let owner = if way == Way::Out { "local" } else { "remote" };
        let kind = if transport { "connection_code" } else { "application_code" };
        let out = self.event(now, "connectivity:connection_closed");
        put!(out, "\"owner\":\"{owner}\",\"{kind}\":{error}");
        self.end();
    }

    /// What loss detection found since the last look, and the state of the controller.
    fn recovery(&mut self, now: Time, connection: &Connection, spec: &QuicSpec) {
        let (lost_packets, lost_bytes, congestion_events) = connection.losses();
        let seen = Seen { lost_packets, lost_bytes, congestion_events };
        let before = std::mem::replace(&mut self.seen, seen);
        if seen.lost_packets > before.lost_packets {
            let count = seen.lost_packets - before.lost_packets;
            let bytes = seen.lost_bytes - before.lost_bytes;
            self.lost(now, count, bytes, spec);
        }
        self.track.settle();
        if seen.congestion_events > before.congestion_events {
            self.recovery = Some(now);
        } else if self.recovery.is_some_and(|start| self.track.newest_acked > Some(start)) {
            self.recovery = None;
        }
        // The end of a recovery shows in ACK frames, which encryption hides.
        let known = connection.controller().ssthresh().filter(|_| spec.crypto == Crypto::Modelled);
        let Some(ssthresh) = known else { return };
        let new = match self.recovery {
            Some(_) => "recovery",
            None if connection.gauges().cwnd < ssthresh => "slow_start",
            None => "congestion_avoidance",
        };
        let old = self.state.replace(new);
        if old != Some(new) {
            let out = self.event(now, "recovery:congestion_state_updated");
            if let Some(old) = old {
                put!(out, "\"old\":\"{old}\",");
            }
            put!(out, "\"new\":\"{new}\"");
            self.end();
        }
    }

    fn lost(&mut self, now: Time, count: u64, bytes: u64, spec: &QuicSpec) {
        let threshold = u64::from(spec.packet_threshold);
        let Some(lost) = self.track.lost(count, bytes, threshold) else {
            let out = self.event(now, "generic:info");
            put!(
                out,
                "\"message\":\"declared lost, numbers not known: {count} packets, {bytes} bytes\""
            );
            self.end();
            return;
        };
        for lost in lost {
            let trigger =
                if lost.by_reordering { "reordering_threshold" } else { "time_threshold" };
            let (kind, number) = (packet_type(lost.kind), lost.number);
            let out = self.event(now, "recovery:packet_lost");
            put!(
                out,
                "\"header\":{{\"packet_type\":\"{kind}\",\"packet_number\":{number}}},\"trigger\":\"{trigger}\""
            );
            self.end();
        }
    }

    /// The metrics that have changed. Bytes in flight that only grew follow from what was sent, and
    /// wait for the next change.
    fn metrics(&mut self, now: Time, gauges: &Gauges) {
        let before = self.metrics.unwrap_or_default();
        let still = Gauges {
            in_flight: before.in_flight,
            pacing_rate_bit_s: before.pacing_rate_bit_s,
            ..*gauges
        };
        if self.metrics.is_some() && still == before && gauges.in_flight >= before.in_flight {
            return;
        }
        self.metrics = Some(*gauges);
        let out = self.event(now, "recovery:metrics_updated");
        let start = out.len();
        let mut member = |name: &str, old: Option<u64>, new: Option<u64>, time: bool| {
            let Some(new) = new.filter(|_| old != new) else { return };
            let comma = if out.len() > start { "," } else { "" };
            put!(out, "{comma}\"{name}\":");
            if time { millis(out, new) } else { put!(out, "{new}") }
        };
        let nanos = |span: Option<units::Span>| span.map(units::Span::nanos);
        member("min_rtt", nanos(before.min_rtt), nanos(gauges.min_rtt), true);
        member("smoothed_rtt", nanos(before.smoothed_rtt), nanos(gauges.smoothed_rtt), true);
        member("latest_rtt", nanos(before.latest_rtt), nanos(gauges.latest_rtt), true);
        member("congestion_window", Some(before.cwnd), Some(gauges.cwnd), false);
        member("bytes_in_flight", Some(before.in_flight), Some(gauges.in_flight), false);
        member("ssthresh", before.ssthresh, gauges.ssthresh, false);
        let rates = [before.pacing_rate_bit_s, gauges.pacing_rate_bit_s].map(Some);
        member("pacing_rate", rates[0], rates[1], false);
        self.end();
    }
}

impl Qlog {
    /// The file of one side, whose stack is `quic`.
    pub fn new(side: &FlowSide, quic: &quic::Endpoint) -> Qlog {
        let (name, spec) = (side.flow.clone(), quic.spec().clone());
        Qlog { addresses: side.addresses, name, side: side.side, spec, traces: BTreeMap::new() }
    }

    /// The trace of connection `number`; its first packet begins it.
    fn trace(&mut self, now: Time, number: u32, packet: Option<Packet<'_>>) -> &mut Trace {
        let (addresses, side, spec) = (self.addresses, self.side, &self.spec);
        self.traces
            .entry(number)
            .or_insert_with(|| begin(now, addresses.ends(side.sends(), number), side, spec, packet))
    }

    /// A datagram left or arrived.
    pub fn datagram(&mut self, now: Time, way: Way, datagram: &Datagram) {
        let plain = self.spec.crypto == Crypto::Modelled;
        let windows = (self.spec.receive_window_bytes, self.spec.stream_receive_window_bytes);
        let payload = datagram.payload();
        let first = packets(&payload).next().and_then(Result::ok);
        let trace = self.trace(now, datagram.connection, first);
        trace.packets(now, way, datagram, plain);
        if way == Way::In && !std::mem::replace(&mut trace.peer_known, true) {
            trace.transport_parameters(now, "remote", windows);
        }
    }

    /// The host has worked: what it sent, and how it stands now.
    pub fn ran(&mut self, now: Time, quic: Option<&quic::Endpoint>, sent: &[Payload]) {
        let live = || quic.into_iter().flat_map(|quic| quic.live());
        for connection in live() {
            if let Some(trace) = self.traces.get_mut(&connection.index()) {
                trace.recovery(now, connection, &self.spec);
            }
        }
        for payload in sent {
            if let Payload::Datagram(datagram) = payload {
                self.datagram(now, Way::Out, datagram);
            }
        }
        for connection in live() {
            if let Some(trace) = self.traces.get_mut(&connection.index()) {
                trace.metrics(now, &connection.gauges());
            }
        }
    }

    /// The file.
    pub fn finish(self) -> Vec<u8> {
        let side = self.side.name();
        let bytes: usize = self.traces.values().map(|trace| trace.events.len()).sum();
        let mut out: Vec<u8> = Vec::with_capacity(bytes + 1024 * (self.traces.len() + 1));
        let title = string(&format!("{}.{side}", self.name));
        let description = match self.spec.crypto {
            Crypto::Modelled => {
                "Simulated by bentpipe; time 0 is the start of the run. Cryptography is modelled: \
                 frames and packet numbers are those on the wire."
            }
            Crypto::Rustls => {
                "Simulated by bentpipe; time 0 is the start of the run. Packets are encrypted: \
                 they are shown without packet numbers and frames, and lost ones are not named."
            }
        };
        put!(
            out,
            "{{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON\",\"title\":{title},\"description\":{},\"traces\":[",
            string(description)
        );
        for (index, (number, mut trace)) in self.traces.into_iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let name = string(&format!("{}.{side}, connection {number}", self.name));
            put!(
                out,
                "{comma}\n{{\"title\":{name},\"vantage_point\":{{\"name\":{title},\"type\":\"{side}\"}},\"common_fields\":{{\"ODCID\":"
            );
            hex(&mut out, &trace.original_id);
            put!(
                out,
                ",\"protocol_type\":[\"QUIC\"],\"time_format\":\"relative\",\"reference_time\":0}},\"configuration\":{{\"time_offset\":{QVIS_OFFSET_MS}}},\"events\":[\n"
            );
            // Without the comma behind the last event.
            trace.events.truncate(trace.events.len() - 2);
            out.append(&mut trace.events);
            put!(out, "\n]}}");
        }
        put!(out, "\n]}}\n");
        out
    }
}

/// A trace with the events that begin it.
fn begin(
    now: Time,
    ends: [(IpAddr, u16); 2],
    side: Side,
    spec: &QuicSpec,
    packet: Option<Packet<'_>>,
) -> Trace {
    let initial = packet.filter(|packet| packet.kind == PacketType::Initial);
    let mut trace = Trace {
        events: Vec::new(),
        original_id: initial.map_or(Vec::new(), |packet| packet.destination.to_vec()),
        track: Track::new(side),
        seen: Seen::default(),
        metrics: None,
        state: None,
        recovery: None,
        datagrams: 0,
        peer_known: false,
        closed: false,
    };
    let [(from, from_port), (to, to_port)] = ends;
    let version = if from.is_ipv4() { "v4" } else { "v6" };
    let out = trace.event(now, "connectivity:connection_started");
    put!(
        out,
        "\"ip_version\":\"{version}\",\"src_ip\":\"{from}\",\"dst_ip\":\"{to}\",\"protocol\":\"QUIC\",\"src_port\":{from_port},\"dst_port\":{to_port}"
    );
    trace.end();
    let out = trace.event(now, "recovery:parameters_set");
    let (threshold, mtu, window) =
        (spec.packet_threshold, spec.mtu_bytes, spec.initial_window_bytes);
    put!(
        out,
        "\"reordering_threshold\":{threshold},\"max_datagram_size\":{mtu},\"initial_congestion_window\":{window},\"initial_rtt\":"
    );
    millis(out, spec.initial_rtt_ns);
    trace.end();
    trace.transport_parameters(
        now,
        "local",
        (spec.receive_window_bytes, spec.stream_receive_window_bytes),
    );
    trace
}

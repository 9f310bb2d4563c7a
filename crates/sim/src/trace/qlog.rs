//! qlog (draft-ietf-quic-qlog-main-schema-04 and draft-ietf-quic-qlog-quic-events-03, `qlog_version` 0.3): one file per
//! flow and side, with one trace per connection.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::IpAddr;

use transport::quic::{Crypto, QuicConnection, QuicEndpoint, QuicSpec};
use transport::{Datagram, Payload, SenderGauges, Side};
use units::{Ecn, Time};

use super::observer::{ConnectionObserver, PacketDirection};
use super::qlog_json::{
    json_string, packet_type_name, put, write_frame, write_header, write_hex, write_millis,
};
use super::quic_parser::{Frame, PacketType, QuicPacket, parse_packets};
use crate::nodes::addresses::FlowAddresses;
use crate::nodes::flow::FlowEndpoint;

/// The losses and congestion signals of a connection at the last poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LastLossCounts {
    lost_packets: u64,
    lost_bytes: u64,
    congestion_events: u64,
}

/// The trace of one connection.
#[derive(Debug)]
struct ConnectionTrace {
    /// The events, each followed by a comma.
    events: Vec<u8>,
    original_id: Vec<u8>,
    observer: ConnectionObserver,
    last_losses: LastLossCounts,
    last_metrics: Option<SenderGauges>,
    congestion_state: Option<&'static str>,
    /// The start of the current recovery period (RFC 9002 section 7.3.2).
    recovery_start: Option<Time>,
    datagrams: u32,
    /// Whether the peer's transport parameters have arrived.
    has_peer_parameters: bool,
    is_closed: bool,
}

/// Both sides use one clock. qvis shifts them by an estimate of the one-way delay unless the file contains a nonzero
/// offset. This offset is 1 ns.
const QVIS_OFFSET_MS: &str = "0.000001";

/// The qlog file of one host.
#[derive(Debug)]
pub struct Qlog {
    addresses: FlowAddresses,
    name: String,
    side: Side,
    spec: QuicSpec,
    /// The traces by connection.
    traces: BTreeMap<u32, ConnectionTrace>,
}

impl ConnectionTrace {
    fn begin_event(&mut self, now: Time, name: &str) -> &mut Vec<u8> {
        let out = &mut self.events;
        put!(out, "{{\"time\":");
        write_millis(out, now.nanos());
        put!(out, ",\"name\":\"{name}\",\"data\":{{");
        out
    }

    fn end_event(&mut self) {
        self.events.extend_from_slice(b"}},\n");
    }

    /// Writes the initial flow control limits of `owner`. Both sides of a flow have the same limits.
    fn write_transport_parameters(
        &mut self,
        now: Time,
        owner: &str,
        (connection, stream): (u64, u64),
    ) {
        let out = self.begin_event(now, "transport:parameters_set");
        put!(out, "\"owner\":\"{owner}\",\"initial_max_data\":{connection}");
        for kind in ["bidi_local", "bidi_remote", "uni"] {
            put!(out, ",\"initial_max_stream_data_{kind}\":{stream}");
        }
        self.end_event();
    }

    fn write_packets(
        &mut self,
        now: Time,
        direction: PacketDirection,
        datagram: &Datagram,
        is_plain: bool,
    ) {
        self.datagrams += 1;
        let payload = datagram.payload();
        let coalesced = parse_packets(&payload).count() > 1;
        for packet in parse_packets(&payload).flatten() {
            let plain = if is_plain { packet.read_plain().ok() } else { None };
            // Under encryption, an observer cannot distinguish a stateless reset from a packet.
            let is_reset = is_plain && !self.observer.has_connection_id(direction, &packet);
            let plain = plain.filter(|_| !is_reset);
            let number = plain
                .as_ref()
                .map(|opened| self.observer.on_packet(now, direction, &packet, opened));
            let name = if direction == PacketDirection::Out {
                "transport:packet_sent"
            } else {
                "transport:packet_received"
            };
            let datagram_id = self.datagrams;
            let out = self.begin_event(now, name);
            put!(out, "\"header\":");
            if is_reset {
                put!(out, "{{\"packet_type\":\"stateless_reset\"}}");
            } else {
                write_header(out, &packet, number);
            }
            // payload_length is omitted: the draft excludes the tag from it, and qvis subtracts the tag again.
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
            if let Some(opened) = &plain {
                put!(out, ",\"frames\":[");
                for (index, read) in opened.frames.enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    match read {
                        Ok(read) => {
                            write_frame(out, &read);
                            if let Frame::ConnectionClose { error, frame_type, .. } = read {
                                close = Some((error, frame_type.is_some()));
                            }
                        }
                        Err(_) => put!(out, "{{\"frame_type\":\"unknown\"}}"),
                    }
                }
                out.push(b']');
            }
            self.end_event();
            if let Some((error, transport)) = close {
                self.write_close(now, direction, error, transport);
            }
        }
    }

    fn write_close(&mut self, now: Time, direction: PacketDirection, error: u64, transport: bool) {
        if std::mem::replace(&mut self.is_closed, true) {
            return;
        }
        let owner = if direction == PacketDirection::Out { "local" } else { "remote" };
        let kind = if transport { "connection_code" } else { "application_code" };
        let out = self.begin_event(now, "connectivity:connection_closed");
        put!(out, "\"owner\":\"{owner}\",\"{kind}\":{error}");
        self.end_event();
    }

    /// Writes the losses since the last call, and the state of the controller.
    fn update_recovery(&mut self, now: Time, connection: &QuicConnection, spec: &QuicSpec) {
        let (lost_packets, lost_bytes, congestion_events) = connection.losses();
        // Without the count, the trace has no recovery periods.
        let congestion_events = congestion_events.unwrap_or(0);
        let losses = LastLossCounts { lost_packets, lost_bytes, congestion_events };
        let before = std::mem::replace(&mut self.last_losses, losses);
        if losses.lost_packets > before.lost_packets {
            let count = losses.lost_packets - before.lost_packets;
            let bytes = losses.lost_bytes - before.lost_bytes;
            self.write_lost(now, count, bytes, spec);
        }
        self.observer.clear_discarded();
        if losses.congestion_events > before.congestion_events {
            self.recovery_start = Some(now);
        } else if self
            .recovery_start
            .is_some_and(|start| self.observer.newest_acked_sent_at > Some(start))
        {
            self.recovery_start = None;
        }
        // ACK frames show the end of a recovery, and encryption hides them.
        let visible_ssthresh =
            connection.controller().ssthresh().filter(|_| spec.crypto == Crypto::Modelled);
        let Some(ssthresh) = visible_ssthresh else { return };
        let new = match self.recovery_start {
            Some(_) => "recovery",
            None if connection.gauges().cwnd < ssthresh => "slow_start",
            None => "congestion_avoidance",
        };
        let old = self.congestion_state.replace(new);
        if old != Some(new) {
            let out = self.begin_event(now, "recovery:congestion_state_updated");
            if let Some(old) = old {
                put!(out, "\"old\":\"{old}\",");
            }
            put!(out, "\"new\":\"{new}\"");
            self.end_event();
        }
    }

    fn write_lost(&mut self, now: Time, count: u64, bytes: u64, spec: &QuicSpec) {
        let threshold = u64::from(spec.packet_threshold);
        let Some(lost) = self.observer.take_lost(count, bytes, threshold) else {
            let out = self.begin_event(now, "generic:info");
            put!(
                out,
                "\"message\":\"declared lost, numbers not known: {count} packets, {bytes} bytes\""
            );
            self.end_event();
            return;
        };
        for lost in lost {
            let trigger =
                if lost.is_reordering_loss { "reordering_threshold" } else { "time_threshold" };
            let (kind, number) = (packet_type_name(lost.packet_type), lost.number);
            let out = self.begin_event(now, "recovery:packet_lost");
            put!(
                out,
                "\"header\":{{\"packet_type\":\"{kind}\",\"packet_number\":{number}}},\"trigger\":\"{trigger}\""
            );
            self.end_event();
        }
    }

    /// Writes the changed metrics. An increase of bytes in flight alone waits for the next change, because it follows
    /// from the sent packets.
    fn write_metrics(&mut self, now: Time, gauges: &SenderGauges) {
        let before = self.last_metrics.unwrap_or_default();
        let still = SenderGauges {
            in_flight: before.in_flight,
            pacing_rate_bit_s: before.pacing_rate_bit_s,
            ..*gauges
        };
        if self.last_metrics.is_some() && still == before && gauges.in_flight >= before.in_flight {
            return;
        }
        self.last_metrics = Some(*gauges);
        let out = self.begin_event(now, "recovery:metrics_updated");
        let start = out.len();
        let mut member = |name: &str, old: Option<u64>, new: Option<u64>, time: bool| {
            let Some(new) = new.filter(|_| old != new) else { return };
            let comma = if out.len() > start { "," } else { "" };
            put!(out, "{comma}\"{name}\":");
            if time { write_millis(out, new) } else { put!(out, "{new}") }
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
        self.end_event();
    }
}

impl Qlog {
    /// Returns the bytes of all events.
    pub fn bytes(&self) -> usize {
        self.traces.values().map(|trace| trace.events.len()).sum()
    }

    /// Creates the file of one side with QUIC endpoint `quic`.
    pub fn new(side: &FlowEndpoint, quic: &QuicEndpoint) -> Qlog {
        let (name, spec) = (side.flow.clone(), quic.spec().clone());
        Qlog { addresses: side.addresses, name, side: side.side, spec, traces: BTreeMap::new() }
    }

    /// Returns the trace of connection `number`. The first packet of the connection creates it.
    fn trace_of(
        &mut self,
        now: Time,
        number: u32,
        packet: Option<QuicPacket<'_>>,
    ) -> &mut ConnectionTrace {
        let (addresses, side, spec) = (self.addresses, self.side, &self.spec);
        self.traces.entry(number).or_insert_with(|| {
            begin_trace(
                now,
                addresses.socket_addresses(side.send_direction(), number),
                side,
                spec,
                packet,
            )
        })
    }

    /// Writes a sent or received datagram.
    pub fn on_datagram(&mut self, now: Time, direction: PacketDirection, datagram: &Datagram) {
        let is_plain = self.spec.crypto == Crypto::Modelled;
        let windows = (self.spec.receive_window_bytes, self.spec.stream_receive_window_bytes);
        let payload = datagram.payload();
        let first = parse_packets(&payload).next().and_then(Result::ok);
        let trace = self.trace_of(now, datagram.connection, first);
        trace.write_packets(now, direction, datagram, is_plain);
        if direction == PacketDirection::In
            && !std::mem::replace(&mut trace.has_peer_parameters, true)
        {
            trace.write_transport_parameters(now, "remote", windows);
        }
    }

    /// Writes the packets that the host sent, and the new state of its connections.
    pub fn on_node_polled(&mut self, now: Time, quic: Option<&QuicEndpoint>, sent: &[Payload]) {
        let connections = || quic.into_iter().flat_map(|quic| quic.live_connections());
        for connection in connections() {
            if let Some(trace) = self.traces.get_mut(&connection.number()) {
                trace.update_recovery(now, connection, &self.spec);
            }
        }
        for payload in sent {
            if let Payload::Datagram(datagram) = payload {
                self.on_datagram(now, PacketDirection::Out, datagram);
            }
        }
        for connection in connections() {
            if let Some(trace) = self.traces.get_mut(&connection.number()) {
                trace.write_metrics(now, &connection.gauges());
            }
        }
    }

    /// Returns the file.
    pub fn finish(self) -> Vec<u8> {
        let side = self.side.name();
        let bytes: usize = self.traces.values().map(|trace| trace.events.len()).sum();
        let mut out: Vec<u8> = Vec::with_capacity(bytes + 1024 * (self.traces.len() + 1));
        let title = json_string(&format!("{}.{side}", self.name));
        let description = match self.spec.crypto {
            Crypto::Modelled => {
                "Simulated by bentpipe; time 0 is the start of the run. Cryptography is modelled: \
                 frames and packet numbers are those on the wire."
            }
            Crypto::Rustls => {
                "Simulated by bentpipe; time 0 is the start of the run. Packets are encrypted: \
                 the trace has no packet numbers and frames, and does not identify lost packets."
            }
        };
        put!(
            out,
            "{{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON\",\"title\":{title},\"description\":{},\"traces\":[",
            json_string(description)
        );
        for (index, (number, mut trace)) in self.traces.into_iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let name = json_string(&format!("{}.{side}, connection {number}", self.name));
            put!(
                out,
                "{comma}\n{{\"title\":{name},\"vantage_point\":{{\"name\":{title},\"type\":\"{side}\"}},\"common_fields\":{{\"ODCID\":"
            );
            write_hex(&mut out, &trace.original_id);
            put!(
                out,
                ",\"protocol_type\":[\"QUIC\"],\"time_format\":\"relative\",\"reference_time\":0}},\"configuration\":{{\"time_offset\":{QVIS_OFFSET_MS}}},\"events\":[\n"
            );
            // Removes the comma after the last event.
            trace.events.truncate(trace.events.len() - 2);
            out.append(&mut trace.events);
            put!(out, "\n]}}");
        }
        put!(out, "\n]}}\n");
        out
    }
}

/// Creates a trace with its initial events.
fn begin_trace(
    now: Time,
    endpoints: [(IpAddr, u16); 2],
    side: Side,
    spec: &QuicSpec,
    packet: Option<QuicPacket<'_>>,
) -> ConnectionTrace {
    let initial = packet.filter(|packet| packet.kind == PacketType::Initial);
    let mut trace = ConnectionTrace {
        events: Vec::new(),
        original_id: initial.map_or(Vec::new(), |packet| packet.destination.to_vec()),
        observer: ConnectionObserver::new(side),
        last_losses: LastLossCounts::default(),
        last_metrics: None,
        congestion_state: None,
        recovery_start: None,
        datagrams: 0,
        has_peer_parameters: false,
        is_closed: false,
    };
    let [(from, from_port), (to, to_port)] = endpoints;
    let version = if from.is_ipv4() { "v4" } else { "v6" };
    let out = trace.begin_event(now, "connectivity:connection_started");
    put!(
        out,
        "\"ip_version\":\"{version}\",\"src_ip\":\"{from}\",\"dst_ip\":\"{to}\",\"protocol\":\"QUIC\",\"src_port\":{from_port},\"dst_port\":{to_port}"
    );
    trace.end_event();
    let out = trace.begin_event(now, "recovery:parameters_set");
    let (threshold, mtu, window) =
        (spec.packet_threshold, spec.mtu_bytes, spec.initial_window_bytes);
    put!(
        out,
        "\"reordering_threshold\":{threshold},\"max_datagram_size\":{mtu},\"initial_congestion_window\":{window},\"initial_rtt\":"
    );
    write_millis(out, spec.initial_rtt_ns);
    trace.end_event();
    trace.write_transport_parameters(
        now,
        "local",
        (spec.receive_window_bytes, spec.stream_receive_window_bytes),
    );
    trace
}

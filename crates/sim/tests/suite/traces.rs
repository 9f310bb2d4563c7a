//! qlog and pcapng against the tables of the same run.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Case, HEADER, data, number, time_up};
use serde_json::{Value, json};
use sim::Measurements;
use spec::TraceSpec;

const BOTH: TraceSpec =
    TraceSpec { qlog: true, pcapng: true, packets: false, packet_steps: false, tcp: false };

fn run(case: &Case, trace: TraceSpec) -> Measurements {
    let mut spec = case.spec();
    spec.trace = trace;
    sim::run(&spec, &mut |_, _| None).expect("the run is valid")
}

/// Returns a bidirectional transfer over a lossy path.
fn lossy() -> Case {
    Case {
        load: data(2_000_000, 500_000),
        loss: 0.01,
        rtt_ms: 100.0,
        duration_s: 30.0,
        ..Case::default()
    }
}

fn file<'a>(run: &'a Measurements, name: &str) -> &'a [u8] {
    &run.files.iter().find(|(file, _)| file == name).expect("such a file").1
}

fn qlog(run: &Measurements, side: &str) -> Value {
    serde_json::from_slice(file(run, &format!("main.{side}.qlog"))).expect("valid JSON")
}

fn summary(run: &Measurements, side: &str, column: &str) -> u64 {
    number(run, "flow_summary", &[("side", side)], column) as u64
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the events with this name in the only connection.
fn events<'a>(qlog: &'a Value, name: &str) -> Vec<&'a Value> {
    list(&qlog["traces"][0]["events"]).iter().filter(|event| event["name"] == name).collect()
}

/// Returns the space of a packet and its number.
fn packet_number(event: &Value) -> (u8, u64) {
    let header = &event["data"]["header"];
    let space = match header["packet_type"].as_str() {
        Some("initial") => 0,
        Some("handshake") => 1,
        Some("0RTT" | "1RTT") => 2,
        other => panic!("packet type {other:?}"),
    };
    (space, header["packet_number"].as_u64().expect("a packet number"))
}

fn frames<'a>(events: &[&'a Value], kind: &str) -> Vec<&'a Value> {
    let frames = events.iter().flat_map(|event| list(&event["data"]["frames"]));
    frames.filter(|frame| frame["frame_type"] == kind).collect()
}

/// Returns the number of datagrams among packet events.
fn datagrams(events: &[&Value]) -> u64 {
    let mut coalesced = BTreeSet::new();
    let mut alone = 0;
    for event in events {
        match event["data"]["datagram_id"].as_u64() {
            Some(id) => drop(coalesced.insert(id)),
            None => alone += 1,
        }
    }
    alone + coalesced.len() as u64
}

/// Checks the members that the drafts require, and the sequence of times.
fn check_schema(qlog: &Value) {
    assert_eq!((&qlog["qlog_version"], &qlog["qlog_format"]), (&json!("0.3"), &json!("JSON")));
    for trace in list(&qlog["traces"]) {
        assert!(["client", "server"].contains(&trace["vantage_point"]["type"].as_str().unwrap()));
        let common = &trace["common_fields"];
        assert_eq!(
            (&common["time_format"], &common["reference_time"]),
            (&json!("relative"), &json!(0))
        );
        assert_eq!(common["ODCID"].as_str().unwrap().len(), 16);
        assert_eq!(trace["configuration"]["time_offset"].as_f64(), Some(1e-6));
        let owners: Vec<&Value> = list(&trace["events"])
            .iter()
            .filter(|event| event["name"] == "transport:parameters_set")
            .map(|event| &event["data"]["owner"])
            .collect();
        assert_eq!(owners, ["local", "remote"]);
        let mut last = 0.0;
        for event in list(&trace["events"]) {
            let time = event["time"].as_f64().expect("a time");
            assert!(time >= last, "{event} after {last}");
            last = time;
            let (category, name) = event["name"].as_str().unwrap().split_once(':').unwrap();
            let data = event["data"].as_object().expect("data");
            let required: &[&str] = match (category, name) {
                ("transport", "packet_sent" | "packet_received") => &["header", "raw"],
                ("recovery", "packet_lost") => &["header", "trigger"],
                ("recovery", "congestion_state_updated") => &["new"],
                ("connectivity", "connection_started") => &["src_ip", "dst_ip"],
                ("connectivity", "connection_closed") => &["owner"],
                ("recovery", "metrics_updated" | "parameters_set") => &[],
                ("transport", "parameters_set") => &["owner", "initial_max_data"],
                _ => panic!("event {event}"),
            };
            for member in required {
                assert!(data.contains_key(*member), "{event}");
            }
            for frame in list(&event["data"]["frames"]) {
                assert!(
                    frame["frame_type"].is_string() && frame["frame_type"] != "unknown",
                    "{event}"
                );
            }
        }
    }
}

fn check_packets(run: &Measurements, side: &str, peer: &str) {
    let qlog = qlog(run, side);
    check_schema(&qlog);
    let (sent, received) =
        (events(&qlog, "transport:packet_sent"), events(&qlog, "transport:packet_received"));
    assert_eq!(datagrams(&sent), summary(run, side, "sent_packets"));
    let raw: u64 = sent.iter().map(|event| event["data"]["raw"]["length"].as_u64().unwrap()).sum();
    assert_eq!(raw + datagrams(&sent) * HEADER, summary(run, side, "sent_bytes"));
    let stream_bytes = |packets: &[&Value]| -> u64 {
        frames(packets, "stream").iter().map(|frame| frame["length"].as_u64().unwrap()).sum()
    };
    assert!(stream_bytes(&sent) >= summary(run, side, "delivered_bytes"));
    assert!(stream_bytes(&received) >= summary(run, peer, "delivered_bytes"));

    let mut unacknowledged = BTreeSet::new();
    let mut largest = BTreeMap::new();
    let mut known = BTreeSet::new();
    let mut lost = 0;
    for event in list(&qlog["traces"][0]["events"]) {
        match event["name"].as_str().unwrap() {
            "transport:packet_sent" => {
                let (space, number) = packet_number(event);
                assert!(largest.insert(space, number).is_none_or(|before| before < number));
                unacknowledged.insert((space, number));
                known.insert((space, number));
            }
            "transport:packet_received" => {
                let space = packet_number(event).0;
                for frame in frames(&[event], "ack") {
                    for range in list(&frame["acked_ranges"]) {
                        for number in range[0].as_u64().unwrap()..=range[1].as_u64().unwrap() {
                            assert!(known.contains(&(space, number)), "{event}");
                            unacknowledged.remove(&(space, number));
                        }
                    }
                }
            }
            "recovery:packet_lost" => {
                lost += 1;
                let packet = packet_number(event);
                assert!(unacknowledged.remove(&packet), "{event}");
            }
            _ => {}
        }
    }
    assert_eq!(lost, summary(run, side, "lost_packets"));
}

/// The step trace wakes links for every step. Otherwise reads of a link bring it up to date: at a sample, and at the
/// end. The end lies between two samples with packets in queues and in flight.
#[test]
fn measurements_do_not_depend_on_the_wakeups_of_links() {
    for tcp in [None, Some(json!({}))] {
        let case = Case { duration_s: 5.0333, tcp, ..Case::default() };
        let plain = run(&case, TraceSpec { qlog: false, pcapng: false, ..BOTH });
        let steps = run(&case, TraceSpec { packets: true, packet_steps: true, ..BOTH });
        let up = |column| number(&plain, "link_summary", &[("link", "link.up")], column);
        assert!(up("arrived_packets") > up("delivered_packets") + 100.0);
        for table in plain.tables.iter().filter(|table| table.name != "packets") {
            // The text also compares NaN values.
            assert_eq!(format!("{table:?}"), format!("{:?}", steps.table(table.name)));
        }
        assert_eq!(plain.events, steps.events);
    }
}

#[test]
fn a_qlog_agrees_with_the_tables() {
    let run = run(&lossy(), BOTH);
    assert!(summary(&run, "client", "lost_packets") > 5);
    check_packets(&run, "client", "server");
    check_packets(&run, "server", "client");
    let client = qlog(&run, "client");
    assert!(events(&client, "recovery:congestion_state_updated").len() > 1);
    let windows = events(&client, "recovery:metrics_updated");
    let windows = windows.iter().filter_map(|event| event["data"]["congestion_window"].as_u64());
    assert!(windows.max() <= Some(summary(&run, "client", "cwnd_max_bytes")));
    let min_rtts = events(&client, "recovery:metrics_updated");
    let min_rtts = min_rtts.iter().filter_map(|event| event["data"]["min_rtt"].as_f64());
    assert!(min_rtts.fold(f64::MAX, f64::min) >= 100.0);
    // Each side received the packets that the other sent, and in time.
    let server = qlog(&run, "server");
    assert!(
        events(&server, "transport:packet_received").len()
            < events(&client, "transport:packet_sent").len()
    );
}

/// Lost ACKs and handshake packets count too, as in the tables.
#[test]
fn every_lost_packet_has_a_number() {
    let poisson = json!({"kind": "poisson", "mean_interarrival_ns": 300_000_000u64,
        "size": {"kind": "fixed", "bytes": 50_000}, "direction": "down",
        "duration_ns": 10_000_000_000u64});
    for load in [data(2_000_000, 4_000_000), poisson] {
        let case = Case { load, loss: 0.03, rtt_ms: 60.0, duration_s: 20.0, ..Case::default() };
        let run = run(&case, BOTH);
        for side in ["client", "server"] {
            let qlog = qlog(&run, side);
            check_schema(&qlog);
            let traces = list(&qlog["traces"]).iter();
            let events = traces.flat_map(|trace| list(&trace["events"]));
            let lost = events.filter(|event| event["name"] == "recovery:packet_lost").count();
            assert_eq!(lost as u64, summary(&run, side, "lost_packets"), "{side}");
        }
    }
}

#[test]
fn early_data_is_marked_as_zero_rtt() {
    let case = Case { quic: json!({"handshake": "0-rtt", "ecn": true}), ..lossy() };
    let run = run(&case, BOTH);
    check_packets(&run, "client", "server");
    check_packets(&run, "server", "client");
    let client = qlog(&run, "client");
    let sent = events(&client, "transport:packet_sent");
    assert!(sent.iter().any(|event| event["data"]["header"]["packet_type"] == "0RTT"));
    assert!(sent.iter().any(|event| event["data"]["ecn"] == "ECT(0)"));
}

#[test]
fn an_ack_frequency_frame_is_read() {
    let quic = json!({"ack_eliciting_threshold": 9, "max_ack_delay_ns": 50_000_000});
    let run = run(&Case { quic, ..lossy() }, BOTH);
    check_packets(&run, "client", "server");
    let sent = qlog(&run, "client");
    let sent = events(&sent, "transport:packet_sent");
    let asked = frames(&sent, "ack_frequency");
    assert_eq!(asked[0]["ack_eliciting_threshold"], 9);
    assert_eq!(asked[0]["request_max_ack_delay"], 50);
}

#[test]
fn encrypted_packets_are_counted_but_not_read() {
    let run = run(&Case { quic: json!({"crypto": "rustls"}), ..lossy() }, BOTH);
    let client = qlog(&run, "client");
    let sent = events(&client, "transport:packet_sent");
    assert_eq!(datagrams(&sent), summary(&run, "client", "sent_packets"));
    for event in sent {
        assert!(event["data"]["header"].get("packet_number").is_none());
        assert!(event["data"].get("frames").is_none());
    }
    assert!(client["description"].as_str().unwrap().contains("encrypted"));
    assert!(events(&client, "recovery:packet_lost").is_empty());
    assert!(events(&client, "recovery:congestion_state_updated").is_empty());
    assert!(!events(&client, "recovery:metrics_updated").is_empty());
}

#[test]
fn every_connection_has_its_trace() {
    let load = json!({"kind": "poisson", "mean_interarrival_ns": 300_000_000u64,
        "size": {"kind": "fixed", "bytes": 20_000}, "direction": "down", "duration_ns": 5_000_000_000u64});
    let run = run(&Case { load, duration_s: 8.0, rtt_ms: 50.0, ..Case::default() }, BOTH);
    for side in ["client", "server"] {
        let qlog = qlog(&run, side);
        check_schema(&qlog);
        let connections = summary(&run, side, "connections");
        assert!(connections > 5);
        assert_eq!(list(&qlog["traces"]).len() as u64, connections);
    }
}

#[test]
fn a_trace_changes_nothing() {
    for quic in [json!({}), json!({"crypto": "rustls"})] {
        let case = Case { quic, ..lossy() };
        let (without, with) = (run(&case, TraceSpec::default()), run(&case, BOTH));
        assert!(without.files.is_empty());
        let bytes = |mut run: Measurements| {
            run.files.clear();
            run.encode("test")
        };
        assert!(bytes(without) == bytes(with));
    }
    let files = |_| run(&lossy(), BOTH).files;
    assert!(files(0) == files(1));
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Returns the one's complement sum of 16-bit words; 0xffff over data that includes a valid checksum.
fn ones(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A captured packet, padded with zeros to its length.
struct Captured {
    nanos: u64,
    outbound: bool,
    packet: Vec<u8>,
    cut: bool,
}

fn capture(bytes: &[u8]) -> Vec<Captured> {
    let mut packets = Vec::new();
    let (mut at, mut blocks) = (0, 0);
    while at < bytes.len() {
        let (kind, length) = (u32_at(bytes, at), u32_at(bytes, at + 4) as usize);
        assert!(length % 4 == 0 && length >= 12);
        let block = &bytes[at..at + length];
        assert_eq!(u32_at(block, length - 4) as usize, length);
        match blocks {
            0 => assert_eq!((kind, u32_at(block, 8)), (0x0a0d_0d0a, 0x1a2b_3c4d)),
            1 => {
                assert_eq!((kind, u32_at(block, 8)), (1, 101));
                // if_tsresol, then the end of the options.
                assert_eq!(block[length - 16..length - 4], [9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
            }
            _ => {
                assert_eq!(kind, 6);
                let (kept, whole) = (u32_at(block, 20) as usize, u32_at(block, 24) as usize);
                let mut packet = block[28..28 + kept].to_vec();
                packet.resize(whole, 0);
                packets.push(Captured {
                    nanos: u64::from(u32_at(block, 12)) << 32 | u64::from(u32_at(block, 16)),
                    outbound: u32_at(block, length - 12) == 2,
                    packet,
                    cut: kept < whole,
                });
            }
        }
        at += length;
        blocks += 1;
    }
    packets
}

/// Checks an IP packet and returns its total length, its ECN field and its ports.
fn check_ip(packet: &[u8], whole: bool) -> (u64, u8, [u16; 2]) {
    let (total, ecn, addresses, udp) = match packet[0] >> 4 {
        4 => {
            assert_eq!((packet[0] & 15, ones(&packet[..20])), (5, 0xffff));
            (u16_at(packet, 2), packet[1] & 3, &packet[12..20], &packet[20..])
        }
        6 => (40 + u16_at(packet, 4), packet[1] >> 4 & 3, &packet[8..40], &packet[40..]),
        version => panic!("IP version {version}"),
    };
    assert_eq!(usize::from(total), packet.len());
    assert_eq!(usize::from(u16_at(udp, 4)), udp.len());
    if whole {
        let pseudo = [addresses, &[0, 17], &udp[4..6], udp].concat();
        assert_eq!(ones(&pseudo), 0xffff);
    }
    (u64::from(total), ecn, [u16_at(udp, 0), u16_at(udp, 2)])
}

fn check_captures(case: &Case) {
    let run = run(case, BOTH);
    for side in ["client", "server"] {
        let packets = capture(file(&run, &format!("main.{side}.pcapng")));
        assert!(packets.is_sorted_by_key(|packet| packet.nanos));
        let mut sent_bytes = 0;
        for captured in &packets {
            let (total, ecn, ports) = check_ip(&captured.packet, !captured.cut);
            sent_bytes += if captured.outbound { total } else { 0 };
            assert!(ecn == 0 || case.quic["ecn"] == json!(true));
            let up = captured.outbound == (side == "client");
            assert_eq!(ports, if up { [1024, 443] } else { [443, 1024] });
        }
        assert_eq!(sent_bytes, summary(&run, side, "sent_bytes"));
        let outbound = packets.iter().filter(|packet| packet.outbound).count() as u64;
        assert_eq!(outbound, summary(&run, side, "sent_packets"));
    }
}

#[test]
fn captures_agree_with_the_tables() {
    check_captures(&lossy());
    check_captures(&Case { quic: json!({"header_bytes": 48, "ecn": true}), ..lossy() });
    check_captures(&Case { quic: json!({"crypto": "rustls"}), ..lossy() });
}

/// Sizes that the manual states.
#[test]
fn a_minute_at_10_mbit_s_is_not_absurd() {
    let run = run(&Case { load: time_up(60.0), ..Case::default() }, BOTH);
    for (name, bytes) in &run.files {
        println!("{name}: {:.1} MB", bytes.len() as f64 / 1e6);
        assert!(bytes.len() < 40_000_000, "{name}");
    }
}

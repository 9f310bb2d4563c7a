//! One function for each parser of untrusted bytes, which checks the properties that hold for any input. The fuzz
//! targets are one line each. `crates/rt/tests/seeds.rs` runs the same functions on the seeds in every test.

mod cutting;
mod layers;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::OnceLock;

use bytes::Bytes;
use emu::{EmulatedInterface, LabSpec};
use link::LinkOutput;
use programs::pep::{proxy_header as header, syn};
use topology::{NodeKind, Topology, TopologySpec};
use transport::perf_load::PerfServer;
use transport::{App, AppEvent, ReadStatus, Streams};
use units::{Ecn, Packet, Time};

pub use layers::layers;

/// A function of arbitrary bytes.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: [(&str, Target); 14] = [
    ("http3", http3),
    ("proxy_header", proxy_header),
    ("syn", syn_packet),
    ("frame", frame),
    ("super_frame", super_frame),
    ("perf_server", perf_server),
    ("perf_tcp", perf_tcp),
    ("calls", calls),
    ("folder", folder),
    ("graph", graph),
    ("contact_plan", contact_plan),
    ("layers", layers),
    ("dtn_node", dtn_node),
    ("certificate", certificate),
];

/// Passes events of any kind and order to the HTTP/3 server.
pub fn http3(script: &[u8]) {
    fuzz_harness::http3::exercise_http3(script);
}

/// Parses the header of a proxy's pooled connection.
///
/// The result does not depend on the split into pieces, and exists after the length of the longest header. It names
/// permitted ends and can be written again.
pub fn proxy_header(bytes: &[u8]) {
    let whole = header::parse(bytes);
    match whole {
        Ok(Some((ends, length))) => {
            assert!(length <= bytes.len() && length <= header::MAX_HEADER_BYTES);
            assert!(header::is_proxiable(ends.client) && header::is_proxiable(ends.server));
            let again = header::encode(ends).expect("ends of one family");
            assert_eq!(header::parse(&again), Ok(Some((ends, again.len()))));
        }
        Ok(None) => assert!(bytes.len() < header::MAX_HEADER_BYTES),
        Err(_) => {}
    }
    for cut in 0..bytes.len().min(64) {
        match header::parse(&bytes[..cut]) {
            Ok(None) => {}
            early => {
                assert_eq!(early, whole, "cut at {cut}");
                break;
            }
        }
    }
}

/// Parses a packet that may be the SYN of a connection or its reset.
///
/// A result is a part of the packet, names permitted ends, and parses to itself.
pub fn syn_packet(bytes: &[u8]) {
    if let Some(reset) = syn::parse_reset(bytes) {
        assert!(
            header::is_proxiable(reset.addresses.client)
                && header::is_proxiable(reset.addresses.server)
        );
        assert_eq!(syn::parse_syn(bytes), None, "a first SYN has one flag");
    }
    let Some(found) = syn::parse_syn(bytes) else { return };
    assert!(found.packet.len() <= bytes.len());
    assert!(
        header::is_proxiable(found.addresses.client)
            && header::is_proxiable(found.addresses.server)
    );
    assert_eq!(found.addresses.client.is_ipv4(), found.addresses.server.is_ipv4());
    assert_eq!(syn::parse_syn(&found.packet), Some(found), "a right checksum stays as it is");
}

/// Marks a packet of a TUN device, and checks that only the field of the mark and the checksum of IPv4 change.
pub fn frame(bytes: &[u8]) {
    let flow = emu::classifier::flow_hash(bytes);
    let before = emu::classifier::ecn(bytes);
    for mark in [Ecn::Ce, Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
        let mut marked = bytes.to_vec();
        emu::classifier::set_ecn(&mut marked, mark);
        assert_eq!(emu::classifier::ecn(&marked), before.map(|_| mark));
        assert_eq!(emu::classifier::flow_hash(&marked), flow);
        let four = bytes.first().is_some_and(|first| first >> 4 == 4);
        for (at, (old, new)) in bytes.iter().zip(&marked).enumerate() {
            let may = at == 1 || (four && (10..12).contains(&at));
            assert!(may || old == new, "byte {at}");
        }
    }
}

/// Segments a super-frame, after a byte that selects the MTU, into buffers with earlier content.
///
/// The packets equal those of the reference implementation, or both reject the frame.
pub fn super_frame(bytes: &[u8]) {
    cutting::same(bytes);
}

/// Pieces of a stream with their offsets.
type Pieces = Vec<(u64, Vec<u8>)>;

/// Streams of a client of the perf server.
#[derive(Default)]
struct Client {
    arrived: BTreeMap<u64, (Pieces, ReadState)>,
    ended: BTreeMap<u64, bool>,
    written: BTreeMap<u64, u64>,
    room: usize,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum ReadState {
    #[default]
    Open,
    Finished,
    Reset,
}

impl Streams for Client {
    fn open(&mut self) -> Option<u64> {
        panic!("the server opens nothing");
    }

    fn write(&mut self, stream: u64, data: Bytes) -> usize {
        assert!(!self.ended.contains_key(&stream), "written after the end");
        let taken = data.len().min(self.room);
        self.room -= taken;
        *self.written.entry(stream).or_default() += taken as u64;
        taken
    }

    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadStatus {
        let Some((arrived, state)) = self.arrived.get_mut(&stream) else {
            return ReadStatus::Reset;
        };
        for (offset, data) in arrived.drain(..) {
            take(offset, &data);
        }
        match state {
            ReadState::Open => ReadStatus::Open,
            ReadState::Finished => ReadStatus::Finished,
            ReadState::Reset => ReadStatus::Reset,
        }
    }

    fn finish(&mut self, stream: u64) {
        assert_eq!(self.ended.insert(stream, true), None, "finished twice");
    }

    fn reset(&mut self, stream: u64) {
        assert_eq!(self.ended.insert(stream, false), None, "reset after the end");
    }

    fn stop(&mut self, _stream: u64) {}

    fn write_budget(&self) -> usize {
        1 << 16
    }

    fn close(&mut self) {
        panic!("the server does not close");
    }
}

/// Runs a client of `bentpipe perf server` with wrong sizes and any order of events.
///
/// A response is never longer than requested, and never begins before the end of the request.
pub fn perf_server(script: &[u8]) {
    let (mut server, mut client) = (PerfServer::default(), Client::default());
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    let mut asked: BTreeMap<u64, [u8; 8]> = BTreeMap::new();
    for (step, words) in script.chunks(12).enumerate() {
        let now = Time(step as u64 * 1_000_000);
        let id = u64::from(words[0] & 7) * 4;
        let data = words.get(2..).unwrap_or(&[]);
        let known = client.arrived.contains_key(&id);
        let (arrived, state) = client.arrived.entry(id).or_default();
        let offset = next.entry(id).or_default();
        let told = match words[0] >> 5 {
            // Bytes, of which the first few may come late; with or without the end behind them.
            0..=2 if *state == ReadState::Open => {
                let head = asked.entry(id).or_default();
                for (place, byte) in (*offset..8).zip(data) {
                    head[place as usize] = *byte;
                }
                let cut = usize::from(words.get(1).copied().unwrap_or(0)) % (data.len() + 1);
                arrived.push((*offset + cut as u64, data[cut..].to_vec()));
                arrived.push((*offset, data[..cut].to_vec()));
                *offset += data.len() as u64;
                if words[0] >> 5 == 2 {
                    *state = ReadState::Finished;
                }
                Some(if known { AppEvent::Readable(id) } else { AppEvent::StreamOpened(id) })
            }
            3 if *state == ReadState::Open && known => {
                *state = ReadState::Reset;
                Some(AppEvent::Readable(id))
            }
            4 => Some(AppEvent::Stopped(id)),
            5 if known => Some(AppEvent::Finished(id)),
            6 => Some(AppEvent::Readable(id)),
            _ => {
                client.room = 1 << (words[0] & 31).min(20);
                server.has_data().then_some(AppEvent::Writable)
            }
        };
        if let Some(event) = told {
            server.on_event(now, event, &mut client);
        }
        assert!(server.stream_reports().len() <= 8, "a report for each stream alone");
    }
    for (id, written) in &client.written {
        let finished =
            client.arrived.get(id).is_some_and(|(_, state)| *state == ReadState::Finished);
        assert!(finished, "answered before the end of stream {id}");
        let most = asked.get(id).map_or(0, |head| u64::from_be_bytes(*head));
        assert!(*written <= most, "stream {id}: {written} bytes for {most}");
    }
}

/// Sends bytes to `bentpipe perf server` over TCP or TLS, on a real socket.
pub fn perf_tcp(bytes: &[u8]) {
    fuzz_harness::perf_tcp::exercise_tcp(bytes);
}

/// Parses signalling and datagrams of calls.
pub fn calls(bytes: &[u8]) {
    fuzz_harness::media::exercise(bytes);
}

/// Resolves the path of a requested file; no file outside the folder is opened.
pub fn folder(bytes: &[u8]) {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    let root = ROOT.get_or_init(|| {
        // Nothing runs at a fuzzer's end: all share one folder of the build, of files that are there whole.
        let program = std::env::current_exe().expect("a program of the build");
        let place = program.with_file_name("fuzz-folder");
        let root = place.join("root");
        std::fs::create_dir_all(root.join("sub")).expect("a folder of the build");
        for (file, text) in
            [("root/a", "inside"), ("root/sub/index.html", "inside"), ("s", "outside")]
        {
            let part = place.join(format!("part-{}", std::process::id()));
            std::fs::write(&part, text).expect("a file");
            std::fs::rename(&part, place.join(file)).expect("a file");
        }
        // One that ran before has left it.
        let _ = std::os::unix::fs::symlink("../s", root.join("l"));
        root
    });
    let Ok(path) = std::str::from_utf8(bytes) else { return };
    if let Some(mut file) = programs::http::open_in_folder(root, path) {
        let mut text = String::new();
        file.read_to_string(&mut text).expect("one of the files");
        assert_eq!(text, "inside", "{path:?}");
    }
}

/// Number of packets for each direction of a topology.
const PACKETS: u64 = 20;

/// Maximum length of a list in a topology: longer ones take time and test nothing more.
const LONGEST_GRAPH: usize = 4096;

/// Builds a topology of a plan, or checks that its error has a reason.
///
/// All packets are counted, and none leaves before its arrival. The same holds for a lab of all its hosts, where each
/// route starts at its host.
pub fn graph(bytes: &[u8]) {
    if bytes.len() > LONGEST_GRAPH {
        return;
    }
    let Ok(graph) = serde_json::from_slice::<TopologySpec>(bytes) else { return };
    let mut topology = match Topology::build(&graph, 1) {
        Ok(topology) => topology,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for line in &mut topology.simplex_links {
        let mut out = LinkOutput::default();
        for number in 0..PACKETS {
            line.push(Time(number * 1_000_000), Packet::of_bytes(1500), &mut out);
        }
        line.poll(Time(60_000_000_000), &mut out);
        let gone = (out.delivered.len() + out.dropped.len()) as u64;
        assert_eq!(gone + line.in_transit().0, PACKETS);
        assert!(out.delivered.is_sorted_by_key(|(due, _)| *due));
    }
    let hosts = graph.nodes.iter().filter(|node| node.kind == NodeKind::Host);
    let mut hosts = hosts.map(|node| node.name.clone());
    let (Some(client), Some(server)) = (hosts.next(), hosts.next()) else { return };
    let hosts = hosts.collect();
    let lab = LabSpec { client, server, hosts, seed: 1, mtu: 1500, users: Vec::new(), graph };
    match lab.build_layout() {
        Ok(outline) => {
            for route in outline.timed_routes.iter().flat_map(|version| &version.routes) {
                let begins =
                    |leg: &EmulatedInterface| outline.link_ends[leg.link][leg.side] == route.node;
                assert!(
                    route.interface.iter().all(begins) && route.destination < outline.nodes.len()
                );
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Maximum number of nodes and contacts for routing: more take time and test nothing more.
const MOST_NODES: usize = 6;

/// Reads a contact plan as commands of ION or as data.
///
/// Errors name lines. Each pair of nodes gets a route that passes the check of candidates, or none.
pub fn contact_plan(bytes: &[u8]) {
    let spec = serde_json::from_slice(bytes).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(bytes);
        let found = contacts::ion::parse(&text);
        let lines = text.lines().count();
        assert!(
            found.problems.iter().chain(&found.notes).all(|(line, _)| (1..=lines).contains(line))
        );
        found.spec
    });
    let (problems, _) = contacts::check_plan(&spec);
    let mut plan = match contacts::Plan::new(&spec) {
        Ok(plan) => plan,
        Err(said) => return assert_eq!(said, problems),
    };
    assert!(problems.is_empty());
    let (ledger, backlog) = (contacts::BookedVolume::default(), contacts::Backlog::default());
    let bundle = contacts::BundleDemand {
        size: bytes.len() as u64,
        priority: contacts::Priority::Normal,
        is_fragmentable: bytes.len() % 2 == 1,
        deadline: Time::MAX,
    };
    let load = contacts::RouteDemand::for_bundle(&bundle, &ledger, &backlog, &[], 0.0);
    let mut search = contacts::ContactGraphSearch::default();
    let nodes = plan.node_count().min(MOST_NODES) as u32;
    for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))) {
        let (from, to) = (contacts::PlanNodeId(from), contacts::PlanNodeId(to));
        if let Some(route) = search.find_route(&plan, &load, from, to, Time::ZERO) {
            assert!(from != to && route.edges.len() < plan.node_count());
            let judged = contacts::evaluate(&plan, &route, &bundle, &load, Time::ZERO);
            assert_eq!((judged.rejection, judged.projected_arrival), (None, route.arrival));
        }
        assert!(
            contacts::KShortestRoutes::new(&plan, load, from, to, Time::ZERO).take(3).count() <= 3
        );
    }
    let held: Vec<_> = plan.contacts().map(|(id, _)| id).collect();
    for id in held {
        assert!(plan.remove_contact(id));
    }
    if nodes > 1 {
        let (from, to) = (contacts::PlanNodeId(0), contacts::PlanNodeId(1));
        assert_eq!(search.find_route(&plan, &load, from, to, Time::ZERO), None);
    }
}

/// Sends bytes to a bundle node on a socket.
///
/// The session ends with its connection, and the node stores at most its limit.
pub fn dtn_node(bytes: &[u8]) {
    fuzz_harness::dtn::exercise_dtn(bytes);
}

/// Reads the node ids of a certificate; each is a part of its bytes.
pub fn certificate(bytes: &[u8]) {
    let _ = runtime::peer_identity::public_key_pin(bytes);
    let Ok(names) = runtime::peer_identity::node_ids(bytes) else { return };
    for name in names {
        let held = name.is_empty() || bytes.windows(name.len()).any(|part| part == name.as_bytes());
        assert!(held, "a node id that is not in the certificate");
    }
}

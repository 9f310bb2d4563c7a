//! Measures a node's disk store: `cargo run --release -p bentpipe-programs --example bundle_store -- DIR [BUNDLES]`.
//!
//! - The rate of storing bundles of 1 MB, alternating with synchronised files of 1 MB on the same disk.
//! - The time to start a node with many small bundles (a million) and to delete them at the end of their lifetime. The
//!   number of bundles routed per second in a contact with the link down.

#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use bundle::BundleMetadata;
use bundle::wire::{Bundle, ClassOfService, Crc, Eid, Flags, NewBundleHeader};
use bundle_store::{DiskStore, StoreChange};
use bytes::Bytes;
use nix::sys::resource::{UsageWho, getrusage};
use programs::dtn::{BundleNodePlan, build_node};
use serde_json::json;
use units::{Span, Time};

const EPOCH_MS: u64 = 850_000_000_000;
const LIFETIME: Span = Span::from_secs(1_000_000);
/// A time in the first contact of the plan.
const ROUTED: Time = Time(100_000_000_000);
const ROUNDS: usize = 7;
/// Number of files per round. Bundles are stored singly, or four or sixteen at a time.
const FILES: usize = 32;
const MEGABYTE: usize = 1_000_000;

fn bundle(number: u64, payload: Bytes) -> Bundle {
    let eid = |name: &str| -> Eid { name.parse().expect("a name") };
    let head = NewBundleHeader {
        source: eid("ipn:1.3000"),
        destination: eid("ipn:3.2000"),
        report_to: Eid::Null,
        created_ms: Some(EPOCH_MS),
        sequence: number,
        lifetime: LIFETIME,
        flags: Flags::default(),
        hop_limit: None,
        crc: Crc::None,
        payload_crc: Crc::None,
        class: ClassOfService::default(),
    };
    Bundle::new(&head, vec![payload]).expect("a bundle")
}

fn keep(key: u64, payload: Bytes) -> StoreChange {
    let bundle = bundle(key, payload);
    let stored = BundleMetadata {
        envelope: bundle.envelope(),
        payload_bytes: bundle.payload_bytes(),
        received_ms: EPOCH_MS,
        kind: 0,
    };
    StoreChange::Put { key, metadata: stored.to_bytes(), payload: bundle.payload }
}

/// Writes synchronised files, one after the other. Returns the rate in MB/s.
fn files(folder: &Path, round: usize, data: &[u8], folders: bool) -> f64 {
    fs::create_dir_all(folder).expect("a folder");
    let begun = Instant::now();
    for number in 0..FILES {
        let mut file = File::create(folder.join(format!("{round}-{number}"))).expect("a file");
        file.write_all(data).expect("room");
        file.sync_all().expect("a disk");
        if folders {
            File::open(folder).and_then(|folder| folder.sync_all()).expect("a disk");
        }
    }
    rate(begun)
}

fn rate(begun: Instant) -> f64 {
    (FILES * MEGABYTE) as f64 / 1e6 / begun.elapsed().as_secs_f64()
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn speed(directory: &Path) {
    let data: Vec<u8> = (0..MEGABYTE).map(|at| (at * 2_654_435_761) as u8).collect();
    let payload = Bytes::from(data.clone());
    let (mut store, _) = DiskStore::open(&directory.join("speed"), "ipn:2.0", 0).expect("a store");
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); 5];
    let mut key = 0;
    for round in 0..ROUNDS {
        found[0].push(files(&directory.join("files"), round, &data, false));
        found[1].push(files(&directory.join("names"), round, &data, true));
        for (row, batch) in [(2, 1), (3, 4), (4, 16)] {
            let begun = Instant::now();
            for _ in 0..FILES / batch {
                let changes = (0..batch).map(|_| {
                    key += 1;
                    keep(key, payload.clone())
                });
                let refused = store.apply(changes.collect());
                assert_eq!(refused, []);
            }
            found[row].push(rate(begun));
        }
    }
    let names = [
        "files of 1 MB, synchronised",
        "the same, and their folder",
        "bundles one by one",
        "bundles four at a time",
        "bundles sixteen at a time",
    ];
    let base = median(found[0].clone());
    for (name, rates) in names.into_iter().zip(found) {
        let middle = median(rates);
        println!("{name:28} {middle:8.1} MB/s {:6.2}", middle / base);
    }
}

fn plan(store: &Path) -> BundleNodePlan {
    let contact = |from: &str, to: &str, start: u64| {
        json!({
            "from": from, "to": to, "start_ns": start * 1_000_000_000, "stop_ns": (start + 600) * 1_000_000_000,
            "rate_bit_s": 100_000_000, "declared_at": format!("{from} {to} {start}"),
        })
    };
    let contacts: Vec<_> = (0..20_u64)
        .flat_map(|hour| {
            [
                contact("2", "3", hour * 3600 + 60),
                contact("2", "4", hour * 3600 + 1800),
                contact("4", "3", hour * 3600 + 2500),
            ]
        })
        .collect();
    let range = |from: &str, to: &str| {
        json!({
            "from": from, "to": to, "start_ns": 0, "stop_ns": 72_000_000_000_000_u64, "owlt_ns": 1_000_000,
            "implies_reverse": true, "declared_at": format!("{from} {to}"),
        })
    };
    let ranges = [range("2", "3"), range("2", "4"), range("3", "4")];
    let plan = json!({
        "name": "2", "store": store,
        "dtn": {
            "epoch_ms": EPOCH_MS, "links": [],
            "nodes": [{"name": "2", "eid": "ipn:2.0"}, {"name": "3", "eid": "ipn:3.0"}, {"name": "4", "eid": "ipn:4.0"}],
            "plan": {"contacts": contacts, "ranges": ranges},
        },
        "neighbours": (["3", "4"]).map(|name| json!({
            "neighbour": name, "cla": {"kind": "tcpcl"}, "listen": "127.0.0.1:0", "peer": null,
            "can_send": true, "opens_with_contact": false, "closes_after_contact": false, "quic": transport::quic::QuicSpec::default(),
            "congestion": {"name": "cubic"}, "idle_timeout_ns": 10_000_000_000_u64,
        })),
    });
    serde_json::from_value(plan).expect("a plan")
}

fn many(directory: &Path, bundles: u64) {
    let path = directory.join("many");
    let (mut store, _) = DiskStore::open(&path, "ipn:2.0", 0).expect("a store");
    let begun = Instant::now();
    for from in (0..bundles).step_by(20_000) {
        let until = bundles.min(from + 20_000);
        let changes = (from..until).map(|key| keep(key, Bytes::from(vec![key as u8; 100])));
        assert_eq!(store.apply(changes.collect()), []);
    }
    println!("{bundles} bundles of 100 B stored in {:.1} s", begun.elapsed().as_secs_f64());
    drop(store);
    let (begun, used) = (Instant::now(), processors());
    let Ok(host) = build_node(&plan(&path)) else { panic!("no node") };
    let (seconds, used) = (begun.elapsed().as_secs_f64(), processors() - used);
    println!("a node with them has started in {seconds:.2} s, {used:.2} s of processors");
    let mut host = host.manager();
    let agent = host.bpa_mut();
    assert_eq!(agent.undispatched_count() as u64, bundles);
    let (begun, used) = (Instant::now(), processors());
    let mut acts = Vec::new();
    for routed in [100_000.min(bundles), bundles] {
        while agent.undispatched_count() as u64 > bundles - routed {
            agent.dispatch_recovered(ROUTED);
            if agent.poll_at() <= ROUTED {
                agent.poll(ROUTED);
            }
            agent.take_actions(&mut acts);
            acts.clear();
            agent.take_events();
            assert!(agent.take_routes().iter().all(|one| one.decision == "planned"));
        }
        let seconds = begun.elapsed().as_secs_f64();
        let (rate, used) = (routed as f64 / seconds, processors() - used);
        println!(
            "{routed} of them routed in {seconds:.2} s, {used:.2} s of processors, {rate:.0} a second"
        );
    }
    let (begun, used) = (Instant::now(), processors());
    agent.poll(Time::ZERO + LIFETIME);
    let (seconds, used) = (begun.elapsed().as_secs_f64(), processors() - used);
    assert_eq!((agent.stored_bundles().count(), agent.take_events().len() as u64), (0, bundles));
    println!("all of them deleted in {seconds:.2} s, {used:.2} s of processors");
}

/// Returns the processor time of this process in seconds.
fn processors() -> f64 {
    let used = getrusage(UsageWho::RUSAGE_SELF).expect("a kernel");
    [used.user_time(), used.system_time()]
        .iter()
        .map(|one| one.tv_sec() as f64 + one.tv_usec() as f64 / 1e6)
        .sum()
}

fn main() {
    let mut words = std::env::args().skip(1);
    let directory = words.next().expect("a folder on the disk that is measured");
    let bundles = words.next().map_or(1_000_000, |count| count.parse().expect("a number"));
    let directory = Path::new(&directory).join(format!("bundle-store-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a folder");
    speed(&directory);
    many(&directory, bundles);
    fs::remove_dir_all(&directory).expect("it was made here");
}

//! Each stored byte uses memory once, during reception and forwarding; zeros use none.

use std::alloc::System;

use bundle::SessionEvent;
use bundle::cla::{ClaSpec, MtcpSpec, QubicleSpec, QuicclSpec, StreamMappingSpec, TcpclSpec};
use bundle::wire::{Bundle, ClassOfService, Crc, Eid, Flags, NewBundleHeader};
use bytes::Bytes;
use counting::{Counting, peak, reset_peak, used};
use pair::{Pair, StoreBehaviour, seconds};
use units::Span;

mod counting;
#[path = "../suite/cla/pair.rs"]
#[allow(dead_code, reason = "other tests use the other items")]
mod pair;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

const BUNDLES: u64 = 24;
const BYTES: usize = 1_000_000;
const ALL: usize = BUNDLES as usize * BYTES;

/// Builds bundles with a payload of this byte.
fn bundles(byte: u8) -> Vec<Bytes> {
    let eid = |name: &str| -> Eid { name.parse().unwrap() };
    (0..BUNDLES)
        .map(|sequence| {
            let head = NewBundleHeader {
                source: eid("ipn:1.1"),
                destination: eid("ipn:3.1"),
                report_to: Eid::Null,
                created_ms: Some(850_000_000_000),
                sequence,
                lifetime: Span::from_secs(600),
                flags: Flags::default(),
                hop_limit: None,
                crc: Crc::Crc16,
                payload_crc: Crc::None,
                class: ClassOfService::default(),
            };
            let payload = vec![Bytes::from(vec![byte; BYTES])];
            let parts = Bundle::new(&head, payload).unwrap().encode(&eid("ipn:1.0"), Span::ZERO);
            parts.concat().into()
        })
        .collect()
}

/// Returns the memory growth of a node after storing the bundles, the peak until then, and the growth after passing all
/// to the next hop.
fn costs(layer: &ClaSpec, bundles: &[Bytes]) -> [usize; 3] {
    let mut pair = Pair::new(layer);
    pair.nodes[1].store = StoreBehaviour::After(Span::from_secs(100_000));
    pair.run(seconds(10));
    let before = used();
    reset_peak();
    for (id, bundle) in (0..).zip(bundles) {
        // No window exceeds three bundles.
        pair.send(0, id, bundle);
        if id % 3 == 2 {
            pair.run(seconds(20 + 10 * id));
        }
    }
    let [stored, peak] = [used(), peak()].map(|bytes| bytes.saturating_sub(before));
    let mut onward = Vec::new();
    for (_, event) in &pair.nodes[1].events {
        if let SessionEvent::Received { data, .. } = event {
            let bundle = Bundle::decode_parts(data).unwrap();
            onward.push(bundle.encode(&"ipn:2.0".parse().unwrap(), Span::ZERO));
        }
    }
    let passed_on = used().saturating_sub(before + stored);
    let given: Vec<Vec<u8>> = onward.iter().map(|parts| parts.concat()).collect();
    let mut wanted: Vec<&[u8]> = bundles.iter().map(|bundle| &bundle[..]).collect();
    let mut given: Vec<&[u8]> = given.iter().map(|bundle| &bundle[..]).collect();
    wanted.sort_unstable();
    given.sort_unstable();
    assert!(given == wanted, "other bundles came than were sent");
    [stored, peak, passed_on]
}

#[test]
fn stored_bytes_use_memory_once_and_zeros_use_none() {
    let quiccl = |streams| ClaSpec::Quiccl(QuicclSpec { streams, ..QuicclSpec::default() });
    let layers = [
        ("quiccl", quiccl(StreamMappingSpec::One)),
        ("quiccl-each", quiccl(StreamMappingSpec::Each)),
        ("qubicle", ClaSpec::Qubicle(QubicleSpec::default())),
        ("tcpcl", ClaSpec::Tcpcl(TcpclSpec::default())),
        ("mtcp", ClaSpec::Mtcp(MtcpSpec::default())),
    ];
    let (data, zeros) = (bundles(5), bundles(0));
    for (name, layer) in layers {
        let [stored, peak, passed_on] = costs(&layer, &data);
        println!("{name}: {stored} {peak} {passed_on}");
        // QUIC retains packet tables of the size that its largest window needed.
        let tables = if matches!(name, "tcpcl" | "mtcp") { ALL / 20 } else { ALL / 16 };
        assert!((ALL..ALL + tables).contains(&stored), "{name}: {stored} B stored");
        // Includes transport buffers of a window in transit.
        assert!(peak < ALL + ALL / 10, "{name}: {peak} B at the most");
        assert!(passed_on < ALL / 50, "{name}: {passed_on} B more to pass it on");
        let [stored, peak, passed_on] = costs(&layer, &zeros);
        println!("{name}: {stored} {peak} {passed_on} with zeros");
        assert!(stored < tables, "{name}: zeros take {stored} B");
        assert!(peak < ALL / 4, "{name}: zeros take {peak} B at the most");
        assert!(passed_on < ALL / 50, "{name}: {passed_on} B more to pass zeros on");
    }
}

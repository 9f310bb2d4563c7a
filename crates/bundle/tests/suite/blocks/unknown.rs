//! Unknown blocks and their processing flags (RFC 9171 sections 4.2.4, 5.6).

use bundle::wire::{Bundle, ClassOfService, Crc, Flags, NewBundleHeader};
use bundle::{BundleEvent, BundleProtocolAgent, DtnSpec};
use bytes::Bytes;
use serde_json::json;
use units::Span;

use super::node::{EPOCH, Reports, eid, events, give, neighbour_config};

const REPORT: u8 = 0x02;
const DELETE: u8 = 0x04;
const DISCARD: u8 = 0x10;

/// Builds a bundle for node 2, with reports to node 2 and block 200 with these flags before the payload.
fn with_block(flags: u8) -> Bytes {
    let head = NewBundleHeader {
        source: eid("ipn:1.1"),
        destination: eid("ipn:2.2000"),
        report_to: eid("ipn:2.1000"),
        created_ms: Some(EPOCH),
        sequence: 3,
        lifetime: Span::from_secs(60),
        flags: Flags {
            report_status_time: true,
            delete_report_requested: true,
            ..Flags::default()
        },
        hop_limit: None,
        crc: Crc::Crc32c,
        payload_crc: Crc::None,
        class: ClassOfService::default(),
    };
    let bundle = Bundle::new(&head, vec![Bytes::from_static(b"hello")]).expect("a bundle");
    let mut data = bundle.encode(&eid("ipn:1.0"), Span::ZERO).concat();
    let primary = 1 + hardy_cbor::decode::skip_value(&data[1..], 16).expect("a block").1;
    data.splice(primary..primary, [0x85, 0x18, 200, 9, flags, 0, 0x42, 0xab, 0xcd]);
    data.into()
}

/// Returns the result at the node: its events, its reports, and whether the neighbour gets an acknowledgement.
fn arrives(flags: u8) -> (Vec<BundleEvent>, Reports, bool) {
    let spec: DtnSpec = serde_json::from_value(json!({
        "epoch_ms": EPOCH,
        "nodes": [{"name": "1", "eid": "ipn:1.0"}, {"name": "2", "eid": "ipn:2.0"}],
        "links": [], "plan": {"contacts": [], "ranges": []}
    }))
    .expect("a specification");
    let agent = BundleProtocolAgent::new(&spec, "2", &[neighbour_config("1")]).expect("a node");
    let given = give(agent, &[with_block(flags)]);
    (given.records, given.reports, given.taken == 1)
}

#[test]
fn an_unknown_block_without_flags_is_forwarded() {
    let (records, reports, taken) = arrives(0);
    assert_eq!(events(&records), [("received", None), ("delivered", None)]);
    assert!(reports.is_empty() && taken);
    let read = Bundle::decode(&with_block(0)).expect("a bundle");
    let on = read.encode(&eid("ipn:2.0"), Span::ZERO).concat();
    assert!(on.windows(2).any(|two| two == [0xab, 0xcd]));
}

#[test]
fn an_unknown_block_with_the_discard_flag_is_removed() {
    let read = Bundle::decode(&with_block(DISCARD)).expect("a bundle");
    let on = read.encode(&eid("ipn:2.0"), Span::ZERO).concat();
    assert!(!on.windows(2).any(|two| two == [0xab, 0xcd]));
    assert_eq!(events(&arrives(DISCARD).0), [("received", None), ("delivered", None)]);
}

#[test]
fn a_report_on_an_unknown_block_has_reason_block_unsupported() {
    for flags in [REPORT, REPORT | DISCARD] {
        let (records, reports, taken) = arrives(flags);
        assert_eq!(events(&records), [("received", None), ("delivered", None)]);
        assert_eq!(reports, [(11, [true, false, false, false])]);
        assert!(taken);
    }
}

#[test]
fn an_unknown_block_with_the_delete_flag_deletes_the_bundle() {
    let deleted = [("received", None), ("deleted", Some("block unsupported"))];
    let (records, reports, taken) = arrives(DELETE);
    assert_eq!(events(&records), deleted);
    assert_eq!(reports, [(11, [false, false, false, true])]);
    assert!(taken, "it is not offered again");
    let (records, reports, _) = arrives(DELETE | REPORT);
    assert_eq!(events(&records), deleted);
    let both = [(11, [true, false, false, false]), (11, [false, false, false, true])];
    assert_eq!(reports, both);
}

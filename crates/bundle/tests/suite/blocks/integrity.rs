//! Processing of bundles with integrity blocks (RFC 9172 sections 5.1.2, 5.2).

use bundle::wire::{BibStatus, Bundle, ClassOfService, Crc, Eid, Flags, NewBundleHeader};
use bundle::{BundleProtocolAgent, DtnSpec, IntegrityScope, Secret, Secrets, ShaVariant};
use bytes::Bytes;
use hardy_cbor::encode;
use serde_json::{Value, json};
use units::Span;

use super::node::{EPOCH, Given, eid, events, give, neighbour_config};

const MISSING: &str = "missing security operation";
const UNKNOWN: &str = "unknown security operation";
const UNEXPECTED: &str = "unexpected security operation";
const FAILED: &str = "failed security operation";
const CONFLICTING: &str = "conflicting security operation";

fn key(name: &str) -> Secret {
    Secret::from_name(name)
}

/// Returns the header of a bundle from node 1 to `to`, with reports to node 2.
fn head(to: &str, crc: Crc) -> NewBundleHeader {
    NewBundleHeader {
        source: eid("ipn:1.1"),
        destination: eid(to),
        report_to: eid("ipn:2.1000"),
        created_ms: Some(EPOCH),
        sequence: 3,
        lifetime: Span::from_secs(60),
        flags: Flags { delete_report_requested: true, ..Flags::default() },
        hop_limit: Some(9),
        crc,
        payload_crc: crc,
        class: ClassOfService { critical: true, ..ClassOfService::default() },
    }
}

fn plain(to: &str, crc: Crc) -> Bundle {
    Bundle::new(&head(to, crc), vec![Bytes::from(vec![7; 3000])]).expect("a bundle")
}

fn signed(to: &str, by: &str, name: &str) -> Bundle {
    let mut bundle = plain(to, Crc::Crc32c);
    bundle
        .sign(&eid(by), &key(name), ShaVariant::Sha256, IntegrityScope::default())
        .expect("signed");
    bundle
}

fn bytes(bundle: &Bundle) -> Bytes {
    bundle.encode(&eid("ipn:1.0"), Span::ZERO).concat().into()
}

/// Builds node 2, a neighbour of node 1, with this integrity policy.
fn node(integrity: Value) -> BundleProtocolAgent {
    let spec: DtnSpec = serde_json::from_value(json!({
        "epoch_ms": EPOCH, "derive_keys_from_names": true,
        "nodes": [
            {"name": "1", "eid": "ipn:1.0"}, {"name": "3", "eid": "ipn:3.0"},
            {"name": "2", "eid": "ipn:2.0", "integrity": integrity,
             "routes": [{"to": "3", "via": "1"}]},
        ],
        "links": [], "plan": {"contacts": [], "ranges": []}
    }))
    .expect("a specification");
    BundleProtocolAgent::new(&spec, "2", &[neighbour_config("1")]).expect("a node")
}

fn strict() -> Value {
    json!({"check": [{"node": "1", "key": "k"}], "unsigned": "delete", "other_sources": "delete"})
}

/// Returns the deletion reason of a bundle; `None` if it was delivered.
fn deletion_reason(given: &Given) -> Option<&str> {
    let events = events(&given.records);
    match events[..] {
        [("received", None), ("delivered", None)] => {
            assert!(given.reports.is_empty());
            None
        }
        [("received", None), ("deleted", why)] => why,
        _ => panic!("{events:?}"),
    }
}

#[test]
fn the_signature_decides_on_delivery_or_deletion() {
    let here = "ipn:2.2000";
    let mut bent = bytes(&signed(here, "ipn:1.0", "k")).to_vec();
    let at = bent.len() - 100;
    bent[at] ^= 1;
    let lax = json!({"check": [{"node": "1", "key": "k"}]});
    let of_other = json!({"check": [{"node": "3", "key": "k"}], "other_sources": "delete"});
    let good = bytes(&signed(here, "ipn:1.0", "k"));
    let none = bytes(&plain(here, Crc::Crc16));
    let cases = [
        ("right", strict(), good.clone(), None),
        (
            "another service of the same node signs",
            strict(),
            bytes(&signed(here, "ipn:1.9", "k")),
            None,
        ),
        ("another key", strict(), bytes(&signed(here, "ipn:1.0", "l")), Some((15, FAILED))),
        ("one bit", strict(), bent.clone().into(), Some((15, FAILED))),
        ("one bit, and signatures are not asked for", lax.clone(), bent.into(), Some((15, FAILED))),
        ("nobody signed", strict(), none.clone(), Some((12, MISSING))),
        ("nobody signed, and nobody had to", lax.clone(), none.clone(), None),
        (
            "nobody signed, of a source without a key",
            of_other.clone(),
            none.clone(),
            Some((12, MISSING)),
        ),
        ("signed, and there is no key for who did", of_other, good.clone(), Some((14, UNEXPECTED))),
        (
            "somebody else signed",
            strict(),
            bytes(&signed(here, "ipn:3.0", "k")),
            Some((14, UNEXPECTED)),
        ),
        (
            "nothing is checked",
            json!({"sign": {"key": "k", "sha": "384", "scope": {"primary": true, "target": true, "security": true}}}),
            good,
            None,
        ),
    ];
    for (what, integrity, data, expected) in cases {
        let given = give(node(integrity), &[data]);
        assert_eq!(deletion_reason(&given), expected.map(|one| one.1), "{what}");
        assert_eq!(given.taken, 1, "{what}: it is not offered again");
        let reports: Vec<_> =
            expected.iter().map(|one| (one.0, [false, false, false, true])).collect();
        assert_eq!(given.reports, reports, "{what}");
    }
}

#[test]
fn a_forwarding_node_verifies_if_configured_and_preserves_the_signature() {
    let there = "ipn:3.2000";
    let wrong = bytes(&signed(there, "ipn:1.0", "l"));
    let at = |checks_forwarded: bool| {
        let mut integrity = strict();
        integrity["checks_forwarded"] = json!(checks_forwarded);
        integrity
    };
    let given = give(node(at(true)), std::slice::from_ref(&wrong));
    assert_eq!(deletion_reason(&given), Some(FAILED));
    assert_eq!(give(node(at(false)), &[wrong]).sent.len(), 1, "it is not for this node");
    let good = signed(there, "ipn:1.0", "k");
    let given = give(node(at(true)), &[bytes(&good)]);
    assert_eq!(given.sent.len(), 1);
    // The hop rewrites hop count, previous node and class and adds the age; all other blocks remain.
    let next = Bundle::decode(&given.sent[0]).expect("a bundle");
    assert_eq!((next.hop_count, next.previous_node.clone()), (Some((9, 1)), Some(eid("ipn:2.0"))));
    let secret = key("k");
    let found = next.verify_integrity(|_| Some(&secret));
    assert_eq!(
        found.iter().map(|one| (one.target, one.status)).collect::<Vec<_>>(),
        [(1, BibStatus::Verified)]
    );
    assert_eq!(found[0].source, eid("ipn:1.0"));
}

/// A change of any bit of a bundle is detected, unless the bit is not signed.
#[test]
fn a_change_of_any_signed_bit_is_detected() {
    let secret = key("k");
    let payload = vec![Bytes::from_static(b"forty bytes of payload, that is enough.")];
    let mut good = Bundle::new(&head("ipn:2.2000", Crc::None), payload).expect("a bundle");
    good.sign(&eid("ipn:1.0"), &secret, ShaVariant::Sha256, IntegrityScope::default())
        .expect("signed");
    let data = bytes(&good);
    let find = |pattern: &[u8]| {
        let at = data.windows(pattern.len()).position(|some| some == pattern).expect("it is there");
        at..at + pattern.len()
    };
    // Hop count and class are not signed, and the other context flags have no meaning.
    let [hops, class] = [
        find(&[0x85, 10, 3, 1, 0, 0x43, 0x82, 9, 0]),
        find(&[0x85, 0x18, 192, 4, 1, 0, 0x43, 0x82, 1, 0xf5]),
    ];
    let context = find(&[0x81, 1, 1, 1, 0x82, 2]);
    let mut free = 0;
    for (at, bit) in (0..data.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut bent = data.to_vec();
        bent[at] ^= 1 << bit;
        let Ok(read) = Bundle::decode(&bent.into()) else { continue };
        let key_of = |eid: &Eid| (eid.to_string() == "ipn:1.0").then_some(&secret);
        if read
            .verify_integrity(key_of)
            .iter()
            .any(|one| one.target == 1 && one.status == BibStatus::Verified)
        {
            assert!(
                hops.contains(&at) || class.contains(&at) || at == context.start + 3,
                "byte {at}, bit {bit}"
            );
            free += 1;
        }
    }
    assert!(free > 0);
    // An integrity block with the flag "delete if unknown" is known here.
    let scope = IntegrityScope { security: false, ..IntegrityScope::default() };
    let mut loose = plain("ipn:2.2000", Crc::None);
    loose.sign(&eid("ipn:1.0"), &secret, ShaVariant::Sha256, scope).expect("signed");
    let mut data = bytes(&loose).to_vec();
    let at = data.windows(5).position(|five| five == [0x85, 11, 2, 0, 0]).expect("the block");
    data[at + 3] = 4;
    let read = Bundle::decode(&data.into()).expect("a bundle");
    assert_eq!(read.verify_integrity(|_| Some(&secret))[0].status, BibStatus::Verified);
}

#[test]
fn fragments_are_verified_after_reassembly() {
    let cuts = |name: &str| {
        let mut whole = plain("ipn:2.2000", Crc::Crc16);
        whole
            .sign(&eid("ipn:1.0"), &key(name), ShaVariant::Sha512, IntegrityScope::default())
            .expect("signed");
        let [first, rest] = whole.fragment(1000).expect("two parts");
        let [second, third] = rest.fragment(1500).expect("two parts");
        assert!(
            first
                .clone()
                .sign(&eid("ipn:1.0"), &key("k"), ShaVariant::Sha256, IntegrityScope::default())
                .is_err(),
            "section 5.2"
        );
        [third, first, second].map(|part| bytes(&part))
    };
    let end = |given: &Given| {
        let events = events(&given.records);
        let (what, why) = *events.last().expect("events");
        (what.to_owned(), why.map(str::to_owned))
    };
    let given = give(node(strict()), &cuts("k"));
    assert_eq!(end(&given), ("delivered".to_owned(), None));
    let given = give(node(strict()), &cuts("l"));
    assert_eq!(end(&given), ("deleted".to_owned(), Some(FAILED.to_owned())));
    assert_eq!(given.reports, [(15, [false, false, false, true])]);
}

/// Inserts an integrity block with this data and these flags after the primary block of `of`.
fn with_block(of: &Bundle, number: u8, flags: u8, data: &[u8]) -> Bytes {
    let mut all = bytes(of).to_vec();
    let primary = 1 + hardy_cbor::decode::skip_value(&all[1..], 16).expect("a block").1;
    let mut block = vec![0x85, 11, 0x18, number + 100, flags, 0];
    block.extend(encode::emit(&encode::Bytes(&data)).0);
    all.splice(primary..primary, block);
    all.into()
}

/// Builds an abstract security block: targets, context, context flags, source, and the rest.
fn asb(targets: &[u8], context: u8, rest: &[u8]) -> Vec<u8> {
    let mut data = vec![0x80 | targets.len() as u8];
    data.extend_from_slice(targets);
    data.extend_from_slice(&[context, 1, 0x82, 2, 0x82, 1, 0]);
    data.extend_from_slice(rest);
    data
}

#[test]
fn an_unsupported_signature_does_not_count() {
    let one = plain("ipn:2.2000", Crc::Crc16);
    let mac = |parameters: &[u8]| [parameters, &[0x81, 0x81, 0x82, 1, 0x43, 1, 2, 3]].concat();
    // An unknown context; a wrapped key; a scope with an unknown bit; an unknown hash; an unknown parameter; an unknown
    // result; no result.
    let unknown = [
        asb(&[1], 9, &mac(&[0x80])),
        asb(&[1], 1, &mac(&[0x81, 0x82, 2, 0x41, 0])),
        asb(&[1], 1, &mac(&[0x81, 0x82, 3, 8])),
        asb(&[1], 1, &mac(&[0x81, 0x82, 1, 4])),
        asb(&[1], 1, &mac(&[0x81, 0x82, 9, 0])),
        asb(&[1], 1, &[0x80, 0x81, 0x81, 0x82, 2, 0x41, 0]),
        asb(&[1], 1, &[0x80, 0x81, 0x80]),
    ];
    for data in unknown {
        let given = give(node(strict()), &[with_block(&one, 0, 0, &data)]);
        assert_eq!(deletion_reason(&given), Some(UNKNOWN), "{data:02x?}");
    }
    // A MAC of three bytes is valid in form, but wrong.
    let short = asb(&[1], 1, &mac(&[0x80]));
    let given = give(node(strict()), &[with_block(&one, 0, 0, &short)]);
    assert_eq!(deletion_reason(&given), Some(FAILED));
    // A block with the supported context counts as known, regardless of its flags; one with another context does not.
    for (flags, context, expected) in
        [(0x04, 1, FAILED), (0x14, 1, FAILED), (0x04, 9, "block unsupported")]
    {
        let data = asb(&[1], context, &mac(&[0x80]));
        let given = give(node(strict()), &[with_block(&one, 0, flags, &data)]);
        assert_eq!(deletion_reason(&given), Some(expected));
    }
}

#[test]
fn contradictory_blocks_are_refused() {
    let one = signed("ipn:2.2000", "ipn:1.0", "k");
    let results = |count: usize| {
        let mut rest = vec![0x80, 0x80 | count as u8];
        (0..count).for_each(|_| rest.extend_from_slice(&[0x81, 0x82, 1, 0x41, 0]));
        rest
    };
    let twice = with_block(&one, 0, 0, &asb(&[1], 1, &results(1)));
    let given = give(node(strict()), &[twice]);
    assert_eq!(deletion_reason(&given), Some(CONFLICTING), "two signatures of one block");
    assert_eq!(given.reports, [(16, [false, false, false, true])]);
    let refused = [
        ("itself", asb(&[0x18, 100], 1, &results(1))),
        ("another integrity block", asb(&[2], 1, &results(1))),
        ("a block that is not there", asb(&[23], 1, &results(1))),
        ("one twice", asb(&[0, 0], 1, &results(2))),
        ("more than there are results", asb(&[0], 1, &results(2))),
        ("nothing", asb(&[], 1, &results(0))),
        ("cut", asb(&[0], 1, &[0x81])),
    ];
    for (what, mut data) in refused {
        if what == "itself" {
            data[0] = 0x81;
        }
        let wrong = Bundle::decode(&with_block(&one, 0, 0, &data));
        assert!(wrong.is_err(), "{what}");
    }
}

#[test]
fn a_bundle_with_thousands_of_targets_is_refused() {
    let one = plain("ipn:2.2000", Crc::Crc16);
    for count in [101_u32, 4_000_000] {
        let mut data = vec![0x9a];
        data.extend_from_slice(&count.to_be_bytes());
        data.extend(
            (0..count).flat_map(|at| [0x1a].into_iter().chain((1 << 20 | at).to_be_bytes())),
        );
        let bundle = with_block(&one, 0, 0, &data);
        let at = bundle.windows(3).position(|three| three == [0x85, 11, 0x18]).expect("the block");
        // Other array heads that hardy-bpv7 accepts, and a type encoding that it does not.
        for head in [&[0x85][..], &[0x98, 5], &[0x99, 0, 5], &[0xc1, 0x85], &[0x9f]] {
            let mut bundle = bundle.to_vec();
            bundle.splice(at..=at, head.iter().copied());
            let wrong = Bundle::decode(&bundle.into()).expect_err("too many");
            assert!(wrong.0.contains(&format!("{count} targets")), "{head:02x?}: {}", wrong.0);
        }
    }
    for kind in [&[0x18, 11][..], &[0xc1, 11]] {
        let good = with_block(&one, 0, 0, &asb(&[0], 1, &[0x80, 0x81, 0x81, 0x82, 1, 0x41, 0]));
        assert!(Bundle::decode(&good).is_ok());
        let at = good.windows(3).position(|three| three == [0x85, 11, 0x18]).expect("the block");
        let mut data = good.to_vec();
        data.splice(at + 1..at + 2, kind.iter().copied());
        assert!(Bundle::decode(&data.into()).is_err(), "{kind:02x?}");
    }
}

#[test]
fn a_signature_is_preserved_in_the_store() {
    let secret = key("k");
    let of = |bundle: &Bundle| {
        let found = bundle.verify_integrity(|_| Some(&secret));
        found.iter().map(|one| one.status).collect::<Vec<_>>()
    };
    let whole = signed("ipn:2.2000", "ipn:1.0", "k");
    let payload = whole.payload.clone();
    let mut again = Bundle::from_envelope(whole.envelope(), 3000).expect("a bundle");
    again.attach_payload(payload.clone()).expect("its payload");
    assert_eq!(of(&again), [BibStatus::Verified]);
    // Decoding in chunks works too, without a copy of the payload.
    let read = Bundle::decode_parts(&again.encode(&eid("ipn:2.0"), Span::ZERO)).expect("a bundle");
    assert_eq!(of(&read), [BibStatus::Verified]);
    assert_eq!(read.payload[0].as_ptr(), payload[0].as_ptr());
    let [first, second] = read.fragment(1000).expect("two parts");
    let parts = [first.payload.clone(), second.payload].concat();
    assert_eq!(of(&first.into_whole(parts)), [BibStatus::Verified]);
}

#[test]
fn a_named_key_must_exist() {
    let spec = |of_names: bool| -> DtnSpec {
        serde_json::from_value(json!({
            "epoch_ms": EPOCH, "derive_keys_from_names": of_names, "links": [], "plan": {"contacts": []},
            "nodes": [{"name": "2", "eid": "ipn:2.0", "integrity": {"check": [{"node": "2", "key": "k"}]}}],
        }))
        .expect("a specification")
    };
    assert!(BundleProtocolAgent::new(&spec(true), "2", &[]).is_ok());
    assert_eq!(
        BundleProtocolAgent::new(&spec(false), "2", &[]).err().as_deref(),
        Some("unknown key \"k\"")
    );
    let secrets: Secrets = serde_json::from_value(json!({"k": "00".repeat(16)})).expect("keys");
    assert!(BundleProtocolAgent::with_keys(&spec(false), "2", &[], &secrets).is_ok());
    // No message contains the key.
    assert_eq!(format!("{secrets:?}"), r#"{"k": a key of 16 bytes}"#);
    for wrong in ["00", "0g".repeat(16).as_str(), "0".repeat(33).as_str()] {
        assert!(serde_json::from_value::<Secret>(json!(wrong)).is_err(), "{wrong}");
    }
}

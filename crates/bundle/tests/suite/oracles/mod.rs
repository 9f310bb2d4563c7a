//! Interoperability with bp7 0.12.1, in both directions, and with pyD3TN by `ours.txt` (tests/python/test_bundles.py)
//! and `pyd3tn.txt`. Both are independent implementations. `cddl` validates bundles against the CDDL of the RFC.

mod cddl;
mod rfc9173;

use std::time::Duration;

use bp7::flags::{BlockControlFlags, BundleControlFlags};
use bp7::{CreationTimestamp, EndpointID, bundle as other, canonical, crc, primary};
use bundle::wire::{Bundle, ClassOfService, Crc, Eid, Flags, NewBundleHeader};
use bytes::Bytes;
use contacts::Priority;
use units::{RandomStream, Span};

fn eid(name: &str) -> Eid {
    name.parse().expect("a name")
}

fn pick<T: Clone>(chance: &mut RandomStream, of: &[T]) -> T {
    of[chance.below(of.len() as u64) as usize].clone()
}

/// Builds a random bundle or fragment, encoded after a residence time.
fn drawn(chance: &mut RandomStream, classes: bool) -> (Bundle, Bytes) {
    let names = ["ipn:1.1", "ipn:977000.2000", "dtn://earth/perf", "dtn://a/~group", "ipn:0.0"];
    let lengths = [0, 1, 23, 24, 255, 256, 5000, 70_000];
    let crcs = [Crc::None, Crc::Crc16, Crc::Crc32c];
    let anonymous = chance.below(8) == 0;
    let length = pick(chance, &lengths);
    let head = NewBundleHeader {
        source: if anonymous { Eid::Null } else { eid(pick(chance, &names[..3])) },
        destination: eid(pick(chance, &names[..4])),
        report_to: eid(pick(chance, &names)),
        created_ms: (chance.below(3) > 0).then(|| 850_000_000_000 + chance.below(1 << 36)),
        sequence: chance.below(1 << 20),
        lifetime: Span::from_millis(1 + chance.below(1 << 30)),
        flags: Flags {
            // Section 4.2.3: an anonymous source requests no reports, and its bundle must not be fragmented.
            do_not_fragment: anonymous,
            app_ack_requested: !anonymous && chance.below(2) == 0,
            report_status_time: !anonymous && chance.below(2) == 0,
            delivery_report_requested: !anonymous && chance.below(2) == 0,
            ..Flags::default()
        },
        hop_limit: (chance.below(2) == 0).then(|| 1 + chance.below(255) as u8),
        crc: pick(chance, &crcs),
        payload_crc: pick(chance, &crcs),
        class: if !classes {
            ClassOfService::default()
        } else {
            ClassOfService {
                priority: pick(chance, &[Priority::Bulk, Priority::Normal, Priority::Expedited]),
                critical: chance.below(4) == 0,
            }
        },
    };
    let data: Vec<u8> = (0..length).map(|at| (at * 17) as u8).collect();
    let middle = data.len() / 2;
    let parts = vec![Bytes::from(data[..middle].to_vec()), Bytes::from(data[middle..].to_vec())];
    let mut bundle = Bundle::new(&head, parts).expect("a bundle");
    if !anonymous && length > 100 && chance.below(3) == 0 {
        let [first, second] = bundle.fragment(1 + chance.below(length - 1)).expect("two fragments");
        bundle = if chance.below(2) == 0 { first } else { second };
    }
    if chance.below(2) == 0 {
        bundle.previous_node = Some(eid("ipn:5.0"));
    }
    let stay = Span::from_millis(chance.below(100_000));
    let bytes = bundle.encode(&eid("ipn:7.0"), stay).concat();
    (bundle, bytes.into())
}

#[test]
fn another_implementation_decodes_every_encoded_bundle() {
    let mut chance = RandomStream::named(1, "oracle", "bundles");
    for number in 0..2000 {
        let (made, bytes) = drawn(&mut chance, true);
        let mut read = other::Bundle::try_from(&bytes[..]).expect("a bundle");
        if let Err(errors) = read.validate() {
            panic!("{number}: {errors:?} {bytes:02x?}");
        }
        assert!(read.crc_valid(), "{number}");
        let first = &read.primary;
        assert!(first.crc != crc::CrcValue::CrcNo, "section 4.3.1");
        assert_eq!(first.source.to_string(), made.id.source.to_string());
        assert_eq!(first.destination.to_string(), made.destination.to_string());
        assert_eq!(first.report_to.to_string(), made.report_to.to_string());
        assert_eq!(first.lifetime, Duration::from_nanos(made.lifetime.nanos()));
        assert_eq!(first.creation_timestamp.dtntime(), made.created_ms().unwrap_or(0));
        assert_eq!(first.creation_timestamp.seqno(), made.id.timestamp.sequence_number());
        let part = made.id.fragment_info.as_ref();
        let part = part.map_or((0, 0), |part| (part.offset, part.total_adu_length));
        assert_eq!((first.fragmentation_offset, first.total_data_length), part);
        assert_eq!(read.payload().expect("a payload")[..], made.payload.concat()[..]);
        let hops = read.extension_block_by_type(canonical::HOP_COUNT_BLOCK);
        let hops = hops.and_then(canonical::CanonicalBlock::hop_count_get);
        let made_hops = made.hop_count.map(|(limit, count)| (limit as u8, count as u8));
        assert_eq!(hops, made_hops);
        let has = |kind| read.extension_block_by_type(kind).is_some();
        assert_eq!(has(canonical::PREVIOUS_NODE_BLOCK), made.previous_node.is_some());
        assert_eq!(has(canonical::BUNDLE_AGE_BLOCK), made.age.is_some());
        assert_eq!(has(192), made.class != ClassOfService::default());
    }
}

#[test]
fn every_bundle_of_another_implementation_is_decoded() {
    let mut chance = RandomStream::named(2, "oracle", "bundles");
    let name = |text: &str| EndpointID::try_from(text).expect("a name");
    for number in 0..2000 {
        let (source, destination) = (
            pick(&mut chance, &["ipn:1.1", "ipn:977000.2000", "dtn://earth/perf"]),
            pick(&mut chance, &["ipn:6.2000", "dtn://there/~all", "dtn://there/one"]),
        );
        let (time, sequence) = (850_000_000_000 + chance.below(1 << 36), chance.below(1 << 30));
        let lifetime = Duration::from_millis(1 + chance.below(1 << 30));
        let data = vec![7; pick(&mut chance, &[0usize, 1, 300, 70_000])];
        let mut fragment = None;
        let mut flags = BundleControlFlags::BUNDLE_STATUS_REQUEST_DELIVERY;
        if chance.below(3) == 0 {
            flags |= BundleControlFlags::BUNDLE_IS_FRAGMENT;
            fragment = Some((chance.below(1000), 1000 + data.len() as u64 + chance.below(1000)));
        }
        let (offset, total) = fragment.unwrap_or_default();
        let first = primary::PrimaryBlockBuilder::default()
            .bundle_control_flags(flags.bits())
            .source(name(source))
            .destination(name(destination))
            .report_to(name("ipn:3.1000"))
            .creation_timestamp(CreationTimestamp::with_time_and_seq(time, sequence))
            .lifetime(lifetime)
            .fragmentation_offset(offset)
            .total_data_length(total)
            .build()
            .expect("a primary block");
        let none = BlockControlFlags::empty;
        let mut blocks = vec![canonical::new_payload_block(none(), data.clone())];
        let (hops, age, previous) = (chance.below(2), chance.below(2), chance.below(2));
        if previous == 1 {
            blocks.insert(0, canonical::new_previous_node_block(2, none(), name("ipn:9.0")));
        }
        if hops == 1 {
            blocks.insert(0, canonical::new_hop_count_block(3, none(), 16));
        }
        if age == 1 {
            blocks.insert(0, canonical::new_bundle_age_block(4, none(), 1234));
        }
        let mut made = other::Bundle::new(first, blocks);
        made.set_crc(pick(&mut chance, &[crc::CRC_16, crc::CRC_32]));
        let bytes = Bytes::from(made.to_cbor());
        let read = Bundle::decode(&bytes).unwrap_or_else(|wrong| panic!("{number}: {}", wrong.0));
        assert_eq!(read.id.source.to_string(), source);
        assert_eq!(read.destination.to_string(), destination);
        assert_eq!(read.report_to.to_string(), "ipn:3.1000");
        assert_eq!(read.created_ms(), Some(time));
        assert_eq!(read.id.timestamp.sequence_number(), sequence);
        assert_eq!(u128::from(read.lifetime.nanos()), lifetime.as_nanos());
        assert_eq!(read.payload.concat()[..], data[..]);
        let part = read.id.fragment_info.as_ref();
        assert_eq!(part.map(|part| (part.offset, part.total_adu_length)), fragment);
        assert_eq!(read.hop_count, (hops == 1).then_some((16, 0)));
        assert_eq!(read.age, (age == 1).then_some(Span::from_millis(1234)));
        assert_eq!(read.previous_node, (previous == 1).then(|| eid("ipn:9.0")));
        assert!(read.flags.delivery_report_requested && read.class == ClassOfService::default());
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The input of the Python oracle. With `BENTPIPE_UPDATE` the file is rewritten.
#[test]
fn the_bundles_of_the_file_are_reproduced() {
    let mut chance = RandomStream::named(3, "oracle", "bundles");
    let mut lines = Vec::new();
    while lines.len() < 60 {
        // pyD3TN does not decode blocks of the private-use range.
        let (_, bytes) = drawn(&mut chance, false);
        if bytes.len() < 700 {
            lines.push(hex(&bytes));
        }
    }
    let text = lines.join("\n") + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/suite/oracles/ours.txt");
    if std::env::var_os("BENTPIPE_UPDATE").is_some() {
        std::fs::write(path, &text).expect("written");
    }
    assert!(
        std::fs::read_to_string(path).expect("the file") == text,
        "BENTPIPE_UPDATE=1 writes it"
    );
}

#[test]
fn the_bundles_of_pyd3tn_are_decoded() {
    let text = include_str!("pyd3tn.txt");
    let mut count = 0;
    for line in text.lines() {
        let (about, digits) = line.split_once(' ').expect("a name and a bundle");
        let bytes: Vec<u8> = (0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal"))
            .collect();
        let read =
            Bundle::decode(&bytes.into()).unwrap_or_else(|wrong| panic!("{about}: {}", wrong.0));
        assert_eq!(read.payload.concat()[..], *about.as_bytes());
        assert_eq!(read.id.source.to_string(), "ipn:1.1");
        assert_eq!(read.hop_count.is_some(), about.contains("hops"));
        assert_eq!(read.age.is_some(), about.contains("age"));
        assert_eq!(read.previous_node.is_some(), about.contains("previous"));
        assert_eq!(read.id.fragment_info.is_some(), about.contains("part"));
        count += 1;
    }
    assert_eq!(count, 8);
}

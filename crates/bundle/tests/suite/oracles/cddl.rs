//! Every encoded bundle matches the CDDL of RFC 9171 (Appendix B), which is independent of the encoder.

use bundle::wire::{Bundle, ClassOfService, Crc, Flags, Id, NewBundleHeader, ReasonCode};
use bytes::Bytes;
use cddl_cat::cbor::validate_cbor;
use cddl_cat::context::BasicContext;
use cddl_cat::flatten::flatten_from_str;
use ciborium::Value;
use hardy_bpv7::dtn_time::DtnTime;
use hardy_bpv7::status_report::{AdministrativeRecord, BundleStatusReport, StatusAssertion};
use units::{RandomStream, Span};

use super::{drawn, eid};

struct Rules(BasicContext);

impl Rules {
    fn read() -> Rules {
        Rules(BasicContext::new(flatten_from_str(include_str!("rfc9171.cddl")).expect("CDDL")))
    }

    fn judge(&self, rule: &str, value: &Value) -> Result<(), String> {
        validate_cbor(&self.0.rules[rule], value, &self.0).map_err(|error| error.to_string())
    }
}

fn read(data: &[u8]) -> Value {
    ciborium::from_reader(data).expect("CBOR")
}

fn report(id: &Id, number: u64, timed: bool) -> Bytes {
    let time = timed.then(|| DtnTime::new(850_000_000_000 + number).into());
    let mut marks: [Option<StatusAssertion>; 4] = Default::default();
    marks[number as usize % 4] = Some(StatusAssertion(time));
    let [received, forwarded, delivered, deleted] = marks;
    let report = BundleStatusReport {
        bundle_id: id.clone(),
        received,
        forwarded,
        delivered,
        deleted,
        reason: if number % 4 == 3 { ReasonCode::LifetimeExpired } else { ReasonCode::default() },
    };
    let record = AdministrativeRecord::BundleStatusReport(report);
    let head = NewBundleHeader {
        source: eid("ipn:5.0"),
        destination: eid("ipn:1.1000"),
        report_to: eid("dtn:none"),
        created_ms: Some(850_000_000_000 + number),
        sequence: number,
        lifetime: Span::from_secs(60),
        flags: Flags { is_admin_record: true, ..Flags::default() },
        hop_limit: None,
        crc: Crc::None,
        payload_crc: Crc::None,
        class: ClassOfService::default(),
    };
    let payload = Bytes::from(hardy_cbor::encode::emit(&record).0);
    let bundle = Bundle::new(&head, vec![payload]).expect("a bundle");
    bundle.encode(&eid("ipn:5.0"), Span::ZERO).concat().into()
}

#[test]
fn every_encoded_bundle_and_its_report_are_valid() {
    let rules = Rules::read();
    let mut chance = RandomStream::named(4, "oracle", "bundles");
    for number in 0..500 {
        let (bundle, data) = drawn(&mut chance, true);
        assert_eq!(rules.judge("bpv7_start", &read(&data)), Ok(()), "{number}: {data:02x?}");
        // Section 4.1, which CDDL cannot express.
        assert_eq!((data[0], data[data.len() - 1]), (0x9f, 0xff));
        let data = report(&bundle.id, number, number % 3 > 0);
        assert_eq!(rules.judge("admin_start", &read(&data)), Ok(()), "{number}: {data:02x?}");
    }
}

/// Returns the value at a path of indexes.
fn at<'a>(value: &'a mut Value, path: &[usize]) -> &'a mut Value {
    path.iter().fold(value, |value, index| &mut value.as_array_mut().expect("an array")[*index])
}

#[test]
fn invalid_bundles_are_rejected() {
    let rules = Rules::read();
    let mut chance = RandomStream::named(5, "oracle", "bundles");
    let plain = |bundle: &Bundle| {
        bundle.id.fragment_info.is_none()
            && bundle.previous_node.is_some()
            && bundle.hop_count.is_some()
    };
    let data = loop {
        let (bundle, data) = drawn(&mut chance, false);
        if plain(&bundle) && bundle.age.is_none() {
            break data;
        }
    };
    // After the primary block: previous node (block 2), hop count, and the payload last.
    let good = read(&data);
    assert_eq!(good.as_array().map(Vec::len), Some(4));
    let text = |text: &str| Value::Text(text.to_owned());
    let number = |number: u64| Value::Integer(number.into());
    let array = |of: &[u64]| Value::Array(of.iter().copied().map(number).collect());
    let data = |value: &Value| {
        let mut data = Vec::new();
        ciborium::into_writer(value, &mut data).expect("CBOR");
        Value::Bytes(data)
    };
    let wrong: Vec<(&str, &[usize], Value)> = vec![
        ("version", &[0, 0], number(6)),
        ("flags", &[0, 1], number(1 << 22)),
        ("CRC type", &[0, 2], number(3)),
        ("scheme", &[0, 3], Value::Array(vec![number(3), array(&[1, 1])])),
        ("ipn", &[0, 4], Value::Array(vec![number(2), array(&[1, 1, 1])])),
        ("creation", &[0, 6], array(&[1])),
        ("lifetime", &[0, 7], Value::Integer((-1).into())),
        ("CRC", &[0, 8], Value::Bytes(vec![1, 2, 3])),
        ("block number", &[1, 1], number(1)),
        ("block flags", &[1, 2], number(256)),
        ("block type", &[1, 0], number(13)),
        ("previous node", &[1, 4], data(&number(5))),
        ("hop count", &[2, 4], data(&array(&[1, 1, 1]))),
        ("hop limit", &[2, 4], data(&Value::Array(vec![text("x"), number(1)]))),
        ("payload's number", &[3, 1], number(2)),
        ("payload", &[3, 4], text("x")),
    ];
    assert_eq!(rules.judge("bpv7_start", &good), Ok(()));
    for (what, path, value) in wrong {
        let mut bad = good.clone();
        *at(&mut bad, path) = value;
        assert!(rules.judge("bpv7_start", &bad).is_err(), "{what}");
    }
    let mut bad = good.clone();
    bad.as_array_mut().expect("an array").swap(2, 3);
    assert!(rules.judge("bpv7_start", &bad).is_err(), "the payload is last");
    let mut bad = good.clone();
    at(&mut bad, &[0]).as_array_mut().expect("an array").insert(8, number(5));
    assert!(rules.judge("bpv7_start", &bad).is_err(), "an offset without a length");
    assert!(rules.judge("admin_start", &good).is_err(), "no record");
}

//! Tests of segment.

use proptest::prelude::*;

use super::*;

const SESSION: LtpSessionId = LtpSessionId { originator: 3, number: 300 };

fn segment(body: SegmentBody) -> LtpSegment {
    LtpSegment { session: SESSION, body }
}

/// The figures of section 3, octet by octet.
#[test]
fn the_layouts_of_section_3() {
    let data = |mark, checkpoint| {
        SegmentBody::Data(DataSegment {
            segment_type: mark,
            client_service: 1,
            offset: 200,
            checkpoint,
            data: Bytes::from_static(b"abc"),
        })
    };
    let checkpoint = Some(Checkpoint { serial: 5, report: 130 });
    let report = ReportSegment {
        serial: 7,
        checkpoint: 5,
        lower_bound: 100,
        upper_bound: 1000,
        claims: vec![(100, 300), (400, 1000)],
    };
    for (body, octets) in [
        (
            data(DataSegmentType::Red, None),
            &[0, 3, 0x82, 0x2c, 0, 1, 0x81, 0x48, 3, b'a', b'b', b'c'][..],
        ),
        (
            data(DataSegmentType::Checkpoint, checkpoint),
            &[1, 3, 0x82, 0x2c, 0, 1, 0x81, 0x48, 3, 5, 0x81, 2, b'a', b'b', b'c'],
        ),
        (
            data(DataSegmentType::EndOfRed, checkpoint),
            &[2, 3, 0x82, 0x2c, 0, 1, 0x81, 0x48, 3, 5, 0x81, 2, b'a', b'b', b'c'],
        ),
        (
            data(DataSegmentType::EndOfBlock, checkpoint),
            &[3, 3, 0x82, 0x2c, 0, 1, 0x81, 0x48, 3, 5, 0x81, 2, b'a', b'b', b'c'],
        ),
        (
            data(DataSegmentType::Green, None),
            &[4, 3, 0x82, 0x2c, 0, 1, 0x81, 0x48, 3, b'a', b'b', b'c'],
        ),
        (
            data(DataSegmentType::GreenEndOfBlock, None),
            &[7, 3, 0x82, 0x2c, 0, 1, 0x81, 0x48, 3, b'a', b'b', b'c'],
        ),
        // Upper bound before lower bound; claims are relative to the lower bound.
        (
            SegmentBody::Report(report),
            &[8, 3, 0x82, 0x2c, 0, 7, 5, 0x87, 0x68, 100, 2, 0, 0x81, 0x48, 0x82, 0x2c, 0x84, 0x58],
        ),
        (SegmentBody::ReportAck(7), &[9, 3, 0x82, 0x2c, 0, 7]),
        (SegmentBody::Cancel(Canceller::Sender, 2), &[12, 3, 0x82, 0x2c, 0, 2]),
        (SegmentBody::CancelAck(Canceller::Sender), &[13, 3, 0x82, 0x2c, 0]),
        (SegmentBody::Cancel(Canceller::Receiver, 4), &[14, 3, 0x82, 0x2c, 0, 4]),
        (SegmentBody::CancelAck(Canceller::Receiver), &[15, 3, 0x82, 0x2c, 0]),
    ] {
        assert_eq!(segment(body.clone()).encode(), octets);
        assert_eq!(LtpSegment::decode(&Bytes::copy_from_slice(octets)), Ok(segment(body)));
    }
}

#[test]
fn extensions_are_skipped() {
    // One header extension (tag 1, two octets), two trailer extensions (empty, one octet).
    let octets = [9, 3, 4, 0x12, 1, 2, 9, 9, 7, 0, 0, 1, 1, 9];
    let session = LtpSessionId { originator: 3, number: 4 };
    let read = LtpSegment::decode(&Bytes::copy_from_slice(&octets));
    assert_eq!(read, Ok(LtpSegment { session, body: SegmentBody::ReportAck(7) }));
    assert_eq!(
        LtpSegment::decode(&Bytes::copy_from_slice(&octets[..13])),
        Err(SegmentError::Truncated)
    );
}

#[test]
fn invalid_segments_are_refused() {
    for (octets, fault) in [
        (&[][..], SegmentError::Truncated),
        (&[0x10, 3, 4, 0], SegmentError::Version(1)),
        (&[5, 3, 4, 0, 1, 0, 0], SegmentError::UndefinedType(5)),
        (&[6, 3, 4, 0], SegmentError::UndefinedType(6)),
        (&[10, 3, 4, 0], SegmentError::UndefinedType(10)),
        (&[11, 3, 4, 0], SegmentError::UndefinedType(11)),
        (&[0, 3, 4, 0, 1, 0, 2, b'a'], SegmentError::Truncated),
        (
            &[0, 3, 4, 0, 1, 0, 0x83, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            SegmentError::Truncated,
        ),
        (&[3, 3, 4, 0, 1, 0, 0, 0, 0], SegmentError::OutOfRange),
        (&[9, 3, 4, 0, 0], SegmentError::OutOfRange),
        (&[9, 3, 4, 0, 7, 7], SegmentError::Trailing),
        (&[12, 3, 4, 0], SegmentError::Truncated),
        (&[8, 3, 4, 0, 7, 5, 9, 10, 0], SegmentError::InvalidClaims),
        (&[8, 3, 4, 0, 7, 5, 9, 0, 1, 0, 0], SegmentError::InvalidClaims),
        (&[8, 3, 4, 0, 7, 5, 9, 0, 1, 0, 10], SegmentError::InvalidClaims),
        (&[8, 3, 4, 0, 7, 5, 9, 0, 2, 2, 2, 1, 1], SegmentError::InvalidClaims),
        // A count that exceeds every datagram.
        (&[8, 3, 4, 0, 7, 5, 9, 0, 0xff, 0xff, 0xff, 0x7f, 0, 1], SegmentError::Truncated),
    ] {
        assert_eq!(LtpSegment::decode(&Bytes::copy_from_slice(octets)), Err(fault), "{octets:?}");
    }
}

fn bodies() -> impl Strategy<Value = SegmentBody> {
    let canceller = prop_oneof![Just(Canceller::Sender), Just(Canceller::Receiver)];
    let marks = vec![
        DataSegmentType::Red,
        DataSegmentType::Checkpoint,
        DataSegmentType::EndOfRed,
        DataSegmentType::EndOfBlock,
        DataSegmentType::Green,
        DataSegmentType::GreenEndOfBlock,
    ];
    let data = (
        prop::sample::select(marks),
        any::<u64>(),
        0..1u64 << 60,
        1..u64::MAX,
        any::<u64>(),
        prop::collection::vec(any::<u8>(), 0..50),
    )
        .prop_map(|(mark, service, offset, serial, report, data)| {
            let checkpoint = mark.is_checkpoint().then_some(Checkpoint { serial, report });
            SegmentBody::Data(DataSegment {
                segment_type: mark,
                client_service: service,
                offset,
                checkpoint,
                data: data.into(),
            })
        });
    let spans = prop::collection::vec((1..1000u64, 1..1000u64), 0..20);
    let report = (1..u64::MAX, any::<u64>(), 0..1u64 << 40, spans, 0..100u64).prop_map(
        |(serial, checkpoint, lower, spans, rest)| {
            let mut at = lower;
            let claims: Vec<(u64, u64)> = spans
                .into_iter()
                .map(|(gap, long)| {
                    let start = at + gap;
                    at = start + long;
                    (start, at)
                })
                .collect();
            SegmentBody::Report(ReportSegment {
                serial,
                checkpoint,
                lower_bound: lower,
                upper_bound: at + rest,
                claims,
            })
        },
    );
    prop_oneof![
        data,
        report,
        (1..u64::MAX).prop_map(SegmentBody::ReportAck),
        (canceller.clone(), any::<u8>())
            .prop_map(|(canceller, why)| SegmentBody::Cancel(canceller, why)),
        canceller.prop_map(SegmentBody::CancelAck),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(body in bodies(), engine in any::<u64>(), number in any::<u64>(), cut in any::<prop::sample::Index>()) {
        let segment = LtpSegment { session: LtpSessionId { originator: engine, number }, body };
        let octets = Bytes::from(segment.encode());
        prop_assert_eq!(LtpSegment::decode(&octets), Ok(segment.clone()));
        // A truncated segment is invalid.
        let part = octets.slice(..cut.index(octets.len()));
        prop_assert!(LtpSegment::decode(&part).is_err());
    }

    #[test]
    fn random_bytes_decode_or_are_refused(octets in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(segment) = LtpSegment::decode(&octets.into()) {
            let again = LtpSegment::decode(&segment.encode().into());
            prop_assert_eq!(again, Ok(segment));
        }
    }
}

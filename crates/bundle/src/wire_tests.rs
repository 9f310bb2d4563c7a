//! Encoding and decoding of bundles, and the changes of a hop.

use bytes::Bytes;
use contacts::Priority;
use proptest::prelude::*;
use units::Span;

use crate::wire::{Bundle, ClassOfService, Crc, Eid, Flags, NewBundleHeader};

fn eid(name: &str) -> Eid {
    name.parse().unwrap()
}

fn head() -> NewBundleHeader {
    NewBundleHeader {
        source: eid("ipn:1.1"),
        destination: eid("dtn://there/perf"),
        report_to: eid("ipn:1.1000"),
        created_ms: Some(850_000_000_123),
        sequence: 7,
        lifetime: Span::from_secs(60),
        flags: Flags { report_status_time: true, ..Flags::default() },
        hop_limit: Some(5),
        crc: Crc::Crc32c,
        payload_crc: Crc::None,
        class: ClassOfService { priority: Priority::Expedited, critical: true },
    }
}

fn joined(parts: &[Bytes]) -> Bytes {
    Bytes::from(parts.concat())
}

#[test]
fn encoding_and_decoding_preserve_a_bundle_with_every_crc() {
    for (crc, payload_crc) in
        [(Crc::None, Crc::None), (Crc::Crc16, Crc::Crc16), (Crc::Crc32c, Crc::Crc32c)]
    {
        let payload = vec![Bytes::from_static(b"two"), Bytes::from_static(b" parts")];
        let made = Bundle::new(&NewBundleHeader { crc, payload_crc, ..head() }, payload).unwrap();
        let data = joined(&made.encode(&eid("ipn:1.0"), Span::ZERO));
        let read = Bundle::decode(&data).unwrap();
        assert_eq!((&read.id, &read.destination), (&made.id, &made.destination));
        assert_eq!(
            (read.lifetime, read.hop_count, read.class),
            (made.lifetime, Some((5, 0)), made.class)
        );
        assert_eq!((&read.report_to, &read.flags), (&made.report_to, &made.flags));
        assert_eq!(joined(&read.payload), &b"two parts"[..]);
        assert_eq!(read.created_ms(), Some(850_000_000_123));
        // Without a change the encoding returns the same bytes.
        assert_eq!(joined(&read.encode(&eid("ipn:2.0"), Span::ZERO)), data);
        // A bit error in the payload is only detected with a payload CRC.
        let mut bent = data.to_vec();
        let at = bent.windows(3).position(|three| three == b"two").unwrap();
        bent[at] ^= 1;
        assert_eq!(Bundle::decode(&bent.into()).is_err(), payload_crc != Crc::None);
    }
}

#[test]
fn each_hop_replaces_the_blocks_of_the_previous_hop() {
    let mut made = Bundle::new(&NewBundleHeader { created_ms: None, ..head() }, vec![]).unwrap();
    assert_eq!(made.age, Some(Span::ZERO), "without a clock a bundle has an age");
    made.previous_node = Some(eid("ipn:1.0"));
    let data = joined(&made.encode(&eid("ipn:1.0"), Span::from_millis(250)));
    let mut read = Bundle::decode(&data).unwrap();
    assert_eq!(
        (read.previous_node.clone(), read.age),
        (Some(eid("ipn:1.0")), Some(Span::from_millis(250)))
    );
    read.hop_count = read.hop_count.map(|(limit, count)| (limit, count + 1));
    let data = joined(&read.encode(&eid("ipn:3.0"), Span::from_secs(1)));
    let read = Bundle::decode(&data).unwrap();
    assert_eq!(read.previous_node, Some(eid("ipn:3.0")));
    assert_eq!((read.age, read.hop_count), (Some(Span::from_millis(1250)), Some((5, 1))));
}

#[test]
fn a_payload_is_forwarded_without_a_copy() {
    let payload = Bytes::from(vec![5; 1_000_000]);
    let made = Bundle::new(&head(), vec![payload.clone()]).unwrap();
    let parts = made.encode(&eid("ipn:1.0"), Span::ZERO);
    assert!(parts.iter().any(|part| part.as_ptr() == payload.as_ptr()));
    let data = joined(&parts);
    let read = Bundle::decode(&data).unwrap();
    let on = read.encode(&eid("ipn:3.0"), Span::ZERO);
    let within = data.as_ptr_range();
    assert!(on.iter().any(|part| part.len() == 1_000_000 && within.contains(&part.as_ptr())));
}

#[test]
fn fragments_have_original_offsets_and_can_be_fragmented_again() {
    let payload: Vec<u8> = (0..=255).collect();
    for payload_crc in [Crc::None, Crc::Crc16, Crc::Crc32c] {
        let made = NewBundleHeader { payload_crc, ..head() };
        let made = Bundle::new(&made, vec![Bytes::from(payload.clone())]).unwrap();
        let [first, rest] = made.fragment(100).unwrap();
        let [second, third] = rest.fragment(6).unwrap();
        let mut whole = Vec::new();
        for part in [first, second, third] {
            let data = joined(&part.encode(&eid("ipn:1.0"), Span::ZERO));
            let read = Bundle::decode(&data).unwrap();
            let info = read.id.fragment_info.clone().unwrap();
            assert_eq!((info.offset, info.total_adu_length), (whole.len() as u64, 256));
            assert!(read.flags.is_fragment && read.class.critical);
            whole.extend_from_slice(&joined(&read.payload));
        }
        assert_eq!(whole, payload);
    }
}

#[test]
fn an_invalid_bundle_is_refused_with_a_message() {
    let made = Bundle::new(&head(), vec![Bytes::from_static(b"x")]).unwrap();
    let data = joined(&made.encode(&eid("ipn:1.0"), Span::ZERO));
    for end in 0..data.len() {
        assert!(Bundle::decode(&data.slice(..end)).is_err(), "cut off at {end}");
    }
    let mut more = data.to_vec();
    more.push(0);
    assert!(!Bundle::decode(&more.into()).unwrap_err().0.is_empty());
}

/// Splits `data` at these indexes.
fn apart(data: &[u8], ends: &[usize]) -> Vec<Bytes> {
    let mut ends: Vec<usize> = ends.iter().map(|end| end % (data.len() + 1)).collect();
    ends.extend([0, data.len()]);
    ends.sort_unstable();
    ends.windows(2).map(|pair| Bytes::copy_from_slice(&data[pair[0]..pair[1]])).collect()
}

proptest! {
    /// The result of decoding does not depend on the chunks, for valid and invalid bundles.
    #[test]
    fn a_bundle_in_chunks_decodes_like_a_contiguous_one(
        length in 0usize..5_000,
        crcs in (0usize..3, 0usize..3),
        (cut, age, hops) in any::<(bool, bool, bool)>(),
        ends in prop::collection::vec(0usize..5_200, 0..4),
        bent in prop::option::of((0usize..5_200, 1u8..=255)),
        chopped in prop::option::of(0usize..5_200),
    ) {
        let all = [Crc::None, Crc::Crc16, Crc::Crc32c];
        let head = NewBundleHeader {
            crc: all[crcs.0],
            payload_crc: all[crcs.1],
            created_ms: (!age).then_some(850_000_000_123),
            hop_limit: hops.then_some(5),
            ..head()
        };
        let payload: Vec<u8> = (0..length).map(|index| (index / 3) as u8).collect();
        let mut made = Bundle::new(&head, vec![payload.clone().into()]).unwrap();
        made.previous_node = hops.then(|| eid("ipn:1.0"));
        if cut && length > 1 {
            [_, made] = made.fragment(length as u64 / 2).unwrap();
        }
        let mut data = made.encode(&eid("ipn:1.0"), Span::ZERO).concat();
        if let Some((index, bits)) = bent {
            let index = index % data.len();
            data[index] ^= bits;
        }
        if let Some(end) = chopped {
            data.truncate(end);
        }
        let whole = Bundle::decode(&Bytes::from(data.clone()));
        let parts = Bundle::decode_parts(&apart(&data, &ends));
        match (whole, parts) {
            (Err(whole), Err(parts)) => prop_assert_eq!(whole, parts),
            (Ok(whole), Ok(parts)) => {
                prop_assert_eq!(whole.payload.concat(), parts.payload.concat());
                let on = |bundle: &Bundle| bundle.encode(&eid("ipn:2.0"), Span::ZERO).concat();
                prop_assert_eq!(on(&whole), on(&parts));
                let format_without_payload = |mut bundle: Bundle| {
                    bundle.payload.clear();
                    format!("{bundle:?}")
                };
                prop_assert_eq!(format_without_payload(whole), format_without_payload(parts));
            }
            (whole, parts) => prop_assert!(false, "{:?} but {:?}", whole, parts),
        }
    }
}

#[test]
fn a_payload_in_chunks_is_decoded_and_forwarded_without_a_copy() {
    for payload_crc in [Crc::None, Crc::Crc16, Crc::Crc32c] {
        let payload = [vec![5; 60_000].into(), Bytes::from(vec![6; 60_000])];
        let made =
            Bundle::new(&NewBundleHeader { payload_crc, ..head() }, payload.to_vec()).unwrap();
        let parts = made.encode(&eid("ipn:1.0"), Span::ZERO);
        let read = Bundle::decode_parts(&parts).unwrap();
        assert_eq!(read.payload.len(), 2);
        for (part, payload) in read.payload.iter().zip(&payload) {
            assert_eq!(part.as_ptr(), payload.as_ptr());
        }
    }
}

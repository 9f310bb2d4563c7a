//! Tests of the parser with examples of the RFC and with arbitrary bytes.

use proptest::prelude::*;

use super::*;

/// RFC 9000 appendices A.1 and A.3.
#[test]
fn examples_of_the_rfc() {
    for (bytes, value) in [
        (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
        (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
        (&[0x7b, 0xbd], 15_293),
        (&[0x25], 37),
        (&[0x40, 0x25], 37),
    ] {
        assert_eq!(Reader(bytes).varint(), Ok(value));
    }
    assert_eq!(expand_packet_number(Some(0xa82f_30ea), 0x9b32, 16), 0xa82f_9b32);
    assert_eq!(expand_packet_number(None, 0, 8), 0);
}

#[test]
fn an_ack_with_gaps() {
    // Largest 10, delay 5, two more ranges, 10 alone; gap 1 and 2 packets; gap 0 and 1 packet; CE 3.
    let bytes = [0x03, 10, 5, 2, 0, 1, 1, 0, 0, 1, 2, 3];
    let mut frames = Frames(Reader(&bytes));
    let Some(Ok(Frame::Ack(ack))) = frames.next() else { panic!("an ACK") };
    assert_eq!(ack.ranges().collect::<Vec<_>>(), [(10, 10), (6, 7), (4, 4)]);
    assert_eq!((ack.ecn, ack.delay), (Some([1, 2, 3]), 5));
    assert!(frames.next().is_none());
    // A range below zero.
    assert!(matches!(Frames(Reader(&[0x02, 3, 0, 0, 4])).next(), Some(Err(ParseError))));
}

/// Parses all packets and frames; returns the bytes of packets and the number of loop iterations.
fn read(bytes: &[u8]) -> (usize, usize) {
    let (mut packet_bytes, mut rounds) = (0, 0);
    for packet in parse_packets(bytes).flatten() {
        assert!(packet.bytes > 0);
        packet_bytes += packet.bytes;
        rounds += 1;
        if let Ok(opened) = packet.read_plain() {
            rounds += walk(opened.frames);
        }
    }
    (packet_bytes, rounds)
}

fn walk(frames: Frames<'_>) -> usize {
    let mut rounds = 0;
    for frame in frames {
        rounds += 1;
        if let Ok(Frame::Ack(ack)) = frame {
            let mut below = u64::MAX;
            for (low, high) in ack.ranges() {
                assert!(low <= high && high < below);
                below = low;
                rounds += 1;
            }
        }
    }
    rounds
}

proptest! {
    #[test]
    fn arbitrary_datagrams_are_read_to_an_end(bytes: Vec<u8>) {
        let (packet_bytes, rounds) = read(&bytes);
        prop_assert!(packet_bytes <= bytes.len() && rounds <= 2 * bytes.len());
    }

    /// Likely datagrams: a long or short header, then arbitrary bytes.
    #[test]
    fn likely_datagrams_are_read_to_an_end(
        first in prop::sample::select(vec![0x40u8, 0x43, 0xc0, 0xd1, 0xe2, 0xf3]),
        rest in prop::collection::vec(prop_oneof![0u8..0x40, any::<u8>()], 0..2000),
    ) {
        let mut bytes = vec![first, 0, 0, 0, 1, 0, 0];
        bytes.extend(rest);
        let (packet_bytes, rounds) = read(&bytes);
        prop_assert!(packet_bytes <= bytes.len() && rounds <= 2 * bytes.len());
    }

    #[test]
    fn arbitrary_frames_are_read_to_an_end(
        bytes in prop::collection::vec(prop_oneof![0u8..0x40, any::<u8>()], 0..2000),
    ) {
        prop_assert!(walk(Frames(Reader(&bytes))) <= 2 * bytes.len());
    }

    #[test]
    fn any_truncated_number_is_expanded(largest in prop::option::of(0u64..1 << 62), truncated: u32) {
        for bits in [8, 16, 24, 32] {
            let truncated = u64::from(truncated) & ((1 << bits) - 1);
            let number = expand_packet_number(largest, truncated, bits);
            prop_assert_eq!(number & ((1 << bits) - 1), truncated);
        }
    }

    /// Expansion selects the nearest number with the same low bits.
    #[test]
    fn numbers_near_the_largest_are_expanded_exactly(largest in 0u64..1 << 40, step in 1u64..100) {
        prop_assert_eq!(expand_packet_number(Some(largest), (largest + step) & 0xff, 8), largest + step);
    }
}

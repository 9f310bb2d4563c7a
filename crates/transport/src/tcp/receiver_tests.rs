//! The receiving half, segment by segment. Its SACK blocks are compared with a plain search.

use super::super::tests::spec;
use super::*;

fn segment(start: u64, length: usize) -> Segment {
    Segment::from_data(1 + start, Bytes::from(vec![0; length]))
}

#[test]
fn gaps_are_reported_newest_first_and_close() {
    let mut receiver = Receiver::new(&spec());
    for start in [0, 2000, 4000] {
        receiver.receive(Time(0), &segment(start, 1000));
    }
    let blocks = receiver.sack_blocks(3, true).unwrap();
    assert_eq!(blocks.as_slice(), [(4001, 5001), (2001, 3001)]);
    assert_eq!((receiver.in_order(), receiver.received()), (1000, 3000));
    receiver.receive(Time(0), &segment(2000, 1000));
    let blocks = receiver.sack_blocks(3, true).unwrap();
    assert_eq!(blocks.as_slice()[0], (2001, 3001), "a duplicate comes first");
    assert!(receiver.receive(Time(0), &segment(1000, 1000)));
    assert_eq!((receiver.in_order(), receiver.received()), (3000, 4000));
    // The data overlaps received data on both sides.
    assert!(receiver.receive(Time(0), &segment(2500, 3000)));
    assert_eq!((receiver.in_order(), receiver.received()), (5500, 5500));
    let read: usize = std::iter::from_fn(|| receiver.read()).map(|data| data.len()).sum();
    assert_eq!(read, 5500);
}

#[test]
fn data_beyond_the_window_is_dropped() {
    let mut receiver = Receiver::new(&TcpSpec { receive_buffer_bytes: 3000, ..spec() });
    receiver.receive(Time(0), &segment(1000, 1000));
    receiver.receive(Time(0), &segment(2500, 1000));
    receiver.receive(Time(0), &segment(9000, 1000));
    assert_eq!(receiver.received(), 1500);
    receiver.receive(Time(0), &segment(0, 1000));
    assert_eq!(receiver.in_order(), 2000);
    assert_eq!(receiver.on_ack_sent(), (2001, 1000));
}

#[test]
fn pairs_of_delayed_acks_and_duplicates_are_counted() {
    let delayed = DelayedAck { timeout_ns: 40_000_000, segments_per_ack: 2, quick_acks: 0 };
    let mut receiver = Receiver::new(&TcpSpec { delayed_ack: Some(delayed), ..spec() });
    let mut come = |start, millis: u64| {
        let now = Time(millis * 1_000_000);
        if receiver.poll_at() <= now {
            receiver.on_ack_sent(); // by its timer
        }
        receiver.receive(now, &segment(start, 1000));
        if receiver.is_ack_due(now) {
            receiver.on_ack_sent();
        }
        receiver.counters
    };
    come(0, 0);
    let one = come(1000, 7);
    assert_eq!((one.ack_pairs, one.ack_pair_wait_ns), (1, 7_000_000));
    assert_eq!(one.ack_pairs_within, [0, 0, 1, 1, 1, 1]);
    come(3000, 8);
    // It fills the gap, so its ACK is immediate.
    assert_eq!(come(2000, 9).ack_pairs, 1);
    assert_eq!(come(1000, 10).duplicate_segments, 1);
    assert_eq!(come(2500, 11).duplicate_segments, 2, "in parts of two, but all of it was there");
    come(4000, 20);
    // The timer acknowledged the first segment.
    come(5000, 61);
    let two = come(6000, 62);
    assert_eq!((two.ack_pairs, two.ack_pair_wait_ns), (2, 8_000_000));
    assert_eq!(two.duplicate_segments, 2);
}

#[test]
fn a_late_segment_after_a_retransmission_fails_paws() {
    let stamped = |start, value| Segment { timestamps: Some((value, 0)), ..segment(start, 1000) };
    let mut receiver = Receiver::new(&spec());
    receiver.receive(Time(0), &stamped(0, 10));
    receiver.on_ack_sent();
    // 1000 is lost, 2000 late. A segment beyond a gap does not update TS.Recent.
    receiver.receive(Time(0), &stamped(3000, 11));
    assert!(!receiver.fails_paws(Time(0), &stamped(2000, 10)));
    receiver.receive(Time(0), &stamped(1000, 50));
    let late = stamped(2000, 10);
    assert!(
        receiver.fails_paws(Time(0), &late) && !receiver.fails_paws(Time(0), &stamped(2000, 49))
    );
    receiver.reject_old(&late);
    assert!(receiver.is_ack_due(Time(0)));
    assert_eq!(receiver.in_order(), 2000, "it was new, and has to be sent again");
    assert_eq!(receiver.sack_blocks(3, true).unwrap().as_slice(), [(3001, 4001)]);
    receiver.reject_old(&stamped(1000, 10));
    assert_eq!(receiver.sack_blocks(3, true).unwrap().as_slice()[0], (1001, 2001));
}

/// RFC 7323 section 5.2: half a cycle of 2^32 ahead is later, for any numbers.
#[test]
fn timestamps_are_compared_modulo_2_to_the_32() {
    let stamped = |start, value| Segment { timestamps: Some((value, 0)), ..segment(start, 1000) };
    let mut receiver = Receiver::new(&spec());
    // The sender's clock wraps between the second and the third segment.
    for (start, value) in [(0, u32::MAX - 1), (1000, u32::MAX), (2000, 3)] {
        let next = stamped(start, value);
        assert!(!receiver.fails_paws(Time(0), &next), "{value}");
        receiver.receive(Time(0), &next);
        receiver.on_ack_sent();
        assert_eq!(receiver.ts_recent(), value);
    }
    // 2^32 - 1 is four ticks before 3; 2 is a single one before, which passes.
    assert!(receiver.fails_paws(Time(0), &stamped(1000, u32::MAX)));
    assert!(!receiver.fails_paws(Time(0), &stamped(1000, 2)));
    receiver.receive(Time(0), &stamped(1000, u32::MAX));
    assert_eq!(receiver.ts_recent(), 3, "TS.Recent does not go back");
}

/// RFC 7323 section 5.5: after 24 idle days a timestamp more than half a cycle ahead is not old.
#[test]
fn the_last_timestamp_expires() {
    let stamped = |start, value| Segment { timestamps: Some((value, 0)), ..segment(start, 1000) };
    let mut receiver = Receiver::new(&spec());
    receiver.receive(Time(0), &stamped(0, 10));
    receiver.on_ack_sent();
    let later = stamped(1000, 10 + (1 << 31) + 5);
    let day = Span::from_secs(24 * 3600);
    assert!(receiver.fails_paws(Time(0) + day * 23, &later));
    let now = Time(0) + day * 25;
    assert!(!receiver.fails_paws(now, &later));
    receiver.receive(now, &later);
    assert_eq!(receiver.ts_recent(), 10 + (1 << 31) + 5);
    assert!(receiver.fails_paws(now, &stamped(1000, 10 + (1 << 31))));
}

/// FIN needs no space: it is accepted at the edge of the window, which is then 0 until the application reads.
#[test]
fn a_fin_at_the_edge_closes_the_window() {
    let fin = |start, length| {
        let data = segment(start, length);
        Segment { flags: Flags::FIN.with(Flags::ACK), ..data }
    };
    for with_data in [true, false] {
        let mut receiver = Receiver::new(&TcpSpec { receive_buffer_bytes: 3000, ..spec() });
        if with_data {
            assert!(receiver.receive(Time(0), &fin(0, 3000)));
        } else {
            receiver.receive(Time(0), &segment(0, 3000));
            assert_eq!(receiver.on_ack_sent(), (3001, 0));
            assert!(receiver.receive(Time(0), &fin(3000, 0)));
        }
        assert!(receiver.is_finished());
        assert_eq!(receiver.on_ack_sent(), (3002, 0));
        // A repetition is a duplicate without effect.
        assert!(!receiver.receive(Time(0), &fin(3000, 0)));
        assert_eq!(receiver.on_ack_sent(), (3002, 0));
        assert_eq!(receiver.read().map(|data| data.len()), Some(3000));
        receiver.after_read();
        assert_eq!(receiver.on_ack_sent(), (3002, 3000));
    }
    // FIN is not accepted if its data exceeds the edge: the sender repeats it.
    let mut receiver = Receiver::new(&TcpSpec { receive_buffer_bytes: 3000, ..spec() });
    assert!(receiver.receive(Time(0), &fin(0, 3500)));
    assert!(!receiver.is_finished());
    assert_eq!(receiver.on_ack_sent(), (3001, 0));
}

/// RFC 2018 section 3 counts sequence numbers, FIN included: a block covers the whole last segment.
#[test]
fn a_fin_beyond_a_gap_is_reported() {
    let fin = |start, length| {
        let data = segment(start, length);
        Segment { flags: Flags::FIN.with(Flags::ACK), ..data }
    };
    for ends in [[(2000, 1000)].as_slice(), &[(3000, 0)], &[(3000, 0), (2000, 1000)]] {
        let mut receiver = Receiver::new(&spec());
        receiver.receive(Time(0), &segment(0, 1000));
        for &(start, length) in ends {
            assert!(!receiver.receive(Time(0), &fin(start, length)));
            assert!(receiver.is_ack_due(Time(0)));
        }
        let first = ends.iter().map(|(start, _)| 1 + start).min().unwrap();
        assert_eq!(receiver.sack_blocks(3, true).unwrap().as_slice(), [(first, 3002)]);
        // A repetition is a duplicate.
        let (start, length) = ends[ends.len() - 1];
        receiver.receive(Time(0), &fin(start, length));
        assert_eq!(receiver.sack_blocks(3, true).unwrap().as_slice()[0], (1 + start, 3002));
        receiver.receive(Time(0), &segment(1000, 2000));
        assert!(receiver.is_finished() && !receiver.has_sack_blocks());
        assert_eq!((receiver.in_order(), receiver.received()), (3000, 3000));
        assert_eq!(receiver.on_ack_sent().0, 3002);
    }
}

#[test]
fn every_second_segment_is_acknowledged() {
    let delayed = DelayedAck { timeout_ns: 40_000_000, segments_per_ack: 2, quick_acks: 1 };
    let mut receiver = Receiver::new(&TcpSpec { delayed_ack: Some(delayed), ..spec() });
    let mut due = |start, now| {
        receiver.receive(Time(now), &segment(start, 1000));
        let due = receiver.is_ack_due(Time(now));
        if due {
            receiver.on_ack_sent();
        }
        (due, receiver.poll_at())
    };
    assert_eq!(due(0, 0), (true, Time::MAX), "a quick one");
    assert_eq!(due(1000, 5), (false, Time(40_000_005)));
    assert_eq!(due(2000, 6), (true, Time::MAX));
    assert!(!due(3000, 7).0);
}

/// Returns the blocks of [`Receiver::sack_blocks`] by a separate search for each start.
fn sack_blocks_by_search(receiver: &Receiver, max_blocks: usize) -> Vec<(u64, u64)> {
    let mut blocks: Vec<(u64, u64)> = receiver.dsack_range.into_iter().collect();
    for start in &receiver.recent_starts {
        let holds = |&(low, high): &(u64, u64)| low <= *start && *start < high;
        let found = receiver.ranges.iter().map(|(&low, &high)| (low, high)).find(holds);
        if let Some(block) =
            found.filter(|block| blocks.len() < max_blocks && !blocks.contains(block))
        {
            blocks.push(block);
        }
    }
    blocks
}

#[test]
fn sack_blocks_equal_a_plain_search() {
    let mut random = units::RandomStream::named(1, "blocks", "test");
    for _ in 0..200 {
        let mut receiver = Receiver::new(&spec());
        for _ in 0..60 {
            let (start, length) = (random.bits() % 40, 1 + random.bits() % 4);
            receiver.receive(Time(0), &segment(100 * start, 100 * length as usize));
            let max_blocks = 1 + (random.bits() % 4) as usize;
            let expected = sack_blocks_by_search(&receiver, max_blocks);
            let found = receiver.sack_blocks(max_blocks, true);
            assert_eq!(found.as_ref().map_or(&[][..], |blocks| blocks.as_slice()), expected);
        }
    }
}

//! A queue that drops from the front, compared with one that drops at the end.

use link::{
    DropHeadSpec, DropReason, DropTailSpec, LinkOutput, QueueLimit, QueueSpec, ServiceSpec,
    SimplexLink, StageSpec, StageUpdate, TransmitSpec,
};
use units::Time;

use crate::common::packet;

const MS: u64 = 1_000_000;

/// Returns a link of one thousand bytes per millisecond with `queue`.
fn line(queue: QueueSpec) -> SimplexLink {
    let service = ServiceSpec::Rate { rate_bit_s: 8_000_000, changes: Vec::new() };
    SimplexLink::build(&[StageSpec::Transmit(TransmitSpec { queue, service })], "test.up", 1)
        .unwrap()
}

fn front(limit: QueueLimit) -> SimplexLink {
    line(QueueSpec::DropHead(DropHeadSpec { limit: Some(limit) }))
}

fn left(out: &LinkOutput) -> Vec<(u64, u32)> {
    out.delivered.iter().map(|(due, packet)| (due.nanos() / MS, packet.handle)).collect()
}

fn dropped(out: &LinkOutput) -> Vec<(u64, u32)> {
    out.dropped
        .iter()
        .map(|(at, packet, cause)| {
            assert_eq!(*cause, DropReason::QueueOverflow);
            (at.nanos(), packet.handle)
        })
        .collect()
}

#[test]
fn the_oldest_packets_are_dropped() {
    let mut line = front(QueueLimit::Packets(2));
    let mut out = LinkOutput::default();
    for number in 0..6 {
        line.push(Time(u64::from(number)), packet(number, 1000), &mut out);
    }
    line.poll(Time::MAX, &mut out);
    // 0 is in service and cannot be dropped.
    assert_eq!(dropped(&out), [(3, 1), (4, 2), (5, 3)]);
    assert_eq!(left(&out), [(1, 0), (2, 4), (3, 5)]);
    assert_eq!(line.in_transit(), (0, 0));
}

#[test]
fn enough_bytes_are_dropped_for_the_arrival() {
    let mut line = front(QueueLimit::Bytes(2500));
    let mut out = LinkOutput::default();
    for (number, bytes) in
        [(0, 1000), (1, 1000), (2, 500), (3, 1000), (4, 2400), (5, 2600), (6, 100)]
    {
        line.push(Time(u64::from(number)), packet(number, bytes), &mut out);
    }
    line.poll(Time::MAX, &mut out);
    // 5 exceeds the limit of the queue: it alone is dropped.
    assert_eq!(dropped(&out), [(4, 1), (4, 2), (4, 3), (5, 5)]);
    assert_eq!(out.delivered.iter().map(|(_, p)| p.handle).collect::<Vec<_>>(), [0, 4, 6]);
}

#[test]
fn a_smaller_limit_holds_from_the_next_arrival_on() {
    let mut line = front(QueueLimit::Packets(5));
    let mut out = LinkOutput::default();
    for number in 0..6 {
        line.push(Time(0), packet(number, 1000), &mut out);
    }
    line.schedule_update(Time(10), 0, &StageUpdate::Limit(Some(QueueLimit::Packets(2))));
    line.push(Time(20), packet(6, 1000), &mut out);
    line.poll(Time::MAX, &mut out);
    assert_eq!(dropped(&out), [(20, 1), (20, 2), (20, 3), (20, 4)]);
    assert_eq!(left(&out), [(1, 0), (2, 5), (3, 6)]);
}

/// Under constant overload both queues drop the same number of packets and use the link equally. The drop-head queue
/// drops packets that have waited for the whole queue, so the receiver sees the loss one queueing delay earlier.
#[test]
fn drop_head_loses_as_much_as_drop_tail_but_earlier() {
    let limit = Some(QueueLimit::Packets(50));
    let run = |queue| {
        let mut line = line(queue);
        let mut out = LinkOutput::default();
        for number in 0..4000u32 {
            line.push(Time(u64::from(number) * MS / 2), packet(number, 1000), &mut out);
        }
        line.poll(Time::MAX, &mut out);
        out
    };
    let (head, tail) = (
        run(QueueSpec::DropHead(DropHeadSpec { limit })),
        run(QueueSpec::DropTail(DropTailSpec { limit })),
    );
    assert_eq!(head.dropped.len(), tail.dropped.len());
    let end = |out: &LinkOutput| out.delivered.last().unwrap().0;
    assert_eq!(end(&head), end(&tail));
    // The receiver detects the first loss when the next packet arrives.
    let hole = |out: &LinkOutput| {
        let lost = out.dropped.iter().map(|(_, packet, _)| packet.handle).min().unwrap();
        out.delivered.iter().find(|(_, packet)| packet.handle > lost).unwrap().0.nanos()
    };
    let earlier = hole(&tail) - hole(&head);
    assert!((49 * MS..=51 * MS).contains(&earlier), "{earlier}");
}

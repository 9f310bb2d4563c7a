//! A queue that drops from the front, beside one that drops at the end.

use path::{Cause, Change, Limit, Line, Output, QueueSpec, ServiceSpec, StageSpec, TransmitSpec};
use units::Time;

use crate::common::packet;

const MS: u64 = 1_000_000;

/// A thousand bytes a millisecond behind `queue`.
fn line(queue: QueueSpec) -> Line {
    let service = ServiceSpec::Rate { rate_bit_s: 8_000_000, changes: Vec::new() };
    Line::build(&[StageSpec::Transmit(TransmitSpec { queue, service })], "test.up", 1).unwrap()
}

fn front(limit: Limit) -> Line {
    line(QueueSpec::DropHead { limit: Some(limit) })
}

fn left(out: &Output) -> Vec<(u64, u32)> {
    out.delivered.iter().map(|(due, packet)| (due.nanos() / MS, packet.handle)).collect()
}

fn dropped(out: &Output) -> Vec<(u64, u32)> {
    out.dropped
        .iter()
        .map(|(at, packet, cause)| {
            assert_eq!(*cause, Cause::Overflow);
            (at.nanos(), packet.handle)
        })
        .collect()
}

#[test]
fn the_oldest_that_wait_make_room() {
    let mut line = front(Limit::Packets(2));
    let mut out = Output::default();
    for number in 0..6 {
        line.push(Time(u64::from(number)), packet(number, 1000), &mut out);
    }
    line.poll(Time::MAX, &mut out);
    // 0 is being sent and is nobody's to drop.
    assert_eq!(dropped(&out), [(3, 1), (4, 2), (5, 3)]);
    assert_eq!(left(&out), [(1, 0), (2, 4), (3, 5)]);
    assert_eq!(line.in_transit(), (0, 0));
}

#[test]
fn as_many_leave_as_the_arrival_needs_room_for() {
    let mut line = front(Limit::Bytes(2500));
    let mut out = Output::default();
    for (number, bytes) in
        [(0, 1000), (1, 1000), (2, 500), (3, 1000), (4, 2400), (5, 2600), (6, 100)]
    {
        line.push(Time(u64::from(number)), packet(number, bytes), &mut out);
    }
    line.poll(Time::MAX, &mut out);
    // 5 fits no queue of this limit: it alone is dropped.
    assert_eq!(dropped(&out), [(4, 1), (4, 2), (4, 3), (5, 5)]);
    assert_eq!(out.delivered.iter().map(|(_, p)| p.handle).collect::<Vec<_>>(), [0, 4, 6]);
}

#[test]
fn a_smaller_limit_holds_from_the_next_arrival_on() {
    let mut line = front(Limit::Packets(5));
    let mut out = Output::default();
    for number in 0..6 {
        line.push(Time(0), packet(number, 1000), &mut out);
    }
    line.change(Time(10), 0, &Change::Limit(Some(Limit::Packets(2))));
    line.push(Time(20), packet(6, 1000), &mut out);
    line.poll(Time::MAX, &mut out);
    assert_eq!(dropped(&out), [(20, 1), (20, 2), (20, 3), (20, 4)]);
    assert_eq!(left(&out), [(1, 0), (2, 5), (3, 6)]);
}

/// Under a load that never yields both queues lose as much and keep the link as busy; from the front they lose those who
/// have waited for the whole queue, so the hole is seen a queue's time earlier.
#[test]
fn as_much_is_lost_as_behind_drop_tail_but_earlier() {
    let limit = Some(Limit::Packets(50));
    let run = |queue| {
        let mut line = line(queue);
        let mut out = Output::default();
        for number in 0..4000u32 {
            line.push(Time(u64::from(number) * MS / 2), packet(number, 1000), &mut out);
        }
        line.poll(Time::MAX, &mut out);
        out
    };
    let (head, tail) = (run(QueueSpec::DropHead { limit }), run(QueueSpec::DropTail { limit }));
    assert_eq!(head.dropped.len(), tail.dropped.len());
    let end = |out: &Output| out.delivered.last().unwrap().0;
    assert_eq!(end(&head), end(&tail));
    // The receiver sees the first hole when the packet behind it comes.
    let hole = |out: &Output| {
        let lost = out.dropped.iter().map(|(_, packet, _)| packet.handle).min().unwrap();
        out.delivered.iter().find(|(_, packet)| packet.handle > lost).unwrap().0.nanos()
    };
    let earlier = hole(&tail) - hole(&head);
    assert!((49 * MS..=51 * MS).contains(&earlier), "{earlier}");
}

//! The line: order of work, changes, counters.

use path::{Change, Line, Output, StageSpec};
use units::{Packet, Rate, Span, Time};

use crate::common::{delay, packet, transmit};

#[test]
fn an_empty_line_passes_at_once() {
    let mut line = Line::build(&[], "wire.up", 1).unwrap();
    let mut out = Output::default();
    line.push(Time(5), Packet::of_bytes(100), &mut out);
    assert_eq!(out.delivered, [(Time(5), Packet::of_bytes(100))]);
    assert_eq!((line.poll_at(), line.in_transit()), (Time::MAX, (0, 0)));
}

#[test]
fn serialisation_keeps_the_remainder() {
    // 1,000 packets of 1,228 bytes at 7 Mb/s last 1.403428571... s, however odd one packet is.
    let mut line = Line::build(&[transmit(7_000_000, None)], "link.up", 1).unwrap();
    let mut out = Output::default();
    for number in 0..1000 {
        line.push(Time(0), packet(number, 1228), &mut out);
    }
    line.poll(Time(2_000_000_000), &mut out);
    assert_eq!(out.delivered.len(), 1000);
    assert_eq!(out.delivered[999].0, Time(1_403_428_571));
    assert_eq!((line.rate_bit_s(), line.propagation_ns()), (Some(7_000_000), 0));
    assert_eq!(line.gauge().sent_bytes, 1_228_000);
    assert_eq!(line.sojourn().unwrap().count(), 1000);
}

#[test]
fn a_changed_rate_holds_from_the_next_packet_on() {
    // 1,000 bytes last 8 ms at 1 Mb/s and 4 ms at 2 Mb/s; the change comes in the first packet.
    let mut line = Line::build(&[transmit(1_000_000, None)], "link.up", 1).unwrap();
    let mut out = Output::default();
    line.change(Time(5_000_000), 0, &Change::Rate(Rate(2_000_000)));
    for number in 0..3 {
        line.push(Time(0), packet(number, 1000), &mut out);
    }
    line.poll(Time::MAX, &mut out);
    let due: Vec<u64> = out.delivered.iter().map(|(due, _)| due.nanos()).collect();
    assert_eq!(due, [8_000_000, 12_000_000, 16_000_000]);
    assert_eq!(line.rate_bit_s(), Some(2_000_000));
}

#[test]
fn a_falling_delay_keeps_the_order() {
    let mut line = Line::build(&[delay(100)], "link.up", 1).unwrap();
    let mut out = Output::default();
    line.push(Time(0), packet(0, 1), &mut out);
    line.change(Time(10), 0, &Change::Delay(Span(20)));
    for (number, at) in [(1, 9), (2, 10), (3, 95)] {
        line.push(Time(at), packet(number, 1), &mut out);
    }
    line.poll(Time::MAX, &mut out);
    let due: Vec<_> = out.delivered.iter().map(|(due, p)| (due.nanos(), p.handle)).collect();
    assert_eq!(due, [(100, 0), (109, 1), (109, 2), (115, 3)]);
    assert_eq!(line.propagation_ns(), 20);
}

#[test]
fn own_work_comes_before_an_arrival_of_the_same_instant() {
    // The link frees at 8 ms; a packet that arrives then finds room in a queue of one, whether it
    // comes from outside or from the stage before.
    let transmit = transmit(1_000_000, Some(path::Limit::Packets(1)));
    for spec in [vec![transmit.clone()], vec![delay(5_000), transmit]] {
        let mut line = Line::build(&spec, "link.up", 1).unwrap();
        let mut out = Output::default();
        for (number, at) in [(0, 0), (1, 1), (2, 2), (3, 8_000_000)] {
            line.push(Time(at), packet(number, 1000), &mut out);
        }
        line.poll(Time::MAX, &mut out);
        assert_eq!(out.delivered.len(), 3);
        assert_eq!(out.dropped[0].1.handle, 2);
    }
}

#[test]
fn a_change_comes_before_work_of_the_same_instant() {
    // The first packet ends at 8 ms, when the rate doubles: the second one has the new rate.
    let mut line = Line::build(&[transmit(1_000_000, None)], "link.up", 1).unwrap();
    let mut out = Output::default();
    line.push(Time(0), packet(0, 1000), &mut out);
    line.push(Time(0), packet(1, 1000), &mut out);
    line.change(Time(8_000_000), 0, &Change::Rate(Rate(2_000_000)));
    line.poll(Time::MAX, &mut out);
    assert_eq!(out.delivered[1].0, Time(12_000_000));
}

#[test]
fn a_bad_stage_is_named() {
    let bad = StageSpec::Reorder { probability: 1.5, hold_ns: 1 };
    let error = Line::build(&[delay(1), bad], "satellite.up", 1).err().unwrap();
    assert_eq!(
        error.to_string(),
        "satellite.up stage 1 (reorder): probability = 1.5 is no probability between 0 and 1"
    );
}

#[test]
fn a_line_may_move_to_a_thread() {
    fn movable<T: Send>() {}
    movable::<Line>();
    movable::<path::Topology>();
}

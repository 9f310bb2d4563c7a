//! The line: order of work, changes, counters.

use path::{
    Cause, Change, DelayTraceSpec, InFlight, Interpolation, JitterModel, JitterSpec, Limit, Line,
    OutageSpec, Output, QueueSpec, ReorderSpec, ServiceSpec, StageSpec, TransmitSpec,
};
use units::{Packet, Rate, Span, Time};

use crate::common::{bernoulli, delay, packet, transmit};

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

/// 8 ms a packet, then 250 ms: by the transmitter alone nothing leaves.
#[test]
fn a_line_says_until_when_nothing_leaves_it() {
    let stages = [transmit(1_000_000, None), delay(250_000_000)];
    let filled = |line: &mut Line| {
        (0..2).for_each(|n| line.push(Time(0), packet(n, 1000), &mut Output::default()));
        (line.poll_at(), line.leaves_at())
    };
    let mut line = Line::build(&stages, "link.up", 1).unwrap();
    assert_eq!((line.poll_at(), line.leaves_at()), (Time::MAX, Time::MAX));
    assert_eq!(filled(&mut line), (Time(8_000_000), Time(258_000_000)));
    // A live change may bring the first out earlier.
    line.change(Time(1_000_000), 1, &Change::Delay(Span(100_000_000)));
    assert_eq!(line.leaves_at(), Time(108_000_000));
    let mut out = Output::default();
    line.poll(line.leaves_at(), &mut out);
    assert_eq!(out.delivered[0].0, Time(108_000_000));
    assert_eq!((line.poll_at(), line.leaves_at()), (Time(116_000_000), Time(116_000_000)));

    let mut steps = Line::build(&stages, "link.up", 1).unwrap();
    steps.keep_steps();
    assert_eq!(filled(&mut steps), (Time(8_000_000), Time(8_000_000)), "every step is asked for");
    let mut lossy = Line::build(&[stages[0].clone(), bernoulli(1.0)], "link.up", 1).unwrap();
    assert_eq!(filled(&mut lossy), (Time(8_000_000), Time(8_000_000)), "nothing holds it");
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

/// 8 ms a packet; the link is down from 10 to 40 ms: the second, which is being served, leaves, and the third waits. Work is
/// due at 40 ms although nobody comes then, and those who come meanwhile wait behind it.
#[test]
fn who_waits_for_a_transmitter_that_does_not_serve_leaves_after_it() {
    let run = |late: u64| {
        let limit = Some(path::Limit::Packets(3));
        let mut line = Line::build(&[transmit(1_000_000, limit)], "link.up", 1).unwrap();
        let mut out = Output::default();
        line.change(Time(10_000_000), 0, &Change::Serves(false));
        line.change(Time(40_000_000), 0, &Change::Serves(true));
        for number in 0..3 {
            line.push(Time(0), packet(number, 1000), &mut out);
        }
        line.poll(Time(20_000_000 + late), &mut out);
        assert_eq!((out.delivered.len(), line.gauge().queued_packets), (2, 1));
        for number in 3..6 {
            line.push(Time(30_000_000), packet(number, 1000), &mut out);
        }
        assert_eq!(line.poll_at(), Time(40_000_000));
        line.poll(Time(60_000_000 + late), &mut out);
        line.poll(Time::MAX, &mut out);
        (out, *line.counters())
    };
    let (out, counters) = run(0);
    let due: Vec<u64> = out.delivered.iter().map(|(due, _)| due.nanos() / 1_000_000).collect();
    assert_eq!(due, [8, 16, 48, 56, 64], "one found no room");
    assert_eq!(counters.dropped_packets[Cause::Overflow as usize], 1);
    let (late, _) = run(7_000_000);
    assert_eq!(late.delivered, out.delivered);
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

/// Packets at 0, 9, 10, 40 and 95 into a delay of 100 that falls to 20 at 10, at which `fate` is said.
fn handed_over(fate: InFlight) -> Output {
    let mut line = Line::build(&[delay(100)], "link.up", 1).unwrap();
    let mut out = Output::default();
    line.change(Time(10), 0, &Change::InFlight(fate));
    line.change(Time(10), 0, &Change::Delay(Span(20)));
    for (number, at) in [(0, 0), (1, 9), (2, 10), (3, 40), (4, 95)] {
        line.push(Time(at), packet(number, 1), &mut out);
    }
    line.poll(Time::MAX, &mut out);
    assert_eq!((line.poll_at(), line.in_transit()), (Time::MAX, (0, 0)));
    out
}

#[test]
fn what_is_in_flight_stays_in_order_or_is_overtaken_or_lost() {
    let left = |out: &Output| -> Vec<_> {
        out.delivered.iter().map(|(due, p)| (due.nanos(), p.handle)).collect()
    };
    let kept = handed_over(InFlight::InOrder);
    assert_eq!(left(&kept), [(100, 0), (109, 1), (109, 2), (109, 3), (115, 4)]);
    // Those who are overtaken keep their times; of the others none overtakes another.
    let overtaken = handed_over(InFlight::Overtaken);
    assert_eq!(left(&overtaken), [(30, 2), (60, 3), (100, 0), (109, 1), (115, 4)]);
    let lost = handed_over(InFlight::Lost);
    assert_eq!(left(&lost), [(30, 2), (60, 3), (115, 4)]);
    let dropped: Vec<_> = lost.dropped.iter().map(|(at, p, why)| (*at, p.handle, *why)).collect();
    assert_eq!(dropped, [(Time(10), 0, Cause::Outage), (Time(10), 1, Cause::Outage)]);
    assert!(kept.dropped.is_empty() && overtaken.dropped.is_empty());
}

#[test]
fn who_is_lost_is_a_reason_to_come() {
    let mut line = Line::build(&[delay(100)], "link.up", 1).unwrap();
    let mut out = Output::default();
    for at in [30, 60] {
        line.change(Time(at), 0, &Change::InFlight(InFlight::Lost));
    }
    assert_eq!(line.poll_at(), Time(30));
    line.push(Time(0), packet(0, 1), &mut out);
    line.poll(Time(30), &mut out);
    assert_eq!((out.dropped.len(), line.poll_at()), (1, Time(60)));
    line.push(Time(40), packet(1, 1), &mut out);
    line.poll(Time(60), &mut out);
    assert_eq!((out.dropped.len(), line.poll_at()), (2, Time::MAX));
    // Live, by a driver that is late.
    line.push(Time(70), packet(2, 1), &mut out);
    line.change(Time(80), 0, &Change::InFlight(InFlight::Lost));
    assert_eq!(line.poll_at(), Time(80));
    line.poll(Time(95), &mut out);
    assert_eq!((out.dropped[2].0, line.poll_at()), (Time(80), Time::MAX));
}

#[test]
fn every_queue_loses_what_waits_and_takes_a_limit() {
    let (target_ns, interval_ns, ecn) = (5_000_000, 100_000_000, false);
    let (limit, limit_packets, flows, quantum_bytes) = (Some(Limit::Packets(50)), 50, 8, 1514);
    for queue in [
        QueueSpec::DropTail { limit },
        QueueSpec::DropHead { limit },
        QueueSpec::Codel { limit, target_ns, interval_ns, ecn },
        QueueSpec::FqCodel { limit_packets, flows, quantum_bytes, target_ns, interval_ns, ecn },
    ] {
        let service = ServiceSpec::Rate { rate_bit_s: 8_000_000, changes: vec![] };
        let stages = [StageSpec::Transmit(TransmitSpec { queue, service })];
        let mut line = Line::build(&stages, "link.up", 1).unwrap();
        let mut out = Output::default();
        // A millisecond a packet: at 2.5 ms one is being sent, and 7 wait. Later there is room for 2.
        let at = Time(2_500_000);
        line.change(at, 0, &Change::InFlight(InFlight::Lost));
        line.change(at, 0, &Change::Limit(Some(Limit::Packets(2))));
        for number in 0..10 {
            line.push(Time(0), packet(number, 1000), &mut out);
        }
        line.poll(at, &mut out);
        assert_eq!((out.delivered.len(), out.dropped.len()), (2, 7), "{stages:?}");
        assert_eq!((line.gauge().queued_packets, line.gauge().queued_bytes), (0, 0));
        for number in 10..15 {
            line.push(Time(2_600_000), packet(number, 1000), &mut out);
        }
        assert_eq!(line.gauge().queued_packets, 2);
        line.poll(Time::MAX, &mut out);
        assert_eq!((out.delivered.len(), line.in_transit()), (5, (0, 0)));
        let of = |cause| out.dropped.iter().filter(|(_, _, why)| *why == cause).count();
        assert_eq!((of(Cause::Outage), of(Cause::Overflow)), (7, 3));
        // The link serves at once who comes to it idle.
        line.push(Time(9_000_000), packet(15, 1000), &mut out);
        assert_eq!(line.poll_at(), Time(10_000_000));
    }
}

#[test]
fn everything_that_holds_packets_loses_them() {
    let points = vec![(0, 100)];
    let trace = |reorder| {
        StageSpec::DelayTrace(DelayTraceSpec {
            points: points.clone(),
            interpolation: Interpolation::Step,
            repeat_ns: None,
            reorder,
        })
    };
    let jitter = |reorder| {
        StageSpec::Jitter(JitterSpec {
            model: JitterModel::Normal { mean_ns: 1000, deviation_ns: 0 },
            reorder,
        })
    };
    let outage =
        StageSpec::Outage(OutageSpec { windows: vec![(0, 100)], repeat_ns: None, hold: true });
    let held = StageSpec::Reorder(ReorderSpec { probability: 1.0, hold_ns: 100 });
    for stage in [trace(false), trace(true), jitter(false), jitter(true), outage, held] {
        let lost = Change::InFlight(InFlight::Lost);
        assert!(stage.takes(&lost));
        let mut line = Line::build(std::slice::from_ref(&stage), "link.up", 1).unwrap();
        let mut out = Output::default();
        line.change(Time(10), 0, &lost);
        line.push(Time(0), packet(0, 1), &mut out);
        line.push(Time(5), packet(1, 1), &mut out);
        line.push(Time(200_000), packet(2, 1), &mut out);
        line.poll(Time::MAX, &mut out);
        let left: Vec<_> = out.delivered.iter().map(|(_, p)| p.handle).collect();
        assert_eq!((left, out.dropped.len()), (vec![2], 2), "{stage:?}");
    }
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
    let bad = StageSpec::Reorder(ReorderSpec { probability: 1.5, hold_ns: 1 });
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

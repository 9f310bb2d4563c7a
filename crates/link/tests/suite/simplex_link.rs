//! The simplex link: order of work, updates, counters.

use link::{
    CodelSpec, DelayTraceSpec, DropHeadSpec, DropReason, DropTailSpec, FqCodelSpec, InFlightPolicy,
    Interpolation, JitterModel, JitterSpec, LinkOutput, OutageSpec, QueueLimit, QueueSpec,
    ReorderSpec, ServiceSpec, SimplexLink, StageSpec, StageUpdate, TransmitSpec,
};
use units::{Packet, Rate, Span, Time};

use crate::common::{bernoulli, delay, packet, transmit};

#[test]
fn an_empty_line_passes_at_once() {
    let mut line = SimplexLink::build(&[], "wire.up", 1).unwrap();
    let mut out = LinkOutput::default();
    line.push(Time(5), Packet::of_bytes(100), &mut out);
    assert_eq!(out.delivered, [(Time(5), Packet::of_bytes(100))]);
    assert_eq!((line.poll_at(), line.in_transit()), (Time::MAX, (0, 0)));
}

#[test]
fn serialisation_keeps_the_remainder() {
    // 1,000 packets of 1,228 bytes at 7 Mb/s last 1.403428571... s, although one packet lasts no whole number of ns.
    let mut line = SimplexLink::build(&[transmit(7_000_000, None)], "link.up", 1).unwrap();
    let mut out = LinkOutput::default();
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

/// 8 ms per packet, then 250 ms of delay: the work of the transmitter alone delivers no packet.
#[test]
fn next_delivery_at_skips_work_without_delivery() {
    let stages = [transmit(1_000_000, None), delay(250_000_000)];
    let filled = |line: &mut SimplexLink| {
        (0..2).for_each(|n| line.push(Time(0), packet(n, 1000), &mut LinkOutput::default()));
        (line.poll_at(), line.next_delivery_at())
    };
    let mut line = SimplexLink::build(&stages, "link.up", 1).unwrap();
    assert_eq!((line.poll_at(), line.next_delivery_at()), (Time::MAX, Time::MAX));
    assert_eq!(filled(&mut line), (Time(8_000_000), Time(258_000_000)));
    // A live update can advance the first delivery.
    line.schedule_update(Time(1_000_000), 1, &StageUpdate::Delay(Span(100_000_000)));
    assert_eq!(line.next_delivery_at(), Time(108_000_000));
    let mut out = LinkOutput::default();
    line.poll(line.next_delivery_at(), &mut out);
    assert_eq!(out.delivered[0].0, Time(108_000_000));
    assert_eq!((line.poll_at(), line.next_delivery_at()), (Time(116_000_000), Time(116_000_000)));

    let mut steps = SimplexLink::build(&stages, "link.up", 1).unwrap();
    steps.record_steps();
    assert_eq!(filled(&mut steps), (Time(8_000_000), Time(8_000_000)), "every step is asked for");
    let mut lossy = SimplexLink::build(&[stages[0].clone(), bernoulli(1.0)], "link.up", 1).unwrap();
    assert_eq!(filled(&mut lossy), (Time(8_000_000), Time(8_000_000)), "nothing holds it");
}

#[test]
fn a_new_rate_applies_to_the_next_packet() {
    // 1,000 bytes last 8 ms at 1 Mb/s and 4 ms at 2 Mb/s. The update occurs during the first packet.
    let mut line = SimplexLink::build(&[transmit(1_000_000, None)], "link.up", 1).unwrap();
    let mut out = LinkOutput::default();
    line.schedule_update(Time(5_000_000), 0, &StageUpdate::Rate(Rate(2_000_000)));
    for number in 0..3 {
        line.push(Time(0), packet(number, 1000), &mut out);
    }
    line.poll(Time::MAX, &mut out);
    let due: Vec<u64> = out.delivered.iter().map(|(due, _)| due.nanos()).collect();
    assert_eq!(due, [8_000_000, 12_000_000, 16_000_000]);
    assert_eq!(line.rate_bit_s(), Some(2_000_000));
}

/// 8 ms per packet. The link is down from 10 to 40 ms: the second packet, already in service, is sent; the third waits.
/// Work is due at 40 ms even without an arrival then. Packets that arrive meanwhile queue behind the third.
#[test]
fn a_disabled_transmitter_serves_its_queue_once_enabled() {
    let run = |late: u64| {
        let limit = Some(link::QueueLimit::Packets(3));
        let mut line = SimplexLink::build(&[transmit(1_000_000, limit)], "link.up", 1).unwrap();
        let mut out = LinkOutput::default();
        line.schedule_update(Time(10_000_000), 0, &StageUpdate::Enabled(false));
        line.schedule_update(Time(40_000_000), 0, &StageUpdate::Enabled(true));
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
    assert_eq!(counters.dropped_packets[DropReason::QueueOverflow as usize], 1);
    let (late, _) = run(7_000_000);
    assert_eq!(late.delivered, out.delivered);
}

#[test]
fn a_falling_delay_keeps_the_order() {
    let mut line = SimplexLink::build(&[delay(100)], "link.up", 1).unwrap();
    let mut out = LinkOutput::default();
    line.push(Time(0), packet(0, 1), &mut out);
    line.schedule_update(Time(10), 0, &StageUpdate::Delay(Span(20)));
    for (number, at) in [(1, 9), (2, 10), (3, 95)] {
        line.push(Time(at), packet(number, 1), &mut out);
    }
    line.poll(Time::MAX, &mut out);
    let due: Vec<_> = out.delivered.iter().map(|(due, p)| (due.nanos(), p.handle)).collect();
    assert_eq!(due, [(100, 0), (109, 1), (109, 2), (115, 3)]);
    assert_eq!((line.propagation_ns(), line.max_propagation_ns()), (20, Some(100)));
}

/// Sends packets at 0, 9, 10, 40 and 95 into a delay of 100 that falls to 20 at 10, with `policy` from 10.
fn handed_over(policy: InFlightPolicy) -> LinkOutput {
    let mut line = SimplexLink::build(&[delay(100)], "link.up", 1).unwrap();
    let mut out = LinkOutput::default();
    line.schedule_update(Time(10), 0, &StageUpdate::InFlight(policy));
    line.schedule_update(Time(10), 0, &StageUpdate::Delay(Span(20)));
    for (number, at) in [(0, 0), (1, 9), (2, 10), (3, 40), (4, 95)] {
        line.push(Time(at), packet(number, 1), &mut out);
    }
    line.poll(Time::MAX, &mut out);
    assert_eq!((line.poll_at(), line.in_transit()), (Time::MAX, (0, 0)));
    out
}

#[test]
fn packets_in_flight_keep_order_are_overtaken_or_dropped() {
    let left = |out: &LinkOutput| -> Vec<_> {
        out.delivered.iter().map(|(due, p)| (due.nanos(), p.handle)).collect()
    };
    let kept = handed_over(InFlightPolicy::InOrder);
    assert_eq!(left(&kept), [(100, 0), (109, 1), (109, 2), (109, 3), (115, 4)]);
    // Overtaken packets retain their delivery times. The other packets do not overtake each other.
    let overtaken = handed_over(InFlightPolicy::Reorder);
    assert_eq!(left(&overtaken), [(30, 2), (60, 3), (100, 0), (109, 1), (115, 4)]);
    let lost = handed_over(InFlightPolicy::Drop);
    assert_eq!(left(&lost), [(30, 2), (60, 3), (115, 4)]);
    let dropped: Vec<_> = lost.dropped.iter().map(|(at, p, why)| (*at, p.handle, *why)).collect();
    assert_eq!(dropped, [(Time(10), 0, DropReason::Outage), (Time(10), 1, DropReason::Outage)]);
    assert!(kept.dropped.is_empty() && overtaken.dropped.is_empty());
}

#[test]
fn an_in_flight_drop_is_a_deadline() {
    let mut line = SimplexLink::build(&[delay(100)], "link.up", 1).unwrap();
    let mut out = LinkOutput::default();
    for at in [30, 60] {
        line.schedule_update(Time(at), 0, &StageUpdate::InFlight(InFlightPolicy::Drop));
    }
    assert_eq!(line.poll_at(), Time(30));
    line.push(Time(0), packet(0, 1), &mut out);
    line.poll(Time(30), &mut out);
    assert_eq!((out.dropped.len(), line.poll_at()), (1, Time(60)));
    line.push(Time(40), packet(1, 1), &mut out);
    line.poll(Time(60), &mut out);
    assert_eq!((out.dropped.len(), line.poll_at()), (2, Time::MAX));
    // A live update with a late driver.
    line.push(Time(70), packet(2, 1), &mut out);
    line.schedule_update(Time(80), 0, &StageUpdate::InFlight(InFlightPolicy::Drop));
    assert_eq!(line.poll_at(), Time(80));
    line.poll(Time(95), &mut out);
    assert_eq!((out.dropped[2].0, line.poll_at()), (Time(80), Time::MAX));
}

#[test]
fn every_queue_drops_its_packets_and_accepts_a_limit() {
    let (target_ns, interval_ns, ecn) = (5_000_000, 100_000_000, false);
    let (limit, limit_packets, flows, quantum_bytes) = (Some(QueueLimit::Packets(50)), 50, 8, 1514);
    for queue in [
        QueueSpec::DropTail(DropTailSpec { limit }),
        QueueSpec::DropHead(DropHeadSpec { limit }),
        QueueSpec::Codel(CodelSpec { limit, target_ns, interval_ns, ecn }),
        QueueSpec::FqCodel(FqCodelSpec {
            limit_packets,
            flows,
            quantum_bytes,
            target_ns,
            interval_ns,
            ecn,
        }),
    ] {
        let service = ServiceSpec::Rate { rate_bit_s: 8_000_000, changes: vec![] };
        let stages = [StageSpec::Transmit(TransmitSpec { queue, service })];
        let mut line = SimplexLink::build(&stages, "link.up", 1).unwrap();
        let mut out = LinkOutput::default();
        // 1 ms per packet: at 2.5 ms one packet is in service, and 7 wait. From then on the queue holds 2.
        let at = Time(2_500_000);
        line.schedule_update(at, 0, &StageUpdate::InFlight(InFlightPolicy::Drop));
        line.schedule_update(at, 0, &StageUpdate::Limit(Some(QueueLimit::Packets(2))));
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
        assert_eq!((of(DropReason::Outage), of(DropReason::QueueOverflow)), (7, 3));
        // An idle link serves an arriving packet at once.
        line.push(Time(9_000_000), packet(15, 1000), &mut out);
        assert_eq!(line.poll_at(), Time(10_000_000));
    }
}

#[test]
fn every_delaying_stage_drops_its_packets() {
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
    let outage = StageSpec::Outage(OutageSpec {
        windows: vec![(0, 100)],
        repeat_ns: None,
        buffer_packets: true,
    });
    let held = StageSpec::Reorder(ReorderSpec { probability: 1.0, delay_ns: 100 });
    for stage in [trace(false), trace(true), jitter(false), jitter(true), outage, held] {
        let lost = StageUpdate::InFlight(InFlightPolicy::Drop);
        assert!(stage.supports(&lost));
        let mut line = SimplexLink::build(std::slice::from_ref(&stage), "link.up", 1).unwrap();
        let mut out = LinkOutput::default();
        line.schedule_update(Time(10), 0, &lost);
        line.push(Time(0), packet(0, 1), &mut out);
        line.push(Time(5), packet(1, 1), &mut out);
        line.push(Time(200_000), packet(2, 1), &mut out);
        line.poll(Time::MAX, &mut out);
        let left: Vec<_> = out.delivered.iter().map(|(_, p)| p.handle).collect();
        assert_eq!((left, out.dropped.len()), (vec![2], 2), "{stage:?}");
    }
}

#[test]
fn due_work_precedes_an_arrival_of_the_same_instant() {
    // The link becomes idle at 8 ms. A packet that arrives then finds space in a queue of one, whether it comes from
    // outside or from the previous stage.
    let transmit = transmit(1_000_000, Some(link::QueueLimit::Packets(1)));
    for spec in [vec![transmit.clone()], vec![delay(5_000), transmit]] {
        let mut line = SimplexLink::build(&spec, "link.up", 1).unwrap();
        let mut out = LinkOutput::default();
        for (number, at) in [(0, 0), (1, 1), (2, 2), (3, 8_000_000)] {
            line.push(Time(at), packet(number, 1000), &mut out);
        }
        line.poll(Time::MAX, &mut out);
        assert_eq!(out.delivered.len(), 3);
        assert_eq!(out.dropped[0].1.handle, 2);
    }
}

#[test]
fn an_update_precedes_work_of_the_same_instant() {
    // The first packet ends at 8 ms, when the rate doubles: the second one has the new rate.
    let mut line = SimplexLink::build(&[transmit(1_000_000, None)], "link.up", 1).unwrap();
    let mut out = LinkOutput::default();
    line.push(Time(0), packet(0, 1000), &mut out);
    line.push(Time(0), packet(1, 1000), &mut out);
    line.schedule_update(Time(8_000_000), 0, &StageUpdate::Rate(Rate(2_000_000)));
    line.poll(Time::MAX, &mut out);
    assert_eq!(out.delivered[1].0, Time(12_000_000));
}

#[test]
fn a_bad_stage_is_named() {
    let bad = StageSpec::Reorder(ReorderSpec { probability: 1.5, delay_ns: 1 });
    let error = SimplexLink::build(&[delay(1), bad], "satellite.up", 1).err().unwrap();
    assert_eq!(
        error.to_string(),
        "satellite.up stage 1 (reorder): probability = 1.5 is not a probability from 0 to 1"
    );
}

#[test]
fn a_line_may_move_to_a_thread() {
    fn movable<T: Send>() {}
    movable::<SimplexLink>();
}

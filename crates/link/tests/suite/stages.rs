//! Each stage compared with its documentation.

use link::{
    BurstLossSpec, DelayTraceSpec, DropReason, DropTailSpec, LinkOutput, LossModel, LossSpec,
    NetemSpec, OutageSpec, QueueLimit, QueueSpec, ReorderSpec, ServiceSpec, SimplexLink, Stage,
    StageOutput, StageSpec, TraceLossSpec, TransmitSpec,
};
use units::{Packet, RandomStream, Span, Time};

use crate::common::{delay, packet, transmit};

const MS: u64 = 1_000_000;

/// Pushes packets of `bytes` at the given instants and drains the link.
fn run(
    stages: &[StageSpec],
    bytes: u32,
    at: impl IntoIterator<Item = u64>,
) -> (SimplexLink, LinkOutput) {
    let mut line = SimplexLink::build(stages, "test.up", 1).unwrap();
    let mut out = LinkOutput::default();
    for (number, at) in (0..).zip(at) {
        let born = Packet { created_at: Time(at), ..packet(number, bytes) };
        line.push(Time(at), born, &mut out);
    }
    line.poll(Time(u64::MAX - 1), &mut out);
    (line, out)
}

fn handles(out: &LinkOutput) -> Vec<u32> {
    out.delivered.iter().map(|(_, packet)| packet.handle).collect()
}

#[test]
fn drop_tail_counts_exactly() {
    // One packet in service and ten in the queue.
    let (line, out) = run(&[transmit(1_000_000, Some(QueueLimit::Packets(10)))], 500, [0; 30]);
    assert_eq!(out.delivered.len(), 11);
    assert_eq!(line.counters().dropped_packets[DropReason::QueueOverflow as usize], 19);
    assert_eq!(line.counters().dropped_bytes[DropReason::QueueOverflow as usize], 19 * 500);
    // 1,700 bytes hold three packets of 500.
    let (_, out) = run(&[transmit(1_000_000, Some(QueueLimit::Bytes(1700)))], 500, [0; 30]);
    assert_eq!(handles(&out), [0, 1, 2, 3]);
}

#[test]
fn a_delivery_trace_gives_its_throughput() {
    let stages = |bytes| {
        let service = ServiceSpec::Trace {
            opportunities_ns: vec![2 * MS, 4 * MS, 4 * MS, 5 * MS],
            opportunity_bytes: 1504,
            repeat_ns: 5 * MS,
        };
        let stage = StageSpec::Transmit(TransmitSpec {
            queue: QueueSpec::DropTail(DropTailSpec { limit: None }),
            service,
        });
        run(&[stage], bytes, [0; 8000]).1.delivered
    };
    // Four opportunities every 5 ms, independent of the packet size.
    assert_eq!(stages(1504).last().unwrap().0, Time(8000 / 4 * 5 * MS));
    assert_eq!(stages(376).last().unwrap().0, Time(8000 / 16 * 5 * MS));
    assert_eq!(stages(3008).last().unwrap().0, Time(8000 / 2 * 5 * MS));
}

#[test]
fn netem_counts_its_delay_line() {
    // 10 Mb/s and 250 ms in each direction: 417 packets of 1,500 bytes fill one round trip.
    let netem = StageSpec::Netem(NetemSpec {
        rate_bit_s: 10_000_000,
        delay_ns: 250 * MS,
        limit_packets: 417,
    });
    let (line, out) = run(std::slice::from_ref(&netem), 1500, [0; 1000]);
    assert_eq!(out.delivered.len(), 417);
    assert_eq!(line.propagation_ns(), 250 * MS);
    // Twice the rate for 20 s: at most 417 packets in total, about 208 of them in the delay line. So a packet waits for
    // about 208 others, not for 417.
    let mut line = SimplexLink::build(&[netem], "test.up", 1).unwrap();
    let mut out = LinkOutput::default();
    for number in 0..33_000u64 {
        line.push(Time(number * 600_000), packet(number as u32, 1500), &mut out);
        assert!(line.in_transit().0 <= 417);
        assert_eq!(line.gauge().queued_packets, line.in_transit().0);
    }
    let wait = line.sojourn().unwrap().quantile(0.9).unwrap().millis();
    assert!((245.0..255.0).contains(&wait), "{wait} ms");
    // A transmitter before a delay holds 417 packets in its queue alone.
    let split = [transmit(10_000_000, Some(QueueLimit::Packets(417))), delay(250 * MS)];
    let mut line = SimplexLink::build(&split, "test.up", 1).unwrap();
    for number in 0..33_000u64 {
        line.push(Time(number * 600_000), packet(number as u32, 1500), &mut out);
    }
    let wait = line.sojourn().unwrap().quantile(0.9).unwrap().millis();
    assert!((495.0..505.0).contains(&wait), "{wait} ms");
    assert!(line.in_transit().0 > 620);
}

#[test]
fn bursts_and_traces_drop_the_specified_packets() {
    let loss = |model| StageSpec::Loss(LossSpec { model, changes: Vec::new() });
    let burst =
        LossModel::Burst(BurstLossSpec { interval_ns: 100, duration_ns: 30, offset_ns: 50 });
    let (_, out) = run(&[loss(burst)], 1, [0, 49, 50, 79, 80, 149, 150, 179, 180]);
    assert_eq!(handles(&out), [0, 1, 4, 5, 8]);
    let trace = LossModel::Trace(TraceLossSpec { packets: vec![0, 3, 4] });
    let (_, out) = run(&[loss(trace)], 1, 0..7);
    assert_eq!(handles(&out), [1, 2, 5, 6]);
}

#[test]
fn an_outage_drops_or_holds() {
    let outage = |hold| {
        StageSpec::Outage(OutageSpec {
            windows: vec![(10, 20)],
            repeat_ns: Some(50),
            buffer_packets: hold,
        })
    };
    let (line, out) = run(&[outage(false)], 1, [9, 10, 19, 20, 65]);
    assert_eq!(handles(&out), [0, 3]);
    assert_eq!(line.counters().dropped_packets[DropReason::Outage as usize], 3);
    let (_, out) = run(&[outage(true)], 1, [9, 10, 19, 20, 65]);
    let due: Vec<_> = out.delivered.iter().map(|(due, p)| (due.nanos(), p.handle)).collect();
    assert_eq!(due, [(9, 0), (20, 1), (20, 2), (20, 3), (70, 4)]);
}

#[test]
fn reordering_holds_back_its_share() {
    let reorder = StageSpec::Reorder(ReorderSpec { probability: 0.1, delay_ns: 25 });
    let (_, out) = run(&[reorder], 1, (0..10_000).map(|n| n * 10));
    let held = out.delivered.iter().filter(|(due, packet)| *due != packet.created_at).count();
    assert!(
        out.delivered.iter().all(|(due, p)| [0, 25].contains(&due.since(p.created_at).nanos()))
    );
    // Five standard errors of a Bernoulli mean.
    assert!((held as f64 - 1000.0).abs() < 5.0 * (10_000.0f64 * 0.1 * 0.9).sqrt(), "{held}");
    assert!(!handles(&out).is_sorted());
}

#[test]
fn packets_due_at_one_instant_keep_their_order() {
    let falling = StageSpec::DelayTrace(DelayTraceSpec {
        points: vec![(0, 100), (50, 0)],
        interpolation: link::Interpolation::Linear,
        repeat_ns: None,
        reorder: true,
    });
    // Due at 100, three times 90, 80; from 50 on the delay is zero.
    let (_, out) = run(&[falling], 1, [0, 10, 10, 10, 20, 90, 100]);
    assert_eq!(handles(&out), [4, 1, 2, 3, 5, 0, 6]);
}

/// A stage that emits every packet with a random due time in the future.
struct Ahead(RandomStream);

impl Stage for Ahead {
    fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        out.emit(due + self.0.span_below(Span(100)), packet);
    }
    fn poll(&mut self, _now: Time, _out: &mut StageOutput) {}
    fn poll_at(&self) -> Time {
        Time::MAX
    }
}

#[test]
fn a_stage_may_emit_ahead_of_time() {
    let ahead = Ahead(RandomStream::named(1, "test", "ahead"));
    let mut line =
        SimplexLink::from_stages(vec![Box::new(ahead), Box::new(link::Delay::new(Span(10)))]);
    let mut out = LinkOutput::default();
    for number in 0..1000 {
        let at = Time(u64::from(number) * 7);
        line.push(at, Packet { created_at: at, ..packet(number, 1) }, &mut out);
    }
    line.poll(Time::MAX, &mut out);
    assert_eq!(out.delivered.len(), 1000);
    assert!(out.delivered.is_sorted_by_key(|(due, _)| *due));
    let late = |(due, p): &(Time, Packet)| (10..110).contains(&due.since(p.created_at).nanos());
    assert!(out.delivered.iter().all(late));
}

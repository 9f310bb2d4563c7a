//! First proof: a late driver gets the same departures, only later.

use link::{
    Codel, CodelSpec, Delay, DelayTraceSpec, DropTail, InFlightPolicy, Interpolation, Jitter,
    JitterModel, JitterSpec, LinkOutput, Netem, NetemSpec, Outage, OutageSpec, QueueLimit,
    QueueSpec, RateService, Reorder, ServiceSpec, SimplexLink, Stage, StageOutput, StageSpec,
    StageUpdate, TraceService, TransmitSpec, Transmitter,
};
use proptest::prelude::*;
use units::{Packet, RandomStream, Rate, Span, Time};

use crate::common::{bernoulli, packet};

fn line() -> SimplexLink {
    let codel = QueueSpec::Codel(CodelSpec {
        limit: Some(QueueLimit::Packets(40)),
        target_ns: 5_000_000,
        interval_ns: 50_000_000,
        ecn: false,
    });
    let rate = ServiceSpec::Rate { rate_bit_s: 5_000_000, changes: Vec::new() };
    let points = vec![(0, 20_000_000), (500_000_000, 5_000_000)];
    let stages = [
        StageSpec::Transmit(TransmitSpec { queue: codel, service: rate }),
        StageSpec::DelayTrace(DelayTraceSpec {
            points,
            interpolation: Interpolation::Linear,
            repeat_ns: Some(1_000_000_000),
            reorder: true,
        }),
        StageSpec::Outage(OutageSpec {
            windows: vec![(100_000_000, 150_000_000)],
            repeat_ns: None,
            buffer_packets: true,
        }),
        StageSpec::Jitter(JitterSpec {
            model: JitterModel::Exponential { mean_ns: 2_000_000 },
            reorder: true,
        }),
        StageSpec::Netem(NetemSpec {
            rate_bit_s: 4_000_000,
            delay_ns: 10_000_000,
            limit_packets: 60,
        }),
        bernoulli(0.02),
    ];
    let mut line = SimplexLink::build(&stages, "satellite.up", 3).unwrap();
    let policies = [InFlightPolicy::Drop, InFlightPolicy::Reorder, InFlightPolicy::InOrder];
    for (at, stage, policy) in
        (1..20).flat_map(|n| (0..4).map(move |s| (n, s, policies[(n + s) % 3])))
    {
        line.schedule_update(Time(at as u64 * 40_000_000), stage, &StageUpdate::InFlight(policy));
    }
    let transmitter =
        stages.iter().position(|one| one.supports(&StageUpdate::Enabled(false))).unwrap();
    for n in 0..8 {
        let at = Time(30_000_000 + n * 55_000_000);
        line.schedule_update(at, transmitter, &StageUpdate::Enabled(n % 2 == 1));
    }
    line
}

/// Runs all `arrivals`. Each wake-up is late by up to `lateness`. Packets that arrived in the meantime are pushed only
/// then, with the time stamps of their arrival.
fn run(arrivals: &[(Time, Packet)], lateness: Span, seed: u64) -> (LinkOutput, link::LinkCounters) {
    let (mut line, mut out) = (line(), LinkOutput::default());
    let mut random = RandomStream::named(seed, "driver", "lateness");
    let mut rest = arrivals.iter().copied().peekable();
    loop {
        let arrival = rest.peek().map_or(Time::MAX, |(at, _)| *at);
        let due = line.poll_at().min(arrival);
        if due == Time::MAX {
            return (out, *line.counters());
        }
        let now = due + random.span_below(lateness);
        while let Some((at, packet)) = rest.next_if(|(at, _)| *at <= now) {
            line.push(at, packet, &mut out);
        }
        line.poll(now, &mut out);
    }
}

/// Returns single stages, polled late, without a link that would poll at the exact instants.
fn stages() -> Vec<Box<dyn Stage>> {
    let random = || RandomStream::named(1, "test.up", "chance");
    let rate = || RateService::new(Rate(5_000_000));
    let codel = Codel::new(None, Span(2_000_000), Span(20_000_000), false);
    let slots = TraceService::new(&[1_000_000, 4_000_000, 4_000_000], 1504, 5_000_000);
    vec![
        Box::new(Delay::new(Span(20_000_000))),
        Box::new(Jitter::new(JitterModel::Uniform { max_ns: 9_000_000 }, true, random())),
        Box::new(Reorder::new(0.3, Span(9_000_000), random())),
        Box::new(Outage::new(&[(0, 9_000_000)], Some(20_000_000), true)),
        Box::new(Netem::new(Rate(5_000_000), Span(5_000_000), 50)),
        Box::new(Transmitter::new(DropTail::new(Some(QueueLimit::Packets(20))), rate())),
        Box::new(Transmitter::new(codel, rate())),
        Box::new(Transmitter::new(DropTail::new(None), slots)),
    ]
}

fn run_alone(stage: &mut dyn Stage, arrivals: &[(Time, Packet)], lateness: Span) -> StageOutput {
    let (mut out, mut random) =
        (StageOutput::default(), RandomStream::named(1, "driver", "lateness"));
    for (at, packet) in arrivals {
        while stage.poll_at() <= *at {
            let now = stage.poll_at() + random.span_below(lateness);
            stage.poll(now.min(*at), &mut out);
        }
        stage.push(*at, *packet, &mut out);
    }
    while stage.poll_at() != Time::MAX {
        stage.poll(stage.poll_at() + random.span_below(lateness), &mut out);
    }
    out
}

#[test]
fn a_stage_stamps_its_work_with_the_time_it_was_due() {
    let arrivals: Vec<_> =
        (0..500).map(|n| (Time(u64::from(n) * 1_300_000), packet(n, 200 + n % 1300))).collect();
    for (mut exact, mut late) in stages().into_iter().zip(stages()) {
        let exact = run_alone(&mut *exact, &arrivals, Span(1));
        let late = run_alone(&mut *late, &arrivals, Span::from_millis(30));
        assert_eq!(exact.emitted, late.emitted);
        assert_eq!(exact.dropped, late.dropped);
        assert_eq!(exact.emitted.len() + exact.dropped.len(), 500);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn lateness_changes_nothing(gaps in prop::collection::vec(0u64..3_000_000, 1..600), seed: u64) {
        let arrivals: Vec<_> = gaps
            .iter()
            .scan(0, |at, gap| { *at += gap; Some(Time(*at)) })
            .zip(0..)
            .map(|(at, number)| (at, packet(number, 200 + number % 1300)))
            .collect();
        let (exact, counted) = run(&arrivals, Span(1), seed);
        let (late, counted_late) = run(&arrivals, Span::from_millis(30), seed);
        prop_assert_eq!(exact.delivered, late.delivered);
        prop_assert_eq!(exact.dropped, late.dropped);
        prop_assert_eq!(counted, counted_late);
    }
}

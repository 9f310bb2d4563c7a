//! Properties of every list of stages and every pattern of arrivals.

use link::{
    AcmSpec, ArqScheme, AverageSpec, AveragedQuantity, ChannelSpec, CodeSpec, CodelSpec, CodesSpec,
    DeadlineSpec, DecoderSpec, DeficitRoundRobinSpec, DelayChange, DelaySpec, DelayTraceSpec,
    DropHeadSpec, DropTailSpec, ExpPfSpec, FeedbackSpec, FixedChannelSpec, FqCodelSpec,
    HarqCombining, Interpolation, JitterModel, JitterSpec, LinkCounters, LinkLayerSpec, LinkOutput,
    MLwdfSpec, MaximumRateSpec, MeasuredAttenuationSpec, ModcodSpec, NetemSpec, NrSpec, Numbering,
    OutageSpec, PerUserSpec, ProportionalFairSpec, QueueLimit, QueueSpec, RadioSpec, RateChange,
    ReconfigurationDelaySpec, ReconfigurationSpec, ReferenceSnr, ReorderSpec, ReorderingSpec,
    RoundRobinSpec, SchedulerSpec, ServiceSpec, SimplexLink, StageSpec, TransmitSpec,
};
use proptest::prelude::*;
use units::{Ecn, Packet, SequenceNumbers, Time};

use crate::common::fading;
use crate::common::{of_flow, packet};
use crate::losses::any_loss;
use crate::nr::links;

const MS: u64 = 1_000_000;

fn limit() -> impl Strategy<Value = Option<QueueLimit>> {
    prop_oneof![
        Just(None),
        (1u64..60).prop_map(|n| Some(QueueLimit::Packets(n))),
        (1u64..60_000).prop_map(|n| Some(QueueLimit::Bytes(n))),
    ]
}

/// Generates every scheduler.
pub fn schedulers() -> impl Strategy<Value = SchedulerSpec> {
    let average = || {
        (any::<bool>(), 1..2_000 * MS).prop_map(|(served, window_ns)| AverageSpec {
            quantity: if served { AveragedQuantity::Served } else { AveragedQuantity::Channel },
            window_ns,
        })
    };
    let deadline = || {
        (MS..200 * MS, 0.001..0.5, any::<bool>()).prop_map(|(delay_ns, violation_ratio, one)| {
            let best_effort = if one { vec![1] } else { vec![] };
            DeadlineSpec { delay_ns, violation_ratio, best_effort }
        })
    };
    prop_oneof![
        Just(SchedulerSpec::RoundRobin(RoundRobinSpec {})),
        (1u32..3_000, 0.01..100.0).prop_map(|(quantum_bytes, weight)| {
            SchedulerSpec::DeficitRoundRobin(DeficitRoundRobinSpec {
                quantum_bytes,
                weights: vec![(1, weight)],
            })
        }),
        Just(SchedulerSpec::MaximumRate(MaximumRateSpec {})),
        average()
            .prop_map(|average| SchedulerSpec::ProportionalFair(ProportionalFairSpec { average })),
        (average(), 1..50 * MS).prop_map(|(average, time_limit_ns)| SchedulerSpec::Codes(
            CodesSpec { average, time_limit_ns }
        )),
        (average(), deadline())
            .prop_map(|(average, deadline)| SchedulerSpec::MLwdf(MLwdfSpec { average, deadline })),
        (average(), deadline())
            .prop_map(|(average, deadline)| SchedulerSpec::ExpPf(ExpPfSpec { average, deadline })),
    ]
}

fn per_user() -> impl Strategy<Value = QueueSpec> {
    (schedulers(), limit(), limit(), prop_oneof![Just(0), 0..30 * MS]).prop_map(
        |(scheduler, limit, total, csi_delay_ns)| {
            QueueSpec::PerUser(PerUserSpec { scheduler, limit, total, csi_delay_ns })
        },
    )
}

fn queues() -> impl Strategy<Value = QueueSpec> {
    let control = || (1..20 * MS, MS..200 * MS, any::<bool>());
    prop_oneof![
        limit().prop_map(|limit| QueueSpec::DropTail(DropTailSpec { limit })),
        limit().prop_map(|limit| QueueSpec::DropHead(DropHeadSpec { limit })),
        (limit(), control()).prop_map(|(limit, (target_ns, interval_ns, ecn))| {
            QueueSpec::Codel(CodelSpec { limit, target_ns, interval_ns, ecn })
        }),
        (1u64..60, 1u32..8, 100u32..3000, control()).prop_map(
            |(limit_packets, flows, quantum_bytes, (target_ns, interval_ns, ecn))| {
                QueueSpec::FqCodel(FqCodelSpec {
                    limit_packets,
                    flows,
                    quantum_bytes,
                    target_ns,
                    interval_ns,
                    ecn,
                })
            }
        ),
        per_user(),
    ]
}

/// Generates queues that all users share.
fn shared() -> impl Strategy<Value = QueueSpec> {
    queues().prop_filter("of users", |queue| !matches!(queue, QueueSpec::PerUser(_)))
}

/// Generates slots shorter than a run, so that a run includes slot boundaries.
pub fn slots() -> impl Strategy<Value = ReconfigurationSpec> {
    (2 * MS..60 * MS, 0.0..1.0, 0.0..0.45).prop_map(|(interval_ns, phase, jitter)| {
        let part = |share: f64| (interval_ns as f64 * share) as u64;
        ReconfigurationSpec { interval_ns, phase_ns: part(phase), jitter_ns: part(jitter) }
    })
}

/// Generates the quantiles of a distribution.
pub fn quantiles(min: u64, max: u64) -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(min..max, 1..6).prop_map(|mut values| {
        values.sort_unstable();
        values
    })
}

fn slot_delays() -> impl Strategy<Value = StageSpec> {
    let jitter = prop_oneof![Just(Vec::new()), quantiles(0, 10 * MS)];
    (slots(), quantiles(0, 50 * MS), jitter, MS / 10..10 * MS, 0.0..1.0).prop_map(
        |(reconfiguration, delay_ns, jitter_ns, step_ns, correlation)| {
            StageSpec::ReconfigurationDelay(ReconfigurationDelaySpec {
                reconfiguration,
                delay_ns,
                jitter_ns,
                step_ns,
                correlation,
            })
        },
    )
}

fn slot_rates() -> impl Strategy<Value = ServiceSpec> {
    (slots(), quantiles(100_000, 50_000_000)).prop_map(|(reconfiguration, rate_bit_s)| {
        ServiceSpec::Reconfiguration { reconfiguration, rate_bit_s }
    })
}

fn rates() -> impl Strategy<Value = ServiceSpec> {
    let change = (0..100 * MS, 100_000u64..50_000_000);
    (100_000u64..50_000_000, prop::option::of(change)).prop_map(|(rate_bit_s, change)| {
        let change = change.map(|(at_ns, rate_bit_s)| RateChange { at_ns, rate_bit_s });
        ServiceSpec::Rate { rate_bit_s, changes: change.into_iter().collect() }
    })
}

fn traces() -> impl Strategy<Value = ServiceSpec> {
    (prop::collection::vec(0..50 * MS, 1..20), 100u32..2000).prop_map(
        |(mut opportunities_ns, opportunity_bytes)| {
            opportunities_ns.sort_unstable();
            ServiceSpec::Trace { opportunities_ns, opportunity_bytes, repeat_ns: 50 * MS }
        },
    )
}

/// Generates radio links with every link layer, and with delayed, lossy feedback.
pub fn radios() -> impl Strategy<Value = StageSpec> {
    let overhead = (0..200u32, prop_oneof![Just(0), 1..2_000u32]);
    let code = (400u32..6_000, overhead, 200u32..1_600, 100_000u64..50_000_000);
    let decoder = prop_oneof![
        prop::collection::vec(0.0..0.9, 1..4)
            .prop_map(|probabilities| DecoderSpec::BlockErrors { probabilities }),
        (1.0..1.2).prop_map(|margin| DecoderSpec::Information { margin }),
    ];
    let combining = prop::sample::select(
        &[HarqCombining::None, HarqCombining::Chase, HarqCombining::Incremental][..],
    );
    let repeat = prop::sample::select(&[ArqScheme::Selective, ArqScheme::GoBackN][..]);
    let feedback = (1u64..40 * MS, prop_oneof![Just(0.0), 0.0..0.5], 0u64..20 * MS);
    let buffer = (1u64..60, prop::option::of(1..50 * MS));
    (
        (queues(), channels(), code, decoder, combining, repeat),
        (1u32..6, prop::option::of(1u32..30), feedback, prop::option::of(buffer)),
    )
        .prop_map(
            |(
                (queue, channel, code, decoder, combining, repeat),
                (attempts, window, feedback, buffer),
            )| {
                let (coded_bits, (overhead_bits, first_overhead_bits), frame_bytes, rate_bit_s) =
                    code;
                let (delay_ns, loss, margin_ns) = feedback;
                StageSpec::Radio(Box::new(RadioSpec {
                    queue,
                    channel: Some(channel),
                    link_layer: LinkLayerSpec {
                        rate_bit_s,
                        frame_bytes,
                        overhead_bits,
                        first_overhead_bits,
                        code: CodeSpec::Given { coded_bits: vec![coded_bits] },
                        decoder,
                        combining,
                        repeat,
                        attempts: Some(attempts),
                        window,
                        feedback: (attempts > 1).then_some(FeedbackSpec { delay_ns, loss }),
                        timeout_ns: (loss > 0.0).then_some(delay_ns + margin_ns),
                    },
                    reordering: buffer.map(|(packets, time_limit_ns)| ReorderingSpec {
                        packets,
                        time_limit_ns,
                        // Gaps in TCP's sequence numbers can be permanent.
                        numbering: match time_limit_ns {
                            Some(limit) if limit % 2 == 0 => Numbering::Tcp,
                            _ => Numbering::Link,
                        },
                    }),
                }))
            },
        )
}

fn channels() -> impl Strategy<Value = ChannelSpec> {
    prop_oneof![
        Just(ChannelSpec::Fixed(FixedChannelSpec { snr_db: 20.0 })),
        (-5.0..15.0).prop_map(|snr_db| ChannelSpec::Fixed(FixedChannelSpec { snr_db })),
        (0.0..20.0).prop_map(|snr_db| {
            let mut spec = fading::trees();
            if let ChannelSpec::ThreeState(spec) = &mut spec {
                spec.reference.snr_db = snr_db;
            }
            spec
        }),
        Just(fading::urban()),
        Just(fading::rayleigh()),
        (5.0..25.0, prop::collection::btree_map(0..90 * MS, 0.0..30.0, 1..6), any::<bool>())
            .prop_map(|(snr_db, points, repeat)| ChannelSpec::Measured(MeasuredAttenuationSpec {
                reference: ReferenceSnr { snr_db, error_db: 0.0 },
                points: points.into_iter().collect(),
                interpolation: Interpolation::Linear,
                repeat_ns: repeat.then_some(90 * MS),
            })),
    ]
}

fn adaptive() -> impl Strategy<Value = StageSpec> {
    let mode = |(es_n0_db, data_bits)| ModcodSpec {
        es_n0_db,
        data_bits,
        coded_bits: 64_800,
        symbols: 32_490,
    };
    let numbers = (100_000u64..50_000_000, 0.0..3.0, 0.0..3.0, MS..200 * MS, 0..600 * MS);
    (queues(), channels(), numbers).prop_map(move |(queue, channel, numbers)| {
        let (symbols_s, margin_db, hysteresis_db, report_interval_ns, report_delay_ns) = numbers;
        StageSpec::Acm(Box::new(AcmSpec {
            queue,
            channel,
            symbols_s,
            modes: [(-2.35, 15_928), (1.0, 32_128), (6.42, 58_112)].map(mode).to_vec(),
            margin_db,
            hysteresis_db,
            report_interval_ns,
            report_delay_ns,
        }))
    })
}

pub fn stages() -> impl Strategy<Value = StageSpec> {
    let jitters = prop_oneof![
        (0..10 * MS).prop_map(|max_ns| JitterModel::Uniform { max_ns }),
        (0..10 * MS, 0..10 * MS)
            .prop_map(|(mean_ns, deviation_ns)| JitterModel::Normal { mean_ns, deviation_ns }),
        (0..10 * MS).prop_map(|mean_ns| JitterModel::Exponential { mean_ns }),
    ];
    let points = prop::collection::btree_map(0..90 * MS, 0..50 * MS, 1..6);
    prop_oneof![
        (0..50 * MS, prop::option::of((0..100 * MS, 0..50 * MS))).prop_map(|(delay_ns, change)| {
            let change = change.map(|(at_ns, delay_ns)| DelayChange { at_ns, delay_ns });
            StageSpec::Delay(DelaySpec { delay_ns, changes: change.into_iter().collect() })
        }),
        (points, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
            |(points, step, repeat, reorder)| StageSpec::DelayTrace(DelayTraceSpec {
                points: points.into_iter().collect(),
                interpolation: if step { Interpolation::Step } else { Interpolation::Linear },
                repeat_ns: repeat.then_some(90 * MS),
                reorder,
            })
        ),
        (queues(), prop_oneof![rates(), slot_rates(), traces()])
            .prop_map(|(queue, service)| StageSpec::Transmit(TransmitSpec { queue, service })),
        slot_delays(),
        radios(),
        (shared(), channels(), links()).prop_map(|(queue, channel, link)| {
            StageSpec::Nr(Box::new(NrSpec { queue, channel: Some(channel), ..link }))
        }),
        adaptive(),
        (100_000u64..50_000_000, 0..50 * MS, 1u64..60).prop_map(
            |(rate_bit_s, delay_ns, limit_packets)| StageSpec::Netem(NetemSpec {
                rate_bit_s,
                delay_ns,
                limit_packets
            })
        ),
        any_loss(),
        (jitters, any::<bool>())
            .prop_map(|(model, reorder)| StageSpec::Jitter(JitterSpec { model, reorder })),
        (0.0..1.0, 0..20 * MS).prop_map(|(probability, delay_ns)| StageSpec::Reorder(
            ReorderSpec { probability, delay_ns }
        )),
        (0..50 * MS, 1..30 * MS, any::<bool>(), any::<bool>()).prop_map(
            |(from, length, repeat, hold)| StageSpec::Outage(OutageSpec {
                windows: vec![(from, from + length)],
                repeat_ns: repeat.then_some(80 * MS),
                buffer_packets: hold,
            })
        ),
    ]
}

pub fn arrivals() -> impl Strategy<Value = Vec<(Time, Packet)>> {
    let one = (0..2 * MS, 20u32..1500, 0u32..3, any::<bool>());
    prop::collection::vec(one, 1..200).prop_map(|all| {
        let mut at = Time::ZERO;
        let number = |(number, (gap, bytes, flow, ect)): (u32, (u64, u32, u32, bool))| {
            // Some packets arrive at the same instant.
            at = Time(at.nanos() + gap.saturating_sub(MS / 2));
            let ecn = if ect { Ecn::Ect0 } else { Ecn::NotEct };
            // Some packets are segments of a stream in which one or two segments are missing or repeated.
            let first = number / 3 * 2_000 + number % 3 * 900;
            let sequence = match flow {
                0 => SequenceNumbers::default(),
                _ => SequenceNumbers { first, next: first + 1_000 },
            };
            let user = flow;
            (
                at,
                Packet {
                    ecn,
                    created_at: at,
                    sequence,
                    user,
                    ..of_flow(flow, packet(number, bytes))
                },
            )
        };
        (0..).zip(all).map(number).collect()
    })
}

/// Polls at every deadline and compares the packets in transit with those not yet delivered or dropped.
fn run(stages: &[StageSpec], arrivals: &[(Time, Packet)], seed: u64) -> (SimplexLink, LinkOutput) {
    let mut line = SimplexLink::build(stages, "test.up", seed).unwrap();
    let mut out = LinkOutput::default();
    for (pushed, (at, packet)) in arrivals.iter().enumerate() {
        while line.poll_at() <= *at {
            line.poll(line.poll_at(), &mut out);
        }
        line.push(*at, *packet, &mut out);
        let outside = (out.delivered.len() + out.dropped.len()) as u64;
        assert_eq!(line.in_transit().0 + outside, pushed as u64 + 1);
        assert!(line.gauge().queued_packets <= line.in_transit().0);
        assert!(line.gauge().queued_bytes <= line.in_transit().1);
        for queue in line.user_queues() {
            let dropped = queue.dropped_overflow + queue.dropped_late + queue.dropped_outage;
            assert_eq!(queue.arrived, queue.sent + queue.queued_packets + dropped);
        }
    }
    while line.poll_at() != Time::MAX {
        line.poll(line.poll_at(), &mut out);
    }
    (line, out)
}

/// As [`run`], but polls only when a delivery is possible, and checks that no delivery was due before.
fn run_for_what_leaves(stages: &[StageSpec], arrivals: &[(Time, Packet)], seed: u64) -> LinkOutput {
    let mut line = SimplexLink::build(stages, "test.up", seed).unwrap();
    let mut out = LinkOutput::default();
    let mut arrivals = arrivals.iter().peekable();
    loop {
        let (leaves, before) = (line.next_delivery_at(), out.delivered.len());
        assert!(leaves >= line.poll_at());
        let now = match arrivals.next_if(|(at, _)| *at < leaves) {
            Some((at, packet)) => {
                line.push(*at, *packet, &mut out);
                *at
            }
            None if leaves == Time::MAX => return out,
            None => {
                line.poll(leaves, &mut out);
                leaves
            }
        };
        assert!(out.delivered[before..].iter().all(|(due, _)| *due == now));
    }
}

fn reorders(stage: &StageSpec) -> bool {
    match stage {
        StageSpec::DelayTrace(DelayTraceSpec { reorder, .. })
        | StageSpec::Jitter(JitterSpec { reorder, .. }) => *reorder,
        StageSpec::Reorder(_) | StageSpec::Radio(_) | StageSpec::Nr(_) => true,
        _ => false,
    }
}

fn mixes_flows(stage: &StageSpec) -> bool {
    let apart = |queue: &QueueSpec| matches!(queue, QueueSpec::FqCodel(_) | QueueSpec::PerUser(_));
    match stage {
        StageSpec::Transmit(TransmitSpec { queue, .. }) => apart(queue),
        StageSpec::Acm(spec) => apart(&spec.queue),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn packets_are_conserved_and_never_early(
        stages in prop::collection::vec(stages(), 0..6), arrivals in arrivals(), seed: u64,
    ) {
        let (line, out) = run(&stages, &arrivals, seed);
        let mut seen = vec![0; arrivals.len()];
        let mut bytes = 0;
        let dropped = out.dropped.iter().map(|(due, packet, _)| (due, packet));
        for (due, p) in out.delivered.iter().map(|(due, packet)| (due, packet)).chain(dropped) {
            let sent = Packet { ecn: p.ecn, ..arrivals[p.handle as usize].1 };
            prop_assert_eq!(sent, *p);
            prop_assert!(*due >= p.created_at);
            seen[p.handle as usize] += 1;
            bytes += u64::from(p.bytes);
        }
        prop_assert!(seen.iter().all(|times| *times == 1), "each packet leaves once");
        let c: LinkCounters = *line.counters();
        prop_assert_eq!(c.arrived_bytes, bytes);
        prop_assert_eq!(c.delivered_packets, out.delivered.len() as u64);
        prop_assert_eq!(line.in_transit(), (0, 0));
        for (due, p) in &out.delivered {
            prop_assert!(due.since(p.created_at).nanos() >= line.propagation_ns());
        }
        prop_assert!(out.delivered.is_sorted_by_key(|(due, _)| *due));
        prop_assert!(out.dropped.is_sorted_by_key(|(due, _, _)| *due));
    }

    #[test]
    fn polling_only_at_possible_deliveries_changes_nothing(
        stages in prop::collection::vec(stages(), 0..6), arrivals in arrivals(), seed: u64,
    ) {
        let (_, each) = run(&stages, &arrivals, seed);
        let at_deliveries = run_for_what_leaves(&stages, &arrivals, seed);
        prop_assert_eq!(each.delivered, at_deliveries.delivered);
        prop_assert_eq!(each.dropped, at_deliveries.dropped);
    }

    #[test]
    fn order_is_preserved_unless_specified(
        stages in prop::collection::vec(stages().prop_filter("reorders", |s| !reorders(s)), 0..6),
        arrivals in arrivals(), seed: u64,
    ) {
        let (_, out) = run(&stages, &arrivals, seed);
        let order = |flows: std::ops::Range<u32>| {
            let of = out.delivered.iter().filter(|(_, packet)| flows.contains(&packet.flow));
            of.map(|(_, packet)| packet.handle).is_sorted()
        };
        prop_assert!(order(0..1) && order(1..2) && order(2..3));
        prop_assert!(stages.iter().any(mixes_flows) || order(0..3));
    }

    #[test]
    fn nothing_is_faster_than_the_transmitter(
        before in prop::collection::vec(stages(), 0..3), queue in queues(),
        service in prop_oneof![rates(), slot_rates()],
        after in any_loss(), arrivals in arrivals(), seed: u64,
    ) {
        // A rate change discards the remaining fraction of a nanosecond.
        let changes = |nanos: u64| match &service {
            ServiceSpec::Reconfiguration { reconfiguration, .. } => u128::from(nanos / reconfiguration.interval_ns) + 2,
            _ => 0,
        };
        let last = StageSpec::Transmit(TransmitSpec { queue, service: service.clone() });
        let max_rate = SimplexLink::build(std::slice::from_ref(&last), "test.up", 0).unwrap();
        let max_rate = u128::from(max_rate.rate_bit_s().unwrap());
        let stages: Vec<_> = before.into_iter().chain([last, after]).collect();
        let (_, out) = run(&stages, &arrivals, seed);
        for (first, (from, _)) in out.delivered.iter().enumerate() {
            let mut bits = 0;
            for (to, packet) in &out.delivered[first + 1..] {
                bits += u128::from(packet.bytes) * 8;
                // Both time stamps are rounded down to the nanosecond.
                let nanos = to.since(*from).nanos();
                let nanos = u128::from(nanos) + 1 + changes(nanos);
                prop_assert!(bits * 1_000_000_000 <= max_rate * nanos);
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_also_through_json(
        stages in prop::collection::vec(stages(), 0..6), arrivals in arrivals(), seed: u64,
    ) {
        let json = serde_json::to_string(&stages).unwrap();
        let again: Vec<StageSpec> = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(serde_json::to_string(&again).unwrap(), json);
        let (line, out) = run(&stages, &arrivals, seed);
        let (line_again, out_again) = run(&stages, &arrivals, seed);
        prop_assert_eq!(out.delivered, out_again.delivered);
        prop_assert_eq!(out.dropped, out_again.dropped);
        prop_assert_eq!(line.counters(), line_again.counters());
        prop_assert_eq!(again, stages);
    }
}

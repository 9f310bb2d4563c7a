//! Link layers over radio links, compared with closed forms.

use link::{
    ArqScheme, ChannelSpec, CodeSpec, DecoderSpec, DropTailSpec, FeedbackSpec, FixedChannelSpec,
    HarqCombining, LinkLayerSpec, LinkOutput, Numbering, QueueSpec, RadioSpec, ReorderingSpec,
    SimplexLink, StageSpec, TransmissionAttempt, UserLinkStats,
};
use units::{Packet, Span, Time};

use crate::common::fading::trees;
use crate::common::packet;

/// A frame of 1,000 bits lasts 1 ms.
const FRAME: Span = Span(1_000_000);

/// Returns uncoded frames of 125 bytes, lost with probability `error`, and feedback `delay` frames later.
fn arq(error: f64, delay: u64) -> LinkLayerSpec {
    LinkLayerSpec {
        rate_bit_s: 1_000_000,
        frame_bytes: 125,
        overhead_bits: 0,
        first_overhead_bits: 0,
        code: CodeSpec::Given { coded_bits: vec![1_000] },
        decoder: DecoderSpec::BlockErrors { probabilities: vec![error] },
        combining: HarqCombining::None,
        repeat: ArqScheme::Selective,
        attempts: None,
        window: None,
        feedback: Some(FeedbackSpec { delay_ns: delay * FRAME.nanos(), loss: 0.0 }),
        timeout_ns: None,
    }
}

fn build(
    link_layer: LinkLayerSpec,
    snr_db: f64,
    reordering: Option<ReorderingSpec>,
) -> SimplexLink {
    let queue = QueueSpec::DropTail(DropTailSpec { limit: None });
    let channel = Some(ChannelSpec::Fixed(FixedChannelSpec { snr_db }));
    let stage = StageSpec::Radio(Box::new(RadioSpec { queue, channel, link_layer, reordering }));
    SimplexLink::build(&[stage], "radio.down", 7).unwrap()
}

/// Pushes all `packets` at once. Returns the output and the time of the last delivery.
fn all_at_once(line: &mut SimplexLink, packets: u32, bytes: u32) -> (LinkOutput, Time) {
    let mut out = LinkOutput::default();
    for number in 0..packets {
        line.push(Time::ZERO, packet(number, bytes), &mut out);
    }
    line.poll(Time(u64::MAX - 1), &mut out);
    assert_eq!(line.in_transit(), (0, 0));
    let end = out.delivered.last().map_or(Time::ZERO, |(due, _)| *due);
    (out, end)
}

fn handles(out: &LinkOutput) -> Vec<u32> {
    out.delivered.iter().map(|(_, packet)| packet.handle).collect()
}

/// Returns the mean number of frames per packet over a long run, for a comparison within five standard errors.
fn frames_a_packet(link_layer: LinkLayerSpec) -> f64 {
    let packets = 40_000;
    let mut line = build(link_layer, 10.0, None);
    let (out, end) = all_at_once(&mut line, packets, 125);
    assert_eq!(out.delivered.len(), packets as usize);
    end.nanos() as f64 / FRAME.nanos() as f64 / f64::from(packets)
}

/// The closed forms of ARQ in frames per packet (Bertsekas and Gallager, Data Networks, section 2.4; Lin and Costello,
/// chapter 22). Feedback arrives `delay` frames after the end of an attempt. Stop-and-wait: `(1 + delay) / (1 - p)`.
/// Go-back-N: `1 + p (1 + delay) / (1 - p)`. Selective repeat: `1 / (1 - p)`.
#[test]
fn throughput_is_the_closed_form() {
    for (error, delay) in [(0.0, 4), (0.1, 4), (0.3, 9)] {
        let retries = error / (1.0 - error);
        // The variance of a packet's retries is p / (1 - p)^2.
        let tolerance = 5.0 * (error / 40_000.0f64).sqrt() / (1.0 - error) + 1e-3;
        let (cycle, open) = (1.0 + delay as f64, arq(error, delay));
        let stop_and_wait = LinkLayerSpec { window: Some(1), ..open.clone() };
        let go_back_n = LinkLayerSpec { repeat: ArqScheme::GoBackN, ..open.clone() };
        for (link_layer, expected, each) in [
            (stop_and_wait, cycle * (1.0 + retries), cycle),
            (go_back_n, 1.0 + retries * cycle, cycle),
            (open, 1.0 + retries, 1.0),
        ] {
            let found = frames_a_packet(link_layer.clone());
            assert!(
                (found - expected).abs() < tolerance * each,
                "{link_layer:?}: {found}, {expected}"
            );
        }
    }
}

/// With a window of W frames error-free selective repeat sends W frames per cycle: `min(1, W / (1 + delay))`, the
/// utilisation of HARQ processes.
#[test]
fn a_window_determines_the_utilisation() {
    for window in [1, 2, 5, 10, 16] {
        let found = frames_a_packet(LinkLayerSpec { window: Some(window), ..arq(0.0, 9) });
        let expected = (10.0 / f64::from(window)).max(1.0);
        assert!((found - expected).abs() < 1e-3, "{window}: {found}, {expected}");
    }
}

#[test]
fn go_back_n_keeps_the_order() {
    let lost = FeedbackSpec { delay_ns: 3_500_000, loss: 0.3 };
    let link_layer = LinkLayerSpec {
        repeat: ArqScheme::GoBackN,
        window: Some(12),
        feedback: Some(lost),
        timeout_ns: Some(5_000_000),
        ..arq(0.2, 1)
    };
    let (out, _) = all_at_once(&mut build(link_layer, 10.0, None), 2_000, 125);
    assert!(handles(&out).into_iter().eq(0..2_000));
}

fn user(line: &SimplexLink) -> &UserLinkStats {
    &line.user_stats()[0]
}

/// Lost feedback costs only additional attempts: `1 / (1 - loss)` of them.
#[test]
fn lost_feedback_costs_duplicates() {
    let link_layer = LinkLayerSpec {
        feedback: Some(FeedbackSpec { delay_ns: 2_000_000, loss: 0.25 }),
        timeout_ns: Some(2_000_000),
        ..arq(0.0, 1)
    };
    let mut line = build(link_layer, 10.0, None);
    let (out, _) = all_at_once(&mut line, 30_000, 125);
    assert!(handles(&out).is_sorted());
    let tally = user(&line);
    assert_eq!(tally.decoded_after, [30_000]);
    assert_eq!(
        (tally.attempts - tally.duplicates, tally.coded_bits),
        (30_000, tally.attempts * 1_000)
    );
    let error = 5.0 * (0.25f64 / 30_000.0).sqrt() / 0.75;
    assert!((tally.attempts as f64 / 30_000.0 - 1.0 / 0.75).abs() < error);
    assert_eq!(tally.airtime, Span(tally.attempts * FRAME.nanos()));
}

/// Returns the number of attempts until frames of 1,000 information bits in 1,500 coded bits are decoded.
fn attempts_until_decoded(combining: HarqCombining, snr_db: f64) -> usize {
    let link_layer = LinkLayerSpec {
        code: CodeSpec::Given { coded_bits: vec![1_500] },
        decoder: DecoderSpec::Information { margin: 1.0 },
        combining,
        attempts: Some(20),
        ..arq(0.0, 3)
    };
    let mut line = build(link_layer, snr_db, None);
    let (out, _) = all_at_once(&mut line, 10, 125);
    assert_eq!(out.delivered.len() + out.dropped.len(), 10);
    user(&line).decoded_after.len()
}

/// Without fading the number of attempts is a closed form. Incremental redundancy: `ceil(1000 / (1500 I(s)))`. Chase
/// combining: the smallest `k` with `1500 I(k s) >= 1000`. No combining: one or never.
#[test]
fn combining_matches_the_closed_form() {
    let information = |es_n0: f64| link::ChannelState::from_es_n0(es_n0).information * 1_500.0;
    for snr_db in [-9.0, -6.0, -3.0, -1.0, 1.0, 3.0] {
        let es_n0 = libm::exp10(snr_db / 10.0);
        let incremental = (1_000.0 / information(es_n0)).ceil() as usize;
        let chase = (1..).find(|k| information(f64::from(*k as u32) * es_n0) >= 1_000.0).unwrap();
        assert_eq!(attempts_until_decoded(HarqCombining::Incremental, snr_db), incremental);
        assert_eq!(attempts_until_decoded(HarqCombining::Chase, snr_db), chase);
        assert!(chase >= incremental, "new bits tell more than the same ones");
        let alone = usize::from(information(es_n0) >= 1_000.0);
        assert_eq!(attempts_until_decoded(HarqCombining::None, snr_db), alone);
    }
}

/// Without fading the coded bits of a packet are known: 100 bytes are padded to a frame of 125, 126 take two.
#[test]
fn packets_are_padded_to_frames() {
    let link_layer = LinkLayerSpec { overhead_bits: 24, ..arq(0.0, 1) };
    for (bytes, frames) in [(1, 1), (100, 1), (125, 1), (126, 2), (1_500, 12)] {
        let mut line = build(link_layer.clone(), 10.0, None);
        all_at_once(&mut line, 3, bytes);
        assert_eq!(user(&line).coded_bits, 3 * frames * 1_024, "{bytes}");
    }
}

/// Uncoded overhead is sent with each attempt, or once.
#[test]
fn first_overhead_is_sent_once() {
    let link_layer = LinkLayerSpec {
        overhead_bits: 24,
        first_overhead_bits: 500,
        decoder: DecoderSpec::BlockErrors { probabilities: vec![1.0, 1.0, 0.0] },
        ..arq(0.0, 1)
    };
    let mut line = build(link_layer, 10.0, None);
    all_at_once(&mut line, 7, 125);
    assert_eq!(user(&line).coded_bits, 7 * (3 * 1_024 + 500));
}

fn buffer(packets: u64, limit: Option<Span>) -> Option<ReorderingSpec> {
    Some(ReorderingSpec {
        packets,
        time_limit_ns: limit.map(Span::nanos),
        numbering: Numbering::Link,
    })
}

/// Without abandoned packets and with enough space, a buffer restores each flow's order without additional airtime.
#[test]
fn a_reordering_buffer_restores_the_order() {
    let link_layer = arq(0.3, 5);
    let (bare, end) = all_at_once(&mut build(link_layer.clone(), 10.0, None), 1_000, 125);
    assert!(!handles(&bare).is_sorted());
    let (ordered, ordered_end) =
        all_at_once(&mut build(link_layer.clone(), 10.0, buffer(1_000, None)), 1_000, 125);
    assert!(handles(&ordered).into_iter().eq(0..1_000));
    assert_eq!(ordered_end, end);
    // Late packets pass a flushed buffer: it is too small, or its time limit has expired.
    for short in [buffer(2, None), buffer(1_000, Some(Span(4_000_000)))] {
        let (out, _) = all_at_once(&mut build(link_layer.clone(), 10.0, short), 1_000, 125);
        assert!(!handles(&out).is_sorted());
        let inversions = |out: &LinkOutput| handles(out).windows(2).filter(|w| w[0] > w[1]).count();
        assert!(inversions(&out) < inversions(&bare));
    }
}

/// Abandoned packets are missing, and the buffer does not wait for them.
#[test]
fn the_buffer_does_not_wait_for_abandoned_packets() {
    let link_layer = LinkLayerSpec {
        decoder: DecoderSpec::BlockErrors { probabilities: vec![0.5] },
        attempts: Some(3),
        ..arq(0.0, 2)
    };
    let mut line = build(link_layer, 10.0, buffer(1_000, None));
    let (out, end) = all_at_once(&mut line, 400, 125);
    assert!(out.dropped.len() > 20, "one of eight");
    assert_eq!(user(&line).dropped_packets, out.dropped.len() as u64);
    assert!(end <= out.dropped.last().unwrap().0 + FRAME * 20, "by then all have left");
    let mut left: Vec<u32> = handles(&out);
    left.extend(out.dropped.iter().map(|(_, p, _)| p.handle));
    left.sort_unstable();
    assert!(left.into_iter().eq(0..400));
}

/// Flows do not wait for each other.
#[test]
fn flows_have_separate_reordering_buffers() {
    let (mut line, mut out) =
        (build(arq(0.4, 5), 10.0, buffer(1_000, None)), LinkOutput::default());
    for number in 0..600u32 {
        let packet = Packet { tuple: units::FlowHash(number % 3), ..packet(number, 125) };
        line.push(Time::ZERO, packet, &mut out);
    }
    line.poll(Time(u64::MAX - 1), &mut out);
    for flow in 0..3 {
        let of = out.delivered.iter().filter(|(_, p)| p.tuple.0 == flow);
        assert!(of.map(|(_, p)| p.handle).eq((flow..600).step_by(3)));
    }
    assert!(!handles(&out).is_sorted());
}

/// Adaptive coded bits over white noise: the first attempt has the bits that the frame needs, and is decoded.
#[test]
fn adaptive_bits_on_a_constant_channel() {
    let link_layer = LinkLayerSpec {
        code: CodeSpec::Adaptive {
            mother_rate: 1.0 / 6.0,
            target_decoded_ratio: vec![0.5, 0.7, 0.85],
        },
        decoder: DecoderSpec::Information { margin: 1.05 },
        combining: HarqCombining::Incremental,
        attempts: Some(4),
        ..arq(0.0, 20)
    };
    let mut line = build(link_layer, 0.0, None);
    all_at_once(&mut line, 100, 125);
    let tally = user(&line);
    assert_eq!(tally.decoded_after, [100]);
    let bits = (1_050.0 / link::ChannelState::from_db(0.0).information).ceil() as u64;
    assert_eq!(tally.coded_bits, 100 * bits);
}

/// Returns the decoded share and the mean coded bits of Adaptive-HARQ over the mobile channel, for 267 equidistant
/// packets per second over `seconds`.
fn adaptive_harq(snr_db: f64, seconds: u64) -> (f64, f64) {
    let link_layer = LinkLayerSpec {
        rate_bit_s: 50_000_000,
        frame_bytes: 1_115,
        overhead_bits: 0,
        first_overhead_bits: 0,
        code: CodeSpec::Adaptive {
            mother_rate: 1.0 / 6.0,
            target_decoded_ratio: vec![0.5, 0.7, 0.85],
        },
        decoder: DecoderSpec::Information { margin: 1.05 },
        combining: HarqCombining::Incremental,
        repeat: ArqScheme::Selective,
        attempts: Some(4),
        window: Some(500),
        feedback: Some(FeedbackSpec { delay_ns: 20_000_000, loss: 0.0 }),
        timeout_ns: None,
    };
    let queue = QueueSpec::DropTail(DropTailSpec { limit: None });
    let mut channel = trees();
    if let ChannelSpec::ThreeState(spec) = &mut channel {
        spec.reference.snr_db = snr_db;
    }
    let channel = Some(channel);
    let stage =
        StageSpec::Radio(Box::new(RadioSpec { queue, channel, link_layer, reordering: None }));
    let mut line = SimplexLink::build(&[stage], "radio.down", 7).unwrap();
    let mut out = LinkOutput::default();
    for number in 0..seconds * 267 {
        let at = Time(number * 1_000_000_000 / 267);
        line.poll(at, &mut out);
        line.push(at, packet(number as u32, 1_000), &mut out);
        out.clear();
    }
    line.poll(Time(u64::MAX - 1), &mut out);
    let tally = user(&line);
    let packets = (seconds * 267) as f64;
    (1.0 - tally.dropped_packets as f64 / packets, tally.coded_bits as f64 / packets)
}

/// Comparison with a numpy implementation of the same model over 4,000 s (decoded share, mean coded bits): within 0.5
/// percentage points and 1 %.
#[test]
fn adaptive_harq_matches_a_second_implementation() {
    for (snr_db, success, bits) in [(7.0, 0.964, 24_284.0), (13.0, 0.996, 17_296.0)] {
        let (decoded, mean) = adaptive_harq(snr_db, 4_000);
        assert!((decoded - success).abs() < 0.005, "{snr_db} dB: {decoded}");
        assert!((mean / bits - 1.0).abs() < 0.01, "{snr_db} dB: {mean} coded bits");
    }
}

/// Recorded attempts are consecutive and match the number and airtime of each user's statistics, duplicates included.
/// Recording does not change the results.
#[test]
fn recorded_attempts_are_consecutive_and_complete() {
    let link_layer = LinkLayerSpec {
        feedback: Some(FeedbackSpec { delay_ns: 2_500_000, loss: 0.25 }),
        timeout_ns: Some(4_000_000),
        attempts: Some(3),
        ..arq(0.3, 1)
    };
    let run = |kept: bool| {
        let mut line = build(link_layer.clone(), 10.0, None);
        if kept {
            line.record_steps();
        }
        let mut out = LinkOutput::default();
        for number in 0..900 {
            let packet = Packet { user: number % 3, ..packet(number, 125 + number % 200) };
            line.push(Time(u64::from(number) * FRAME.nanos()), packet, &mut out);
        }
        line.poll(Time(u64::MAX - 1), &mut out);
        let attempts: Vec<TransmissionAttempt> =
            line.take_attempts().map(|(_, attempt)| attempt).collect();
        assert_eq!(line.take_attempts().count(), 0);
        (line, out, attempts)
    };
    let (line, out, attempts) = run(true);
    let (unkept, same, none) = run(false);
    assert_eq!((&out.delivered, &out.dropped), (&same.delivered, &same.dropped));
    assert!(none.is_empty() && line.user_stats() == unkept.user_stats());
    assert!(attempts.iter().zip(&attempts[1..]).all(|(one, next)| one.end <= next.begin));
    for (user, tally) in (0u32..).zip(line.user_stats()) {
        let attempts_of_packet: Vec<&TransmissionAttempt> =
            attempts.iter().filter(|one| one.user == user).collect();
        let air: u64 = attempts_of_packet.iter().map(|one| one.end.since(one.begin).nanos()).sum();
        let copies = attempts_of_packet.iter().filter(|one| one.is_duplicate).count() as u64;
        assert_eq!(
            (attempts_of_packet.len() as u64, copies, Span(air)),
            (tally.attempts, tally.duplicates, tally.airtime)
        );
        assert!(copies > 10 && tally.dropped_packets > 0);
    }
    // A packet is delivered at the end of its last attempt that is not a duplicate.
    for (due, packet) in &out.delivered {
        let of_packet =
            attempts.iter().filter(|one| one.handle == packet.handle && !one.is_duplicate);
        assert_eq!(of_packet.map(|one| one.end).max(), Some(*due));
    }
}

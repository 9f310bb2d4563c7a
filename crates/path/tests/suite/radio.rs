//! Link layers over radio links, against closed forms.

use path::{
    Attempt, ChannelSpec, CodeSpec, Combining, DecoderSpec, FeedbackSpec, Line, LinkLayerSpec,
    Numbering, Output, QueueSpec, RadioSpec, ReorderingSpec, Repeat, StageSpec, UserTally,
};
use units::{Packet, Span, Time};

use crate::common::fading::trees;
use crate::common::packet;

/// A frame of 1,000 bits takes 1 ms.
const FRAME: Span = Span(1_000_000);

/// Frames of 125 bytes as they are, lost with probability `error`; answers `delay` frames later.
fn arq(error: f64, delay: u64) -> LinkLayerSpec {
    LinkLayerSpec {
        rate_bit_s: 1_000_000,
        frame_bytes: 125,
        overhead_bits: 0,
        first_overhead_bits: 0,
        code: CodeSpec::Given { coded_bits: vec![1_000] },
        decoder: DecoderSpec::BlockErrors { probabilities: vec![error] },
        combining: Combining::None,
        repeat: Repeat::Selective,
        attempts: None,
        window: None,
        feedback: Some(FeedbackSpec { delay_ns: delay * FRAME.nanos(), loss: 0.0 }),
        time_out_ns: None,
    }
}

fn build(link_layer: LinkLayerSpec, snr_db: f64, reordering: Option<ReorderingSpec>) -> Line {
    let queue = QueueSpec::DropTail { limit: None };
    let channel = Some(ChannelSpec::Fixed { snr_db });
    let stage = StageSpec::Radio(RadioSpec { queue, channel, link_layer, reordering });
    Line::build(&[stage], "radio.down", 7).unwrap()
}

/// All `packets` come at once; what left, and when the last of it did.
fn all_at_once(line: &mut Line, packets: u32, bytes: u32) -> (Output, Time) {
    let mut out = Output::default();
    for number in 0..packets {
        line.push(Time::ZERO, packet(number, bytes), &mut out);
    }
    line.poll(Time(u64::MAX - 1), &mut out);
    assert_eq!(line.in_transit(), (0, 0));
    let end = out.delivered.last().map_or(Time::ZERO, |(due, _)| *due);
    (out, end)
}

fn handles(out: &Output) -> Vec<u32> {
    out.delivered.iter().map(|(_, packet)| packet.handle).collect()
}

/// Frames a packet takes in the long run, with the share of the time that is within five standard errors.
fn frames_a_packet(link_layer: LinkLayerSpec) -> f64 {
    let packets = 40_000;
    let mut line = build(link_layer, 10.0, None);
    let (out, end) = all_at_once(&mut line, packets, 125);
    assert_eq!(out.delivered.len(), packets as usize);
    end.nanos() as f64 / FRAME.nanos() as f64 / f64::from(packets)
}

/// The three closed forms of ARQ (Bertsekas and Gallager, Data Networks, section 2.4; Lin and Costello, chapter 22) in frames a
/// packet, an answer `delay` frames after an attempt's end: stop-and-wait `(1 + delay) / (1 - p)`, go-back-N
/// `1 + p (1 + delay) / (1 - p)`, selective repeat `1 / (1 - p)`.
#[test]
fn throughput_is_the_closed_form() {
    for (error, delay) in [(0.0, 4), (0.1, 4), (0.3, 9)] {
        let retries = error / (1.0 - error);
        // A packet's retries have the variance p / (1 - p)^2.
        let tolerance = 5.0 * (error / 40_000.0f64).sqrt() / (1.0 - error) + 1e-3;
        let (cycle, open) = (1.0 + delay as f64, arq(error, delay));
        let stop_and_wait = LinkLayerSpec { window: Some(1), ..open.clone() };
        let go_back_n = LinkLayerSpec { repeat: Repeat::GoBackN, ..open.clone() };
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

/// With a window of W frames selective repeat without errors has W frames a cycle: `min(1, W / (1 + delay))`, which is the
/// utilisation of HARQ processes.
#[test]
fn a_window_is_the_utilisation() {
    for window in [1, 2, 5, 10, 16] {
        let found = frames_a_packet(LinkLayerSpec { window: Some(window), ..arq(0.0, 9) });
        let expected = (10.0 / f64::from(window)).max(1.0);
        assert!((found - expected).abs() < 1e-3, "{window}: {found}, {expected}");
    }
}

#[test]
fn go_back_n_keeps_the_order_and_nobody_overtakes() {
    let lost = FeedbackSpec { delay_ns: 3_500_000, loss: 0.3 };
    let link_layer = LinkLayerSpec {
        repeat: Repeat::GoBackN,
        window: Some(12),
        feedback: Some(lost),
        time_out_ns: Some(5_000_000),
        ..arq(0.2, 1)
    };
    let (out, _) = all_at_once(&mut build(link_layer, 10.0, None), 2_000, 125);
    assert!(handles(&out).into_iter().eq(0..2_000));
}

fn user(line: &Line) -> &UserTally {
    &line.users()[0]
}

/// An answer that is lost costs one more attempt, and nothing else: `1 / (1 - loss)` of them.
#[test]
fn lost_answers_cost_copies() {
    let link_layer = LinkLayerSpec {
        feedback: Some(FeedbackSpec { delay_ns: 2_000_000, loss: 0.25 }),
        time_out_ns: Some(2_000_000),
        ..arq(0.0, 1)
    };
    let mut line = build(link_layer, 10.0, None);
    let (out, _) = all_at_once(&mut line, 30_000, 125);
    assert!(handles(&out).is_sorted());
    let tally = user(&line);
    assert_eq!(tally.decoded_after, [30_000]);
    assert_eq!((tally.attempts - tally.copies, tally.coded_bits), (30_000, tally.attempts * 1_000));
    let error = 5.0 * (0.25f64 / 30_000.0).sqrt() / 0.75;
    assert!((tally.attempts as f64 / 30_000.0 - 1.0 / 0.75).abs() < error);
    assert_eq!(tally.air, Span(tally.attempts * FRAME.nanos()));
}

/// Frames of 1,000 information bits in 1,500 coded ones; how many attempts until they are decoded.
fn attempts_until_decoded(combining: Combining, snr_db: f64) -> usize {
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

/// Without fading the number of attempts is a closed form: with incremental redundancy `ceil(1000 / (1500 I(s)))`,
/// with Chase combining the smallest `k` with `1500 I(k s) >= 1000`, without combining one or never.
#[test]
fn combining_adds_what_it_should() {
    let information = |es_n0: f64| path::Quality::of(es_n0).information * 1_500.0;
    for snr_db in [-9.0, -6.0, -3.0, -1.0, 1.0, 3.0] {
        let es_n0 = libm::exp10(snr_db / 10.0);
        let incremental = (1_000.0 / information(es_n0)).ceil() as usize;
        let chase = (1..).find(|k| information(f64::from(*k as u32) * es_n0) >= 1_000.0).unwrap();
        assert_eq!(attempts_until_decoded(Combining::Incremental, snr_db), incremental);
        assert_eq!(attempts_until_decoded(Combining::Chase, snr_db), chase);
        assert!(chase >= incremental, "new bits tell more than the same ones");
        let alone = usize::from(information(es_n0) >= 1_000.0);
        assert_eq!(attempts_until_decoded(Combining::None, snr_db), alone);
    }
}

/// What a packet takes is known without fading: 100 bytes are padded to a frame of 125, 126 have two.
#[test]
fn packets_are_padded_to_frames() {
    let link_layer = LinkLayerSpec { overhead_bits: 24, ..arq(0.0, 1) };
    for (bytes, frames) in [(1, 1), (100, 1), (125, 1), (126, 2), (1_500, 12)] {
        let mut line = build(link_layer.clone(), 10.0, None);
        all_at_once(&mut line, 3, bytes);
        assert_eq!(user(&line).coded_bits, 3 * frames * 1_024, "{bytes}");
    }
}

/// What carries no code is sent with each attempt, or once.
#[test]
fn what_is_sent_once_is_not_sent_again() {
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

/// As long as nothing is given up and there is room, a buffer restores each flow's order and costs no air.
#[test]
fn a_reordering_buffer_restores_the_order() {
    let link_layer = arq(0.3, 5);
    let (bare, end) = all_at_once(&mut build(link_layer.clone(), 10.0, None), 1_000, 125);
    assert!(!handles(&bare).is_sorted());
    let (ordered, ordered_end) =
        all_at_once(&mut build(link_layer.clone(), 10.0, buffer(1_000, None)), 1_000, 125);
    assert!(handles(&ordered).into_iter().eq(0..1_000));
    assert_eq!(ordered_end, end);
    // What is late passes a buffer that was flushed: too small, or out of patience.
    for short in [buffer(2, None), buffer(1_000, Some(Span(4_000_000)))] {
        let (out, _) = all_at_once(&mut build(link_layer.clone(), 10.0, short), 1_000, 125);
        assert!(!handles(&out).is_sorted());
        let inversions = |out: &Output| handles(out).windows(2).filter(|w| w[0] > w[1]).count();
        assert!(inversions(&out) < inversions(&bare));
    }
}

/// What is given up is missing, and nobody waits for it for ever.
#[test]
fn who_is_given_up_is_not_waited_for() {
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
fn a_buffer_is_a_flow_s_own() {
    let (mut line, mut out) = (build(arq(0.4, 5), 10.0, buffer(1_000, None)), Output::default());
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

/// Adaptive coded bits over white noise: the first attempt has what the frame needs, and is decoded.
#[test]
fn adaptive_bits_of_a_channel_that_stands_still() {
    let link_layer = LinkLayerSpec {
        code: CodeSpec::Adaptive { mother_rate: 1.0 / 6.0, decoded: vec![0.5, 0.7, 0.85] },
        decoder: DecoderSpec::Information { margin: 1.05 },
        combining: Combining::Incremental,
        attempts: Some(4),
        ..arq(0.0, 20)
    };
    let mut line = build(link_layer, 0.0, None);
    all_at_once(&mut line, 100, 125);
    let tally = user(&line);
    assert_eq!(tally.decoded_after, [100]);
    let bits = (1_050.0 / path::Quality::of_db(0.0).information).ceil() as u64;
    assert_eq!(tally.coded_bits, 100 * bits);
}

/// Adaptive-HARQ over the mobile channel: the share decoded and the mean coded bits of packets that come evenly, 267 a
/// second, for `seconds`.
fn adaptive_harq(snr_db: f64, seconds: u64) -> (f64, f64) {
    let link_layer = LinkLayerSpec {
        rate_bit_s: 50_000_000,
        frame_bytes: 1_115,
        overhead_bits: 0,
        first_overhead_bits: 0,
        code: CodeSpec::Adaptive { mother_rate: 1.0 / 6.0, decoded: vec![0.5, 0.7, 0.85] },
        decoder: DecoderSpec::Information { margin: 1.05 },
        combining: Combining::Incremental,
        repeat: Repeat::Selective,
        attempts: Some(4),
        window: Some(500),
        feedback: Some(FeedbackSpec { delay_ns: 20_000_000, loss: 0.0 }),
        time_out_ns: None,
    };
    let queue = QueueSpec::DropTail { limit: None };
    let mut channel = trees();
    if let ChannelSpec::ThreeState(spec) = &mut channel {
        spec.reference.snr_db = snr_db;
    }
    let channel = Some(channel);
    let stage = StageSpec::Radio(RadioSpec { queue, channel, link_layer, reordering: None });
    let mut line = Line::build(&[stage], "radio.down", 7).unwrap();
    let mut out = Output::default();
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

/// An implementation in numpy of the same model, over 4,000 s (the share decoded, and mean coded bits): within half a point and 1 %.
#[test]
fn adaptive_harq_is_the_second_implementation_s() {
    for (snr_db, success, bits) in [(7.0, 0.964, 24_284.0), (13.0, 0.996, 17_296.0)] {
        let (decoded, mean) = adaptive_harq(snr_db, 4_000);
        assert!((decoded - success).abs() < 0.005, "{snr_db} dB: {decoded}");
        assert!((mean / bits - 1.0).abs() < 0.01, "{snr_db} dB: {mean} coded bits");
    }
}

/// What is kept of attempts: one after the other, each user's as many and as long as it is said to have had, copies too. That
/// they are kept changes nothing.
#[test]
fn attempts_follow_one_another_and_are_all() {
    let link_layer = LinkLayerSpec {
        feedback: Some(FeedbackSpec { delay_ns: 2_500_000, loss: 0.25 }),
        time_out_ns: Some(4_000_000),
        attempts: Some(3),
        ..arq(0.3, 1)
    };
    let run = |kept: bool| {
        let mut line = build(link_layer.clone(), 10.0, None);
        if kept {
            line.keep_steps();
        }
        let mut out = Output::default();
        for number in 0..900 {
            let packet = Packet { user: number % 3, ..packet(number, 125 + number % 200) };
            line.push(Time(u64::from(number) * FRAME.nanos()), packet, &mut out);
        }
        line.poll(Time(u64::MAX - 1), &mut out);
        let attempts: Vec<Attempt> = line.take_attempts().map(|(_, attempt)| attempt).collect();
        assert_eq!(line.take_attempts().count(), 0);
        (line, out, attempts)
    };
    let (line, out, attempts) = run(true);
    let (unkept, same, none) = run(false);
    assert_eq!((&out.delivered, &out.dropped), (&same.delivered, &same.dropped));
    assert!(none.is_empty() && line.users() == unkept.users());
    assert!(attempts.iter().zip(&attempts[1..]).all(|(one, next)| one.end <= next.begin));
    for (user, tally) in (0u32..).zip(line.users()) {
        let own: Vec<&Attempt> = attempts.iter().filter(|one| one.user == user).collect();
        let air: u64 = own.iter().map(|one| one.end.since(one.begin).nanos()).sum();
        let copies = own.iter().filter(|one| one.copy).count() as u64;
        assert_eq!(
            (own.len() as u64, copies, Span(air)),
            (tally.attempts, tally.copies, tally.air)
        );
        assert!(copies > 10 && tally.dropped_packets > 0);
    }
    // Who leaves does so as the last attempt ends at what has not left.
    for (due, packet) in &out.delivered {
        let own = attempts.iter().filter(|one| one.handle == packet.handle && !one.copy);
        assert_eq!(own.map(|one| one.end).max(), Some(*due));
    }
}

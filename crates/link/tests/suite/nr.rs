//! 5G links: HARQ processes, RLC and PDCP, compared with closed forms.

use link::{
    DecoderSpec, DropTailSpec, FeedbackSpec, HarqCombining, InFlightPolicy, LinkOutput, NrSpec,
    PdcpReorderingSpec, QueueSpec, RlcAcknowledgedSpec, RlcSpec, SimplexLink, StageSpec,
    StageUpdate, UserLinkStats,
};
use proptest::prelude::*;
use units::{Packet, Time};

use crate::common::packet;

const MS: u64 = 1_000_000;

/// Returns acknowledged mode for feedback after `rtt_ms`.
fn acknowledged(rtt_ms: u64) -> RlcSpec {
    RlcSpec::Acknowledged(RlcAcknowledgedSpec {
        poll_pdus: Some(16),
        poll_bytes: None,
        poll_retransmit_ns: (4 * rtt_ms + 50) * MS,
        reassembly_ns: 0,
        status_prohibit_ns: (rtt_ms + 20) * MS,
        max_retransmissions: 32,
    })
}

/// Returns blocks of 1,000 bytes in slots of 1 ms, lost with probability `error`, and a cycle of `rtt_ms` slots.
fn link(processes: u32, rtt_ms: u64, error: f64) -> NrSpec {
    NrSpec {
        queue: QueueSpec::DropTail(DropTailSpec { limit: None }),
        channel: None,
        slot_ns: MS,
        block_bytes: 1_000,
        coded_bits: 16_000,
        decoder: DecoderSpec::BlockErrors { probabilities: vec![error] },
        combining: HarqCombining::Incremental,
        processes,
        feedback_disabled_processes: 0,
        repetitions: 1,
        attempts: 4,
        offset_slots: 0,
        feedback: Some(FeedbackSpec { delay_ns: (rtt_ms - 1) * MS, loss: 0.0 }),
        rlc: RlcSpec::Unacknowledged,
        reordering: None,
    }
}

/// The size in bytes of a packet that fills a block in unacknowledged mode. MAC, RLC and PDCP headers take 7 bytes.
const FULL: u32 = 993;

fn build(spec: &NrSpec) -> SimplexLink {
    SimplexLink::build(&[StageSpec::Nr(Box::new(spec.clone()))], "nr.down", 7).unwrap()
}

/// Pushes all `packets` at once. Returns the output and the time of the last delivery in ns.
fn all_at_once(line: &mut SimplexLink, packets: u32, bytes: u32) -> (LinkOutput, u64) {
    let mut out = LinkOutput::default();
    for number in 0..packets {
        line.push(Time::ZERO, packet(number, bytes), &mut out);
    }
    line.poll(Time(u64::MAX - 1), &mut out);
    assert_eq!(line.in_transit(), (0, 0));
    let end = out.delivered.last().map_or(0, |(due, _)| due.nanos());
    (out, end)
}

fn handles(out: &LinkOutput) -> Vec<u32> {
    out.delivered.iter().map(|(_, packet)| packet.handle).collect()
}

fn user(line: &SimplexLink) -> &UserLinkStats {
    &line.user_stats()[0]
}

/// A process without feedback waits, like any other, only for its next decision. Two processes have a cycle of 610
/// slots and two have one of 11.
#[test]
fn the_cycle_of_a_process_without_feedback_excludes_it() {
    for (processes, feedback_disabled_processes, expected) in
        [(1, 1, 1.0 / 11.0), (4, 2, 2.0 / 610.0 + 2.0 / 11.0), (11, 11, 1.0), (16, 15, 1.0)]
    {
        let spec =
            NrSpec { feedback_disabled_processes, offset_slots: 10, ..link(processes, 600, 0.0) };
        assert!((spec.utilisation() - expected).abs() < 1e-12, "{}", spec.utilisation());
        let (_, end) = all_at_once(&mut build(&spec), 20_000, FULL);
        let used = 20_000.0 * MS as f64 / end as f64;
        assert!((used / expected - 1.0).abs() < 0.01, "{spec:?}: {used}, {expected}");
    }
}

/// `min(1, processes slot / RTT)`: at 600 ms 16 processes use 2.67 % and 32 use 5.33 %.
#[test]
fn processes_determine_the_utilisation() {
    for (processes, rtt_ms, repetitions, offset) in [
        (16, 600, 1, 0),
        (32, 600, 1, 0),
        (16, 26, 1, 0),
        (16, 600, 8, 0),
        (32, 600, 2, 40),
        (32, 8, 1, 0),
    ] {
        let spec = NrSpec { repetitions, offset_slots: offset, ..link(processes, rtt_ms, 0.0) };
        let mut line = build(&spec);
        let cycle = rtt_ms + u64::from(repetitions - 1 + offset);
        let expected = (f64::from(processes * repetitions) / cycle as f64).min(1.0);
        assert!((spec.utilisation() - expected).abs() < 1e-12);
        // The number of blocks of 200 cycles.
        let blocks = if expected < 1.0 { processes * 200 } else { 20_000 };
        let (_, end) = all_at_once(&mut line, blocks, FULL);
        let used = user(&line).airtime.nanos() as f64 / end as f64;
        assert!((used / expected - 1.0).abs() < 0.01, "{spec:?}: {used}, {expected}");
        assert_eq!(user(&line).airtime.nanos(), u64::from(blocks * repetitions) * MS);
        assert_eq!(user(&line).coded_bits, u64::from(blocks * repetitions) * 16_000);
    }
}

/// A block is sent `(1 - p^n) / (1 - p)` times on average, and lost with `p^n`; with k repetitions with `p^(n k)`.
#[test]
fn attempts_and_residual_errors_are_the_closed_form() {
    let blocks = 60_000_u32;
    for (error, attempts, repetitions) in
        [(0.1, 4, 1), (0.5, 3, 1), (0.5, 1, 4), (0.6, 2, 2), (0.3, 1, 1)]
    {
        let spec = NrSpec { attempts, repetitions, ..link(16, 8, error) };
        let mut line = build(&spec);
        let (out, _) = all_at_once(&mut line, blocks, FULL);
        let failed = libm::pow(error, f64::from(repetitions));
        let lost = libm::pow(failed, f64::from(attempts));
        let n = f64::from(blocks);
        let found = out.dropped.len() as f64 / n;
        let tolerance = 5.0 * (lost * (1.0 - lost) / n).sqrt();
        assert!((found - lost).abs() < tolerance + 1e-9, "{error} {attempts}: {found}, {lost}");
        let sent = (1.0 - lost) / (1.0 - failed);
        let found = user(&line).attempts as f64 / n;
        // The tolerance uses the variance of a geometric distribution as the upper limit.
        let tolerance = 5.0 * (failed / n).sqrt() / (1.0 - failed);
        assert!((found - sent).abs() < tolerance, "{error} {attempts}: {found}, {sent}");
        assert_eq!(user(&line).dropped_packets, out.dropped.len() as u64);
    }
}

/// With enough processes the goodput is `1 - p` of the slots, with few `(1 - p) N / RTT`.
#[test]
fn throughput_is_the_closed_form() {
    for (processes, rtt_ms, error) in [(32, 20, 0.1), (16, 100, 0.1), (16, 50, 0.4)] {
        let spec = NrSpec { attempts: 50, ..link(processes, rtt_ms, error) };
        let blocks = 20_000_u32;
        let (out, end) = all_at_once(&mut build(&spec), blocks, FULL);
        assert_eq!(out.delivered.len(), blocks as usize);
        let expected = spec.utilisation() * (1.0 - error);
        let found = f64::from(blocks) * MS as f64 / end as f64;
        assert!((found / expected - 1.0).abs() < 0.02, "{spec:?}: {found}, {expected}");
    }
}

/// With feedback disabled every slot is used at any round trip, and RLC retransmits losses: `1 / (1 - p)` slots per
/// block, with all packets in order.
#[test]
fn rlc_alone_uses_every_slot() {
    let order = Some(PdcpReorderingSpec { time_limit_ns: None });
    for (error, loss) in [(0.0, 0.0), (0.1, 0.0), (0.01, 0.2)] {
        let spec = NrSpec {
            feedback_disabled_processes: 16,
            feedback: Some(FeedbackSpec { delay_ns: 599 * MS, loss }),
            rlc: acknowledged(600),
            reordering: order,
            ..link(16, 600, error)
        };
        assert!((spec.utilisation() - 1.0).abs() < 1e-12);
        let packets = 40_000_u32;
        // The headers take 9 bytes.
        let (out, end) = all_at_once(&mut build(&spec), packets, 991);
        assert!(handles(&out).into_iter().eq(0..packets), "in order");
        let expected = 1.0 / (1.0 - error);
        let found = end as f64 / MS as f64 / f64::from(packets);
        // The last packet waits for a few round trips.
        let tail = 6_000.0 / f64::from(packets);
        assert!(
            found > expected - 0.01 && found < expected + tail,
            "{error} {loss}: {found}, {expected}"
        );
    }
}

/// Packets of any size share blocks and are segmented. The unused part of each slot is smaller than the headers.
#[test]
fn blocks_are_filled() {
    for (rlc, header) in [(RlcSpec::Unacknowledged, 7.0), (acknowledged(8), 9.0)] {
        let spec = NrSpec { rlc, ..link(16, 8, 0.0) };
        for bytes in [40_u32, 700, 1_500, 9_000] {
            let packets = 2_000_000 / bytes;
            let (_, end) = all_at_once(&mut build(&spec), packets, bytes);
            let carried = f64::from(packets) * f64::from(bytes) / (end as f64 / MS as f64);
            // A whole packet has its headers plus 8 bytes for each block boundary in it, and 8 bytes may remain unused.
            let each = f64::from(bytes) / (f64::from(bytes) + header);
            let min_carried = each * (1_000.0 - 16.0) - 1.0;
            assert!(
                carried > min_carried && carried < 1_000.0 * each + 5.0,
                "{bytes}: {carried}, {min_carried}"
            );
        }
    }
}

/// HARQ repairs most losses, RLC the rest. Both preserve the order, and RLC drops a packet after its last attempt.
#[test]
fn rlc_repairs_residual_harq_losses() {
    let order = Some(PdcpReorderingSpec { time_limit_ns: None });
    let spec =
        NrSpec { attempts: 2, rlc: acknowledged(30), reordering: order, ..link(32, 30, 0.3) };
    let (out, _) = all_at_once(&mut build(&spec), 5_000, 700);
    assert!(handles(&out).into_iter().eq(0..5_000));

    let hopeless = match acknowledged(30) {
        RlcSpec::Acknowledged(one) => RlcAcknowledgedSpec { max_retransmissions: 2, ..one },
        RlcSpec::Unacknowledged => unreachable!(),
    };
    let spec = NrSpec { rlc: RlcSpec::Acknowledged(hopeless), ..spec };
    let mut line = build(&NrSpec {
        decoder: DecoderSpec::BlockErrors { probabilities: vec![1.0] },
        ..spec.clone()
    });
    let (out, _) = all_at_once(&mut line, 20, 700);
    assert_eq!((out.delivered.len(), out.dropped.len()), (0, 20));
    // The receiver does not wait for dropped packets and preserves the order of the others.
    let (out, _) = all_at_once(&mut build(&NrSpec { attempts: 1, ..spec }), 5_000, 900);
    assert!(handles(&out).is_sorted());
    let lost = out.dropped.len() as f64 / 5_000.0;
    // A packet is in one or two blocks. With three attempts the loss is at least 0.3^3.
    assert!(lost > 0.02 && lost < 0.2, "{lost}");
}

/// The last packet carries a poll. `t-PollRetransmit` retransmits it after each loss, up to `maxRetxThreshold` times.
#[test]
fn a_single_packet_is_retransmitted_by_t_poll_retransmit() {
    let (error, after, max_retransmissions) = (0.5, 150, 6);
    let RlcSpec::Acknowledged(timers) = acknowledged(20) else { unreachable!() };
    let timers = RlcAcknowledgedSpec {
        poll_retransmit_ns: after * MS,
        status_prohibit_ns: 0,
        max_retransmissions,
        ..timers
    };
    let spec = NrSpec {
        feedback_disabled_processes: 16,
        rlc: RlcSpec::Acknowledged(timers),
        reordering: Some(PdcpReorderingSpec { time_limit_ns: None }),
        ..link(16, 20, error)
    };
    let (mut line, mut out) = (build(&spec), LinkOutput::default());
    let (packets, every) = (4_000_u32, 2_000 * MS);
    for number in 0..packets {
        line.push(Time(u64::from(number) * every), packet(number, 300), &mut out);
    }
    line.poll(Time(u64::MAX - 1), &mut out);
    let again: Vec<u64> = out
        .delivered
        .iter()
        .map(|(due, packet)| due.nanos() - u64::from(packet.handle) * every - 2 * MS)
        .inspect(|late| assert_eq!(late % (after * MS), 0, "a multiple of the timer"))
        .map(|late| late / (after * MS))
        .collect();
    assert_eq!(again.iter().max(), Some(&u64::from(max_retransmissions)));
    let share = |times: u64| again.iter().filter(|n| **n == times).count() as f64;
    for times in 0..4 {
        let expected = f64::from(packets) * libm::pow(error, times as f64 + 1.0);
        assert!(
            (share(times) - expected).abs() < 5.0 * expected.sqrt(),
            "{times}: {}",
            share(times)
        );
    }
    // Lost with every transmission: the first, and then `max_retransmissions`.
    let expected = f64::from(packets) * libm::pow(error, f64::from(max_retransmissions) + 1.0);
    assert!((out.dropped.len() as f64 - expected).abs() < 5.0 * expected.sqrt());
}

/// Status reports are `t-StatusProhibit` apart, regardless of the number of polls.
#[test]
fn status_reports_respect_t_status_prohibit() {
    let spec = NrSpec {
        feedback_disabled_processes: 16,
        rlc: acknowledged(20),
        reordering: Some(PdcpReorderingSpec { time_limit_ns: None }),
        ..link(16, 20, 0.1)
    };
    let mut line = build(&spec);
    let (_, end) = all_at_once(&mut line, 20_000, 991);
    let max_reports = end / (40 * MS) + 2;
    let sent_reports = line.feedback_stats().sent;
    assert!(
        sent_reports <= max_reports && sent_reports > max_reports * 9 / 10,
        "{sent_reports} of {max_reports}"
    );
}

/// Unacknowledged mode: packets after a lost one wait for `t-Reordering` at most.
#[test]
fn no_packet_waits_longer_than_t_reordering() {
    let spec = NrSpec {
        attempts: 1,
        reordering: Some(PdcpReorderingSpec { time_limit_ns: Some(7 * MS) }),
        ..link(16, 8, 0.2)
    };
    let (out, _) = all_at_once(&mut build(&spec), 2_000, FULL);
    assert!(handles(&out).is_sorted());
    assert!(out.dropped.len() > 300);
    for (left, packet) in &out.delivered {
        // With one attempt the slots are in order, so the slot of a packet follows from its number.
        let slot = (u64::from(packet.handle) + 1 + 1) * MS;
        let waited = left.nanos() - slot;
        assert!(waited <= 2 * 7 * MS, "{waited} at {}", packet.handle);
    }
}

/// A packet that arrives at the start of a slot misses it and uses the next one.
#[test]
fn slots_are_a_grid() {
    let mut line = build(&NrSpec { offset_slots: 3, ..link(16, 100, 0.0) });
    let mut out = LinkOutput::default();
    for (number, at) in [(0, 10 * MS), (1, 10 * MS), (2, 11 * MS - 1), (3, 200 * MS + 5)] {
        line.push(Time(at), packet(number, 300), &mut out);
    }
    line.poll(Time(u64::MAX - 1), &mut out);
    let left: Vec<_> = out.delivered.iter().map(|(due, p)| (p.handle, due.nanos() / MS)).collect();
    assert_eq!(left, [(0, 15), (1, 15), (2, 15), (3, 205)]);
}

/// At a handover with loss all packets are dropped or delivered, and the bearer continues.
#[test]
fn a_handover_resets_the_bearer() {
    let spec = NrSpec {
        rlc: acknowledged(50),
        reordering: Some(PdcpReorderingSpec { time_limit_ns: None }),
        ..link(16, 50, 0.2)
    };
    let mut line = build(&spec);
    for at in [40, 111, 112] {
        line.schedule_update(Time(at * MS), 0, &StageUpdate::InFlight(InFlightPolicy::Drop));
    }
    let mut out = LinkOutput::default();
    for number in 0..3_000u32 {
        line.push(Time(u64::from(number) * MS / 10), packet(number, 90), &mut out);
    }
    line.poll(Time(u64::MAX - 1), &mut out);
    assert_eq!(line.in_transit(), (0, 0));
    assert!(handles(&out).is_sorted());
    assert!(out.dropped.len() > 100 && out.delivered.len() > 2_000, "{}", out.dropped.len());
    assert!(out.dropped.iter().all(|(at, _, _)| [40, 111, 112].contains(&(at.nanos() / MS))));
}

/// Generates links of all kinds. The caller sets queue and channel.
pub fn links() -> impl Strategy<Value = NrSpec> {
    let decoder = prop_oneof![
        prop::collection::vec(0.0..0.8, 1..4)
            .prop_map(|probabilities| DecoderSpec::BlockErrors { probabilities }),
        (1.0..1.2).prop_map(|margin| DecoderSpec::Information { margin }),
    ];
    let combining = prop::sample::select(
        &[HarqCombining::None, HarqCombining::Chase, HarqCombining::Incremental][..],
    );
    let rlc = prop::option::of((
        prop::option::of(1u32..40),
        prop::option::of(100u64..20_000),
        (1..200 * MS, 0..40 * MS, 0..80 * MS),
        1u32..6,
    ));
    (
        (MS / 8..2 * MS, 16u32..3_000, 1.0..4.0, decoder, combining),
        (1u32..33, 0u32..33, 1u32..9, 1u32..5, 0u32..20),
        (1u64..40 * MS, prop_oneof![Just(0.0), 0.0..0.5]),
        (rlc, prop::option::of(prop::option::of(0..50 * MS))),
    )
        .prop_map(|(slot, harq, (delay_ns, loss), (rlc, order))| {
            let (slot_ns, block_bytes, coded, decoder, combining) = slot;
            let (processes, without, repetitions, attempts, offset_slots) = harq;
            let order = order.map(|limit| match (rlc, limit) {
                (None, None) => PdcpReorderingSpec { time_limit_ns: Some(10 * MS) },
                (_, time_limit_ns) => PdcpReorderingSpec { time_limit_ns },
            });
            NrSpec {
                queue: QueueSpec::DropTail(DropTailSpec { limit: None }),
                channel: None,
                slot_ns,
                block_bytes,
                coded_bits: (f64::from(block_bytes) * 8.0 * coded) as u32,
                decoder,
                combining,
                processes,
                feedback_disabled_processes: without.min(processes),
                repetitions,
                attempts,
                offset_slots,
                feedback: Some(FeedbackSpec { delay_ns, loss }),
                rlc: match rlc {
                    None => RlcSpec::Unacknowledged,
                    Some((poll_pdus, poll_bytes, times, max_retransmissions)) => {
                        RlcSpec::Acknowledged(RlcAcknowledgedSpec {
                            poll_pdus,
                            poll_bytes,
                            poll_retransmit_ns: times.0,
                            reassembly_ns: times.1,
                            status_prohibit_ns: times.2,
                            max_retransmissions,
                        })
                    }
                },
                reordering: order,
            }
        })
}

/// Returns output and statistics when each wake-up is late by up to `late`.
fn run(spec: &NrSpec, arrivals: &[(Time, Packet)], late: u64) -> (LinkOutput, Vec<UserLinkStats>) {
    let (mut line, mut out) = (build(spec), LinkOutput::default());
    let mut rest = arrivals.iter().copied().peekable();
    loop {
        let due = line.poll_at().min(rest.peek().map_or(Time::MAX, |(at, _)| *at));
        if due == Time::MAX {
            return (out, line.user_stats().to_vec());
        }
        // The lateness differs each time.
        let now = Time(due.nanos() + due.nanos().wrapping_mul(2_654_435_761) % (late + 1));
        while let Some((at, packet)) = rest.next_if(|(at, _)| *at <= now) {
            line.push(at, packet, &mut out);
        }
        line.poll(now, &mut out);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_late_clock_changes_nothing(
        spec in links(), gaps in prop::collection::vec((0..3 * MS, 20u32..1500), 1..150),
    ) {
        let arrivals: Vec<_> = gaps
            .iter()
            .scan(0, |at, (gap, bytes)| { *at += gap; Some((Time(*at), *bytes)) })
            .zip(0..)
            .map(|((at, bytes), number)| (at, packet(number, bytes)))
            .collect();
        let (exact, counted) = run(&spec, &arrivals, 0);
        let (late, counted_late) = run(&spec, &arrivals, 25 * MS);
        prop_assert_eq!(&exact.delivered, &late.delivered);
        prop_assert_eq!(&exact.dropped, &late.dropped);
        prop_assert_eq!(counted, counted_late);
        let lost = exact.dropped.iter().map(|(_, packet, _)| packet.handle);
        let mut all: Vec<_> = handles(&exact).into_iter().chain(lost).collect();
        all.sort_unstable();
        let every: Vec<u32> = (0..arrivals.len() as u32).collect();
        prop_assert_eq!(all, every, "each leaves once");
        let patient = spec.reordering.is_some_and(|order| order.time_limit_ns.is_none());
        prop_assert!(!patient || handles(&exact).is_sorted());
    }
}

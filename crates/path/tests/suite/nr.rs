//! 5G links: HARQ processes, RLC and PDCP, against closed forms.

use path::{
    AcknowledgedSpec, Change, Combining, DecoderSpec, FeedbackSpec, InFlight, Line, NrSpec,
    OrderSpec, Output, QueueSpec, RlcSpec, StageSpec, UserTally,
};
use proptest::prelude::*;
use units::{Packet, Time};

use crate::common::packet;

const MS: u64 = 1_000_000;

/// Acknowledged mode for answers after `rtt_ms`.
fn acknowledged(rtt_ms: u64) -> RlcSpec {
    RlcSpec::Acknowledged(AcknowledgedSpec {
        poll_pdus: Some(16),
        poll_bytes: None,
        poll_retransmit_ns: (4 * rtt_ms + 50) * MS,
        reassembly_ns: 0,
        status_prohibit_ns: (rtt_ms + 20) * MS,
        most_retransmissions: 32,
    })
}

/// Blocks of 1,000 bytes in slots of 1 ms, lost with probability `error`; a cycle of `rtt_ms` slots.
fn link(processes: u32, rtt_ms: u64, error: f64) -> NrSpec {
    NrSpec {
        queue: QueueSpec::DropTail { limit: None },
        channel: None,
        slot_ns: MS,
        block_bytes: 1_000,
        coded_bits: 16_000,
        decoder: DecoderSpec::BlockErrors { probabilities: vec![error] },
        combining: Combining::Incremental,
        processes,
        without_feedback: 0,
        repetitions: 1,
        attempts: 4,
        offset_slots: 0,
        feedback: Some(FeedbackSpec { delay_ns: (rtt_ms - 1) * MS, loss: 0.0 }),
        rlc: RlcSpec::Unacknowledged,
        order: None,
    }
}

/// A packet that fills a block in unacknowledged mode: headers of MAC, RLC and PDCP take 7 bytes.
const FULL: u32 = 993;

fn build(spec: &NrSpec) -> Line {
    Line::build(&[StageSpec::Nr(Box::new(spec.clone()))], "nr.down", 7).unwrap()
}

/// All `packets` come at once; what left, and when the last of it did.
fn all_at_once(line: &mut Line, packets: u32, bytes: u32) -> (Output, u64) {
    let mut out = Output::default();
    for number in 0..packets {
        line.push(Time::ZERO, packet(number, bytes), &mut out);
    }
    line.poll(Time(u64::MAX - 1), &mut out);
    assert_eq!(line.in_transit(), (0, 0));
    let end = out.delivered.last().map_or(0, |(due, _)| due.nanos());
    (out, end)
}

fn handles(out: &Output) -> Vec<u32> {
    out.delivered.iter().map(|(_, packet)| packet.handle).collect()
}

fn user(line: &Line) -> &UserTally {
    &line.users()[0]
}

/// A process without feedback waits for no answer, but as every other for its next decision: 2 with a cycle of 610 slots and
/// 2 with one of 11.
#[test]
fn a_process_without_feedback_has_no_answer_in_its_cycle() {
    for (processes, without_feedback, expected) in
        [(1, 1, 1.0 / 11.0), (4, 2, 2.0 / 610.0 + 2.0 / 11.0), (11, 11, 1.0), (16, 15, 1.0)]
    {
        let spec = NrSpec { without_feedback, offset_slots: 10, ..link(processes, 600, 0.0) };
        assert!((spec.utilisation() - expected).abs() < 1e-12, "{}", spec.utilisation());
        let (_, end) = all_at_once(&mut build(&spec), 20_000, FULL);
        let used = 20_000.0 * MS as f64 / end as f64;
        assert!((used / expected - 1.0).abs() < 0.01, "{spec:?}: {used}, {expected}");
    }
}

/// `min(1, processes slot / RTT)`: of 600 ms 16 processes use 2.67 % and 32 use 5.33 %.
#[test]
fn processes_are_the_utilisation() {
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
        // As many blocks as make 200 cycles.
        let blocks = if expected < 1.0 { processes * 200 } else { 20_000 };
        let (_, end) = all_at_once(&mut line, blocks, FULL);
        let used = user(&line).air.nanos() as f64 / end as f64;
        assert!((used / expected - 1.0).abs() < 0.01, "{spec:?}: {used}, {expected}");
        assert_eq!(user(&line).air.nanos(), u64::from(blocks * repetitions) * MS);
        assert_eq!(user(&line).coded_bits, u64::from(blocks * repetitions) * 16_000);
    }
}

/// A block is sent `(1 - p^n) / (1 - p)` times on average, and lost with `p^n`; with copies in a row `p^(n k)`.
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
        // At most the variance of a geometric number.
        let tolerance = 5.0 * (failed / n).sqrt() / (1.0 - failed);
        assert!((found - sent).abs() < tolerance, "{error} {attempts}: {found}, {sent}");
        assert_eq!(user(&line).dropped_packets, out.dropped.len() as u64);
    }
}

/// With processes enough goodput is `1 - p` of the slots, with few `(1 - p) N / RTT`.
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

/// Feedback disabled: every slot is used whatever the round trip, and RLC sends again what is lost: `1 / (1 - p)` slots a
/// block, everything in order.
#[test]
fn rlc_alone_uses_every_slot() {
    let order = Some(OrderSpec { time_limit_ns: None });
    for (error, loss) in [(0.0, 0.0), (0.1, 0.0), (0.01, 0.2)] {
        let spec = NrSpec {
            without_feedback: 16,
            feedback: Some(FeedbackSpec { delay_ns: 599 * MS, loss }),
            rlc: acknowledged(600),
            order,
            ..link(16, 600, error)
        };
        assert!((spec.utilisation() - 1.0).abs() < 1e-12);
        let packets = 40_000_u32;
        // Headers of 9 bytes.
        let (out, end) = all_at_once(&mut build(&spec), packets, 991);
        assert!(handles(&out).into_iter().eq(0..packets), "in order");
        let expected = 1.0 / (1.0 - error);
        let found = end as f64 / MS as f64 / f64::from(packets);
        // The last of them waits for a few round trips.
        let tail = 6_000.0 / f64::from(packets);
        assert!(
            found > expected - 0.01 && found < expected + tail,
            "{error} {loss}: {found}, {expected}"
        );
    }
}

/// Packets of any size share blocks and are cut by them: what is left of each slot is less than the headers.
#[test]
fn blocks_are_filled() {
    for (rlc, header) in [(RlcSpec::Unacknowledged, 7.0), (acknowledged(8), 9.0)] {
        let spec = NrSpec { rlc, ..link(16, 8, 0.0) };
        for bytes in [40_u32, 700, 1_500, 9_000] {
            let packets = 2_000_000 / bytes;
            let (_, end) = all_at_once(&mut build(&spec), packets, bytes);
            let carried = f64::from(packets) * f64::from(bytes) / (end as f64 / MS as f64);
            // A packet that is whole has its headers, 8 bytes more for each block that cuts it, and 8 bytes may be left.
            let each = f64::from(bytes) / (f64::from(bytes) + header);
            let least = each * (1_000.0 - 16.0) - 1.0;
            assert!(
                carried > least && carried < 1_000.0 * each + 5.0,
                "{bytes}: {carried}, {least}"
            );
        }
    }
}

/// HARQ repairs most, RLC the rest; both in order, and a packet that RLC never gets through is given up.
#[test]
fn rlc_repairs_what_harq_leaves() {
    let order = Some(OrderSpec { time_limit_ns: None });
    let spec = NrSpec { attempts: 2, rlc: acknowledged(30), order, ..link(32, 30, 0.3) };
    let (out, _) = all_at_once(&mut build(&spec), 5_000, 700);
    assert!(handles(&out).into_iter().eq(0..5_000));

    let hopeless = match acknowledged(30) {
        RlcSpec::Acknowledged(one) => AcknowledgedSpec { most_retransmissions: 2, ..one },
        RlcSpec::Unacknowledged => unreachable!(),
    };
    let spec = NrSpec { rlc: RlcSpec::Acknowledged(hopeless), ..spec };
    let mut line = build(&NrSpec {
        decoder: DecoderSpec::BlockErrors { probabilities: vec![1.0] },
        ..spec.clone()
    });
    let (out, _) = all_at_once(&mut line, 20, 700);
    assert_eq!((out.delivered.len(), out.dropped.len()), (0, 20));
    // Of what is given up nobody waits: the order is kept around it.
    let (out, _) = all_at_once(&mut build(&NrSpec { attempts: 1, ..spec }), 5_000, 900);
    assert!(handles(&out).is_sorted());
    let lost = out.dropped.len() as f64 / 5_000.0;
    // A packet is in one or two blocks; sent three times, lost with 0.3^3 at least.
    assert!(lost > 0.02 && lost < 0.2, "{lost}");
}

/// The last packet has a poll; if it is lost `t-PollRetransmit` sends it again, as often as it is lost, up to
/// `maxRetxThreshold` times.
#[test]
fn a_lonely_packet_is_sent_again_by_the_poll_s_timer() {
    let (error, after, most) = (0.5, 150, 6);
    let RlcSpec::Acknowledged(timers) = acknowledged(20) else { unreachable!() };
    let timers = AcknowledgedSpec {
        poll_retransmit_ns: after * MS,
        status_prohibit_ns: 0,
        most_retransmissions: most,
        ..timers
    };
    let spec = NrSpec {
        without_feedback: 16,
        rlc: RlcSpec::Acknowledged(timers),
        order: Some(OrderSpec { time_limit_ns: None }),
        ..link(16, 20, error)
    };
    let (mut line, mut out) = (build(&spec), Output::default());
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
    assert_eq!(again.iter().max(), Some(&u64::from(most)));
    let share = |times: u64| again.iter().filter(|n| **n == times).count() as f64;
    for times in 0..4 {
        let expected = f64::from(packets) * libm::pow(error, times as f64 + 1.0);
        assert!(
            (share(times) - expected).abs() < 5.0 * expected.sqrt(),
            "{times}: {}",
            share(times)
        );
    }
    // Lost as often as it was sent: once, and `most` times again.
    let expected = f64::from(packets) * libm::pow(error, f64::from(most) + 1.0);
    assert!((out.dropped.len() as f64 - expected).abs() < 5.0 * expected.sqrt());
}

/// Status reports are `t-StatusProhibit` apart, however many are asked for.
#[test]
fn reports_keep_their_distance() {
    let spec = NrSpec {
        without_feedback: 16,
        rlc: acknowledged(20),
        order: Some(OrderSpec { time_limit_ns: None }),
        ..link(16, 20, 0.1)
    };
    let mut line = build(&spec);
    let (_, end) = all_at_once(&mut line, 20_000, 991);
    let most = end / (40 * MS) + 2;
    let told = line.told().sent;
    assert!(told <= most && told > most * 9 / 10, "{told} of {most}");
}

/// Unacknowledged mode: what is behind a packet that is lost waits for `t-Reordering`, no longer.
#[test]
fn nobody_waits_longer_than_t_reordering() {
    let spec = NrSpec {
        attempts: 1,
        order: Some(OrderSpec { time_limit_ns: Some(7 * MS) }),
        ..link(16, 8, 0.2)
    };
    let (out, _) = all_at_once(&mut build(&spec), 2_000, FULL);
    assert!(handles(&out).is_sorted());
    assert!(out.dropped.len() > 300);
    for (left, packet) in &out.delivered {
        // Its slot would have been the number's, but for nothing: one attempt keeps the slots in order.
        let slot = (u64::from(packet.handle) + 1 + 1) * MS;
        let waited = left.nanos() - slot;
        assert!(waited <= 2 * 7 * MS, "{waited} at {}", packet.handle);
    }
}

/// A slot that begins when a packet comes is taken; the next one has it.
#[test]
fn slots_are_a_grid() {
    let mut line = build(&NrSpec { offset_slots: 3, ..link(16, 100, 0.0) });
    let mut out = Output::default();
    for (number, at) in [(0, 10 * MS), (1, 10 * MS), (2, 11 * MS - 1), (3, 200 * MS + 5)] {
        line.push(Time(at), packet(number, 300), &mut out);
    }
    line.poll(Time(u64::MAX - 1), &mut out);
    let left: Vec<_> = out.delivered.iter().map(|(due, p)| (p.handle, due.nanos() / MS)).collect();
    assert_eq!(left, [(0, 15), (1, 15), (2, 15), (3, 205)]);
}

/// At a hand-over that loses everything packets are dropped or have left, and the bearer goes on.
#[test]
fn a_hand_over_begins_the_bearer_anew() {
    let spec = NrSpec {
        rlc: acknowledged(50),
        order: Some(OrderSpec { time_limit_ns: None }),
        ..link(16, 50, 0.2)
    };
    let mut line = build(&spec);
    for at in [40, 111, 112] {
        line.change(Time(at * MS), 0, &Change::InFlight(InFlight::Lost));
    }
    let mut out = Output::default();
    for number in 0..3_000u32 {
        line.push(Time(u64::from(number) * MS / 10), packet(number, 90), &mut out);
    }
    line.poll(Time(u64::MAX - 1), &mut out);
    assert_eq!(line.in_transit(), (0, 0));
    assert!(handles(&out).is_sorted());
    assert!(out.dropped.len() > 100 && out.delivered.len() > 2_000, "{}", out.dropped.len());
    assert!(out.dropped.iter().all(|(at, _, _)| [40, 111, 112].contains(&(at.nanos() / MS))));
}

/// Links of all sorts; queue and channel are others'.
pub fn links() -> impl Strategy<Value = NrSpec> {
    let decoder = prop_oneof![
        prop::collection::vec(0.0..0.8, 1..4)
            .prop_map(|probabilities| DecoderSpec::BlockErrors { probabilities }),
        (1.0..1.2).prop_map(|margin| DecoderSpec::Information { margin }),
    ];
    let combining =
        prop::sample::select(&[Combining::None, Combining::Chase, Combining::Incremental][..]);
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
                (None, None) => OrderSpec { time_limit_ns: Some(10 * MS) },
                (_, time_limit_ns) => OrderSpec { time_limit_ns },
            });
            NrSpec {
                queue: QueueSpec::DropTail { limit: None },
                channel: None,
                slot_ns,
                block_bytes,
                coded_bits: (f64::from(block_bytes) * 8.0 * coded) as u32,
                decoder,
                combining,
                processes,
                without_feedback: without.min(processes),
                repetitions,
                attempts,
                offset_slots,
                feedback: Some(FeedbackSpec { delay_ns, loss }),
                rlc: match rlc {
                    None => RlcSpec::Unacknowledged,
                    Some((poll_pdus, poll_bytes, times, most_retransmissions)) => {
                        RlcSpec::Acknowledged(AcknowledgedSpec {
                            poll_pdus,
                            poll_bytes,
                            poll_retransmit_ns: times.0,
                            reassembly_ns: times.1,
                            status_prohibit_ns: times.2,
                            most_retransmissions,
                        })
                    }
                },
                order,
            }
        })
}

/// What left and what was counted when a wake-up comes up to `late` after it was due.
fn run(spec: &NrSpec, arrivals: &[(Time, Packet)], late: u64) -> (Output, Vec<UserTally>) {
    let (mut line, mut out) = (build(spec), Output::default());
    let mut rest = arrivals.iter().copied().peekable();
    loop {
        let due = line.poll_at().min(rest.peek().map_or(Time::MAX, |(at, _)| *at));
        if due == Time::MAX {
            return (out, line.users().to_vec());
        }
        // Late by another amount each time.
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
        let patient = spec.order.is_some_and(|order| order.time_limit_ns.is_none());
        prop_assert!(!patient || handles(&exact).is_sorted());
    }
}

//! Recovery, compared with numbers worked out by hand: times, windows, counts.

use crate::tcp_paths::{MSS, Pair, byte, delayed, linux, losing, ms, pattern};
use transport::tcp::{AckCounting, Flags, LossDetection, TcpSpec};
use units::{RandomStream, Span, Time};

const COUNT: LossDetection = LossDetection::DuplicateAcks { threshold: 3, forward: false };

fn second(s: u64) -> Time {
    Time::ZERO + Span::from_secs(s)
}

/// Returns the round trips from the first data to the last of `segments`. The window starts at 10 and grows by
/// `acks(w)` for each round of `w` segments.
fn rounds(segments: u64, acks: impl Fn(u64) -> u64) -> u64 {
    let (mut window, mut sent, mut rounds) = (10, 0, 0);
    loop {
        sent += window;
        if sent >= segments {
            return rounds;
        }
        window += acks(window);
        rounds += 1;
    }
}

/// RFC 5681 section 3.1 and RFC 3465 on a path without serialisation delay and with an RTT of 100 ms. Delayed ACKs
/// acknowledge two segments each; windows here stay even where necessary.
#[test]
fn slow_start_rounds_match_ack_counting() {
    let per_ack = AckCounting::PerAck;
    let two = AckCounting::Bytes { limit: 2 };
    let one = AckCounting::Bytes { limit: 1 };
    let pairs = |window: u64| window / 2;
    type Growth<'a> = &'a dyn Fn(u64) -> u64;
    let cases: [(AckCounting, u32, Growth<'_>); 6] = [
        (AckCounting::Unlimited, 1, &|window| window),
        (AckCounting::Unlimited, 2, &|window| window),
        (per_ack, 1, &|window| window),
        (per_ack, 2, &pairs),
        (one, 2, &pairs),
        (two, 2, &|window| window),
    ];
    for (ack_counting, every, growth) in cases {
        let delayed_ack = (every > 1).then(|| delayed(every, 0)).flatten();
        let spec = TcpSpec { ack_counting, delayed_ack, ..linux() };
        // Not at the end of a window: an odd segment waits there for the timer of delayed ACKs.
        for segments in [8, 28, 60, 140, 300] {
            let mut pair = Pair::new(&spec, "newreno", losing(50, |_| false));
            pair.transfer(segments * MSS, 60);
            let last = pair.data().last().unwrap().at;
            let first = pair.data().next().unwrap().at;
            let expected = ms(100) * rounds(segments, growth);
            let late = last.since(first).0.abs_diff(expected.0);
            // Segments after the timer of delayed ACKs (40 ms) are late by at most that time.
            assert!(
                late <= if every > 1 { ms(41).0 } else { 0 },
                "{ack_counting:?} every {every}, {segments}: {} not {expected}",
                last.since(first)
            );
        }
    }
}

/// RFC 8985 section 6.2: a segment with FIN reveals the loss of the one before it, as any other does. Ten segments are
/// sent at 100 ms, and the ninth is lost. The ACK of the tenth comes at 200 ms. The repair is sent a quarter of the
/// minimum RTT (100 ms) after it, not after a probe and a timeout.
#[test]
fn the_last_segment_repairs_the_one_before_it() {
    for (loss_detection, repaired) in [(LossDetection::RackTlp, 225), (COUNT, 200)] {
        // By count, three segments above are necessary: the seventh is lost.
        let lost = if loss_detection == COUNT { 6 } else { 8 };
        let spec = TcpSpec { loss_detection, ..linux() };
        let mut pair = Pair::new(&spec, "newreno", losing(50, move |n| n == lost));
        pair.transfer(10 * MSS, 10);
        let counters = pair.client.counters();
        assert_eq!((counters.rtos, counters.ptos), (0, Some(0)), "{loss_detection:?}");
        let again: Vec<Time> =
            pair.data().filter(|left| left.segment.retransmission).map(|left| left.at).collect();
        assert_eq!(again, [Time::ZERO + ms(repaired)], "{loss_detection:?}");
    }
}

/// RFC 9937: for any losses, the flight ends at ssthresh and the window is ssthresh.
#[test]
fn proportional_rate_reduction_ends_at_the_threshold() {
    for seed in 0..60 {
        let mut random = RandomStream::named(seed, "prr", "losses");
        let chance = random.between(0.005, 0.25);
        for detection in [LossDetection::RackTlp, COUNT] {
            let mut random = random.clone();
            // One flight of 100 segments with random losses, then none.
            let lost: Vec<bool> = (0..100).map(|_| random.chance(chance)).collect();
            let any = lost[20..].iter().any(|lost| *lost);
            let spec =
                TcpSpec { initial_window_bytes: 100 * MSS, loss_detection: detection, ..linux() };
            let path = losing(50, move |n| (20..100).contains(&n) && lost[n as usize]);
            let mut pair = Pair::new(&spec, "newreno", path);
            pair.client.write(pattern(2000 * MSS));
            let mut largest_after = 0;
            let mut window = None;
            for step in 0..400 {
                pair.run_until(Time::ZERO + ms(100 + step));
                let gauges = pair.client.gauges();
                let counters = pair.client.counters();
                if counters.congestion_events > Some(0) && counters.rtos == 0 {
                    window.get_or_insert(gauges.ssthresh.unwrap());
                    if step < 300 {
                        largest_after = gauges.in_flight.max(largest_after);
                    }
                }
            }
            let Some(window) = window else {
                assert!(!any || pair.client.counters().rtos > 0, "seed {seed}: no reduction");
                continue;
            };
            assert_eq!(pair.client.counters().congestion_events, Some(1), "seed {seed}");
            let gauges = pair.client.gauges();
            let near = gauges.cwnd.abs_diff(window);
            assert!(near <= 6 * MSS, "seed {seed} {detection:?}: {} not {window}", gauges.cwnd);
            assert!(
                gauges.in_flight + MSS >= window,
                "seed {seed}: {} in flight",
                gauges.in_flight
            );
        }
    }
}

/// Every third segment is 30 ms late on a path of 100 ms. By count all of them seem lost; by time none is, once
/// reordering has been seen.
#[test]
fn reordering_by_time_and_by_count() {
    let reordering = || -> crate::tcp_paths::Path {
        let mut count = 0;
        Box::new(move |left| {
            count += u64::from(left.up);
            let late = left.up && count > 30 && count % 7 == 0 && !left.segment.retransmission;
            vec![if late { ms(60) } else { ms(50) }]
        })
    };
    let run = |detection, adapt_reordering, dsack| {
        let spec = TcpSpec {
            loss_detection: detection,
            adapt_reordering,
            dsack,
            timestamps: false,
            pacing: true,
            ..linux()
        };
        let mut pair = Pair::new(&spec, "newreno", reordering());
        pair.transfer(3000 * MSS, 600);
        (pair.client.counters(), pair.now)
    };
    let (rack, _) = run(LossDetection::RackTlp, true, true);
    let (count, _) = run(COUNT, false, false);
    let (adapted, _) = run(COUNT, true, true);
    println!("RACK {rack:?}\ncount {count:?}\nadapted {adapted:?}");
    assert!(rack.retransmitted_bytes <= Some(5 * MSS), "{:?} bytes", rack.retransmitted_bytes);
    let congestion_events = count.congestion_events.unwrap();
    assert!(congestion_events > 20, "{congestion_events}");
    assert_eq!(count.cwnd_undos, Some(0));
    // Reductions that D-SACK has not undone.
    let stand = adapted.congestion_events.unwrap() - adapted.cwnd_undos.unwrap();
    assert!(stand < congestion_events / 2, "{stand}");
}

/// A segment overtaken by enough others is retransmitted. The D-SACK of its second copy restores the window (RFC 3708).
#[test]
fn a_spurious_retransmission_is_undone() {
    for name in ["newreno", "cubic", "hybla", "westwood", "fast"] {
        for timestamps in [false, true] {
            let mut count = 0;
            let spec = TcpSpec {
                loss_detection: COUNT,
                timestamps,
                initial_window_bytes: 30 * MSS,
                ..linux()
            };
            let path = Box::new(move |left: &crate::tcp_paths::Left| {
                count += u64::from(left.up && !left.segment.data.is_empty());
                vec![if left.up && count == 5 { ms(90) } else { ms(50) }]
            });
            let mut pair = Pair::new(&spec, name, path);
            pair.client.write(pattern(400 * MSS));
            pair.client.finish();
            pair.run_until(Time::ZERO + ms(201));
            assert_eq!(pair.client.counters().congestion_events, Some(1), "{name}");
            let before = pair.client.counters().cwnd_max_bytes;
            assert!(name == "westwood" || pair.client.gauges().cwnd < before, "{name}");
            pair.run_until(Time::ZERO + ms(310));
            let counters = pair.client.counters();
            assert_eq!((counters.cwnd_undos, counters.rtos), (Some(1), 0), "{name} {timestamps}");
            assert!(pair.client.gauges().cwnd >= before, "{name}");
            pair.run_until(second(20));
            pair.check(400 * MSS);
        }
    }
}

/// The path stops for half a second. With F-RTO the late flight is recognised and one segment is retransmitted; without
/// it the whole flight is.
#[test]
fn a_delay_spike_is_undone() {
    let run = |frto, timestamps, dsack| {
        let spec = TcpSpec { frto, timestamps, dsack, initial_window_bytes: 50 * MSS, ..linux() };
        let path: crate::tcp_paths::Path = Box::new(|left: &crate::tcp_paths::Left| {
            let stop = Time::ZERO + ms(250);
            let go = Time::ZERO + ms(750);
            let held =
                if left.up && (stop..go).contains(&left.at) { go.since(left.at) } else { ms(0) };
            vec![ms(50) + held]
        });
        let mut pair = Pair::new(&spec, "newreno", path);
        // Enough data for every round trip: the data must not end before the window is used.
        pair.transfer(4000 * MSS, 600);
        pair.client.counters()
    };
    let with = run(true, false, false);
    let without = run(false, false, false);
    println!("with {with:?}\nwithout {without:?}");
    assert!(with.rtos >= 1 && with.cwnd_undos == Some(1));
    assert!(with.retransmitted_bytes <= Some(5 * MSS), "{:?}", with.retransmitted_bytes);
    assert!(without.retransmitted_bytes > Some(20 * MSS) && without.cwnd_undos == Some(0));
    // Timestamps alone reveal it too (RFC 3522).
    assert_eq!(run(false, true, false).cwnd_undos, Some(1));
}

/// Without an answer the timer doubles: 1, 2, 4... times the RTO, up to its bound (RFC 6298 section
/// 5.5).
#[test]
fn the_timer_backs_off() {
    let spec = TcpSpec { loss_detection: COUNT, max_rto_ns: 3_000_000_000, ..linux() };
    let dead = Box::new(
        |left: &crate::tcp_paths::Left| {
            if left.at >= Time::ZERO + ms(150) { vec![] } else { vec![ms(50)] }
        },
    );
    let mut pair = Pair::new(&spec, "newreno", dead);
    pair.run_until(Time::ZERO + ms(150));
    pair.client.write(pattern(MSS));
    pair.run_until(second(20));
    let times: Vec<u64> = pair.data().map(|left| left.at.nanos() / 1_000_000).collect();
    // SRTT 100 ms, RTTVAR 50 ms: RTO 300 ms.
    assert_eq!(times[..6], [150, 450, 1050, 2250, 4650, 7650], "{times:?}");
}

/// Window 3 with the first segment lost. Two duplicate ACKs allow two new segments (RFC 3042), and their ACKs make the
/// third duplicate. Without it only the timer repairs the loss.
#[test]
fn limited_transmit_saves_small_windows() {
    let run = |limited_transmit, sack| {
        let spec = TcpSpec {
            limited_transmit,
            sack,
            loss_detection: COUNT,
            initial_window_bytes: 3 * MSS,
            ..linux()
        };
        let mut pair = Pair::new(&spec, "fixed", losing(50, |n| n == 0));
        pair.client.write(pattern(20 * MSS));
        pair.run_until(second(3));
        pair.client.counters()
    };
    for sack in [false, true] {
        assert_eq!(run(true, sack).rtos, 0, "sack {sack}");
        assert_eq!(run(false, sack).rtos, 1, "sack {sack}");
    }
}

/// Half-close: each end's data continues after the other's FIN. Simultaneous closes work too.
#[test]
fn both_directions_close_independently() {
    let mut pair = Pair::new(&linux(), "newreno", losing(50, |_| false));
    pair.client.write(pattern(10_000));
    pair.client.finish();
    pair.run_until(second(1));
    assert!(pair.server().peer_finished() && !pair.client.is_closed());
    pair.server().write(pattern(50_000));
    pair.server().finish();
    pair.run_until(second(3));
    let read: Vec<u8> = std::iter::from_fn(|| pair.client.read()).flatten().collect();
    assert!(read.iter().enumerate().all(|(n, b)| *b == byte(n as u64)));
    assert_eq!(read.len(), 50_000);
    assert!(pair.client.is_closed() && pair.server().is_closed());
    // Simultaneous FINs.
    let mut pair = Pair::new(&linux(), "newreno", losing(50, |_| false));
    pair.run_until(second(1));
    pair.client.finish();
    pair.server().finish();
    pair.run_until(second(2));
    assert!(pair.client.is_closed() && pair.server().is_closed());
    let sent = pair.flags(true, Flags::FIN);
    assert_eq!((sent.len(), sent), (1, pair.flags(false, Flags::FIN)));
}

/// RFC 3168: a mark is echoed until CWR, and causes one reduction.
#[test]
fn a_mark_is_a_reduction_without_a_loss() {
    let spec = TcpSpec { ecn: true, ..linux() };
    let mut pair = Pair::new(&spec, "newreno", losing(50, |_| false));
    pair.client.write(pattern(1000 * MSS));
    pair.client.finish();
    pair.run_until(Time::ZERO + ms(120));
    let mut out = Vec::new();
    let mut marked = pair.data().next().unwrap().segment.clone();
    assert_eq!(marked.ecn, units::Ecn::Ect0);
    marked.ecn = units::Ecn::Ce;
    pair.server().receive(Time::ZERO + ms(121), marked);
    pair.server().transmit(Time::ZERO + ms(121), &mut out);
    pair.run_until(second(10));
    pair.check(1000 * MSS);
    let counters = pair.client.counters();
    assert_eq!((counters.congestion_events, counters.lost_packets), (Some(1), 0));
    // SYN and SYN-ACK carry both flags too.
    let (cwr, ece) = (pair.flags(true, Flags::CWR), pair.flags(false, Flags::ECE));
    assert!(cwr.len() == 2 && ece.len() > 2, "{cwr:?} {ece:?}");
}

//! Rules for the number of window reductions and for the life of a connection, each tested against the text of its RFC.

use crate::tcp_paths::{Left, MSS, Pair, Path, delayed, linux, ms, pattern};
use transport::tcp::{Flags, LossDetection, TcpSpec};
use units::{RandomStream, Span, Time};

const COUNT: LossDetection = LossDetection::DuplicateAcks { threshold: 3, forward: false };

/// Returns the start of segment number `n` in the stream.
fn start(n: u64) -> u64 {
    1 + n * MSS
}

/// Builds a path of 50 ms in each direction that loses the first `times` copies of the given segments.
fn losing_copies(segments: &[(u64, u32)]) -> Path {
    let mut left: Vec<(u64, u32)> = segments.iter().map(|(n, times)| (start(*n), *times)).collect();
    Box::new(move |seen: &Left| {
        let data = seen.up && !seen.segment.data.is_empty();
        for (sequence, times) in &mut left {
            if data && seen.segment.sequence == *sequence && *times > 0 {
                *times -= 1;
                return vec![];
            }
        }
        vec![ms(50)]
    })
}

fn window(segments: u64) -> TcpSpec {
    TcpSpec { initial_window_bytes: segments * MSS, ..linux() }
}

/// RFC 6675 section 5: scoreboard state beyond the recovery point survives the end of recovery. A loss there is a new
/// recovery with another reduction, even if the previous one found and repaired it. Segment 150 was sent after the
/// start of the first recovery, with 140 sent: another window.
#[test]
fn a_loss_beyond_the_recovery_point_is_a_second_reduction() {
    for loss_detection in [LossDetection::RackTlp, COUNT] {
        for (beyond, reductions) in [(None, 1), (Some((150, 1)), 2)] {
            let spec = TcpSpec { loss_detection, frto: false, ..window(100) };
            let mut losses = vec![(20, if loss_detection == COUNT { 1 } else { 2 })];
            losses.extend(beyond);
            if loss_detection == COUNT {
                // Another hole extends recovery by a round trip.
                losses.push((60, 1));
            }
            let mut pair = Pair::new(&spec, "newreno", losing_copies(&losses));
            pair.transfer(400 * MSS, 60);
            let counters = pair.client.counters();
            assert_eq!(counters.rtos, 0, "{loss_detection:?}");
            assert_eq!(
                counters.congestion_events,
                Some(reductions),
                "{loss_detection:?} {beyond:?}"
            );
        }
    }
}

/// RFC 5682 section 3.1, step 1: F-RTO does not apply to a timeout in fast recovery. By count, only the timer can
/// repair a lost retransmission. Data sent before it arrives after it, which proves nothing about the lost segment.
#[test]
fn a_timeout_in_recovery_is_not_undone() {
    let spec = TcpSpec { loss_detection: COUNT, ..window(100) };
    let mut pair = Pair::new(&spec, "newreno", losing_copies(&[(20, 2)]));
    pair.transfer(2000 * MSS, 60);
    let counters = pair.client.counters();
    assert_eq!((counters.rtos, counters.cwnd_undos), (1, Some(0)));
}

/// RFC 5681 section 3.1: after a timeout ssthresh is half of the outstanding data. This exceeds the data still in the
/// network when the timer expires.
#[test]
fn a_timeout_in_recovery_halves_the_outstanding_data() {
    let spec = TcpSpec { loss_detection: COUNT, ..window(100) };
    let mut pair = Pair::new(&spec, "newreno", losing_copies(&[(20, 2)]));
    pair.client.write(pattern(4000 * MSS));
    while pair.client.counters().rtos == 0 {
        let next = pair.now + ms(1);
        pair.run_until(next);
    }
    // 120 segments when the loss was found, halved by recovery, and halved again.
    let threshold = pair.client.gauges().ssthresh.expect("it was set");
    assert!(threshold.abs_diff(30 * MSS) <= MSS, "{} segments", threshold / MSS);
}

/// RFC 3168 section 6.1.2: the first new data after any reduction carries CWR. Otherwise the receiver continues to echo
/// a mark, and the window is reduced once more.
#[test]
fn a_reduction_for_a_loss_answers_a_mark_too() {
    let spec = TcpSpec { ecn: true, ..window(100) };
    let mut loses = losing_copies(&[(20, 1)]);
    let mut pair = Pair::new(&spec, "newreno", Box::new(move |left| loses(left)));
    pair.client.write(pattern(1000 * MSS));
    // The mark arrives with a segment that reveals the loss.
    pair.mark = Some(start(30));
    pair.run_until(Time::ZERO + Span::from_secs(5));
    let counters = pair.client.counters();
    assert_eq!(counters.congestion_events, Some(1));
    assert!(!pair.flags(true, Flags::CWR).is_empty());
}

/// RFC 9293 section 3.8.6.1: a window that closed before more data was written is probed as any other. The ACK that
/// opens it may be lost.
#[test]
fn a_window_closed_by_the_last_byte_is_probed() {
    let spec = TcpSpec { receive_buffer_bytes: 10 * MSS, ..linux() };
    let dropping = std::rc::Rc::new(std::cell::Cell::new(false));
    let drops = dropping.clone();
    let path: Path =
        Box::new(move |left| if !left.up && drops.get() { vec![] } else { vec![ms(50)] });
    let mut pair = Pair::new(&spec, "newreno", path);
    pair.reads = false;
    pair.client.write(pattern(10 * MSS));
    pair.run_until(Time::ZERO + Span::from_secs(2));
    assert!(pair.client.all_acked());
    // The reader empties the buffer, and the window update is lost. Then there is more to send.
    dropping.set(true);
    pair.reads = true;
    pair.run_until(Time::ZERO + Span::from_secs(3));
    dropping.set(false);
    assert_eq!(pair.client.write(pattern(20 * MSS).slice((10 * MSS) as usize..)) as u64, 10 * MSS);
    pair.client.finish();
    pair.run_until(Time::ZERO + Span::from_secs(20));
    pair.check(20 * MSS);
}

/// RFC 8985 section 7.4.2, case 3: a peer without D-SACK answers an unnecessary probe with a plain duplicate ACK. No
/// data was lost, and later data causes no reduction.
#[test]
fn an_unnecessary_probe_causes_no_reduction_without_dsack() {
    let spec = TcpSpec { dsack: false, ..linux() };
    // The ACK of the tail comes after the probe (2 SRTT and more), before the timeout.
    let mut acks = 0;
    let path: Path = Box::new(move |left| {
        let slow = !left.up && left.segment.acknowledgement == start(10);
        acks += u64::from(slow);
        vec![if slow && acks == 1 { ms(400) } else { ms(50) }]
    });
    let mut pair = Pair::new(&spec, "newreno", path);
    pair.client.write(pattern(10 * MSS));
    pair.run_until(Time::ZERO + Span::from_secs(2));
    assert_eq!(pair.client.counters().ptos, Some(1));
    pair.client.write(pattern(20 * MSS).slice((10 * MSS) as usize..));
    pair.client.finish();
    pair.run_until(Time::ZERO + Span::from_secs(4));
    pair.check(20 * MSS);
    assert_eq!(pair.client.counters().congestion_events, Some(0));
}

/// RFC 7323 section 4.3: TS.Recent never returns to the timestamp of a late segment.
#[test]
fn a_late_segment_does_not_decrease_ts_recent() {
    // The third segment arrives twice, the second copy 170 ms later.
    let path: Path = Box::new(move |left| {
        if left.up && left.segment.sequence == start(2) {
            vec![ms(50), ms(220)]
        } else {
            vec![ms(50)]
        }
    });
    let spec = TcpSpec { delayed_ack: delayed(2, 16), ..linux() };
    let mut pair = Pair::new(&spec, "newreno", path);
    pair.transfer(200 * MSS, 20);
    let echoes: Vec<u32> = pair
        .log
        .iter()
        .filter(|left| !left.up && left.segment.syn.is_none())
        .filter_map(|left| left.segment.timestamps.map(|(_, echo)| echo))
        .collect();
    assert!(echoes.windows(2).all(|two| two[0] <= two[1]));
}

/// RFC 7323 section 5.2: a connection behaves as any other while the timestamp clock wraps. It has losses, late
/// segments and a delay spike, undone by timestamps. The clock wraps 650 ms after the start.
#[test]
fn a_wrap_of_the_timestamp_clock_has_no_effect() {
    let run = |start: u64| {
        let start = Time::ZERO + Span::from_millis(start);
        let mut count = 0;
        let path: Path = Box::new(move |left| {
            let data = left.up && !left.segment.data.is_empty();
            count += u64::from(data);
            let spike = start + ms(900);
            let held = if left.up && spike <= left.at && left.at < spike + ms(600) {
                (spike + ms(600)).since(left.at)
            } else {
                ms(0)
            };
            let late = if data && count % 97 == 0 { ms(80) } else { ms(0) };
            if data && count % 61 == 0 { vec![] } else { vec![ms(50) + held + late] }
        });
        let spec = TcpSpec { dsack: false, loss_detection: COUNT, ..window(20) };
        let mut pair = Pair::starting(start, &spec, "newreno", path);
        pair.client.write(pattern(1000 * MSS));
        pair.client.finish();
        pair.run_until(start + Span::from_secs(30));
        pair.check(1000 * MSS);
        let seen = pair.log.iter().map(|left| {
            let segment = &left.segment;
            (left.at.since(start), left.up, segment.sequence, segment.acknowledgement)
        });
        (seen.collect::<Vec<_>>(), pair.client.counters().cwnd_undos.unwrap())
    };
    let (before, undone) = run(0);
    assert!(undone > 0);
    assert_eq!(run((1 << 32) - 650).0, before);
}

/// RFC 6675 section 4, IsLost: a segment below DupThresh received segments is lost, also after an undo. Twelve segments
/// are sent at 100 ms. The first is 5 ms late, the second never arrives, and the last seven are 7 ms late. At 200 ms
/// three have arrived above the first two, and the first is retransmitted. At 205 ms an ACK of the original undoes
/// that. At 207 ms the next SACK reports the second as lost again. Without SACK (RFC 6582) the duplicate ACKs after the
/// undo report a new loss. The first ACK opens the window and is no duplicate, so one more segment is on time.
#[test]
fn a_segment_can_be_lost_after_an_undo() {
    for (sack, late_from) in [(true, 5), (false, 6)] {
        let path: Path = Box::new(move |left| match left.segment.sequence {
            _ if !left.up || left.segment.data.is_empty() || left.segment.retransmission => {
                vec![ms(50)]
            }
            sequence if sequence == start(0) => vec![ms(55)],
            sequence if sequence == start(1) => vec![],
            sequence if sequence >= start(late_from) => vec![ms(57)],
            _ => vec![ms(50)],
        });
        let spec = TcpSpec { loss_detection: COUNT, adapt_reordering: false, sack, ..window(12) };
        let mut pair = Pair::new(&spec, "newreno", path);
        pair.transfer(12 * MSS, 10);
        let counters = pair.client.counters();
        assert_eq!((counters.cwnd_undos, counters.rtos), (Some(1), 0), "SACK {sack}");
        let again = pair.data().filter(|left| left.segment.retransmission);
        let again: Vec<_> = again.map(|left| (left.at, left.segment.sequence)).collect();
        let expected = [(Time::ZERO + ms(200), start(0)), (Time::ZERO + ms(207), start(1))];
        assert_eq!(again[..2], expected, "SACK {sack}");
    }
}

/// RFC 6298 section 5.7: a new measurement ends the back-off. With timestamps, an ACK of a retransmission is a
/// measurement (RFC 7323 section 4.1).
#[test]
fn a_measured_retransmission_ends_the_back_off() {
    let spec = TcpSpec { frto: false, loss_detection: COUNT, ..window(3) };
    let path: Path = Box::new(move |left| {
        let at = left.at.nanos() / 1_000_000;
        let data = left.up && !left.segment.data.is_empty();
        let is_lost = data && (at < 900 || (1250..1400).contains(&at));
        if is_lost { vec![] } else { vec![ms(50)] }
    });
    let mut pair = Pair::new(&spec, "newreno", path);
    pair.transfer(10 * MSS, 20);
    let again = pair.data().filter(|left| left.segment.retransmission);
    let again: Vec<u64> = again.map(|left| left.at.nanos() / 1_000_000).take(4).collect();
    // Sent at 100 ms, RTO 300 ms, doubled once for the timer's second run. The first segment's ACK arrives at 1,100 ms.
    // The timer counts 300 ms again from the next transmission.
    assert_eq!(again, [400, 1000, 1100, 1100]);
}

/// RFC 3522 and RFC 3708: without reordering and duplicates no reduction is spurious, and none is undone. This holds
/// for all retransmissions of one recovery that arrive in the next.
#[test]
fn no_reduction_is_undone_where_nothing_is_reordered() {
    for seed in 0..40 {
        for loss_detection in [LossDetection::RackTlp, COUNT] {
            let mut random = RandomStream::named(seed, "path", "losses");
            let path: Path =
                Box::new(move |_| if random.chance(0.03) { vec![] } else { vec![ms(25)] });
            let spec = TcpSpec { loss_detection, delayed_ack: delayed(2, 16), ..linux() };
            let mut pair = Pair::new(&spec, "newreno", path);
            pair.transfer(415 * MSS, 300);
            let counters = pair.client.counters();
            // An unnecessary probe or timeout without ACKs may be undone.
            if counters.rtos == 0 && counters.ptos == Some(0) {
                assert_eq!(counters.cwnd_undos, Some(0), "seed {seed}, {loss_detection:?}");
            }
        }
    }
}

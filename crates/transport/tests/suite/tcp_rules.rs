//! Rules that decide how often a window is reduced, and what keeps a connection alive: each against
//! the sentence of its RFC.

use crate::tcp_paths::{Left, MSS, Pair, Path, delayed, linux, ms, pattern};
use transport::tcp::{Flags, LossDetection, TcpSpec};
use units::{RandomStream, Span, Time};

const COUNT: LossDetection = LossDetection::DuplicateAcks { threshold: 3, forward: false };

/// Where segment number `n` of the stream begins.
fn start(n: u64) -> u64 {
    1 + n * MSS
}

/// A path of 50 ms each way that loses the first `times` copies of the segments named.
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

/// RFC 6675 section 5: what the scoreboard knows beyond the recovery point stays when recovery ends,
/// and a loss there is a new recovery with a reduction of its own, though it was found, and repaired,
/// in the one before. Segment 150 left after the first recovery had begun, with 140 sent: another window.
#[test]
fn a_loss_beyond_the_recovery_point_is_a_second_reduction() {
    for loss_detection in [LossDetection::RackTlp, COUNT] {
        for (beyond, reductions) in [(None, 1), (Some((150, 1)), 2)] {
            let spec = TcpSpec { loss_detection, frto: false, ..window(100) };
            let mut losses = vec![(20, if loss_detection == COUNT { 1 } else { 2 })];
            losses.extend(beyond);
            if loss_detection == COUNT {
                // Another hole keeps recovery open for a round trip more.
                losses.push((60, 1));
            }
            let mut pair = Pair::new(&spec, "newreno", losing_copies(&losses));
            pair.transfer(400 * MSS, 60);
            let counters = pair.client.counters();
            assert_eq!(counters.timeouts, 0, "{loss_detection:?}");
            assert_eq!(counters.congestion_events, reductions, "{loss_detection:?} {beyond:?}");
        }
    }
}

/// RFC 5682 section 3.1, step 1: a timeout in fast recovery is no case for F-RTO. By count a lost
/// retransmission can only be repaired by the timer, and data sent before it arrives after it: that
/// proves nothing about the segment that was lost.
#[test]
fn a_timeout_in_recovery_is_not_forgiven() {
    let spec = TcpSpec { loss_detection: COUNT, ..window(100) };
    let mut pair = Pair::new(&spec, "newreno", losing_copies(&[(20, 2)]));
    pair.transfer(2000 * MSS, 60);
    let counters = pair.client.counters();
    assert_eq!((counters.timeouts, counters.undone), (1, 0));
}

/// RFC 5681 section 3.1: after a timeout ssthresh is half of what is outstanding, which is more than
/// what is still in the network when the timer expires.
#[test]
fn a_timeout_in_recovery_halves_the_outstanding_data() {
    let spec = TcpSpec { loss_detection: COUNT, ..window(100) };
    let mut pair = Pair::new(&spec, "newreno", losing_copies(&[(20, 2)]));
    pair.client.write(pattern(4000 * MSS));
    while pair.client.counters().timeouts == 0 {
        let next = pair.now + ms(1);
        pair.run_until(next);
    }
    // 120 segments when the loss was found, halved by recovery, and halved again.
    let threshold = pair.client.gauges().ssthresh.expect("it was set");
    assert!(threshold.abs_diff(30 * MSS) <= MSS, "{} segments", threshold / MSS);
}

/// RFC 3168 section 6.1.2: the first new data after any reduction of the window says so, or the
/// receiver goes on echoing a mark and the window is reduced for it once more.
#[test]
fn a_reduction_for_a_loss_answers_a_mark_too() {
    let spec = TcpSpec { ecn: true, ..window(100) };
    let mut loses = losing_copies(&[(20, 1)]);
    let mut pair = Pair::new(&spec, "newreno", Box::new(move |left| loses(left)));
    pair.client.write(pattern(1000 * MSS));
    // The mark comes with a segment that the loss is known by.
    pair.mark = Some(start(30));
    pair.run_until(Time::ZERO + Span::from_secs(5));
    let counters = pair.client.counters();
    assert_eq!(counters.congestion_events, 1);
    assert!(!pair.flags(true, Flags::CWR).is_empty());
}

/// RFC 9293 section 3.8.6.1: a window that was closed before there was more to say is probed as any
/// other; the ACK that opens it may be lost.
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
    // The reader empties the buffer and its word of it is lost; then there is more to send.
    dropping.set(true);
    pair.reads = true;
    pair.run_until(Time::ZERO + Span::from_secs(3));
    dropping.set(false);
    assert_eq!(pair.client.write(pattern(20 * MSS).slice((10 * MSS) as usize..)) as u64, 10 * MSS);
    pair.client.finish();
    pair.run_until(Time::ZERO + Span::from_secs(20));
    pair.check(20 * MSS);
}

/// RFC 8985 section 7.4.2, case 3: a peer without D-SACK answers a needless probe with a plain
/// duplicate ACK. Nothing was lost, and nothing is reduced when more data follows.
#[test]
fn a_needless_probe_costs_nothing_without_dsack() {
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
    assert_eq!(pair.client.counters().ptos, 1);
    pair.client.write(pattern(20 * MSS).slice((10 * MSS) as usize..));
    pair.client.finish();
    pair.run_until(Time::ZERO + Span::from_secs(4));
    pair.check(20 * MSS);
    assert_eq!(pair.client.counters().congestion_events, 0);
}

/// RFC 7323 section 4.3: TS.Recent never falls back to the stamp of a segment that came late.
#[test]
fn a_late_segment_does_not_turn_the_echo_back() {
    // The third segment comes twice, the second copy 170 ms later.
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

/// RFC 7323 section 5.2: a connection that lives on while the timestamp clock turns over does what any other does, with
/// losses, late segments and a spike of delay, undone by timestamps. The clock turns 650 ms after the start.
#[test]
fn a_turn_of_the_timestamp_clock_changes_nothing() {
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
        (seen.collect::<Vec<_>>(), pair.client.counters().undone)
    };
    let (before, undone) = run(0);
    assert!(undone > 0);
    assert_eq!(run((1 << 32) - 650).0, before);
}

/// RFC 6675 section 4, IsLost: also after an undo, what has DupThresh segments above it that have arrived is lost. Of
/// twelve segments that leave at 100 ms the first comes 5 ms late, the second never, the last seven 7 ms late. At 200 ms
/// three have arrived above the first two, and the first leaves again; at 205 ms an ACK of the original undoes that.
/// The next SACK, at 207 ms, says once more that the second is lost. Without SACK (RFC 6582) the duplicate ACKs after the
/// undo are of a new loss; the first ACK opens the window and is no duplicate, so that one segment more comes in time.
#[test]
fn what_an_undo_has_found_may_be_lost_all_the_same() {
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
        assert_eq!((counters.undone, counters.timeouts), (1, 0), "SACK {sack}");
        let again = pair.data().filter(|left| left.segment.retransmission);
        let again: Vec<_> = again.map(|left| (left.at, left.segment.sequence)).collect();
        let expected = [(Time::ZERO + ms(200), start(0)), (Time::ZERO + ms(207), start(1))];
        assert_eq!(again[..2], expected, "SACK {sack}");
    }
}

/// RFC 6298 section 5.7: a new measurement ends the back-off, and with timestamps an ACK of a
/// retransmission is one (RFC 7323 section 4.1).
#[test]
fn a_measured_retransmission_ends_the_back_off() {
    let spec = TcpSpec { frto: false, loss_detection: COUNT, ..window(3) };
    let path: Path = Box::new(move |left| {
        let at = left.at.nanos() / 1_000_000;
        let data = left.up && !left.segment.data.is_empty();
        let gone = data && (at < 900 || (1250..1400).contains(&at));
        if gone { vec![] } else { vec![ms(50)] }
    });
    let mut pair = Pair::new(&spec, "newreno", path);
    pair.transfer(10 * MSS, 20);
    let again = pair.data().filter(|left| left.segment.retransmission);
    let again: Vec<u64> = again.map(|left| left.at.nanos() / 1_000_000).take(4).collect();
    // Sent at 100 ms, RTO 300 ms: doubled once for the timer's second run. The first segment's ACK
    // comes at 1,100 ms, and from the next sending the timer counts 300 ms again.
    assert_eq!(again, [400, 1000, 1100, 1100]);
}

/// RFC 3522 and RFC 3708: without reordering and without duplicates no reduction is spurious, and
/// nothing is undone, however many retransmissions of one recovery arrive in the next.
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
            // A needless probe or timeout for want of ACKs is one that may be forgiven.
            if counters.timeouts + counters.ptos == 0 {
                assert_eq!(counters.undone, 0, "seed {seed}, {loss_detection:?}");
            }
        }
    }
}

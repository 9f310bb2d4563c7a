//! Retransmission timeouts: events of the controller, and segments that F-RTO allows. A handshake with an RTT of 100 ms
//! gives SRTT 100 ms, RTTVAR 50 ms, RTO 300 ms (RFC 6298 section 2.2).

use crate::tcp_paths::{Left, MSS, Pair, Path, linux, ms, pattern};
use transport::tcp::{LossDetection, TcpSpec};
use units::Time;

const COUNT: LossDetection = LossDetection::DuplicateAcks { threshold: 3, forward: false };

fn at(millis: u64) -> Time {
    Time::ZERO + ms(millis)
}

/// Builds a path of 50 ms in each direction that loses upward segments sent in one span, in ms.
fn outage(from: u64, until: u64) -> Path {
    Box::new(move |left: &Left| {
        let lost = left.up && at(from) <= left.at && left.at < at(until);
        if lost { vec![] } else { vec![ms(50)] }
    })
}

fn window(segments: u64, loss_detection: LossDetection) -> TcpSpec {
    TcpSpec { initial_window_bytes: segments * MSS, loss_detection, ..linux() }
}

/// RFC 8985 section 6.3: data sent less than RACK.rtt ago is not lost with the rest. Ten segments are sent at 250 ms,
/// the probe at 450 ms, two more segments at 740 ms. The timer expires 300 ms after the probe. FlightSize is 12
/// segments, of which two are still in flight.
#[test]
fn a_timeout_reports_the_flight_before_and_after_its_losses() {
    let run = |name: &str| {
        let mut pair = Pair::new(&window(20, LossDetection::RackTlp), name, outage(250, 5000));
        pair.client.write(pattern(MSS));
        pair.run_until(at(250));
        pair.client.write(pattern(10 * MSS));
        pair.run_until(at(740));
        pair.client.write(pattern(2 * MSS));
        pair.run_until(at(749));
        assert_eq!((pair.client.counters().rtos, pair.client.gauges().in_flight), (0, 12 * MSS));
        // BBR spreads the first ten over 13 ms.
        pair.run_until(at(765));
        assert_eq!(pair.client.counters().rtos, 1);
        pair.client.gauges()
    };
    // RFC 5681 equation 4: max(FlightSize / 2, 2 SMSS), and a loss window of one segment.
    for name in ["newreno", "hybla"] {
        let gauges = run(name);
        assert_eq!((gauges.ssthresh, gauges.cwnd), (Some(6 * MSS), MSS), "{name}");
    }
    // draft-ietf-ccwg-bbr-06 section 5.6.4.4: the flight and one packet; BBRv1 has at least four packets here.
    assert_eq!(run("bbr3").cwnd, 3 * MSS);
    assert_eq!(run("bbr1").cwnd, 4 * MSS);
}

/// Without RACK all missing data is lost (RFC 6675 section 5.1): BBR has one packet.
#[test]
fn bbr_restores_its_window_after_repair() {
    for (name, min_packets) in [("bbr3", 1), ("bbr1", 4)] {
        let mut pair = Pair::new(&window(40, COUNT), name, outage(400, 600));
        pair.client.write(pattern(40_000 * MSS));
        pair.run_until(at(599));
        let (before, lost) = (pair.client.gauges().cwnd, pair.client.gauges().in_flight);
        while pair.client.counters().rtos == 0 {
            let next = pair.now + ms(1);
            pair.run_until(next);
        }
        assert_eq!(pair.client.gauges().cwnd, min_packets * MSS, "{name}");
        let delivered = pair.client.counters();
        assert!(lost > 20 * MSS && before > 40 * MSS, "{name}: {lost} of {before}");
        // With an RTT of 100 ms the window grows by the acknowledged data (section 5.6.4.6). From 1 or 4 to more than
        // 20 segments it needs at least two round trips.
        let next = pair.now + ms(190);
        pair.run_until(next);
        let early = pair.client.gauges().cwnd;
        assert!(early <= 8 * MSS, "{name}: {early} bytes after the first acknowledgement");
        let next = pair.now + ms(3000);
        pair.run_until(next);
        assert_eq!(pair.client.counters().rtos, delivered.rtos, "{name}");
        assert!(pair.client.gauges().cwnd >= before, "{name}");
    }
}

/// Counts the new segments sent from `from` until `until`.
fn new_segments(pair: &Pair, from: Time, until: Time) -> usize {
    let within = |left: &&Left| from <= left.at && left.at < until && !left.segment.retransmission;
    pair.data().filter(within).count()
}

/// RFC 5682 section 3.1: only the first segment is sent before its ACK (steps 1 and 2), then up to two new ones (step
/// 2b). The next ACK reports only one of these: the timeout was genuine (step 3a).
#[test]
fn f_rto_sends_two_new_segments() {
    for name in ["newreno", "cubic", "hybla", "westwood", "bbr1", "bbr3"] {
        for sack in [true, false] {
            let spec = TcpSpec { sack, ..window(40, COUNT) };
            let mut pair = Pair::new(&spec, name, outage(400, 600));
            pair.client.write(pattern(8_000 * MSS));
            while pair.client.counters().rtos == 0 {
                let next = pair.now + ms(1);
                pair.run_until(next);
            }
            let timeout = pair.data().last().unwrap().at;
            assert!(timeout > at(600), "{name}: the path is there again");
            pair.run_until(timeout + ms(250));
            let (first, second) = (timeout + ms(100), timeout + ms(200));
            assert_eq!(new_segments(&pair, timeout, first), 0, "{name}, sack {sack}");
            assert_eq!(new_segments(&pair, first, second), 2, "{name}, sack {sack}");
            let again = pair.data().filter(|left| left.at >= timeout && left.at < second);
            assert_eq!(again.filter(|left| left.segment.retransmission).count(), 1, "{name}");
            assert_eq!(pair.client.counters().cwnd_undos, Some(0), "{name}");
            pair.run_until(at(60_000));
            assert_eq!(pair.client.counters().rtos, 1, "{name}, sack {sack}");
            pair.check(8_000 * MSS);
        }
    }
}

/// RFC 5682 section 2.1, step 2: without SACK, an ACK of the retransmission for more data proves nothing. That data may
/// have arrived before it. The first of ten segments is lost, and so are all duplicate ACKs.
#[test]
fn an_ack_of_the_retransmission_is_no_proof_without_sack() {
    let mut first = true;
    let path: Path = Box::new(move |left| {
        let data = left.up && !left.segment.data.is_empty();
        let acks = !left.up && left.segment.syn.is_none() && left.at < at(300);
        let lost = acks || (data && std::mem::take(&mut first));
        if lost { vec![] } else { vec![ms(50)] }
    });
    let spec = TcpSpec { sack: false, timestamps: false, ..window(10, COUNT) };
    let mut pair = Pair::new(&spec, "newreno", path);
    pair.client.write(pattern(10 * 1460 + 400 * 1460));
    pair.run_until(at(30_000));
    let counters = pair.client.counters();
    assert_eq!((counters.rtos, counters.cwnd_undos), (1, Some(0)));
}

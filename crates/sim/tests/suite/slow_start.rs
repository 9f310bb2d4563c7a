//! Slow start on an ideal link against an independent recurrence over packets. The window grows by the acknowledged
//! bytes. An ACK follows every second packet (RFC 9000 section 13.2.2) or max_ack_delay (25 ms, section 18.2). The
//! pacing rate is 1.25 cwnd / srtt (RFC 9002 section 7.7), in bursts of two packets or a millisecond.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::common::{Case, HEADER, MTU, data};
use serde_json::json;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrival,
    AckTimer(u64),
    Ack(u64, u64),
    Pacer,
}

/// Returns the seconds from the first data packet's departure to the arrival of packet number `count`.
fn recurrence(count: u64, rate: f64, rtt: f64, every: u64) -> f64 {
    let (one_way, ack_delay) = (rtt / 2.0, 0.025);
    let serial = |bytes: u64| bytes as f64 * 8.0 / rate;
    let nanos = |seconds: f64| (seconds * 1e9).round() as u64;
    let mut queue = BinaryHeap::from([Reverse((0, What::Pacer))]);
    let (mut sent, mut arrived, mut acked) = (0u64, 0u64, 0u64);
    let (mut cwnd, mut in_flight) = (10 * MTU, 0);
    let (mut link_free, mut return_free, mut next, mut srtt) = (0.0f64, 0.0f64, -1.0f64, rtt);
    let mut sent_at = Vec::new();
    let mut paced = true; // a pacer is in the queue
    while let Some(Reverse((at, what))) = queue.pop() {
        let now = at as f64 / 1e9;
        let mut ack_now = false;
        match what {
            What::Arrival => {
                arrived += 1;
                if arrived == count {
                    return now;
                }
                ack_now = arrived - acked >= every;
                if arrived - acked == 1 && !ack_now {
                    queue.push(Reverse((nanos(now + ack_delay), What::AckTimer(acked))));
                }
            }
            What::AckTimer(at_acked) => ack_now = at_acked == acked,
            What::Ack(packets, newest) => {
                in_flight -= packets * MTU;
                cwnd += packets * MTU;
                let sample: f64 = now - sent_at[newest as usize];
                srtt = 0.875 * srtt + 0.125 * sample;
            }
            What::Pacer => paced = false,
        }
        if ack_now {
            return_free = return_free.max(now) + serial(60);
            let ack = What::Ack(arrived - acked, arrived - 1);
            queue.push(Reverse((nanos(return_free + one_way), ack)));
            acked = arrived;
        }
        let pace = 1.25 * cwnd as f64 / srtt;
        let quantum = (pace / 1000.0).max(2.0 * MTU as f64);
        while in_flight + MTU <= cwnd && sent < count {
            if next > now + 1e-9 {
                if !std::mem::replace(&mut paced, true) {
                    queue.push(Reverse((nanos(next), What::Pacer)));
                }
                break;
            }
            next = next.max(now - quantum / pace) + MTU as f64 / pace;
            link_free = link_free.max(now) + serial(MTU + HEADER);
            queue.push(Reverse((nanos(link_free + one_way), What::Arrival)));
            sent_at.push(now);
            sent += 1;
            in_flight += MTU;
        }
    }
    unreachable!("every packet arrives");
}

fn measured(bytes: u64, rate: u64, rtt_ms: f64, every: u64) -> f64 {
    let mut quic = json!({});
    if every != 2 {
        quic = json!({"ack_eliciting_threshold": every - 1});
    }
    let case = Case {
        rate_up: rate,
        rate_down: rate,
        rtt_ms,
        queue_bdp: 50.0,
        congestion: json!({"name": "newreno", "options": {"slow_start_exit": "none"}}),
        load: data(bytes, 0),
        duration_s: 60.0,
        quic,
        ..Case::default()
    };
    let run = case.run();
    let streams = run.table("streams");
    streams.numbers("up_last_byte_s")[0] - streams.numbers("start_s")[0]
}

#[test]
fn completion_times_follow_the_recurrence() {
    // Stream bytes in a full packet: 1,252 minus a short header, one STREAM frame and the tag.
    let payload = MTU - 35;
    for (rate, rtt_ms) in [(1_000_000_000, 500.0), (50_000_000, 500.0), (100_000_000, 30.0)] {
        // No transfer ends at the end of a window, where a few bytes decide about a round trip.
        for count in [25, 120, 1000, 4000] {
            let expected = recurrence(count, rate as f64, rtt_ms / 1e3, 2);
            // The first packet also carries the client's Finished, an ACK and a handshake header.
            let got = measured(count * payload - 400, rate, rtt_ms, 2);
            let error = got / expected - 1.0;
            println!(
                "{rate} bit/s {rtt_ms} ms {count} packets: {got:.4} s, recurrence {expected:.4} s"
            );
            assert!(error.abs() < 0.02, "{rate} {rtt_ms} {count}: {got} against {expected}");
        }
    }
}

//! BBRv3 under independent losses, packet by packet, independent of the controller. It computes the end of Startup by
//! random loss, and the rate that the short-term bounds permit between two probes.

use std::collections::VecDeque;

/// The packet threshold of RFC 9002 section 6.1.1, which delays loss detection.
const THRESHOLD: u64 = 3;

/// Returns the packets in flight when losses end a Startup on a path of `bdp` packets without congestion. The result is
/// `None` if the pipe is full first.
///
/// The flight doubles each round trip: when packet `a` is acknowledged, `2 a` packets have been sent. A loss detected
/// then starts a round that ends with packet `2 a`. It ends Startup if more than 2 % of its flight of `a` were lost, at
/// least six packets including the first (section 5.3.1.3).
pub fn startup_ends_at(bdp: u64, lost: &mut dyn FnMut(u64) -> bool) -> Option<u64> {
    // Packets acknowledged at the start of the round, and losses detected since.
    let mut round: Option<(u64, u64)> = None;
    for acked in THRESHOLD..2 * bdp {
        if let Some((flight, losses)) = round
            && acked >= 2 * flight
        {
            if losses as f64 > 0.02 * flight as f64 && losses + 1 >= 6 {
                return Some(flight);
            }
            round = None;
        }
        if lost(acked - THRESHOLD) {
            round = match round {
                None => Some((acked, 0)),
                Some((flight, losses)) => Some((flight, losses + 1)),
            };
        }
    }
    None
}

/// The durations of the phases of a cycle in seconds: refill, probing above the rate, and the rest.
#[derive(Clone, Copy, Debug, Default)]
pub struct PhaseDurations {
    pub refill: f64,
    pub up: f64,
    pub rest: f64,
}

/// A packet in flight, with the sender's state at its send time (section 4.1.2.2).
struct SentPacket {
    is_lost: bool,
    sent_at: f64,
    acked_at: f64,
    delivered: u64,
    delivered_at: f64,
    first_sent_at: f64,
}

/// Returns the mean delivery rate over `cycles` as a share of `rate`. The path has `rate` packets per second, `rtt`
/// seconds and a queue for the whole flight. The sender knows `rate`.
///
/// It is paced 1 % below the gain of its phase (section 5.6.1). The gains are 1, 1.25, and in the rest 0.9 until the
/// queue is empty, then 1. In the rest each round with a loss reduces rate and flight to the maximum delivered in one
/// of its round trips. The rate is at most the send rate. Neither falls below `beta` times its value (section
/// 5.5.10.3). Losses occur before the queue.
pub fn share_of_rate(
    (rate, rtt): (f64, f64),
    cycles: &[PhaseDurations],
    beta: f64,
    lost: &mut dyn FnMut(u64) -> bool,
) -> f64 {
    let mut flight: VecDeque<SentPacket> = VecDeque::new();
    let (mut now, mut next_send, mut link_free, mut number) = (0.0f64, 0.0f64, 0.0f64, 0u64);
    let (mut bandwidth, mut volume) = (rate, f64::MAX);
    let (mut delivered, mut delivered_at, mut first_sent) = (0u64, 0.0f64, 0.0f64);
    let (mut round_end, mut has_loss, mut drained) = (0u64, false, false);
    let (mut max_rate, mut max_volume) = (0.0f64, 0.0f64);
    let (mut began, mut index, mut was_resting) = (0.0, 0, false);
    while let Some(cycle) = cycles.get(index) {
        let phase = now - began;
        if phase >= cycle.refill + cycle.up + cycle.rest {
            (began, index) = (began + cycle.refill + cycle.up + cycle.rest, index + 1);
            continue;
        }
        let resting = phase >= cycle.refill + cycle.up;
        if resting && !was_resting {
            (has_loss, drained, max_rate, max_volume) = (false, false, 0.0, 0.0);
        } else if !resting {
            (bandwidth, volume) = (rate, f64::MAX);
        }
        was_resting = resting;
        drained |= flight.len() as f64 <= rate * rtt;
        let gain = match () {
            () if phase < cycle.refill || resting && drained => 1.0,
            () if resting => 0.9,
            () => 1.25,
        };
        let ack = flight.front().map_or(f64::MAX, |packet| packet.acked_at);
        if next_send <= ack && ((flight.len() + 1) as f64) <= volume {
            now = now.max(next_send);
            if flight.is_empty() {
                (delivered_at, first_sent) = (now, now);
            }
            let is_lost = lost(number);
            number += 1;
            if !is_lost {
                link_free = link_free.max(now) + 1.0 / rate;
            }
            let acked_at = link_free.max(now) + rtt;
            flight.push_back(SentPacket {
                is_lost,
                sent_at: now,
                acked_at,
                delivered,
                delivered_at,
                first_sent_at: first_sent,
            });
            next_send = now + 1.0 / (0.99 * gain * bandwidth);
            continue;
        }
        let Some(packet) = flight.pop_front() else { break };
        now = packet.acked_at;
        if packet.is_lost {
            if resting && !std::mem::replace(&mut has_loss, true) {
                round_end = delivered;
            }
            continue;
        }
        (delivered, delivered_at, first_sent) = (delivered + 1, now, packet.sent_at);
        let sample = (delivered - packet.delivered) as f64;
        let interval = (now - packet.delivered_at).max(packet.sent_at - packet.first_sent_at);
        max_rate = max_rate.max(sample / interval);
        max_volume = max_volume.max(sample);
        if packet.delivered >= round_end {
            if std::mem::take(&mut has_loss) && resting {
                bandwidth = max_rate.max(beta * bandwidth).min(rate);
                volume = max_volume.max(beta * volume.min(2.0 * rate * rtt));
            }
            round_end = delivered;
            (max_rate, max_volume) = (sample / interval, sample);
        }
    }
    delivered as f64 / now / rate
}

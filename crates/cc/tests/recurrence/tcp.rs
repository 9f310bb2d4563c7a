//! [`window`](cc::test_support::recurrence::window) for TCP. Recovery lasts until all data outstanding at its start has
//! arrived, lost data by retransmission. The window does not grow meanwhile, and a loss meanwhile starts the next
//! recovery at once (RFC 6675 section 5). There is no PRR.

use std::collections::{BTreeSet, VecDeque};

use cc::test_support::recurrence::WindowAlgorithm;

/// Returns the mean packets delivered per round trip of `rtt` seconds, over `packets`, after a tenth of them. `lost(n)`
/// returns whether the n-th transmission is lost.
pub fn window(
    law: &mut dyn WindowAlgorithm,
    rtt: f64,
    packets: u64,
    lost: &mut dyn FnMut(u64) -> bool,
) -> f64 {
    // Transmissions (packet and time), and lost packets queued for retransmission.
    let (mut flight, mut again) = (VecDeque::new(), VecDeque::new());
    let (mut window, mut now, mut next, mut sent, mut delivered) = (10.0f64, 0.0, 0u64, 0u64, 0u64);
    // The current recovery: the first packet after it, and the number of missing packets before that.
    let mut recovery: Option<(u64, usize)> = None;
    let mut holes = BTreeSet::new();
    let mut highest = 0;
    let (mut from, mut counted) = (0.0, 0);
    while sent < packets {
        while (flight.len() as f64) < window.floor().max(2.0) {
            let packet = again.pop_front().unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            flight.push_back((packet, now));
        }
        let Some((packet, at)) = flight.pop_front() else { break };
        now = at + rtt;
        sent += 1;
        let is_lost = lost(sent);
        if is_lost {
            holes.insert(packet);
            again.push_back(packet);
        } else {
            holes.remove(&packet);
            delivered += 1;
            highest = packet.max(highest);
            law.on_delivered(now);
        }
        match &mut recovery {
            None if is_lost => {
                window = law.on_cut(now, window).max(2.0);
                recovery = Some((next, flight.len() + again.len()));
            }
            None => window = law.on_acked(now, window),
            Some((end, missing)) => {
                *missing -= usize::from(!is_lost && packet < *end);
                if *missing == 0 {
                    // This packet was the first hole. All packets up to the next hole have arrived.
                    let up_to = holes.first().map_or(highest, |hole| hole - 1);
                    law.on_repeated_ack(up_to - packet.min(up_to));
                    window = law.on_recovered(window);
                    recovery = None;
                    if !holes.is_empty() {
                        window = law.on_cut(now, window).max(2.0);
                        recovery = Some((next, flight.len() + again.len()));
                    }
                }
            }
        }
        if sent < packets / 10 {
            (from, counted) = (now, delivered);
        }
    }
    (delivered - counted) as f64 * rtt / (now - from)
}

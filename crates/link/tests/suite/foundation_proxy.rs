//! Fourth proof: a splitting proxy of two simple endpoints with a bounded buffer, a fast link before it and a slow one
//! after it. Back-pressure limits the sender to the slow rate, without loss, and the buffer never exceeds its bound.

use link::{LinkOutput, QueueLimit, SimplexLink};
use units::{Packet, Time};

use crate::common::{delay, packet, transmit};

const BUFFER: u32 = 64;
const TOTAL: u32 = 2_000;

/// One hop: a sender limited to `granted` packets, and a receiver that grants the consumed packets plus its buffer.
/// Data is numbered, and an acknowledgement carries the new grant.
struct Hop {
    data: SimplexLink,
    acks: SimplexLink,
    sent: u32,
    granted: u32,
    received: u32,
}

impl Hop {
    fn new(rate_bit_s: u64) -> Hop {
        let build = |name: &str| {
            let spec = [delay(10_000_000), transmit(rate_bit_s, Some(QueueLimit::Packets(100)))];
            SimplexLink::build(&spec, name, 1).unwrap()
        };
        let (data, acks) = (build("hop.up"), build("hop.down"));
        Hop { data, acks, sent: 0, granted: BUFFER, received: 0 }
    }
    fn send(&mut self, now: Time, available: u32, out: &mut LinkOutput) {
        while self.sent < self.granted.min(available) {
            self.data.push(now, packet(self.sent, 1000), out);
            self.sent += 1;
        }
    }
    fn grant(&mut self, now: Time, consumed: u32, out: &mut LinkOutput) {
        let grant = Packet { flow: 1, ..packet(consumed + BUFFER, 40) };
        self.acks.push(now, grant, out);
    }
}

#[test]
fn back_pressure_holds() {
    let mut hops = [Hop::new(100_000_000), Hop::new(10_000_000)];
    let (mut out, mut now, mut max_buffered) = (LinkOutput::default(), Time::ZERO, 0);
    while hops[1].received < TOTAL {
        hops[0].send(now, TOTAL, &mut out);
        let before = hops[1].sent;
        let received = hops[0].received;
        hops[1].send(now, received, &mut out);
        if hops[1].sent > before {
            let consumed = hops[1].sent;
            hops[0].grant(now, consumed, &mut out);
        }
        max_buffered = max_buffered.max(hops[0].received - hops[1].sent);
        now = hops.iter().flat_map(|hop| [hop.data.poll_at(), hop.acks.poll_at()]).min().unwrap();
        for (index, hop) in hops.iter_mut().enumerate() {
            hop.data.poll(now, &mut out);
            hop.acks.poll(now, &mut out);
            for (due, packet) in out.delivered.drain(..) {
                if packet.flow == 1 {
                    hop.granted = packet.handle;
                    continue;
                }
                assert_eq!((due, packet.handle), (now, hop.received), "in order and on time");
                hop.received += 1;
                if index == 1 {
                    let grant =
                        Packet { flow: 1, ..crate::common::packet(hop.received + BUFFER, 40) };
                    hop.acks.push(now, grant, &mut LinkOutput::default());
                }
            }
        }
    }
    assert!(out.dropped.is_empty());
    assert!((BUFFER / 2..=BUFFER).contains(&max_buffered), "buffer filled to {max_buffered}");
    // 64 packets per round trip of 20 ms plus service exceed 10 Mb/s: the slow link is hardly ever idle, and it bounds
    // the throughput.
    let rate = f64::from(TOTAL) * 8_000.0 / now.seconds();
    assert!((9.5e6..=1e7).contains(&rate), "{rate} bit/s");
}

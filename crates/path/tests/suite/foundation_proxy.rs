//! Fourth proof: a splitting proxy of two toy endpoints with a bounded buffer between them, a fast
//! line before it and a slow one behind it: back-pressure holds the sender to the slow rate,
//! nothing is lost and the buffer never exceeds its bound.

use path::{Limit, Line, Output};
use units::{Packet, Time};

use crate::common::{delay, packet, transmit};

const BUFFER: u32 = 64;
const TOTAL: u32 = 2_000;

/// One hop: a sender that may have sent up to `granted` packets, and a receiver that grants what
/// it has consumed plus its buffer. Data is numbered; an acknowledgement carries the new grant.
struct Hop {
    data: Line,
    acks: Line,
    sent: u32,
    granted: u32,
    received: u32,
}

impl Hop {
    fn new(rate_bit_s: u64) -> Hop {
        let build = |name: &str| {
            let spec = [delay(10_000_000), transmit(rate_bit_s, Some(Limit::Packets(100)))];
            Line::build(&spec, name, 1).unwrap()
        };
        let (data, acks) = (build("hop.up"), build("hop.down"));
        Hop { data, acks, sent: 0, granted: BUFFER, received: 0 }
    }
    fn send(&mut self, now: Time, available: u32, out: &mut Output) {
        while self.sent < self.granted.min(available) {
            self.data.push(now, packet(self.sent, 1000), out);
            self.sent += 1;
        }
    }
    fn grant(&mut self, now: Time, consumed: u32, out: &mut Output) {
        let grant = Packet { flow: 1, ..packet(consumed + BUFFER, 40) };
        self.acks.push(now, grant, out);
    }
}

#[test]
fn back_pressure_holds() {
    let mut hops = [Hop::new(100_000_000), Hop::new(10_000_000)];
    let (mut out, mut now, mut most) = (Output::default(), Time::ZERO, 0);
    while hops[1].received < TOTAL {
        hops[0].send(now, TOTAL, &mut out);
        let before = hops[1].sent;
        let received = hops[0].received;
        hops[1].send(now, received, &mut out);
        if hops[1].sent > before {
            let consumed = hops[1].sent;
            hops[0].grant(now, consumed, &mut out);
        }
        most = most.max(hops[0].received - hops[1].sent);
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
                    hop.acks.push(now, grant, &mut Output::default());
                }
            }
        }
    }
    assert!(out.dropped.is_empty());
    assert!((BUFFER / 2..=BUFFER).contains(&most), "buffer filled to {most}");
    // 64 packets a round trip of 20 ms and service exceed 10 Mb/s: the slow line is never idle
    // for long, and nothing is faster than it.
    let rate = f64::from(TOTAL) * 8_000.0 / now.seconds();
    assert!((9.5e6..=1e7).contains(&rate), "{rate} bit/s");
}

//! Two TCP connections over a path of constant delay with chosen losses.

use bytes::Bytes;
use cc::ControllerConfig;
use transport::Payload;
use transport::tcp::{Flags, LossDetection, Segment, TcpConnection, TcpSpec};
use units::{Span, Time};

use crate::tcp_paths::linux;

/// Linux's options, with delayed ACKs off.
fn spec() -> TcpSpec {
    TcpSpec {
        restart_after_idle: true,
        receive_buffer_bytes: 16 << 20,
        send_buffer_bytes: 16 << 20,
        ..linux()
    }
}

fn newreno(spec: &TcpSpec) -> Box<dyn cc::CongestionControl> {
    let config = ControllerConfig {
        mss: u64::from(spec.mss_bytes) - 12,
        initial_window: spec.initial_window_bytes,
        initial_rtt: Span::from_secs(1),
        seed: 1,
        is_paced: spec.pacing,
    };
    cc::build_controller("newreno", &serde_json::Value::Null, &config).unwrap()
}

/// Decides whether an upward segment is lost, by its number from 0.
type Lose = Box<dyn FnMut(u64, &Segment) -> bool>;

/// A client that sends to a server.
struct Pair {
    now: Time,
    delay: Span,
    client: TcpConnection,
    server: Option<TcpConnection>,
    server_spec: TcpSpec,
    /// Segments in transit: arrival time, and whether at the server.
    flying: Vec<(Time, bool, Segment)>,
    lose: Lose,
    up: u64,
    received: u64,
    received_at: Time,
    left: u64,
    resent: u64,
    reads: bool,
    log: Vec<(Time, bool, Segment)>,
}

impl Pair {
    fn new(spec: &TcpSpec, delay_ms: u64, bytes: u64) -> Pair {
        Pair {
            now: Time::ZERO,
            delay: Span::from_millis(delay_ms),
            client: TcpConnection::connect(Time::ZERO, spec, newreno(spec), 1024),
            server: None,
            server_spec: spec.clone(),
            flying: Vec::new(),
            lose: Box::new(|_, _| false),
            up: 0,
            received: 0,
            received_at: Time::ZERO,
            left: bytes,
            resent: 0,
            reads: true,
            log: Vec::new(),
        }
    }

    fn exchange(&mut self) {
        let mut out = Vec::new();
        while self.left > 0 && self.client.may_send() {
            let chunk = self.left.min(65_536) as usize;
            let taken = self.client.write(Bytes::from(vec![0; chunk])) as u64;
            self.left -= taken;
            if self.left == 0 {
                self.client.finish();
            }
            if taken == 0 {
                break;
            }
        }
        self.client.transmit(self.now, &mut out);
        for payload in out.drain(..) {
            let Payload::Segment(segment) = payload else { unreachable!() };
            self.resent += u64::from(segment.retransmission);
            self.log.push((self.now, true, segment.clone()));
            let lost = (self.lose)(self.up, &segment);
            self.up += 1;
            if !lost {
                self.flying.push((self.now + self.delay, true, segment));
            }
        }
        if let Some(server) = &mut self.server {
            while self.reads
                && let Some(data) = server.read()
            {
                self.received += data.len() as u64;
                self.received_at = self.now;
            }
            if server.peer_finished() && !server.is_finishing() {
                server.finish();
            }
            server.transmit(self.now, &mut out);
            for payload in out {
                let Payload::Segment(segment) = payload else { unreachable!() };
                self.log.push((self.now, false, segment.clone()));
                self.flying.push((self.now + self.delay, false, segment));
            }
        }
    }

    fn step(&mut self) -> bool {
        let server_at = self.server.as_ref().map_or(Time::MAX, TcpConnection::poll_at);
        let timers = self.client.poll_at().min(server_at);
        let next = self.flying.iter().map(|(at, ..)| *at).min().unwrap_or(Time::MAX).min(timers);
        if next == Time::MAX {
            return false;
        }
        self.now = self.now.max(next);
        if let Some(index) = self.flying.iter().position(|(at, ..)| *at <= self.now) {
            let (_, up, segment) = self.flying.remove(index);
            match (&mut self.server, up) {
                (_, false) => self.client.receive(self.now, segment),
                (Some(server), true) => server.receive(self.now, segment),
                (None, true) => {
                    let (spec, controller) = (&self.server_spec, newreno(&self.server_spec));
                    self.server =
                        Some(TcpConnection::accept(self.now, spec, controller, &segment, false));
                }
            }
        } else {
            self.client.poll(self.now);
            if let Some(server) = &mut self.server {
                server.poll(self.now);
            }
        }
        self.exchange();
        true
    }

    fn run(&mut self) -> Time {
        self.exchange();
        for _ in 0..2_000_000 {
            let both = self.server.as_ref().is_some_and(TcpConnection::is_closed);
            if (self.client.is_closed() && both) || !self.step() {
                break;
            }
        }
        self.now
    }
}

#[test]
fn a_transfer_doubles_its_window_every_round_trip() {
    let mut pair = Pair::new(&spec(), 50, 1_000_000);
    let end = pair.run();
    assert_eq!(pair.received, 1_000_000);
    assert_eq!(pair.resent, 0);
    // 691 segments from a window of 10: 10 + 20 + ... + 320 = 630 in six rounds. The rest and FIN follow in the
    // seventh. SYN takes one round trip before; the last ACK of the peer's FIN takes half a one after it.
    assert_eq!(end, Time(100_000_000 * 8 + 50_000_000));
    assert!(pair.client.is_closed() && pair.server.as_ref().unwrap().is_closed());
    assert_eq!(pair.client.gauges().in_flight, 0);
}

#[test]
fn any_lost_segments_are_repaired() {
    for variant in 0..4 {
        let spec = match variant {
            0 => spec(),
            1 => TcpSpec {
                loss_detection: LossDetection::DuplicateAcks { threshold: 3, forward: false },
                ..spec()
            },
            2 => TcpSpec {
                loss_detection: LossDetection::DuplicateAcks { threshold: 3, forward: false },
                sack: false,
                prr: false,
                ..spec()
            },
            _ => TcpSpec { timestamps: false, frto: false, limited_transmit: false, ..spec() },
        };
        for seed in 0..60u64 {
            let mut random = units::RandomStream::named(seed, "tests", "loss");
            let mut pair = Pair::new(&spec, 20, 400_000);
            pair.lose = Box::new(move |_, _| random.chance(0.05));
            let end = pair.run();
            assert_eq!(pair.received, 400_000, "variant {variant}, seed {seed}, ended at {end:?}");
            assert!(pair.client.is_closed(), "variant {variant}, seed {seed}");
            assert_eq!(pair.client.gauges().in_flight, 0, "variant {variant}, seed {seed}");
            assert!(end < Time(60_000_000_000), "variant {variant}, seed {seed}: {end:?}");
        }
    }
}

#[test]
fn a_single_loss_costs_one_retransmission_and_one_reduction() {
    for detection in
        [LossDetection::RackTlp, LossDetection::DuplicateAcks { threshold: 3, forward: false }]
    {
        let mut pair = Pair::new(&TcpSpec { loss_detection: detection, ..spec() }, 50, 1_000_000);
        pair.lose = Box::new(|number, _| number == 100);
        pair.run();
        let counters = pair.client.counters();
        assert_eq!((pair.resent, counters.congestion_events, counters.rtos), (1, Some(1), 0));
        assert_eq!(counters.lost_packets, 1);
    }
}

#[test]
fn a_lost_tail_is_repaired_by_a_probe() {
    let mut pair = Pair::new(&spec(), 50, 30_000);
    pair.lose = Box::new(|_, segment| segment.flags.has(Flags::FIN) && !segment.retransmission);
    let end = pair.run();
    let counters = pair.client.counters();
    assert_eq!((counters.rtos, counters.ptos), (0, Some(1)));
    assert!(end < Time(1_000_000_000), "{end:?}");
}

#[test]
fn fast_open_saves_a_round_trip() {
    let open = TcpSpec { fast_open: true, ..spec() };
    let mut without = Pair::new(&spec(), 50, 500);
    without.run();
    let mut pair = Pair::new(&open, 50, 500);
    pair.run();
    assert_eq!(pair.received, 500);
    assert_eq!(without.received_at.since(pair.received_at), Span::from_millis(100));
    // A server that does not know the cookie ignores the data: it is retransmitted, and no time is saved.
    let mut refused = Pair::new(&open, 50, 500);
    refused.server_spec = spec();
    refused.run();
    assert_eq!((refused.received, refused.received_at), (500, without.received_at));
    // A lost SYN is retransmitted without data.
    let mut lost = Pair::new(&open, 50, 500);
    lost.lose = Box::new(|number, _| number == 0);
    lost.run();
    assert_eq!(lost.received, 500);
    assert!(lost.log.iter().filter(|(_, up, _)| *up).nth(1).unwrap().2.data.is_empty());
}

#[test]
fn a_reader_that_stops_closes_the_window_and_opens_it_again() {
    let mut pair = Pair::new(&TcpSpec { receive_buffer_bytes: 50_000, ..spec() }, 20, 300_000);
    pair.reads = false;
    pair.exchange();
    while pair.now < Time(10_000_000_000) && pair.step() {}
    let server = pair.server.as_ref().unwrap();
    assert!(server.readable() > 45_000 && server.readable() <= 50_000, "{}", server.readable());
    pair.reads = true;
    let end = pair.run();
    assert_eq!(pair.received, 300_000);
    assert!(end > Time(10_000_000_000));
}

#[test]
fn every_lost_syn_doubles_the_wait() {
    let mut pair = Pair::new(&spec(), 50, 100);
    pair.lose = Box::new(|number, _| number < 3);
    pair.run();
    let syns: Vec<u64> = pair
        .log
        .iter()
        .filter(|(_, up, segment)| *up && segment.flags.has(Flags::SYN))
        .map(|(at, ..)| at.nanos() / 1_000_000_000)
        .collect();
    assert_eq!(syns, [0, 1, 3, 7]);
    let mut never = Pair::new(&spec(), 50, 100);
    never.lose = Box::new(|_, _| true);
    never.run();
    assert!(never.client.is_aborted());
}

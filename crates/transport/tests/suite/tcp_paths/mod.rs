//! Two ends of a connection, a virtual clock, and a path that the test controls per segment.

use std::collections::BTreeMap;

use bytes::Bytes;
use cc::CongestionControl;
use transport::Payload;
use transport::tcp::{DelayedAck, Flags, Segment, TcpConnection, TcpSpec};
use units::{Span, Time};

pub const MSS: u64 = 1448;

/// The options of a current Linux.
pub fn linux() -> TcpSpec {
    TcpSpec {
        initial_window_bytes: 10 * MSS,
        delayed_ack: None,
        restart_after_idle: false,
        receive_buffer_bytes: 64 << 20,
        ..TcpSpec::default()
    }
}

/// The same with delayed acknowledgements.
pub fn delayed(every: u32, quick: u32) -> Option<DelayedAck> {
    Some(DelayedAck { timeout_ns: 40_000_000, segments_per_ack: every, quick_acks: quick })
}

pub fn controller(name: &str, spec: &TcpSpec) -> Box<dyn CongestionControl> {
    let mss = u64::from(spec.mss_bytes) - if spec.timestamps { 12 } else { 0 };
    let config = cc::ControllerConfig {
        mss,
        initial_window: spec.initial_window_bytes,
        initial_rtt: Span::from_secs(1),
        seed: 1,
        is_paced: spec.pacing,
    };
    cc::build_controller(name, &serde_json::json!({}), &config).expect("a known controller")
}

/// A sent segment, as a test observes it.
#[derive(Clone, Debug)]
pub struct Left {
    pub at: Time,
    pub up: bool,
    pub segment: Segment,
}

/// Delays of the copies of a segment that arrive; no copy is a loss.
pub type Path = Box<dyn FnMut(&Left) -> Vec<Span>>;

pub struct Pair {
    pub now: Time,
    pub client: TcpConnection,
    pub server: Option<TcpConnection>,
    pub spec: TcpSpec,
    pub log: Vec<Left>,
    pub path: Path,
    pub congestion: String,
    /// Whether the server reads what arrives.
    pub reads: bool,
    /// Sequence number of an upward segment that a router marks.
    pub mark: Option<u64>,
    pub received: Vec<u8>,
    flying: BTreeMap<(Time, u64), (bool, Segment)>,
    count: u64,
}

pub fn ms(span: u64) -> Span {
    Span::from_millis(span)
}

/// Builds a path of `one_way` ms that loses segments by `lost`. Its argument is the number of an upward data segment
/// (from 0), retransmissions counted.
pub fn losing(one_way: u64, mut lost: impl FnMut(u64) -> bool + 'static) -> Path {
    let mut count = 0;
    Box::new(move |left| {
        let mut is_lost = false;
        if left.up && !left.segment.data.is_empty() {
            is_lost = lost(count);
            count += 1;
        }
        if is_lost { vec![] } else { vec![ms(one_way)] }
    })
}

/// Returns byte number `n` of every stream.
pub fn byte(n: u64) -> u8 {
    (n % 251) as u8
}

pub fn pattern(length: u64) -> Bytes {
    (0..length).map(byte).collect::<Vec<u8>>().into()
}

impl Pair {
    pub fn new(spec: &TcpSpec, congestion: &str, path: Path) -> Pair {
        Pair::starting(Time::ZERO, spec, congestion, path)
    }

    pub fn starting(now: Time, spec: &TcpSpec, congestion: &str, path: Path) -> Pair {
        Pair {
            now,
            client: TcpConnection::connect(now, spec, controller(congestion, spec), 1024),
            server: None,
            spec: spec.clone(),
            log: Vec::new(),
            path,
            congestion: congestion.to_owned(),
            reads: true,
            mark: None,
            received: Vec::new(),
            flying: BTreeMap::new(),
            count: 0,
        }
    }

    /// Lets both ends send.
    pub fn flush(&mut self) {
        for up in [true, false] {
            let mut out = Vec::new();
            if up {
                self.client.transmit(self.now, &mut out);
            } else if let Some(server) = &mut self.server {
                server.transmit(self.now, &mut out);
            }
            for payload in out {
                let Payload::Segment(segment) = payload else { unreachable!() };
                let mut left = Left { at: self.now, up, segment };
                if up && !left.segment.data.is_empty() && self.mark == Some(left.segment.sequence) {
                    left.segment.ecn = units::Ecn::Ce;
                    self.mark = None;
                }
                for delay in (self.path)(&left) {
                    self.count += 1;
                    let key = (self.now + delay, self.count);
                    self.flying.insert(key, (up, left.segment.clone()));
                }
                self.log.push(left);
            }
        }
    }

    fn read(&mut self) {
        let Some(server) = self.server.as_mut().filter(|_| self.reads) else { return };
        while let Some(data) = server.read() {
            self.received.extend_from_slice(&data);
        }
    }

    /// Runs until no work is due before `end`. Returns whether more can follow.
    pub fn run_until(&mut self, end: Time) -> bool {
        loop {
            self.read();
            self.flush();
            let flying = self.flying.first_key_value().map_or(Time::MAX, |(key, _)| key.0);
            let server = self.server.as_ref().map_or(Time::MAX, TcpConnection::poll_at);
            let at = flying.min(self.client.poll_at()).min(server).max(self.now);
            if at > end || at == Time::MAX {
                self.now = end;
                return at != Time::MAX;
            }
            self.now = at;
            if flying <= at {
                let (_, (up, segment)) = self.flying.pop_first().expect("it was seen");
                match (up, &mut self.server) {
                    (false, _) => self.client.receive(at, segment),
                    (true, Some(server)) => server.receive(at, segment),
                    (true, None) => {
                        let spec = self.spec.clone();
                        let congestion = controller(&self.congestion, &spec);
                        self.server =
                            Some(TcpConnection::accept(at, &spec, congestion, &segment, false));
                    }
                }
            } else if self.client.poll_at() <= at {
                self.client.poll(at);
            } else if let Some(server) = &mut self.server {
                server.poll(at);
            }
        }
    }

    pub fn server(&mut self) -> &mut TcpConnection {
        self.server.as_mut().expect("the SYN has arrived")
    }

    /// Sends `bytes` upwards and FIN, and runs for at most `seconds`.
    pub fn transfer(&mut self, bytes: u64, seconds: u64) {
        assert_eq!(self.client.write(pattern(bytes)) as u64, bytes);
        self.client.finish();
        self.run_until(Time::ZERO + Span::from_secs(seconds));
        self.check(bytes);
    }

    /// Checks that every byte arrived once, and that no data is in flight.
    pub fn check(&mut self, bytes: u64) {
        assert_eq!(self.received.len() as u64, bytes, "bytes received");
        assert!(self.received.iter().enumerate().all(|(n, b)| *b == byte(n as u64)));
        assert_eq!(self.client.gauges().in_flight, 0, "in flight at the end");
        assert!(self.client.all_acked());
        let counters = self.server().counters();
        assert_eq!((counters.received_bytes, counters.received_in_order_bytes), (bytes, bytes));
    }

    /// Returns the client's data segments in the order of sending.
    pub fn data(&self) -> impl Iterator<Item = &Left> {
        self.log.iter().filter(|left| left.up && !left.segment.data.is_empty())
    }

    /// Returns the send times of segments with `flags`.
    pub fn flags(&self, up: bool, flags: Flags) -> Vec<Time> {
        let with = |left: &&Left| left.up == up && left.segment.flags.has(flags);
        self.log.iter().filter(with).map(|left| left.at).collect()
    }
}

//! One side of a span whose peer is the test.

use std::collections::VecDeque;

use bundle::layers::ltp::{
    Body, Canceller, Checkpoint, Data, LtpSpec, Mark, Report, Segment, SessionNumber,
};
use bundle::layers::{LayerSpec, Terms};
use bundle::{Refusal, Role, Said, Service, Session, Told, Transfer, Way};
use bytes::Bytes;
use transport::{AppEvent, ReadEnd, Streams};
use units::{Rate, Span, Time};

/// Light one way.
pub const LIGHT: Span = Span::from_secs(100);
/// What the peer may take.
pub const MARGIN: Span = Span::from_secs(2);
pub const RATE: Rate = Rate(8_000_000);
/// Light there and back, and what the peer takes.
pub const ROUND: Span = Span::from_secs(202);
/// How often something leaves that has no answer.
pub const TIMES: usize = 11;

#[derive(Default)]
struct Wire {
    leaving: Vec<Bytes>,
    come: VecDeque<Bytes>,
    closed: bool,
}

impl Streams for Wire {
    fn open(&mut self) -> Option<u64> {
        None
    }
    fn send_datagram(&mut self, data: Bytes) -> bool {
        self.leaving.push(data);
        true
    }
    fn take_datagram(&mut self) -> Option<Bytes> {
        self.come.pop_front()
    }
    fn write(&mut self, _: u64, _: Bytes) -> usize {
        0
    }
    fn read(&mut self, _: u64, _: &mut dyn FnMut(u64, &[u8])) -> ReadEnd {
        ReadEnd::Reset
    }
    fn finish(&mut self, _: u64) {}
    fn reset(&mut self, _: u64) {}
    fn stop(&mut self, _: u64) {}
    fn appetite(&self) -> usize {
        0
    }
    fn close(&mut self) {
        self.closed = true;
    }
}

/// The engine of `ipn:1.0`.
pub struct One {
    session: Box<dyn Session>,
    wire: Wire,
    pub now: Time,
    pub said: Vec<(Time, Said)>,
    /// What has left, and how long each was.
    pub out: Vec<(Time, Segment)>,
    pub longest: usize,
}

/// Seconds after the start.
pub fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

pub fn way(sends: bool, hears: bool) -> Way {
    Way { sends, rate: Some(RATE), hears, there: LIGHT, back: LIGHT }
}

pub fn small() -> LtpSpec {
    LtpSpec { segment_bytes: 1000, ..LtpSpec::default() }
}

impl One {
    pub fn new(spec: &LtpSpec, node: &str) -> One {
        One::with(spec, node, Terms::default())
    }

    pub fn with(spec: &LtpSpec, node: &str, terms: Terms) -> One {
        let session = LayerSpec::Ltp(spec.clone()).session_with(Role::Active, node, terms);
        let mut one = One {
            session,
            wire: Wire::default(),
            now: Time::ZERO,
            said: Vec::new(),
            out: Vec::new(),
            longest: 0,
        };
        one.on(AppEvent::Ready);
        one.tell(Told::Way(way(true, true)));
        one
    }

    fn collect(&mut self, said: Vec<Said>) {
        self.said.extend(said.into_iter().map(|one| (self.now, one)));
        for data in self.wire.leaving.drain(..) {
            self.longest = self.longest.max(data.len());
            self.out.push((self.now, Segment::decode(&data).expect("a segment")));
        }
    }

    fn on(&mut self, event: AppEvent) {
        let mut said = Vec::new();
        self.session.on(self.now, event, &mut self.wire, &mut said);
        self.collect(said);
    }

    pub fn tell(&mut self, told: Told) {
        let mut said = Vec::new();
        self.session.hear(self.now, told, &mut self.wire, &mut said);
        self.collect(said);
    }

    pub fn send(&mut self, id: u64, length: usize) {
        self.send_as(id, length, Service::Reliable);
    }

    pub fn send_as(&mut self, id: u64, length: usize, service: Service) {
        let whole = block(length);
        let data = vec![whole.slice(..length / 3), whole.slice(length / 3..)];
        self.tell(Told::Send(Transfer { id, data, service, priority: 1 }));
    }

    /// A segment of the peer's comes.
    pub fn hear(&mut self, session: SessionNumber, body: Body) {
        self.wire.come.push_back(Segment { session, body }.encode().into());
        self.on(AppEvent::Datagrams);
    }

    pub fn wake_at(&self) -> Time {
        self.session.wake_at()
    }

    /// Lets it do what is due until then.
    pub fn until(&mut self, end: Time) {
        for _ in 0..1_000_000 {
            let next = self.session.wake_at();
            if next > end {
                self.now = end;
                return;
            }
            assert!(next >= self.now || next == Time::ZERO, "it wakes in the past");
            self.now = next.max(self.now);
            self.on(AppEvent::Timer);
        }
        panic!("it wakes and wakes");
    }

    /// The same, each time so much later than it asks to be woken.
    pub fn late(&mut self, end: Time, late: Span) {
        while self.session.wake_at() <= end {
            self.now = self.now.max(self.session.wake_at()) + late;
            self.on(AppEvent::Timer);
        }
    }

    /// A second on, in which some hundred segments leave.
    pub fn second(&mut self) {
        self.until(self.now + Span::from_secs(1));
    }

    /// Whether the session is over.
    pub fn over(&self) -> bool {
        self.wire.closed
    }

    /// What has left since the last call.
    pub fn left(&mut self) -> Vec<Segment> {
        std::mem::take(&mut self.out).into_iter().map(|one| one.1).collect()
    }

    pub fn bodies(&mut self) -> Vec<Body> {
        self.left().into_iter().map(|one| one.body).collect()
    }

    pub fn accepted(&self) -> Vec<(u64, bool)> {
        let of = |(_, said): &(Time, Said)| match said {
            Said::Accepted { id, durable } => Some((*id, *durable)),
            _ => None,
        };
        self.said.iter().filter_map(of).collect()
    }

    pub fn refused(&self) -> Vec<(u64, Refusal)> {
        let of = |(_, said): &(Time, Said)| match said {
            Said::Refused { id, why } => Some((*id, *why)),
            _ => None,
        };
        self.said.iter().filter_map(of).collect()
    }

    /// Bundles that came: when, their numbers, bytes and service.
    pub fn received(&self) -> Vec<(Time, u64, Vec<u8>, Service)> {
        let of = |(at, said): &(Time, Said)| match said {
            Said::Received { id, data, service } => Some((*at, *id, data.concat(), *service)),
            _ => None,
        };
        self.said.iter().filter_map(of).collect()
    }
}

pub fn block(length: usize) -> Bytes {
    (0..length).map(|at| (at * 31 % 251) as u8).collect::<Vec<u8>>().into()
}

/// Data of [`block`]: from, to, what it marks, and a checkpoint's numbers.
pub fn data(from: usize, to: usize, mark: Mark, checkpoint: Option<(u64, u64)>) -> Body {
    let checkpoint = checkpoint.map(|(serial, report)| Checkpoint { serial, report });
    let data = block(to).slice(from..);
    Body::Data(Data { mark, service: 1, offset: from as u64, checkpoint, data })
}

pub fn report(
    serial: u64,
    checkpoint: u64,
    (lower, upper): (u64, u64),
    claims: &[(u64, u64)],
) -> Body {
    Body::Report(Report { serial, checkpoint, lower, upper, claims: claims.to_vec() })
}

/// Offset, end and marks of data.
pub fn outline(body: &Body) -> (u64, u64, Mark) {
    match body {
        Body::Data(data) => (data.offset, data.offset + data.data.len() as u64, data.mark),
        other => panic!("no data: {other:?}"),
    }
}

pub fn checkpoint(body: &Body) -> Checkpoint {
    match body {
        Body::Data(Data { checkpoint: Some(checkpoint), .. }) => *checkpoint,
        other => panic!("no checkpoint: {other:?}"),
    }
}

pub fn reports(bodies: &[Body]) -> Vec<Report> {
    let of = |body: &Body| match body {
        Body::Report(report) => Some(report.clone()),
        _ => None,
    };
    bodies.iter().filter_map(of).collect()
}

pub const BY_RECEIVER: Canceller = Canceller::Receiver;
pub const BY_SENDER: Canceller = Canceller::Sender;

//! One side of a span; the test is the peer.

use std::collections::VecDeque;

use bundle::cla::ltp::{
    Canceller, Checkpoint, DataSegment, DataSegmentType, LtpSegment, LtpSessionId, LtpSpec,
    ReportSegment, SegmentBody,
};
use bundle::cla::{ClaSpec, ConnectionParameters};
use bundle::{
    DeliveryMode, LinkState, RefusalReason, Role, Session, SessionCommand, SessionEvent, Transfer,
};
use bytes::Bytes;
use transport::{AppEvent, ReadStatus, Streams};
use units::{Rate, Span, Time};

/// The one-way light time.
pub const LIGHT: Span = Span::from_secs(100);
/// The maximum response time of the peer.
pub const MARGIN: Span = Span::from_secs(2);
pub const RATE: Rate = Rate(8_000_000);
/// The round-trip light time and the response time of the peer.
pub const ROUND: Span = Span::from_secs(202);
/// The transmissions of a segment without a response.
pub const TIMES: usize = 11;

#[derive(Default)]
struct DatagramStub {
    outgoing: Vec<Bytes>,
    incoming: VecDeque<Bytes>,
    closed: bool,
}

impl Streams for DatagramStub {
    fn open(&mut self) -> Option<u64> {
        None
    }
    fn send_datagram(&mut self, data: Bytes) -> bool {
        self.outgoing.push(data);
        true
    }
    fn take_datagram(&mut self) -> Option<Bytes> {
        self.incoming.pop_front()
    }
    fn write(&mut self, _: u64, _: Bytes) -> usize {
        0
    }
    fn read(&mut self, _: u64, _: &mut dyn FnMut(u64, &[u8])) -> ReadStatus {
        ReadStatus::Reset
    }
    fn finish(&mut self, _: u64) {}
    fn reset(&mut self, _: u64) {}
    fn stop(&mut self, _: u64) {}
    fn write_budget(&self) -> usize {
        0
    }
    fn close(&mut self) {
        self.closed = true;
    }
}

/// The engine of `ipn:1.0`.
pub struct TestEngine {
    session: Box<dyn Session>,
    wire: DatagramStub,
    pub now: Time,
    pub events: Vec<(Time, SessionEvent)>,
    /// The sent segments, and the longest datagram.
    pub sent: Vec<(Time, LtpSegment)>,
    pub longest: usize,
}

/// Returns the time `seconds` after the start.
pub fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

pub fn link_state(can_send: bool, can_receive: bool) -> LinkState {
    LinkState { can_send, rate: Some(RATE), can_receive, owlt_out: LIGHT, owlt_in: LIGHT }
}

pub fn small() -> LtpSpec {
    LtpSpec { segment_bytes: 1000, ..LtpSpec::default() }
}

impl TestEngine {
    pub fn new(spec: &LtpSpec, node: &str) -> TestEngine {
        TestEngine::with(spec, node, ConnectionParameters::default())
    }

    pub fn with(spec: &LtpSpec, node: &str, terms: ConnectionParameters) -> TestEngine {
        let session = ClaSpec::Ltp(spec.clone()).build_session_with(Role::Active, node, terms);
        let mut one = TestEngine {
            session,
            wire: DatagramStub::default(),
            now: Time::ZERO,
            events: Vec::new(),
            sent: Vec::new(),
            longest: 0,
        };
        one.on(AppEvent::Ready);
        one.send_command(SessionCommand::LinkState(link_state(true, true)));
        one
    }

    fn collect(&mut self, events: Vec<SessionEvent>) {
        self.events.extend(events.into_iter().map(|one| (self.now, one)));
        for data in self.wire.outgoing.drain(..) {
            self.longest = self.longest.max(data.len());
            self.sent.push((self.now, LtpSegment::decode(&data).expect("a segment")));
        }
    }

    fn on(&mut self, event: AppEvent) {
        let mut events = Vec::new();
        self.session.on_event(self.now, event, &mut self.wire, &mut events);
        self.collect(events);
    }

    pub fn send_command(&mut self, command: SessionCommand) {
        let mut events = Vec::new();
        self.session.on_command(self.now, command, &mut self.wire, &mut events);
        self.collect(events);
    }

    pub fn send(&mut self, id: u64, length: usize) {
        self.send_as(id, length, DeliveryMode::Reliable);
    }

    pub fn send_as(&mut self, id: u64, length: usize, service: DeliveryMode) {
        let whole = block(length);
        let data = vec![whole.slice(..length / 3), whole.slice(length / 3..)];
        self.send_command(SessionCommand::Send(Transfer { id, data, mode: service, priority: 1 }));
    }

    /// Receives a segment of the peer.
    pub fn receive(&mut self, session: LtpSessionId, body: SegmentBody) {
        self.wire.incoming.push_back(LtpSegment { session, body }.encode().into());
        self.on(AppEvent::DatagramsReceived);
    }

    pub fn poll_at(&self) -> Time {
        self.session.poll_at()
    }

    /// Handles all timers until `end`.
    pub fn run_until(&mut self, end: Time) {
        for _ in 0..1_000_000 {
            let next = self.session.poll_at();
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

    /// Handles all timers until `end`, each one `late`.
    pub fn run_late(&mut self, end: Time, late: Span) {
        while self.session.poll_at() <= end {
            self.now = self.now.max(self.session.poll_at()) + late;
            self.on(AppEvent::Timer);
        }
    }

    /// Runs for one second, enough to send some hundred segments.
    pub fn run_one_second(&mut self) {
        self.run_until(self.now + Span::from_secs(1));
    }

    /// Returns whether the session is closed.
    pub fn is_closed(&self) -> bool {
        self.wire.closed
    }

    /// Returns and removes the segments sent since the last call.
    pub fn take_segments(&mut self) -> Vec<LtpSegment> {
        std::mem::take(&mut self.sent).into_iter().map(|one| one.1).collect()
    }

    pub fn bodies(&mut self) -> Vec<SegmentBody> {
        self.take_segments().into_iter().map(|one| one.body).collect()
    }

    pub fn accepted(&self) -> Vec<(u64, bool)> {
        let of = |(_, event): &(Time, SessionEvent)| match event {
            SessionEvent::Acknowledged { id, durable } => Some((*id, *durable)),
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }

    pub fn refused(&self) -> Vec<(u64, RefusalReason)> {
        let of = |(_, event): &(Time, SessionEvent)| match event {
            SessionEvent::Refused { id, reason: why } => Some((*id, *why)),
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }

    /// Returns the received bundles: time, number, bytes and delivery mode.
    pub fn received(&self) -> Vec<(Time, u64, Vec<u8>, DeliveryMode)> {
        let of = |(at, event): &(Time, SessionEvent)| match event {
            SessionEvent::Received { id, data, mode: service } => {
                Some((*at, *id, data.concat(), *service))
            }
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }
}

pub fn block(length: usize) -> Bytes {
    (0..length).map(|at| (at * 31 % 251) as u8).collect::<Vec<u8>>().into()
}

/// Builds a data segment of [`block`]: start, end, type, and the checkpoint numbers.
pub fn data(
    from: usize,
    to: usize,
    mark: DataSegmentType,
    checkpoint: Option<(u64, u64)>,
) -> SegmentBody {
    let checkpoint = checkpoint.map(|(serial, report)| Checkpoint { serial, report });
    let data = block(to).slice(from..);
    SegmentBody::Data(DataSegment {
        segment_type: mark,
        client_service: 1,
        offset: from as u64,
        checkpoint,
        data,
    })
}

pub fn report(
    serial: u64,
    checkpoint: u64,
    (lower, upper): (u64, u64),
    claims: &[(u64, u64)],
) -> SegmentBody {
    SegmentBody::Report(ReportSegment {
        serial,
        checkpoint,
        lower_bound: lower,
        upper_bound: upper,
        claims: claims.to_vec(),
    })
}

/// Returns offset, end and type of a data segment.
pub fn outline(body: &SegmentBody) -> (u64, u64, DataSegmentType) {
    match body {
        SegmentBody::Data(data) => {
            (data.offset, data.offset + data.data.len() as u64, data.segment_type)
        }
        other => panic!("no data: {other:?}"),
    }
}

pub fn checkpoint(body: &SegmentBody) -> Checkpoint {
    match body {
        SegmentBody::Data(DataSegment { checkpoint: Some(checkpoint), .. }) => *checkpoint,
        other => panic!("no checkpoint: {other:?}"),
    }
}

pub fn reports(bodies: &[SegmentBody]) -> Vec<ReportSegment> {
    let of = |body: &SegmentBody| match body {
        SegmentBody::Report(report) => Some(report.clone()),
        _ => None,
    };
    bodies.iter().filter_map(of).collect()
}

pub const BY_RECEIVER: Canceller = Canceller::Receiver;
pub const BY_SENDER: Canceller = Canceller::Sender;

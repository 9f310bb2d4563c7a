//! A host of a flow: one transport, and when it opens its connections.

use cc::CongestionControl;
use transport::load::StreamReport;
use transport::{Asker, Counters, Endpoint, Event, EventKind, Gauges, Node, Payload, Report, quic};
use units::{RandomStream, Span, Time};

/// When a client opens its connections.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// The next.
    pub next: Time,
    /// Mean of the exponential time between two; none: there is one.
    pub mean: Option<Span>,
    /// None comes after it.
    pub until: Time,
    /// Draws the times.
    pub random: RandomStream,
    /// Connections opened at each arrival.
    pub connections: usize,
}

impl Arrivals {
    /// On to the arrival after this one.
    pub fn advance(&mut self) {
        self.next = match self.mean {
            None => Time::MAX,
            Some(mean) => {
                let at = self.next + Span::from_seconds(self.random.exponential(mean.seconds()));
                if at > self.until { Time::MAX } else { at }
            }
        };
    }
}

/// One end, behind which there is one transport.
pub struct Host {
    endpoint: Box<dyn Endpoint>,
    arrivals: Option<Arrivals>,
    /// When it will be refused to begin.
    refused: Option<Time>,
    /// What happened beside its connections.
    events: Vec<Event>,
}

impl Host {
    /// A host that opens connections at `arrivals`; none: it only accepts.
    pub fn new(endpoint: Box<dyn Endpoint>, arrivals: Option<Arrivals>) -> Host {
        Host { endpoint, arrivals, refused: None, events: Vec::new() }
    }

    /// A host that would have begun at `at`, and was refused.
    pub fn refused(endpoint: Box<dyn Endpoint>, at: Time) -> Host {
        Host { endpoint, arrivals: None, refused: Some(at), events: Vec::new() }
    }

    fn arrival(&self) -> Time {
        let arrival = self.arrivals.as_ref().map_or(Time::MAX, |arrivals| arrivals.next);
        self.refused.map_or(arrival, |at| at.min(arrival))
    }
}

impl Node for Host {
    fn receive(&mut self, now: Time, _end: usize, payload: Payload, out: &mut [Vec<Payload>]) {
        self.endpoint.receive(now, payload, &mut out[0]);
    }

    fn is_crowd(&self) -> bool {
        self.endpoint.is_crowd()
    }

    fn expect(&self, _end: usize, payload: &Payload, others: usize) {
        self.endpoint.expect(payload, others);
    }

    fn wake(&mut self, now: Time, out: &mut [Vec<Payload>]) {
        if let Some(time) = self.refused.filter(|at| *at <= now) {
            self.refused = None;
            self.events.push(Event { time, connection: 0, kind: EventKind::Refused, value: 0.0 });
        }
        if let Some(arrivals) = &mut self.arrivals
            && arrivals.next <= now
        {
            arrivals.advance();
            for _ in 0..arrivals.connections {
                // The specification was checked when the endpoint was built.
                let connected = self.endpoint.connect(now, None, &mut out[0]);
                debug_assert!(connected.is_ok(), "{connected:?}");
            }
        }
        self.endpoint.wake(now, &mut out[0]);
    }

    fn wake_at(&mut self) -> Time {
        self.arrival().min(self.endpoint.wake_at())
    }

    fn asker(&mut self) -> (Asker, usize) {
        let (at, asker) = self.endpoint.asker();
        (if at <= self.arrival() { asker } else { Asker::Application }, 0)
    }

    fn opened(&self, _end: usize) -> u32 {
        self.endpoint.opened()
    }

    fn completed(&self, _end: usize) -> u32 {
        self.endpoint.completed()
    }

    fn connected_at(&self, _end: usize) -> Option<Time> {
        self.endpoint.connected_at()
    }

    fn ended_at(&self, _end: usize) -> Option<Time> {
        self.endpoint.ended_at()
    }

    fn counters(&self, _end: usize) -> Counters {
        self.endpoint.counters()
    }

    fn gauges(&self, _end: usize) -> Gauges {
        self.endpoint.gauges()
    }

    fn controller(&self, _end: usize) -> Option<&dyn CongestionControl> {
        self.endpoint.controller()
    }

    fn take_events(&mut self, _end: usize) -> Vec<Event> {
        let mut events = self.endpoint.take_events();
        events.append(&mut self.events);
        events
    }

    fn streams(&self, _end: usize) -> Vec<(u32, StreamReport)> {
        self.endpoint.streams()
    }

    fn tell(&self, report: &mut dyn Report) {
        if let Some(side) = self.endpoint.call() {
            report.call(&side);
        }
    }

    fn quic(&self, _end: usize) -> Option<&quic::Endpoint> {
        self.endpoint.quic()
    }
}

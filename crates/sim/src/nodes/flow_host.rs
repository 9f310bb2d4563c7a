//! A host of a flow: one transport endpoint and the times at which it opens connections.

use cc::CongestionControl;
use transport::perf_load::StreamReport;
use transport::{
    Endpoint, FlowCounters, FlowEvent, FlowEventKind, Node, Payload, Probe, ReportSink,
    SenderGauges, TimerSource, quic,
};
use units::{RandomStream, Span, Time};

/// The times at which a client opens connections.
#[derive(Clone, Debug)]
pub struct ConnectionArrivals {
    /// The next arrival.
    pub next_arrival: Time,
    /// The mean of the exponential interarrival time, or `None` for a single arrival.
    pub mean_interval: Option<Span>,
    /// The end of arrivals.
    pub until: Time,
    /// The random stream of the interarrival times.
    pub random: RandomStream,
    /// Connections opened at each arrival.
    pub connections: usize,
}

impl ConnectionArrivals {
    /// Advances to the next arrival.
    pub fn advance(&mut self) {
        self.next_arrival = match self.mean_interval {
            None => Time::MAX,
            Some(mean_interval) => {
                let at = self.next_arrival
                    + Span::from_seconds(self.random.exponential(mean_interval.seconds()));
                if at > self.until { Time::MAX } else { at }
            }
        };
    }
}

/// A node with one interface and one transport endpoint.
pub struct FlowHost {
    endpoint: Box<dyn Endpoint>,
    arrivals: Option<ConnectionArrivals>,
    /// The time of the refusal that is still pending.
    refused_at: Option<Time>,
    /// Events of the flow outside its connections.
    events: Vec<FlowEvent>,
}

impl FlowHost {
    /// Creates a host that opens connections at `arrivals`. Without arrivals it only accepts.
    pub fn new(endpoint: Box<dyn Endpoint>, arrivals: Option<ConnectionArrivals>) -> FlowHost {
        FlowHost { endpoint, arrivals, refused_at: None, events: Vec::new() }
    }

    /// Creates a host that refuses its call at `at` instead of starting it.
    pub fn new_refused(endpoint: Box<dyn Endpoint>, at: Time) -> FlowHost {
        FlowHost { endpoint, arrivals: None, refused_at: Some(at), events: Vec::new() }
    }

    fn next_arrival_at(&self) -> Time {
        let arrival = self.arrivals.as_ref().map_or(Time::MAX, |arrivals| arrivals.next_arrival);
        self.refused_at.map_or(arrival, |at| at.min(arrival))
    }
}

impl Node for FlowHost {
    fn receive(&mut self, now: Time, _end: usize, payload: Payload, out: &mut [Vec<Payload>]) {
        self.endpoint.receive(now, payload, &mut out[0]);
    }

    fn poll(&mut self, now: Time, out: &mut [Vec<Payload>]) {
        if let Some(time) = self.refused_at.filter(|at| *at <= now) {
            self.refused_at = None;
            self.events.push(FlowEvent {
                time,
                connection: 0,
                kind: FlowEventKind::Refused,
                value: 0.0,
            });
        }
        if let Some(arrivals) = &mut self.arrivals
            && arrivals.next_arrival <= now
        {
            arrivals.advance();
            for _ in 0..arrivals.connections {
                // The endpoint validated the specification when it was built.
                let connected = self.endpoint.connect(now, None, &mut out[0]);
                debug_assert!(connected.is_ok(), "{connected:?}");
            }
        }
        self.endpoint.poll(now, &mut out[0]);
    }

    fn poll_at(&mut self) -> Time {
        self.next_arrival_at().min(self.endpoint.poll_at())
    }

    fn poll_source(&mut self) -> (TimerSource, usize) {
        let (at, asker) = self.endpoint.poll_source();
        (if at <= self.next_arrival_at() { asker } else { TimerSource::Application }, 0)
    }
}

impl Probe for FlowHost {
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

    fn counters(&self, _end: usize) -> FlowCounters {
        self.endpoint.counters()
    }

    fn gauges(&self, _end: usize) -> SenderGauges {
        self.endpoint.gauges()
    }

    fn controller(&self, _end: usize) -> Option<&dyn CongestionControl> {
        self.endpoint.controller()
    }

    fn take_events(&mut self, _end: usize) -> Vec<FlowEvent> {
        let mut events = self.endpoint.take_events();
        events.append(&mut self.events);
        events
    }

    fn stream_reports(&self, _end: usize) -> Vec<(u32, StreamReport)> {
        self.endpoint.stream_reports()
    }

    fn report(&self, report: &mut dyn ReportSink) {
        if let Some(side) = self.endpoint.media_report() {
            report.add_media_report(&side);
        }
    }

    fn quic(&self, _end: usize) -> Option<&quic::QuicEndpoint> {
        self.endpoint.quic()
    }
}

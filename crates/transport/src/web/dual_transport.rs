//! QUIC and TCP side by side behind one endpoint.

use cc::CongestionControl;
use units::Time;

use super::WebSpec;
use crate::perf_load::StreamReport;
use crate::{
    AppCommand, AppNotification, Endpoint, FlowCounters, FlowEvent, Payload, SenderGauges,
    TimerSource, quic::QuicEndpoint,
};

/// The transports of a flow that loads pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transports {
    quic: bool,
    tcp: bool,
}

impl Transports {
    pub fn from_spec(spec: &WebSpec) -> Transports {
        Transports { quic: spec.uses_quic(), tcp: spec.uses_tcp() }
    }

    /// Returns the number in reports of connection `number` of its transport. With one transport the numbers are equal;
    /// with two, QUIC has the even and TCP the odd numbers.
    pub fn report_number(self, quic: bool, number: u32) -> u32 {
        if self.quic && self.tcp { 2 * number + u32::from(!quic) } else { number }
    }

    /// Returns whether the connection with this number in reports uses QUIC, and its number there.
    fn resolve(self, number: u32) -> (bool, u32) {
        if self.quic && self.tcp {
            (number.is_multiple_of(2), number / 2)
        } else {
            (self.quic, number)
        }
    }
}

/// Both transports of one side; at least one is present.
pub(super) struct DualTransport {
    pub transports: Transports,
    pub quic: Option<QuicEndpoint>,
    pub tcp: Option<Box<dyn Endpoint>>,
    /// QUIC opened or accepted the newest connection.
    pub quic_is_newest: bool,
}

impl DualTransport {
    pub fn new(
        transports: Transports,
        quic: Option<QuicEndpoint>,
        tcp: Option<Box<dyn Endpoint>>,
    ) -> DualTransport {
        DualTransport { transports, quic_is_newest: quic.is_some(), quic, tcp }
    }

    fn endpoints(&self) -> impl Iterator<Item = (bool, &dyn Endpoint)> {
        let quic = self.quic.iter().map(|quic| (true, quic as &dyn Endpoint));
        quic.chain(self.tcp.iter().map(|tcp| (false, tcp.as_ref() as &dyn Endpoint)))
    }

    fn newest(&self) -> Option<&dyn Endpoint> {
        let quic = self.quic.as_ref().map(|quic| quic as &dyn Endpoint);
        let tcp = self.tcp.as_deref().map(|tcp| tcp as &dyn Endpoint);
        if self.quic_is_newest { quic.or(tcp) } else { tcp.or(quic) }
    }

    pub fn receive(&mut self, now: Time, payload: Payload, out: &mut Vec<Payload>) {
        let is_quic = matches!(payload, Payload::Datagram(_));
        let before = self.opened();
        match (&mut self.quic, &mut self.tcp) {
            (Some(quic), _) if is_quic => quic.receive(now, payload, out),
            (_, Some(tcp)) if !is_quic => tcp.receive(now, payload, out),
            _ => {}
        }
        if self.opened() > before {
            self.quic_is_newest = is_quic;
        }
    }

    pub fn poll(&mut self, now: Time, out: &mut Vec<Payload>) {
        if let Some(quic) = &mut self.quic {
            quic.poll(now, out);
        }
        if let Some(tcp) = &mut self.tcp {
            tcp.poll(now, out);
        }
    }

    /// Sends a command to the application of the connection with this number in reports.
    pub fn send_command(&mut self, number: u32, command: AppCommand) {
        let (is_quic, number) = self.transports.resolve(number);
        match (&mut self.quic, &mut self.tcp) {
            (Some(quic), _) if is_quic => quic.send_command(number, command),
            (_, Some(tcp)) if !is_quic => tcp.send_command(number, command),
            _ => {}
        }
    }

    /// Appends the notifications of applications since the last call, with the numbers in reports.
    pub fn take_notifications(&mut self, into: &mut Vec<(u32, AppNotification)>) {
        let quic = self.quic.as_mut().map(|quic| (true, quic as &mut dyn Endpoint));
        let tcp = self.tcp.as_mut().map(|tcp| (false, tcp.as_mut() as &mut dyn Endpoint));
        for (is_quic, endpoint) in quic.into_iter().chain(tcp) {
            let before = into.len();
            endpoint.take_notifications(into);
            for (connection, _) in &mut into[before..] {
                *connection = self.transports.report_number(is_quic, *connection);
            }
        }
    }

    pub fn poll_at(&mut self) -> Time {
        let quic = self.quic.as_mut().map_or(Time::MAX, Endpoint::poll_at);
        let tcp = self.tcp.as_mut().map_or(Time::MAX, |tcp| tcp.poll_at());
        quic.min(tcp)
    }

    pub fn poll_source(&mut self) -> (Time, TimerSource) {
        let quic = self.quic.as_mut().map(Endpoint::poll_source);
        let tcp = self.tcp.as_mut().map(|tcp| tcp.poll_source());
        quic.into_iter().chain(tcp).min().unwrap_or((Time::MAX, TimerSource::Transport))
    }

    pub fn counters(&self) -> FlowCounters {
        let mut counters = FlowCounters::default();
        for (_, endpoint) in self.endpoints() {
            counters.add(&endpoint.counters());
        }
        counters
    }

    pub fn gauges(&self) -> SenderGauges {
        self.newest().map(Endpoint::gauges).unwrap_or_default()
    }

    pub fn controller(&self) -> Option<&dyn CongestionControl> {
        self.newest().and_then(Endpoint::controller)
    }

    pub fn take_events(&mut self) -> Vec<FlowEvent> {
        let transports = self.transports;
        let mut events = Vec::new();
        let named = |quic: bool| {
            move |event: FlowEvent| FlowEvent {
                connection: transports.report_number(quic, event.connection),
                ..event
            }
        };
        if let Some(quic) = &mut self.quic {
            events.extend(quic.take_events().into_iter().map(named(true)));
        }
        if let Some(tcp) = &mut self.tcp {
            events.extend(tcp.take_events().into_iter().map(named(false)));
        }
        events.sort_by_key(|event| event.time);
        events
    }

    pub fn opened(&self) -> u32 {
        self.endpoints().map(|(_, endpoint)| endpoint.opened()).sum()
    }

    pub fn completed(&self) -> u32 {
        self.endpoints().map(|(_, endpoint)| endpoint.completed()).sum()
    }

    pub fn connected_at(&self) -> Option<Time> {
        self.endpoints().filter_map(|(_, endpoint)| endpoint.connected_at()).min()
    }

    pub fn ended_at(&self) -> Option<Time> {
        self.endpoints().filter_map(|(_, endpoint)| endpoint.ended_at()).max()
    }

    pub fn stream_reports(&self) -> Vec<(u32, StreamReport)> {
        let mut streams = Vec::new();
        for (quic, endpoint) in self.endpoints() {
            let reports = endpoint.stream_reports().into_iter();
            streams.extend(
                reports.map(|(index, stream)| (self.transports.report_number(quic, index), stream)),
            );
        }
        streams.sort_by_key(|(index, stream)| (*index, stream.id));
        streams
    }
}

//! QUIC and TCP side by side behind one endpoint.

use cc::CongestionControl;
use units::Time;

use super::WebSpec;
use crate::load::StreamReport;
use crate::{Asker, Counters, Endpoint, Event, Gauges, Notice, Order, Payload, quic};

/// The transports of a flow that loads pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transports {
    quic: bool,
    tcp: bool,
}

impl Transports {
    pub fn of(spec: &WebSpec) -> Transports {
        Transports { quic: spec.uses_quic(), tcp: spec.uses_tcp() }
    }

    /// Number, in reports, of connection `number` of its transport: the same where there is but one
    /// transport; where there are two QUIC has the even numbers and TCP the odd ones.
    pub fn number(self, quic: bool, number: u32) -> u32 {
        if self.quic && self.tcp { 2 * number + u32::from(!quic) } else { number }
    }

    /// The transport of the connection with this number in reports, whether it is QUIC, and its number there.
    fn place(self, number: u32) -> (bool, u32) {
        if self.quic && self.tcp {
            (number.is_multiple_of(2), number / 2)
        } else {
            (self.quic, number)
        }
    }
}

/// Both transports of one side; at least one is there.
pub(super) struct Pair {
    pub transports: Transports,
    pub quic: Option<quic::Endpoint>,
    pub tcp: Option<Box<dyn Endpoint>>,
    /// QUIC opened or accepted the newest connection.
    pub quic_is_newest: bool,
}

impl Pair {
    pub fn new(
        transports: Transports,
        quic: Option<quic::Endpoint>,
        tcp: Option<Box<dyn Endpoint>>,
    ) -> Pair {
        Pair { transports, quic_is_newest: quic.is_some(), quic, tcp }
    }

    fn both(&self) -> impl Iterator<Item = (bool, &dyn Endpoint)> {
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

    pub fn wake(&mut self, now: Time, out: &mut Vec<Payload>) {
        if let Some(quic) = &mut self.quic {
            quic.wake(now, out);
        }
        if let Some(tcp) = &mut self.tcp {
            tcp.wake(now, out);
        }
    }

    /// Says something to the application of the connection with this number in reports.
    pub fn say(&mut self, number: u32, order: Order) {
        let (is_quic, number) = self.transports.place(number);
        match (&mut self.quic, &mut self.tcp) {
            (Some(quic), _) if is_quic => quic.say(number, order),
            (_, Some(tcp)) if !is_quic => tcp.say(number, order),
            _ => {}
        }
    }

    /// Appends what applications have said since the last call, with the numbers of reports.
    pub fn take_said(&mut self, into: &mut Vec<(u32, Notice)>) {
        let quic = self.quic.as_mut().map(|quic| (true, quic as &mut dyn Endpoint));
        let tcp = self.tcp.as_mut().map(|tcp| (false, tcp.as_mut() as &mut dyn Endpoint));
        for (is_quic, endpoint) in quic.into_iter().chain(tcp) {
            let before = into.len();
            endpoint.take_said(into);
            for (connection, _) in &mut into[before..] {
                *connection = self.transports.number(is_quic, *connection);
            }
        }
    }

    pub fn wake_at(&mut self) -> Time {
        let quic = self.quic.as_mut().map_or(Time::MAX, Endpoint::wake_at);
        let tcp = self.tcp.as_mut().map_or(Time::MAX, |tcp| tcp.wake_at());
        quic.min(tcp)
    }

    pub fn asker(&mut self) -> (Time, Asker) {
        let quic = self.quic.as_mut().map(Endpoint::asker);
        let tcp = self.tcp.as_mut().map(|tcp| tcp.asker());
        quic.into_iter().chain(tcp).min().unwrap_or((Time::MAX, Asker::Transport))
    }

    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        for (_, endpoint) in self.both() {
            counters.add(&endpoint.counters());
        }
        counters
    }

    pub fn gauges(&self) -> Gauges {
        self.newest().map(Endpoint::gauges).unwrap_or_default()
    }

    pub fn controller(&self) -> Option<&dyn CongestionControl> {
        self.newest().and_then(Endpoint::controller)
    }

    pub fn take_events(&mut self) -> Vec<Event> {
        let transports = self.transports;
        let mut events = Vec::new();
        let named = |quic: bool| {
            move |event: Event| Event {
                connection: transports.number(quic, event.connection),
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
        self.both().map(|(_, endpoint)| endpoint.opened()).sum()
    }

    pub fn completed(&self) -> u32 {
        self.both().map(|(_, endpoint)| endpoint.completed()).sum()
    }

    pub fn connected_at(&self) -> Option<Time> {
        self.both().filter_map(|(_, endpoint)| endpoint.connected_at()).min()
    }

    pub fn ended_at(&self) -> Option<Time> {
        self.both().filter_map(|(_, endpoint)| endpoint.ended_at()).max()
    }

    pub fn streams(&self) -> Vec<(u32, StreamReport)> {
        let mut streams = Vec::new();
        for (quic, endpoint) in self.both() {
            let of = endpoint.streams().into_iter();
            streams.extend(of.map(|(index, stream)| (self.transports.number(quic, index), stream)));
        }
        streams.sort_by_key(|(index, stream)| (*index, stream.id));
        streams
    }
}

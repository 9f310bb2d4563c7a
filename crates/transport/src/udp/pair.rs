//! A pair of ports between nodes that stay: there is no connection, so either side begins when it has a use for it, or when
//! something comes. What runs on it may end and begin anew, which the other side is not told of.

use cc::CongestionControl;
use units::Time;

use super::{UdpSpec, Wire, received};
use crate::ledger::Ledger;
use crate::load::StreamReport;
use crate::{
    App, AppEvent, Asker, Counters, Event, EventKind, Gauges, MakeApp, Notice, Order, Payload,
    Side, endpoint,
};

/// One side; at any time it has one application or none.
pub struct Pair {
    side: Side,
    header_bytes: u16,
    make_app: MakeApp,
    /// Of the connection that was opened last.
    app: Option<Box<dyn App>>,
    wire: Wire,
    said: Vec<(u32, Notice)>,
    ledger: Ledger,
}

impl Pair {
    /// One side; `make_app` makes the application where something comes to none.
    pub fn new(side: Side, spec: &UdpSpec, make_app: MakeApp) -> Pair {
        Pair {
            side,
            header_bytes: spec.header_bytes,
            make_app,
            app: None,
            wire: Wire::default(),
            said: Vec::new(),
            ledger: Ledger::default(),
        }
    }

    /// Number of the connection that was opened last.
    fn number(&self) -> u32 {
        self.ledger.opened.saturating_sub(1)
    }

    fn note(&mut self, time: Time, kind: EventKind) {
        let connection = self.number();
        self.ledger.events.push(Event { time, connection, kind, value: 0.0 });
    }

    fn begin(&mut self, now: Time, app: Box<dyn App>, out: &mut Vec<Payload>) {
        self.app = Some(app);
        self.ledger.opened += 1;
        if self.side == Side::Client {
            self.note(now, EventKind::Start);
        }
        self.note(now, EventKind::Connected);
        self.tell(now, AppEvent::Ready, out);
    }

    fn tell(&mut self, now: Time, event: AppEvent, out: &mut Vec<Payload>) {
        let Some(app) = &mut self.app else { return };
        app.on(now, event, &mut self.wire);
        let number = self.ledger.opened.saturating_sub(1);
        self.said.extend(self.wire.said.drain(..).map(|notice| (number, notice)));
        self.wire.leave(self.header_bytes, out);
        if std::mem::take(&mut self.wire.closing) {
            self.end(now, EventKind::Closed);
        }
    }

    fn end(&mut self, now: Time, kind: EventKind) {
        let Some(app) = self.app.take() else { return };
        let number = self.number();
        self.ledger.end(number, &received(app.streams()), Gauges::default(), app.streams());
        self.note(now, kind);
    }
}

impl endpoint::Endpoint for Pair {
    fn connect(
        &mut self,
        now: Time,
        app: Option<Box<dyn App>>,
        out: &mut Vec<Payload>,
    ) -> Result<(), String> {
        if self.app.is_some() {
            return Err("it has begun already".to_owned());
        }
        let app = app.unwrap_or_else(|| (self.make_app)(self.ledger.opened));
        self.begin(now, app, out);
        Ok(())
    }

    fn receive(&mut self, now: Time, payload: Payload, out: &mut Vec<Payload>) {
        let Payload::Udp(datagram) = payload else { return };
        if self.app.is_none() {
            let app = (self.make_app)(self.ledger.opened);
            self.begin(now, app, out);
        }
        self.wire.come(datagram);
        self.tell(now, AppEvent::Datagrams, out);
        self.wire.come.clear();
    }

    fn wake(&mut self, now: Time, out: &mut Vec<Payload>) {
        if self.app.as_ref().is_some_and(|app| app.wake_at() <= now) {
            self.tell(now, AppEvent::Timer, out);
        }
    }

    fn stop(&mut self, now: Time) {
        self.end(now, EventKind::Lost);
        self.said.clear();
    }

    fn say(&mut self, connection: u32, order: Order) {
        if connection == self.number()
            && let Some(app) = &mut self.app
        {
            app.hear(order);
        }
    }

    fn take_said(&mut self, into: &mut Vec<(u32, Notice)>) {
        into.append(&mut self.said);
    }

    fn wake_at(&mut self) -> Time {
        self.app.as_ref().map_or(Time::MAX, |app| app.wake_at())
    }

    fn asker(&mut self) -> (Time, Asker) {
        (self.wake_at(), Asker::Application)
    }

    fn counters(&self) -> Counters {
        let mut counters = self.wire.counters;
        counters.add(&self.ledger.counters);
        if let Some(app) = &self.app {
            counters.add(&received(app.streams()));
        }
        counters
    }

    fn gauges(&self) -> Gauges {
        Gauges::default()
    }

    fn controller(&self) -> Option<&dyn CongestionControl> {
        None
    }

    fn take_events(&mut self) -> Vec<Event> {
        self.ledger.take_events()
    }

    fn opened(&self) -> u32 {
        self.ledger.opened
    }

    fn completed(&self) -> u32 {
        self.ledger.completed
    }

    fn connected_at(&self) -> Option<Time> {
        self.ledger.connected_at
    }

    fn ended_at(&self) -> Option<Time> {
        self.ledger.ended_at
    }

    fn streams(&self) -> Vec<(u32, StreamReport)> {
        let live = self.app.iter().map(|app| (self.number(), app.streams()));
        self.ledger.streams(live)
    }
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use units::Ecn;

    use super::*;
    use crate::{Datagram, Endpoint as _, Streams};

    /// Says what it is told, and ends at an empty datagram.
    struct Echo;

    impl App for Echo {
        fn on(&mut self, _: Time, event: AppEvent, streams: &mut dyn Streams) {
            if event == AppEvent::Ready {
                streams.send_datagram(Bytes::from_static(b"ready"));
            }
            while let Some(data) = streams.take_datagram() {
                streams.say(Notice::Attend);
                if data.is_empty() {
                    streams.close();
                }
                streams.send_datagram(data);
            }
        }
        fn wake_at(&self) -> Time {
            Time::MAX
        }
        fn has_data(&self) -> bool {
            false
        }
        fn streams(&self) -> &[StreamReport] {
            &[]
        }
    }

    fn datagram(data: &[u8]) -> Payload {
        Payload::Udp(Datagram::new(BytesMut::from(data), Ecn::NotEct, 0, 28))
    }

    fn texts(out: &mut Vec<Payload>) -> Vec<Vec<u8>> {
        let payload = |one| match one {
            Payload::Udp(datagram) => datagram.payload().into_owned(),
            other => panic!("{other:?}"),
        };
        out.drain(..).map(payload).collect()
    }

    #[test]
    fn what_comes_to_nobody_begins_an_application_and_the_next_one_has_the_next_number() {
        let make: MakeApp = Box::new(|_| Box::new(Echo));
        let mut pair =
            Pair::new(Side::Server, &UdpSpec { header_bytes: 28, payload_bytes: None }, make);
        let (mut out, mut said) = (Vec::new(), Vec::new());
        pair.receive(Time(1), datagram(b"one"), &mut out);
        assert_eq!(texts(&mut out), [&b"ready"[..], b"one"]);
        assert!(pair.connect(Time(2), None, &mut out).is_err());
        pair.receive(Time(2), datagram(b""), &mut out);
        assert_eq!((pair.opened(), pair.ended_at()), (1, None));
        pair.take_events();
        assert_eq!((pair.completed(), pair.ended_at()), (1, Some(Time(2))));
        pair.connect(Time(3), None, &mut out).unwrap();
        pair.receive(Time(4), datagram(b"two"), &mut out);
        pair.take_said(&mut said);
        assert_eq!(said, [(0, Notice::Attend), (0, Notice::Attend), (1, Notice::Attend)]);
        assert_eq!(texts(&mut out), [&b""[..], b"ready", b"two"]);
        pair.stop(Time(5));
        pair.take_events();
        assert_eq!((pair.opened(), pair.completed(), pair.ended_at()), (2, 1, Some(Time(5))));
        assert_eq!(pair.counters().sent_bytes, 5 * 28 + 5 + 3 + 5 + 3);
    }
}

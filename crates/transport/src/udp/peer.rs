//! A pair of ports between permanent nodes. There is no connection: a side starts when it has data, or when a datagram
//! arrives. Its application can end and restart without notice to the other side.

use cc::CongestionControl;
use units::Time;

use super::{UdpSpec, UdpStreams, received_counters};
use crate::endpoint_stats::EndpointStats;
use crate::perf_load::StreamReport;
use crate::{
    App, AppBuilder, AppCommand, AppEvent, AppNotification, FlowCounters, FlowEvent, FlowEventKind,
    Payload, SenderGauges, Side, TimerSource, endpoint,
};

/// One side, with at most one application at a time.
pub struct UdpPeer {
    side: Side,
    header_bytes: u16,
    build_app: AppBuilder,
    /// The application of the connection that was opened last.
    app: Option<Box<dyn App>>,
    streams: UdpStreams,
    notifications: Vec<(u32, AppNotification)>,
    stats: EndpointStats,
}

impl UdpPeer {
    /// Creates one side. `make_app` builds the application if a datagram arrives without one.
    pub fn new(side: Side, spec: &UdpSpec, make_app: AppBuilder) -> UdpPeer {
        UdpPeer {
            side,
            header_bytes: spec.header_bytes,
            build_app: make_app,
            app: None,
            streams: UdpStreams::default(),
            notifications: Vec::new(),
            stats: EndpointStats::default(),
        }
    }

    /// Returns the number of the connection that was opened last.
    fn number(&self) -> u32 {
        self.stats.opened.saturating_sub(1)
    }

    fn record_event(&mut self, time: Time, kind: FlowEventKind) {
        let connection = self.number();
        self.stats.events.push(FlowEvent { time, connection, kind, value: 0.0 });
    }

    fn start_app(&mut self, now: Time, app: Box<dyn App>, out: &mut Vec<Payload>) {
        self.app = Some(app);
        self.stats.opened += 1;
        if self.side == Side::Client {
            self.record_event(now, FlowEventKind::Start);
        }
        self.record_event(now, FlowEventKind::Connected);
        self.dispatch(now, AppEvent::Ready, out);
    }

    fn dispatch(&mut self, now: Time, event: AppEvent, out: &mut Vec<Payload>) {
        let Some(app) = &mut self.app else { return };
        app.on_event(now, event, &mut self.streams);
        let number = self.stats.opened.saturating_sub(1);
        self.notifications.extend(
            self.streams.notifications.drain(..).map(|notification| (number, notification)),
        );
        self.streams.flush(self.header_bytes, out);
        if std::mem::take(&mut self.streams.closing) {
            self.end_app(now, FlowEventKind::Closed);
        }
    }

    fn end_app(&mut self, now: Time, kind: FlowEventKind) {
        let Some(app) = self.app.take() else { return };
        let number = self.number();
        self.stats.on_connection_closed(
            number,
            &received_counters(app.stream_reports()),
            SenderGauges::default(),
            app.stream_reports(),
        );
        self.record_event(now, kind);
    }
}

impl endpoint::Endpoint for UdpPeer {
    fn connect(
        &mut self,
        now: Time,
        app: Option<Box<dyn App>>,
        out: &mut Vec<Payload>,
    ) -> Result<(), String> {
        if self.app.is_some() {
            return Err("it has already begun".to_owned());
        }
        let app = app.unwrap_or_else(|| (self.build_app)(self.stats.opened));
        self.start_app(now, app, out);
        Ok(())
    }

    fn receive(&mut self, now: Time, payload: Payload, out: &mut Vec<Payload>) {
        let Payload::Udp(datagram) = payload else { return };
        if self.app.is_none() {
            let app = (self.build_app)(self.stats.opened);
            self.start_app(now, app, out);
        }
        self.streams.receive(datagram);
        self.dispatch(now, AppEvent::DatagramsReceived, out);
        self.streams.incoming.clear();
    }

    fn poll(&mut self, now: Time, out: &mut Vec<Payload>) {
        if self.app.as_ref().is_some_and(|app| app.poll_at() <= now) {
            self.dispatch(now, AppEvent::Timer, out);
        }
    }

    fn crash(&mut self, now: Time) {
        self.end_app(now, FlowEventKind::Lost);
        self.notifications.clear();
    }

    fn send_command(&mut self, connection: u32, command: AppCommand) {
        if connection == self.number()
            && let Some(app) = &mut self.app
        {
            app.on_command(command);
        }
    }

    fn take_notifications(&mut self, into: &mut Vec<(u32, AppNotification)>) {
        into.append(&mut self.notifications);
    }

    fn poll_at(&mut self) -> Time {
        self.app.as_ref().map_or(Time::MAX, |app| app.poll_at())
    }

    fn poll_source(&mut self) -> (Time, TimerSource) {
        (self.poll_at(), TimerSource::Application)
    }

    fn counters(&self) -> FlowCounters {
        let mut counters = self.streams.counters;
        counters.add(&self.stats.counters);
        if let Some(app) = &self.app {
            counters.add(&received_counters(app.stream_reports()));
        }
        counters
    }

    fn gauges(&self) -> SenderGauges {
        SenderGauges::default()
    }

    fn controller(&self) -> Option<&dyn CongestionControl> {
        None
    }

    fn take_events(&mut self) -> Vec<FlowEvent> {
        self.stats.take_events()
    }

    fn opened(&self) -> u32 {
        self.stats.opened
    }

    fn completed(&self) -> u32 {
        self.stats.completed
    }

    fn connected_at(&self) -> Option<Time> {
        self.stats.connected_at
    }

    fn ended_at(&self) -> Option<Time> {
        self.stats.ended_at
    }

    fn stream_reports(&self) -> Vec<(u32, StreamReport)> {
        let live = self.app.iter().map(|app| (self.number(), app.stream_reports()));
        self.stats.stream_reports(live)
    }
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use units::Ecn;

    use super::*;
    use crate::{Datagram, Endpoint as _, Streams};

    /// Echoes datagrams, and closes at an empty one.
    struct Echo;

    impl App for Echo {
        fn on_event(&mut self, _: Time, event: AppEvent, streams: &mut dyn Streams) {
            if event == AppEvent::Ready {
                streams.send_datagram(Bytes::from_static(b"ready"));
            }
            while let Some(data) = streams.take_datagram() {
                streams.notify(AppNotification::CheckMailbox);
                if data.is_empty() {
                    streams.close();
                }
                streams.send_datagram(data);
            }
        }
        fn poll_at(&self) -> Time {
            Time::MAX
        }
        fn has_data(&self) -> bool {
            false
        }
        fn stream_reports(&self) -> &[StreamReport] {
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
    fn a_datagram_without_an_application_starts_the_next_one() {
        let make: AppBuilder = Box::new(|_| Box::new(Echo));
        let mut pair =
            UdpPeer::new(Side::Server, &UdpSpec { header_bytes: 28, payload_bytes: None }, make);
        let (mut out, mut notifications) = (Vec::new(), Vec::new());
        pair.receive(Time(1), datagram(b"one"), &mut out);
        assert_eq!(texts(&mut out), [&b"ready"[..], b"one"]);
        assert!(pair.connect(Time(2), None, &mut out).is_err());
        pair.receive(Time(2), datagram(b""), &mut out);
        assert_eq!((pair.opened(), pair.ended_at()), (1, None));
        pair.take_events();
        assert_eq!((pair.completed(), pair.ended_at()), (1, Some(Time(2))));
        pair.connect(Time(3), None, &mut out).unwrap();
        pair.receive(Time(4), datagram(b"two"), &mut out);
        pair.take_notifications(&mut notifications);
        assert_eq!(
            notifications,
            [
                (0, AppNotification::CheckMailbox),
                (0, AppNotification::CheckMailbox),
                (1, AppNotification::CheckMailbox)
            ]
        );
        assert_eq!(texts(&mut out), [&b""[..], b"ready", b"two"]);
        pair.crash(Time(5));
        pair.take_events();
        assert_eq!((pair.opened(), pair.completed(), pair.ended_at()), (2, 1, Some(Time(5))));
        assert_eq!(pair.counters().sent_bytes, 5 * 28 + 5 + 3 + 5 + 3);
    }
}

//! The client's side of a flow that loads pages: a browser over QUIC, TCP, or both.

use std::sync::Arc;

use cc::CongestionControl;
use units::Time;

use super::browser::Browser;
use super::connect_request::{ConnectRequest, Protocol};
use super::dual_transport::{DualTransport, Transports};
use super::{
    PageSpec, QuicEndpointBuilder, TcpEndpointBuilder, TlsSpec, WebSpec, check, http1, http2, http3,
};
use crate::perf_load::StreamReport;
use crate::tls::TlsApp;
use crate::{
    App, AppBuilder, AppCommand, AppNotification, FlowCounters, FlowEvent, Node, Payload, Probe,
    ReportSink, SenderGauges, TimerSource, quic::QuicEndpoint,
};

/// A browser and its connections. The client passes messages between them.
pub struct Client {
    /// Time of the start; [`Time::MAX`] afterwards.
    start: Time,
    transport: DualTransport,
    browser: Browser,
    page: Arc<PageSpec>,
    tls: TlsSpec,
    /// Notifications of connections that the browser has not processed.
    notifications: Vec<(u32, AppNotification)>,
}

impl Client {
    /// Creates a client named `name`, which keys its random streams, that starts at `start`. `quic` and `tcp` build the
    /// transports that the page's versions of HTTP need.
    ///
    /// # Errors
    /// The error of `spec` or a transport, in words.
    pub fn new(
        spec: &WebSpec,
        start: Time,
        seed: u64,
        name: &str,
        quic: QuicEndpointBuilder<'_>,
        tcp: TcpEndpointBuilder<'_>,
    ) -> Result<Client, String> {
        check(spec)?;
        let page = Arc::new(spec.page.clone());
        let none = || -> AppBuilder { Box::new(|_| unreachable!("`dial` brings the application")) };
        let quic = spec.uses_quic().then(|| quic(none())).transpose()?;
        let tcp = spec.uses_tcp().then(|| tcp(none())).transpose()?;
        let browser = Browser::new(spec, page.clone(), seed, name);
        let pair = DualTransport::new(Transports::from_spec(spec), quic, tcp);
        Ok(Client {
            start,
            transport: pair,
            browser,
            page,
            tls: spec.tls,
            notifications: Vec::new(),
        })
    }

    /// Opens a connection. Its application has the `commands` at its start, so they can go as early data.
    fn connect(
        &mut self,
        now: Time,
        request: ConnectRequest,
        commands: impl Iterator<Item = AppCommand>,
        out: &mut Vec<Payload>,
    ) -> Result<(), String> {
        let (tls, page) = (self.tls, self.page.clone());
        let mut app: Box<dyn App> = match request.protocol {
            Protocol::Plain => Box::new(TlsApp::plain(tls, Box::new(http1::Client::new(page)))),
            Protocol::Http1 => {
                Box::new(TlsApp::client(tls, request, Box::new(http1::Client::new(page))))
            }
            Protocol::Http2 => {
                Box::new(TlsApp::client(tls, request, Box::new(http2::Client::new(page))))
            }
            Protocol::Http3 => Box::new(http3::Client::new(page, request.opened_at)),
        };
        commands.for_each(|command| app.on_command(command));
        self.transport.quic_is_newest = request.protocol == Protocol::Http3;
        match (&mut self.transport.quic, &mut self.transport.tcp) {
            (Some(quic), _) if request.protocol == Protocol::Http3 => {
                // A session belongs to a host and a profile. All names have one length, so that sizes repeat.
                let name =
                    format!("h{:03}-{:04}.example", request.host % 1000, request.profile % 10_000);
                quic.connect_to(now, &name, Some(app), out)
            }
            (_, Some(tcp)) => tcp.connect(now, Some(app), out),
            _ => Ok(()),
        }
    }

    /// Runs browser and connections until no messages are pending.
    fn run_until_idle(&mut self, now: Time, out: &mut Vec<Payload>) {
        self.transport.take_notifications(&mut self.notifications);
        loop {
            for (number, notification) in self.notifications.drain(..) {
                self.browser.on_notification(number, now, notification);
            }
            let requests = self.browser.poll(now);
            let mut commands = self.browser.take_commands();
            let has_commands = !commands.is_empty();
            for request in requests {
                let first_commands =
                    commands.extract_if(.., |(number, _)| *number == request.number);
                let connected =
                    self.connect(now, request, first_commands.map(|(_, order)| order), out);
                debug_assert!(connected.is_ok(), "{connected:?}");
            }
            if has_commands {
                commands
                    .into_iter()
                    .for_each(|(number, order)| self.transport.send_command(number, order));
                self.transport.poll(now, out);
            }
            self.transport.take_notifications(&mut self.notifications);
            if self.notifications.is_empty() && self.browser.poll_at() > now {
                return;
            }
        }
    }
}

impl Node for Client {
    fn receive(
        &mut self,
        now: Time,
        _interface: usize,
        payload: Payload,
        out: &mut [Vec<Payload>],
    ) {
        self.transport.receive(now, payload, &mut out[0]);
        self.run_until_idle(now, &mut out[0]);
    }

    fn poll(&mut self, now: Time, out: &mut [Vec<Payload>]) {
        if self.start <= now {
            self.start = Time::MAX;
            self.browser.start(now);
            self.run_until_idle(now, &mut out[0]);
        }
        self.transport.poll(now, &mut out[0]);
        self.run_until_idle(now, &mut out[0]);
    }

    fn poll_at(&mut self) -> Time {
        self.start.min(self.transport.poll_at()).min(self.browser.poll_at())
    }

    fn poll_source(&mut self) -> (TimerSource, usize) {
        let deadline = self.start.min(self.browser.poll_at());
        (self.transport.poll_source().min((deadline, TimerSource::Application)).1, 0)
    }
}

impl Probe for Client {
    fn opened(&self, _interface: usize) -> u32 {
        self.transport.opened()
    }

    fn completed(&self, _interface: usize) -> u32 {
        self.transport.completed()
    }

    fn connected_at(&self, _interface: usize) -> Option<Time> {
        self.transport.connected_at()
    }

    fn ended_at(&self, _interface: usize) -> Option<Time> {
        self.transport.ended_at()
    }

    fn counters(&self, _interface: usize) -> FlowCounters {
        self.transport.counters()
    }

    fn gauges(&self, _interface: usize) -> SenderGauges {
        self.transport.gauges()
    }

    fn controller(&self, _interface: usize) -> Option<&dyn CongestionControl> {
        self.transport.controller()
    }

    fn take_events(&mut self, _interface: usize) -> Vec<FlowEvent> {
        self.transport.take_events()
    }

    fn stream_reports(&self, _interface: usize) -> Vec<(u32, StreamReport)> {
        self.transport.stream_reports()
    }

    fn quic(&self, _interface: usize) -> Option<&QuicEndpoint> {
        self.transport.quic.as_ref()
    }

    fn report(&self, sink: &mut dyn ReportSink) {
        self.browser.loads.iter().for_each(|load| sink.add_load_report(load));
        self.browser.requests.iter().for_each(|request| sink.add_request_report(request));
    }
}

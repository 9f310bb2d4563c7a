//! The server's side: all hosts of a page.

use std::sync::Arc;

use cc::CongestionControl;
use units::Time;

use super::dual_transport::{DualTransport, Transports};
use super::{
    HttpVersionPolicy, QuicEndpointBuilder, TcpEndpointBuilder, WebSpec, check, http1, http2, http3,
};
use crate::perf_load::StreamReport;
use crate::tls::TlsApp;
use crate::{
    App, Endpoint, FlowCounters, FlowEvent, Payload, SenderGauges, TimerSource, quic::QuicEndpoint,
};

/// The servers of a page.
pub struct Server {
    transport: DualTransport,
    /// The server drops UDP datagrams, as a firewall would.
    udp_blocked: bool,
}

impl Server {
    /// Creates a server for `spec`; `quic` and `tcp` build the transports.
    ///
    /// # Errors
    /// The error of `spec` or a transport, in words.
    pub fn new(
        spec: &WebSpec,
        quic: QuicEndpointBuilder<'_>,
        tcp: TcpEndpointBuilder<'_>,
    ) -> Result<Server, String> {
        check(spec)?;
        let page = Arc::new(spec.page.clone());
        let over_quic = {
            let page = page.clone();
            move |_| -> Box<dyn App> { Box::new(http3::Server::new(page.clone())) }
        };
        let (tls, http) = (spec.tls, spec.http);
        let over_tcp = move |_| -> Box<dyn App> {
            let plain = Box::new(http1::Server::new(page.clone()));
            let page = page.clone();
            match http {
                HttpVersionPolicy::Http1 => {
                    Box::new(TlsApp::server(tls, Box::new(http1::Server::new(page)), plain))
                }
                _ => Box::new(TlsApp::server(tls, Box::new(http2::Server::new(page)), plain)),
            }
        };
        let quic = spec.uses_quic().then(|| quic(Box::new(over_quic))).transpose()?;
        let tcp = spec.uses_tcp().then(|| tcp(Box::new(over_tcp))).transpose()?;
        let pair = DualTransport::new(Transports::from_spec(spec), quic, tcp);
        Ok(Server { transport: pair, udp_blocked: spec.udp_blocked })
    }
}

impl Endpoint for Server {
    fn connect(
        &mut self,
        _now: Time,
        _app: Option<Box<dyn App>>,
        _out: &mut Vec<Payload>,
    ) -> Result<(), String> {
        Err("a server does not connect".to_owned())
    }

    fn receive(&mut self, now: Time, payload: Payload, out: &mut Vec<Payload>) {
        if self.udp_blocked && matches!(payload, Payload::Datagram(_)) {
            return;
        }
        self.transport.receive(now, payload, out);
    }

    fn poll(&mut self, now: Time, out: &mut Vec<Payload>) {
        self.transport.poll(now, out);
    }

    fn poll_at(&mut self) -> Time {
        self.transport.poll_at()
    }

    fn poll_source(&mut self) -> (Time, TimerSource) {
        self.transport.poll_source()
    }

    fn counters(&self) -> FlowCounters {
        self.transport.counters()
    }

    fn gauges(&self) -> SenderGauges {
        self.transport.gauges()
    }

    fn controller(&self) -> Option<&dyn CongestionControl> {
        self.transport.controller()
    }

    fn take_events(&mut self) -> Vec<FlowEvent> {
        self.transport.take_events()
    }

    fn opened(&self) -> u32 {
        self.transport.opened()
    }

    fn completed(&self) -> u32 {
        self.transport.completed()
    }

    fn connected_at(&self) -> Option<Time> {
        self.transport.connected_at()
    }

    fn ended_at(&self) -> Option<Time> {
        self.transport.ended_at()
    }

    fn stream_reports(&self) -> Vec<(u32, StreamReport)> {
        self.transport.stream_reports()
    }

    fn quic(&self) -> Option<&QuicEndpoint> {
        self.transport.quic.as_ref()
    }
}

//! The server's side: all hosts of a page.

use std::sync::Arc;

use cc::CongestionControl;
use units::Time;

use super::pair::{Pair, Transports};
use super::tls::TlsApp;
use super::{Http, MakeQuic, MakeTcp, WebSpec, check, http1, http2, http3};
use crate::load::StreamReport;
use crate::{App, Asker, Counters, Endpoint, Event, Gauges, Payload, quic};

/// The servers of a page.
pub struct Server {
    pair: Pair,
    /// Datagrams are dropped, as by a firewall in front of the server.
    udp_blocked: bool,
}

impl Server {
    /// A server for `spec`; the transports are built by `quic` and `tcp`.
    ///
    /// # Errors
    /// What is wrong with `spec` or a transport, in words.
    pub fn new(spec: &WebSpec, quic: MakeQuic<'_>, tcp: MakeTcp<'_>) -> Result<Server, String> {
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
                Http::Http1 => {
                    Box::new(TlsApp::server(tls, Box::new(http1::Server::new(page)), plain))
                }
                _ => Box::new(TlsApp::server(tls, Box::new(http2::Server::new(page)), plain)),
            }
        };
        let quic = spec.uses_quic().then(|| quic(Box::new(over_quic))).transpose()?;
        let tcp = spec.uses_tcp().then(|| tcp(Box::new(over_tcp))).transpose()?;
        let pair = Pair::new(Transports::of(spec), quic, tcp);
        Ok(Server { pair, udp_blocked: spec.udp_blocked })
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
        self.pair.receive(now, payload, out);
    }

    fn wake(&mut self, now: Time, out: &mut Vec<Payload>) {
        self.pair.wake(now, out);
    }

    fn wake_at(&mut self) -> Time {
        self.pair.wake_at()
    }

    fn asker(&mut self) -> (Time, Asker) {
        self.pair.asker()
    }

    fn counters(&self) -> Counters {
        self.pair.counters()
    }

    fn gauges(&self) -> Gauges {
        self.pair.gauges()
    }

    fn controller(&self) -> Option<&dyn CongestionControl> {
        self.pair.controller()
    }

    fn take_events(&mut self) -> Vec<Event> {
        self.pair.take_events()
    }

    fn opened(&self) -> u32 {
        self.pair.opened()
    }

    fn completed(&self) -> u32 {
        self.pair.completed()
    }

    fn connected_at(&self) -> Option<Time> {
        self.pair.connected_at()
    }

    fn ended_at(&self) -> Option<Time> {
        self.pair.ended_at()
    }

    fn streams(&self) -> Vec<(u32, StreamReport)> {
        self.pair.streams()
    }

    fn quic(&self) -> Option<&quic::Endpoint> {
        self.pair.quic.as_ref()
    }
}

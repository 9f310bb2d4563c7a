//! The client's side of a flow that loads pages: a browser over QUIC, TCP, or both.

use std::sync::Arc;

use cc::CongestionControl;
use units::Time;

use super::browser::Browser;
use super::dial::{Dial, Protocol};
use super::pair::{Pair, Transports};
use super::tls::TlsApp;
use super::{MakeQuic, MakeTcp, PageSpec, Tls, WebSpec, check, http1, http2, http3};
use crate::load::StreamReport;
use crate::{
    App, Asker, Counters, Event, Gauges, MakeApp, Node, Notice, Order, Payload, Report, quic,
};

/// A browser and its connections: it hands on what they tell each other.
pub struct Client {
    /// When it begins; never again once it has.
    start: Time,
    pair: Pair,
    browser: Browser,
    page: Arc<PageSpec>,
    tls: Tls,
    /// What connections have said and the browser has not heard.
    said: Vec<(u32, Notice)>,
}

impl Client {
    /// A client called `name`, which keys its random streams, and begins at `start`. The transports are built by `quic` and
    /// `tcp`, as far as the page's versions of HTTP need them.
    ///
    /// # Errors
    /// What is wrong with `spec` or a transport, in words.
    pub fn new(
        spec: &WebSpec,
        start: Time,
        seed: u64,
        name: &str,
        quic: MakeQuic<'_>,
        tcp: MakeTcp<'_>,
    ) -> Result<Client, String> {
        check(spec)?;
        let page = Arc::new(spec.page.clone());
        let none = || -> MakeApp { Box::new(|_| unreachable!("`dial` brings the application")) };
        let quic = spec.uses_quic().then(|| quic(none())).transpose()?;
        let tcp = spec.uses_tcp().then(|| tcp(none())).transpose()?;
        let browser = Browser::new(spec, page.clone(), seed, name);
        let pair = Pair::new(Transports::of(spec), quic, tcp);
        Ok(Client { start, pair, browser, page, tls: spec.tls, said: Vec::new() })
    }

    /// Opens a connection, whose application has heard `orders` when it begins: they may go as early data.
    fn dial(
        &mut self,
        now: Time,
        dial: Dial,
        orders: impl Iterator<Item = Order>,
        out: &mut Vec<Payload>,
    ) -> Result<(), String> {
        let (tls, page) = (self.tls, self.page.clone());
        let mut app: Box<dyn App> = match dial.protocol {
            Protocol::Plain => Box::new(TlsApp::plain(tls, Box::new(http1::Client::new(page)))),
            Protocol::Http1 => {
                Box::new(TlsApp::client(tls, dial, Box::new(http1::Client::new(page))))
            }
            Protocol::Http2 => {
                Box::new(TlsApp::client(tls, dial, Box::new(http2::Client::new(page))))
            }
            Protocol::Http3 => Box::new(http3::Client::new(page, dial.at)),
        };
        orders.for_each(|order| app.hear(order));
        self.pair.quic_is_newest = dial.protocol == Protocol::Http3;
        match (&mut self.pair.quic, &mut self.pair.tcp) {
            (Some(quic), _) if dial.protocol == Protocol::Http3 => {
                // Sessions belong to a host and a profile. Names of one length, so that sizes repeat.
                let name = format!("h{:03}-{:04}.example", dial.host % 1000, dial.profile % 10_000);
                quic.connect_to(now, &name, Some(app), out)
            }
            (_, Some(tcp)) => tcp.connect(now, Some(app), out),
            _ => Ok(()),
        }
    }

    /// Lets browser and connections work until neither has anything for the other.
    fn work(&mut self, now: Time, out: &mut Vec<Payload>) {
        self.pair.take_said(&mut self.said);
        loop {
            for (number, notice) in self.said.drain(..) {
                self.browser.hear(number, now, notice);
            }
            let dials = self.browser.step(now);
            let mut orders = self.browser.take_orders();
            let ordered = !orders.is_empty();
            for dial in dials {
                let own = orders.extract_if(.., |(number, _)| *number == dial.number);
                let dialled = self.dial(now, dial, own.map(|(_, order)| order), out);
                debug_assert!(dialled.is_ok(), "{dialled:?}");
            }
            if ordered {
                orders.into_iter().for_each(|(number, order)| self.pair.say(number, order));
                self.pair.wake(now, out);
            }
            self.pair.take_said(&mut self.said);
            if self.said.is_empty() && self.browser.wake_at() > now {
                return;
            }
        }
    }
}

impl Node for Client {
    fn receive(&mut self, now: Time, _end: usize, payload: Payload, out: &mut [Vec<Payload>]) {
        self.pair.receive(now, payload, &mut out[0]);
        self.work(now, &mut out[0]);
    }

    fn wake(&mut self, now: Time, out: &mut [Vec<Payload>]) {
        if self.start <= now {
            self.start = Time::MAX;
            self.browser.start(now);
            self.work(now, &mut out[0]);
        }
        self.pair.wake(now, &mut out[0]);
        self.work(now, &mut out[0]);
    }

    fn wake_at(&mut self) -> Time {
        self.start.min(self.pair.wake_at()).min(self.browser.wake_at())
    }

    fn asker(&mut self) -> (Asker, usize) {
        let own = self.start.min(self.browser.wake_at());
        (self.pair.asker().min((own, Asker::Application)).1, 0)
    }

    fn opened(&self, _end: usize) -> u32 {
        self.pair.opened()
    }

    fn completed(&self, _end: usize) -> u32 {
        self.pair.completed()
    }

    fn connected_at(&self, _end: usize) -> Option<Time> {
        self.pair.connected_at()
    }

    fn ended_at(&self, _end: usize) -> Option<Time> {
        self.pair.ended_at()
    }

    fn counters(&self, _end: usize) -> Counters {
        self.pair.counters()
    }

    fn gauges(&self, _end: usize) -> Gauges {
        self.pair.gauges()
    }

    fn controller(&self, _end: usize) -> Option<&dyn CongestionControl> {
        self.pair.controller()
    }

    fn take_events(&mut self, _end: usize) -> Vec<Event> {
        self.pair.take_events()
    }

    fn streams(&self, _end: usize) -> Vec<(u32, StreamReport)> {
        self.pair.streams()
    }

    fn quic(&self, _end: usize) -> Option<&quic::Endpoint> {
        self.pair.quic.as_ref()
    }

    fn tell(&self, report: &mut dyn Report) {
        self.browser.loads.iter().for_each(|load| report.load(load));
        self.browser.requests.iter().for_each(|request| report.request(request));
    }
}

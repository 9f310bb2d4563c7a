//! An end whose connections are QUIC's: one socket, over which it dials and answers.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;

use transport::quic::{End, Endpoint, Live, LiveTls, Needs, QuicSpec};
use transport::{App, Endpoint as _, MakeApp, MakeController, Notice, Order};
use units::Time;

use crate::{Clock, Driver, Socket};

/// An end over QUIC.
pub struct QuicPlan {
    /// Its address: that of all its connections.
    pub listen: SocketAddr,
    /// Keys and ALPN of those who may begin: it dials, it answers, or both.
    pub tls: LiveTls,
    /// Options of its connections.
    pub spec: QuicSpec,
    /// What its applications need of a connection.
    pub needs: Needs,
    /// Makes controllers.
    pub make_controller: MakeController,
    /// Accepted connections at once; slow ones give way to new ones.
    pub connections: usize,
    /// Handshakes under way before peers are asked to prove their address.
    pub handshakes: usize,
}

/// An end over QUIC that works.
pub(super) struct QuicEnd {
    pub(super) driver: Driver,
    /// Those whose end was told and that wait for late packets.
    over: BTreeSet<u32>,
    ended: Vec<(u32, End)>,
}

impl QuicEnd {
    pub(super) fn new(plan: QuicPlan, clock: Clock, make_app: MakeApp) -> io::Result<QuicEnd> {
        let QuicPlan { tls, connections, handshakes, .. } = plan;
        let live = Live { tls, connections, handshakes };
        let mut endpoint = Endpoint::with_live(&live, &plan.spec, make_app, plan.make_controller)
            .map_err(io::Error::other)?;
        endpoint.set_giving_way();
        endpoint.set_needs(plan.needs);
        let mut driver = Driver::new(endpoint, Socket::bind(plan.listen, None)?)?;
        driver.clock = clock;
        Ok(QuicEnd { driver, over: BTreeSet::new(), ended: Vec::new() })
    }

    pub(super) fn open(&self) -> usize {
        self.driver.endpoint.live().filter(|live| live.end().is_none()).count()
    }

    pub(super) fn peer(&self, number: u32) -> Option<SocketAddr> {
        let remote = self.driver.endpoint.connection(number)?.remote();
        Some(SocketAddr::new(remote.ip().to_canonical(), remote.port()))
    }

    pub(super) fn dial(
        &mut self,
        now: Time,
        peer: SocketAddr,
        app: Box<dyn App>,
    ) -> Result<u32, String> {
        let Driver { endpoint, socket, .. } = &mut self.driver;
        endpoint.dial_with(now, peer, &peer.ip().to_string(), Some(app), socket)
    }

    pub(super) fn say(&mut self, number: u32, order: Order) {
        self.driver.endpoint.say(number, order);
    }

    pub(super) fn abort(&mut self, now: Time, number: u32) {
        let Driver { endpoint, socket, .. } = &mut self.driver;
        endpoint.abort(now, number, socket);
    }

    pub(super) fn close(&mut self, now: Time) {
        let Driver { endpoint, socket, .. } = &mut self.driver;
        endpoint.close(now, socket);
        socket.flush();
    }

    /// Does what there is to do.
    pub(super) fn work(&mut self) -> io::Result<()> {
        self.driver.work()?;
        let endpoint = &mut self.driver.endpoint;
        for connection in endpoint.take_worked() {
            if let Some(end) = connection.end()
                && self.over.insert(connection.index())
            {
                self.ended.push((connection.index(), end.clone()));
            }
        }
        for ended in endpoint.take_ended() {
            if !self.over.remove(&ended.index) {
                self.ended.push((ended.index, ended.end));
            }
        }
        Ok(())
    }

    pub(super) fn take_said(&mut self) -> Vec<(u32, Notice)> {
        let mut said = Vec::new();
        self.driver.endpoint.take_said(&mut said);
        said
    }

    pub(super) fn take_ended(&mut self) -> Vec<(u32, End)> {
        std::mem::take(&mut self.ended)
    }
}

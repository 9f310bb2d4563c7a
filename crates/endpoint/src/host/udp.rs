//! An end over UDP: one socket and one neighbour. There are no connections; what stands for one is an application, which begins
//! with a use for it on either side ([`Pair`]).

use std::io;
use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;
use transport::quic::{Batch, End, Outlet as _};
use transport::udp::{Pair, UdpSpec};
use transport::{App, Datagram, Endpoint as _, EventKind, MakeApp, Notice, Order, Payload, Side};
use units::{Ecn, Time};

use crate::Socket;

/// Calls to the kernel for datagrams before others have their turn.
const ROUNDS: usize = 4;

/// Headers of IP and UDP, for counters that nobody reads here: whoever paces counts its own.
const HEADERS: u16 = 28;

/// An end over UDP.
#[derive(Clone, Copy, Debug)]
pub struct UdpPlan {
    /// Where the neighbour's datagrams come to, and where this side's come from.
    pub listen: SocketAddr,
    /// Where the neighbour's are answered. From other addresses nothing is taken; from which port it sends is its own
    /// matter, as of any service of UDP.
    pub peer: SocketAddr,
}

/// An end over UDP that works.
pub(super) struct UdpEnd {
    pub(super) socket: Socket,
    peer: SocketAddr,
    pair: Pair,
    out: Vec<Payload>,
    ended: Vec<(u32, End)>,
    live: bool,
    /// The application has ended by itself: nothing that comes begins another one.
    quiet: bool,
}

impl UdpEnd {
    pub(super) fn new(plan: UdpPlan, make_app: MakeApp) -> io::Result<UdpEnd> {
        let spec = UdpSpec { header_bytes: HEADERS, payload_bytes: None };
        Ok(UdpEnd {
            socket: Socket::bind(plan.listen, None)?,
            peer: plan.peer,
            pair: Pair::new(Side::Client, &spec, make_app),
            out: Vec::new(),
            ended: Vec::new(),
            live: false,
            quiet: false,
        })
    }

    pub(super) fn open(&self) -> usize {
        usize::from(self.live)
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// When it has something to do though nothing comes. What would leave now waits while the kernel takes no more.
    pub(super) fn wake_at(&mut self) -> Time {
        if self.socket.is_blocked() { Time::MAX } else { self.pair.wake_at() }
    }

    pub(super) fn dial(
        &mut self,
        now: Time,
        peer: SocketAddr,
        app: Box<dyn App>,
    ) -> Result<u32, String> {
        if peer != self.peer {
            return Err(format!("found {peer}, expected {}, the only peer", self.peer));
        }
        let number = self.pair.opened();
        self.quiet = false;
        self.pair.connect(now, Some(app), &mut self.out)?;
        self.leave();
        Ok(number)
    }

    pub(super) fn say(&mut self, number: u32, order: Order) {
        self.pair.say(number, order);
    }

    pub(super) fn abort(&mut self, now: Time, number: u32) {
        if self.live && number + 1 == self.pair.opened() {
            self.close(now);
        }
    }

    /// Ends what there is.
    pub(super) fn close(&mut self, now: Time) {
        self.pair.stop(now);
        self.settle();
        self.socket.flush();
    }

    /// Takes over what has come, as much as one turn may; whether there was anything.
    pub(super) fn take_in(&mut self, now: Time) -> io::Result<bool> {
        let mut any = false;
        for _ in 0..ROUNDS {
            let count = self.socket.receive()?;
            for index in 0..count {
                let train = self.socket.train(index);
                if train.from.ip().to_canonical() != self.address() || (self.quiet && !self.live) {
                    continue;
                }
                for data in train.data.chunks(train.segment.max(1)) {
                    let datagram = Datagram::new(BytesMut::from(data), train.ecn, 0, HEADERS);
                    self.pair.receive(now, Payload::Udp(datagram), &mut self.out);
                }
                any = true;
            }
            if count == 0 {
                break;
            }
        }
        self.leave();
        Ok(any)
    }

    fn address(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// Does what is due.
    pub(super) fn work(&mut self, now: Time) {
        if self.socket.flush() {
            self.pair.wake(now, &mut self.out);
        }
        self.leave();
        if let Some(bytes) = self.socket.too_large().filter(|_| self.live) {
            self.pair.stop(now);
            self.settle();
            let told = format!("no datagram of {bytes} bytes leaves: expected a smaller mtu");
            if let Some((_, end)) = self.ended.last_mut() {
                *end = End::Lost(told);
            }
        }
    }

    /// What the application has given goes to the kernel.
    fn leave(&mut self) {
        for payload in self.out.drain(..) {
            let Payload::Udp(datagram) = payload else { continue };
            let data = datagram.payload();
            let (to, segment) = (self.peer, data.len().max(1));
            self.socket.put(Batch { to, from: None, ecn: Ecn::NotEct, segment, data: &data });
        }
        self.settle();
    }

    fn settle(&mut self) {
        for event in self.pair.take_events() {
            match event.kind {
                EventKind::Connected => self.live = true,
                EventKind::Closed | EventKind::Lost => {
                    self.live = false;
                    self.quiet = event.kind == EventKind::Closed;
                    self.ended.push((event.connection, End::Here));
                }
                _ => {}
            }
        }
    }

    pub(super) fn take_said(&mut self) -> Vec<(u32, Notice)> {
        let mut said = Vec::new();
        self.pair.take_said(&mut said);
        said
    }

    pub(super) fn take_ended(&mut self) -> Vec<(u32, End)> {
        std::mem::take(&mut self.ended)
    }
}

//! A UDP interface: one socket and one neighbour. UDP has no connections; an application replaces one. It starts with
//! its first use on either side ([`UdpPeer`]).

use std::io;
use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;
use transport::quic::{CloseReason, DatagramBatch, DatagramSink as _};
use transport::udp::{UdpPeer, UdpSpec};
use transport::{
    App, AppBuilder, AppCommand, AppNotification, Datagram, Endpoint as _, FlowEventKind, Payload,
    Side,
};
use units::{Ecn, Time};

use crate::BatchedUdpSocket;

/// The maximum of receive calls before other interfaces are polled.
const MAX_RECEIVE_ROUNDS: usize = 4;

/// Bytes of IP and UDP headers, for unused counters: an application with a pacer counts separately.
const HEADER_BYTES: u16 = 28;

/// Configuration of a UDP interface.
#[derive(Clone, Copy, Debug)]
pub struct UdpHostConfig {
    /// The local address: destination of the neighbour's datagrams and source of this side's.
    pub listen: SocketAddr,
    /// The address of the neighbour, destination of all datagrams. Datagrams of other addresses are ignored. The source
    /// port can be any, as for other UDP services.
    pub peer: SocketAddr,
}

/// An open UDP interface.
pub(super) struct UdpHostSocket {
    pub(super) socket: BatchedUdpSocket,
    peer: SocketAddr,
    udp_peer: UdpPeer,
    out: Vec<Payload>,
    closed: Vec<(u32, CloseReason)>,
    is_connected: bool,
    /// The application has closed: later input does not start another one.
    is_closed_by_app: bool,
}

impl UdpHostSocket {
    pub(super) fn new(plan: UdpHostConfig, make_app: AppBuilder) -> io::Result<UdpHostSocket> {
        let spec = UdpSpec { header_bytes: HEADER_BYTES, payload_bytes: None };
        Ok(UdpHostSocket {
            socket: BatchedUdpSocket::bind(plan.listen, None)?,
            peer: plan.peer,
            udp_peer: UdpPeer::new(Side::Client, &spec, make_app),
            out: Vec::new(),
            closed: Vec::new(),
            is_connected: false,
            is_closed_by_app: false,
        })
    }

    pub(super) fn open_connections(&self) -> usize {
        usize::from(self.is_connected)
    }

    pub(super) fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the next deadline without input. Output waits while the kernel accepts none.
    pub(super) fn poll_at(&mut self) -> Time {
        if self.socket.is_blocked() { Time::MAX } else { self.udp_peer.poll_at() }
    }

    pub(super) fn connect(
        &mut self,
        now: Time,
        peer: SocketAddr,
        app: Box<dyn App>,
    ) -> Result<u32, String> {
        if peer != self.peer {
            return Err(format!("found {peer}, expected {}, the only peer", self.peer));
        }
        let number = self.udp_peer.opened();
        self.is_closed_by_app = false;
        self.udp_peer.connect(now, Some(app), &mut self.out)?;
        self.flush_output();
        Ok(number)
    }

    pub(super) fn send_command(&mut self, number: u32, order: AppCommand) {
        self.udp_peer.send_command(number, order);
    }

    pub(super) fn abort(&mut self, now: Time, number: u32) {
        if self.is_connected && number + 1 == self.udp_peer.opened() {
            self.close(now);
        }
    }

    /// Closes the application.
    pub(super) fn close(&mut self, now: Time) {
        self.udp_peer.crash(now);
        self.process_events();
        self.socket.flush();
    }

    /// Receives pending datagrams, up to the limit per poll. Returns whether there were any.
    pub(super) fn receive_pending(&mut self, now: Time) -> io::Result<bool> {
        let mut any = false;
        for _ in 0..MAX_RECEIVE_ROUNDS {
            let count = self.socket.receive()?;
            for index in 0..count {
                let train = self.socket.received_batch(index);
                if train.peer.ip().to_canonical() != self.peer_ip()
                    || (self.is_closed_by_app && !self.is_connected)
                {
                    continue;
                }
                for data in train.data.chunks(train.segment_size.max(1)) {
                    let datagram = Datagram::new(BytesMut::from(data), train.ecn, 0, HEADER_BYTES);
                    self.udp_peer.receive(now, Payload::Udp(datagram), &mut self.out);
                }
                any = true;
            }
            if count == 0 {
                break;
            }
        }
        self.flush_output();
        Ok(any)
    }

    fn peer_ip(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// Does the due work.
    pub(super) fn poll(&mut self, now: Time) {
        if self.socket.flush() {
            self.udp_peer.poll(now, &mut self.out);
        }
        self.flush_output();
        if let Some(bytes) = self.socket.too_large().filter(|_| self.is_connected) {
            self.udp_peer.crash(now);
            self.process_events();
            let reason = format!("cannot send a datagram of {bytes} bytes; expected a smaller mtu");
            if let Some((_, end)) = self.closed.last_mut() {
                *end = CloseReason::Lost(reason);
            }
        }
    }

    /// Sends the output of the application to the kernel.
    fn flush_output(&mut self) {
        for payload in self.out.drain(..) {
            let Payload::Udp(datagram) = payload else { continue };
            let data = datagram.payload();
            let (to, segment) = (self.peer, data.len().max(1));
            self.socket.send_batch(DatagramBatch {
                destination: to,
                src_ip: None,
                ecn: Ecn::NotEct,
                segment_size: segment,
                data: &data,
            });
        }
        self.process_events();
    }

    fn process_events(&mut self) {
        for event in self.udp_peer.take_events() {
            match event.kind {
                FlowEventKind::Connected => self.is_connected = true,
                FlowEventKind::Closed | FlowEventKind::Lost => {
                    self.is_connected = false;
                    self.is_closed_by_app = event.kind == FlowEventKind::Closed;
                    self.closed.push((event.connection, CloseReason::Local));
                }
                _ => {}
            }
        }
    }

    pub(super) fn take_notifications(&mut self) -> Vec<(u32, AppNotification)> {
        let mut notifications = Vec::new();
        self.udp_peer.take_notifications(&mut notifications);
        notifications
    }

    pub(super) fn take_closed(&mut self) -> Vec<(u32, CloseReason)> {
        std::mem::take(&mut self.closed)
    }
}

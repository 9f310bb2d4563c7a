//! The one stream of a connection of the kernel's TCP, as its application sees it.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use bytes::Bytes;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use transport::{Notice, ReadEnd, Streams};

use crate::identity::Expected;
use crate::tcp_socket;
use crate::wire::{Read, Wire};

/// Bytes an application is asked for at once; the socket takes what fits.
const APPETITE: usize = 256 << 10;

/// Bytes moved each way before other connections have their turn: a millisecond at 30 Gbit/s.
pub(super) const SHARE: u64 = 4 << 20;

/// Keys of a connection that may be asked for TLS ([`Streams::secure`]).
#[derive(Clone, Debug)]
pub struct Keys {
    /// Of those who dial.
    pub client: Arc<ClientConfig>,
    /// Of those who answer.
    pub server: Arc<ServerConfig>,
    /// Who the peer is to be; none: anyone.
    pub expected: Option<Arc<Expected>>,
}

/// Stream 0 of a connection, and how far it is.
pub(super) struct Stream {
    pub(super) socket: TcpStream,
    pub(super) wire: Wire,
    keys: Option<Keys>,
    /// This side has dialled.
    dialled: bool,
    /// It may be opened: a dialled connection whose handshake is done.
    pub(super) opens: bool,
    /// What reads go into.
    pub(super) buffer: Vec<u8>,
    /// Bytes that the socket has taken, and that the application was given.
    pub(super) written: u64,
    pub(super) received: u64,
    /// The socket takes no more now.
    pub(super) full: bool,
    /// More may have come than was read.
    pub(super) more: bool,
    /// Something has come that the application has left where it is.
    pub(super) unread: bool,
    /// The peer has ended.
    pub(super) read_end: bool,
    /// The application has no more to say.
    pub(super) finishing: bool,
    /// The socket knows.
    pub(super) finished: bool,
    /// The application is done with the connection.
    pub(super) closing: bool,
    /// It does not wait for what is unacknowledged.
    pub(super) at_once: bool,
    /// It will neither read nor say the rest.
    pub(super) stopped: bool,
    pub(super) failure: Option<io::Error>,
    pub(super) said: Vec<Notice>,
}

impl Stream {
    pub(super) fn new(socket: TcpStream, keys: Option<Keys>, dialled: bool) -> Stream {
        Stream {
            socket,
            wire: Wire::Plain,
            keys,
            dialled,
            opens: false,
            buffer: Vec::new(),
            written: 0,
            received: 0,
            full: false,
            more: false,
            unread: false,
            read_end: false,
            finishing: false,
            finished: false,
            closing: false,
            at_once: false,
            stopped: false,
            failure: None,
            said: Vec::new(),
        }
    }

    /// Says the end of this side's bytes, as far as the socket takes it now.
    pub(super) fn finish_now(&mut self) {
        let first = !std::mem::replace(&mut self.finishing, true);
        if self.finished || self.failure.is_some() {
            return;
        }
        match self.wire.finish(&mut self.socket, first) {
            Ok(done) => self.finished = done,
            Err(error) => self.failure = Some(error),
        }
    }

    fn keyed(&self) -> Option<Wire> {
        let keys = self.keys.as_ref()?;
        if !self.dialled {
            return Some(Wire::Server(Box::new(ServerConnection::new(keys.server.clone()).ok()?)));
        }
        let name = ServerName::IpAddress(self.socket.peer_addr().ok()?.ip().to_canonical().into());
        Some(Wire::Client(Box::new(ClientConnection::new(keys.client.clone(), name).ok()?)))
    }
}

impl Streams for Stream {
    fn open(&mut self) -> Option<u64> {
        std::mem::take(&mut self.opens).then_some(0)
    }

    fn write(&mut self, stream: u64, data: Bytes) -> usize {
        let over = self.failure.is_some() || self.finishing || self.wire.is_handshaking();
        if stream != 0 || over {
            return 0;
        }
        match self.wire.write(&mut self.socket, &data) {
            Ok(taken) => {
                self.written += taken as u64;
                self.full = taken < data.len();
                taken
            }
            Err(error) => {
                self.failure = Some(error);
                0
            }
        }
    }

    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadEnd {
        self.unread = false;
        if stream != 0 || self.failure.is_some() {
            return ReadEnd::Reset;
        }
        if self.read_end {
            return ReadEnd::Finished;
        }
        if self.wire.is_handshaking() {
            self.more = true;
            return ReadEnd::Open;
        }
        let until = self.received + SHARE;
        let (socket, buffer) = (&mut self.socket, &mut self.buffer);
        let read = self.wire.read_until(socket, buffer, &mut self.received, until, take);
        match read {
            Ok(read) => {
                self.more = matches!(read, Read::Data(_));
                self.read_end = read == Read::End;
                if self.read_end { ReadEnd::Finished } else { ReadEnd::Open }
            }
            Err(error) => {
                self.failure = Some(error);
                ReadEnd::Reset
            }
        }
    }

    fn finish(&mut self, _stream: u64) {
        self.finish_now();
    }

    fn reset(&mut self, _stream: u64) {
        self.stopped = true;
    }

    fn stop(&mut self, _stream: u64) {
        self.stopped = true;
    }

    fn controller(
        &mut self,
        wish: Option<&transport::load::Wish>,
    ) -> Result<Option<String>, String> {
        match wish {
            None => Ok(tcp_socket::congestion(&self.socket)),
            Some(_) => Err("its peers choose no controller".to_owned()),
        }
    }

    fn secure(&mut self) -> bool {
        let plain = matches!(self.wire, Wire::Plain);
        match self.keyed().filter(|_| plain) {
            Some(wire) => {
                self.wire = wire;
                true
            }
            None => false,
        }
    }

    fn proven(&self) -> Result<(), String> {
        let expected = self.keys.as_ref().and_then(|keys| keys.expected.as_ref());
        let Some(expected) = expected else { return Ok(()) };
        match self.wire.certificate() {
            Some(certificate) => expected.named(certificate),
            None => Err("the peer has shown no certificate".to_owned()),
        }
    }

    fn say(&mut self, notice: Notice) {
        self.said.push(notice);
    }

    fn appetite(&self) -> usize {
        APPETITE
    }

    fn close(&mut self) {
        self.closing = true;
    }

    fn close_now(&mut self) {
        self.closing = true;
        self.at_once = true;
    }
}

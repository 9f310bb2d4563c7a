//! The bytes of a connection as its application sees them: one stream over a socket.

use std::io;
use std::net::TcpStream;

use bytes::Bytes;
use transport::load::Wish;
use transport::{ReadEnd, Streams};

use super::options;
use crate::perf::Choose;
use crate::tcp_socket;
use crate::wire::{Read, Wire};

/// Bytes an application is asked for at once; the socket takes what fits.
const APPETITE: usize = 256 << 10;

/// Bytes moved each way before other connections have their turn: a millisecond at 30 Gbit/s.
pub const SHARE: u64 = 4 << 20;

/// Stream 0 of a connection, and how far it is.
pub struct Stream {
    /// None once it has been given back.
    pub socket: Option<TcpStream>,
    /// None: a server that has not heard anything yet.
    pub wire: Option<Wire>,
    /// A client has not opened it yet.
    pub opens: bool,
    /// What reads go into.
    pub buffer: Vec<u8>,
    /// Bytes that the wire has taken.
    pub written: u64,
    /// Bytes that the application was given.
    pub received: u64,
    /// The first of them.
    pub head: [u8; 8],
    /// The socket takes no more now.
    pub full: bool,
    /// More may have come than was read.
    pub more: bool,
    /// The peer has ended.
    pub read_end: bool,
    /// The application has no more to say.
    pub finishing: bool,
    /// The socket knows.
    pub finished: bool,
    /// The application is done with the connection.
    pub closing: bool,
    /// It will neither read nor say the rest.
    pub stopped: bool,
    /// What a server's client may choose.
    pub choose: Option<Choose>,
    /// What went wrong.
    pub failure: Option<io::Error>,
}

impl Stream {
    /// Of `socket`, which nothing has gone over.
    pub fn new(socket: TcpStream) -> Stream {
        Stream {
            socket: Some(socket),
            wire: None,
            opens: false,
            buffer: Vec::new(),
            written: 0,
            received: 0,
            head: [0; 8],
            full: false,
            more: false,
            read_end: false,
            finishing: false,
            finished: false,
            closing: false,
            stopped: false,
            choose: None,
            failure: None,
        }
    }

    /// Says the end of this side's bytes, as far as the socket takes it now.
    pub fn finish_now(&mut self) {
        let first = !std::mem::replace(&mut self.finishing, true);
        let (Some(wire), Some(socket)) = (&mut self.wire, &mut self.socket) else { return };
        if self.finished || self.failure.is_some() {
            return;
        }
        match wire.finish(socket, first) {
            Ok(done) => self.finished = done,
            Err(error) => self.failure = Some(error),
        }
    }
}

impl Streams for Stream {
    fn open(&mut self) -> Option<u64> {
        std::mem::take(&mut self.opens).then_some(0)
    }

    fn write(&mut self, _stream: u64, data: Bytes) -> usize {
        let (Some(wire), Some(socket)) = (&mut self.wire, &mut self.socket) else { return 0 };
        if self.failure.is_some() || self.finishing {
            return 0;
        }
        match wire.write(socket, &data) {
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

    fn read(&mut self, _stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadEnd {
        if self.read_end {
            return ReadEnd::Finished;
        }
        let (Some(wire), Some(socket)) = (&mut self.wire, &mut self.socket) else {
            return ReadEnd::Open;
        };
        if self.failure.is_some() {
            return ReadEnd::Reset;
        }
        let (until, head) = (self.received + SHARE, &mut self.head);
        let mut both = |received: u64, data: &[u8]| {
            for (place, byte) in (received..8).zip(data) {
                head[place as usize] = *byte;
            }
            take(received, data);
        };
        let read = wire.read_until(socket, &mut self.buffer, &mut self.received, until, &mut both);
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

    fn controller(&mut self, wish: Option<&Wish>) -> Result<Option<String>, String> {
        let Some(socket) = &self.socket else { return Ok(None) };
        if let (Some(wish), Some(choose)) = (wish, self.choose) {
            options::choose(socket, wish, choose)?;
        }
        Ok(tcp_socket::congestion(socket))
    }

    fn appetite(&self) -> usize {
        APPETITE
    }

    fn close(&mut self) {
        self.closing = true;
    }
}

//! The bytes of a connection as its application sees them: one stream over a socket.

use std::io;
use std::net::TcpStream;

use bytes::Bytes;
use runtime::tcp::{ByteStream, ReadOutcome, socket};
use transport::perf_load::RequestedController;
use transport::{ReadStatus, Streams};

use super::options;
use crate::perf::ControllerPolicy;

/// The maximum of bytes per write of an application; the socket takes a part.
const WRITE_BUDGET: usize = 256 << 10;

/// The maximum of bytes per direction before other connections are polled: one millisecond at 30 Gbit/s.
pub const MAX_BYTES_PER_POLL: u64 = 4 << 20;

/// Stream 0 of a connection and its state.
pub struct PerfTcpStream {
    /// The socket, `None` after its release.
    pub socket: Option<TcpStream>,
    /// The byte stream, `None` on a server before the first byte.
    pub byte_stream: Option<ByteStream>,
    /// A client has not opened the stream yet.
    pub can_open: bool,
    /// The read buffer.
    pub buffer: Vec<u8>,
    /// Bytes accepted by the byte stream.
    pub written: u64,
    /// Bytes delivered to the application.
    pub received: u64,
    /// The first bytes delivered to the application.
    pub request_head: [u8; 8],
    /// The socket accepts no more bytes now.
    pub is_write_blocked: bool,
    /// More bytes can be available than were read.
    pub may_have_more: bool,
    /// The peer has finished.
    pub is_read_closed: bool,
    /// The application has finished its data.
    pub finishing: bool,
    /// The FIN was passed to the socket.
    pub finished: bool,
    /// The application has closed the connection.
    pub closing: bool,
    /// The application neither reads nor writes the rest.
    pub stopped: bool,
    /// The controllers that a server's client can request.
    pub controller_policy: Option<ControllerPolicy>,
    /// The first error.
    pub error: Option<io::Error>,
}

impl PerfTcpStream {
    /// Creates the stream of an unused `socket`.
    pub fn new(socket: TcpStream) -> PerfTcpStream {
        PerfTcpStream {
            socket: Some(socket),
            byte_stream: None,
            can_open: false,
            buffer: Vec::new(),
            written: 0,
            received: 0,
            request_head: [0; 8],
            is_write_blocked: false,
            may_have_more: false,
            is_read_closed: false,
            finishing: false,
            finished: false,
            closing: false,
            stopped: false,
            controller_policy: None,
            error: None,
        }
    }

    /// Finishes the data of this side, as far as the socket accepts it now.
    pub fn finish_now(&mut self) {
        let first = !std::mem::replace(&mut self.finishing, true);
        let (Some(wire), Some(socket)) = (&mut self.byte_stream, &mut self.socket) else { return };
        if self.finished || self.error.is_some() {
            return;
        }
        match wire.finish(socket, first) {
            Ok(done) => self.finished = done,
            Err(error) => self.error = Some(error),
        }
    }
}

impl Streams for PerfTcpStream {
    fn open(&mut self) -> Option<u64> {
        std::mem::take(&mut self.can_open).then_some(0)
    }

    fn write(&mut self, _stream: u64, data: Bytes) -> usize {
        let (Some(wire), Some(socket)) = (&mut self.byte_stream, &mut self.socket) else {
            return 0;
        };
        if self.error.is_some() || self.finishing {
            return 0;
        }
        match wire.write(socket, &data) {
            Ok(taken) => {
                self.written += taken as u64;
                self.is_write_blocked = taken < data.len();
                taken
            }
            Err(error) => {
                self.error = Some(error);
                0
            }
        }
    }

    fn read(&mut self, _stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadStatus {
        if self.is_read_closed {
            return ReadStatus::Finished;
        }
        let (Some(wire), Some(socket)) = (&mut self.byte_stream, &mut self.socket) else {
            return ReadStatus::Open;
        };
        if self.error.is_some() {
            return ReadStatus::Reset;
        }
        let (until, head) = (self.received + MAX_BYTES_PER_POLL, &mut self.request_head);
        let mut both = |received: u64, data: &[u8]| {
            for (index, byte) in (received..8).zip(data) {
                head[index as usize] = *byte;
            }
            take(received, data);
        };
        let read = wire.read_until(socket, &mut self.buffer, &mut self.received, until, &mut both);
        match read {
            Ok(read) => {
                self.may_have_more = matches!(read, ReadOutcome::Data(_));
                self.is_read_closed = read == ReadOutcome::Eof;
                if self.is_read_closed { ReadStatus::Finished } else { ReadStatus::Open }
            }
            Err(error) => {
                self.error = Some(error);
                ReadStatus::Reset
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

    fn request_controller(
        &mut self,
        request: Option<&RequestedController>,
    ) -> Result<Option<String>, String> {
        let Some(socket) = &self.socket else { return Ok(None) };
        if let (Some(request), Some(choose)) = (request, self.controller_policy) {
            options::apply_requested_controller(socket, request, choose)?;
        }
        Ok(socket::controller_name(socket))
    }

    fn write_budget(&self) -> usize {
        WRITE_BUDGET
    }

    fn close(&mut self) {
        self.closing = true;
    }
}

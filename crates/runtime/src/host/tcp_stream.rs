//! The only stream of a kernel TCP connection, as its application sees it.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use bytes::Bytes;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection};
use transport::perf_load::RequestedController;
use transport::{AppNotification, ReadStatus, Streams};

use super::tcp_connection_config::{TcpConnectionConfig, TcpProtocol, TlsKeys};
use crate::tcp::{ByteStream, ReadOutcome, socket};

/// The maximum of bytes per write of an application; the socket takes a part.
const WRITE_BUDGET: usize = 256 << 10;

/// The maximum of bytes per direction before other connections are polled: one millisecond at 30 Gbit/s.
pub(super) const MAX_BYTES_PER_POLL: u64 = 4 << 20;

/// Stream 0 of a connection and its state.
pub(super) struct TcpStreamState {
    pub(super) socket: TcpStream,
    pub(super) byte_stream: ByteStream,
    pub(super) config: Arc<TcpConnectionConfig>,
    /// This side has opened the connection.
    pub(super) is_client: bool,
    /// The stream can be opened: this side has opened the connection and the handshake is complete.
    pub(super) can_open: bool,
    /// The read buffer.
    pub(super) buffer: Vec<u8>,
    /// Bytes accepted by the socket, and bytes delivered to the application.
    pub(super) written: u64,
    pub(super) received: u64,
    /// The socket accepts no more bytes now.
    pub(super) is_write_blocked: bool,
    /// More bytes can be available than were read.
    pub(super) may_have_more: bool,
    /// Data is available that the application has not read.
    pub(super) has_unread: bool,
    /// The peer has finished.
    pub(super) is_read_closed: bool,
    /// The application has finished its data.
    pub(super) finishing: bool,
    /// The FIN was passed to the socket.
    pub(super) finished: bool,
    /// The application has closed the connection.
    pub(super) closing: bool,
    /// The close does not wait for unacknowledged data.
    pub(super) closes_at_once: bool,
    /// The application neither reads nor writes the rest.
    pub(super) stopped: bool,
    pub(super) error: Option<io::Error>,
    pub(super) notifications: Vec<AppNotification>,
}

impl TcpStreamState {
    pub(super) fn new(
        socket: TcpStream,
        config: Arc<TcpConnectionConfig>,
        is_client: bool,
    ) -> io::Result<TcpStreamState> {
        let byte_stream = match &config.protocol {
            TcpProtocol::TlsClient(tls, name) => {
                let made = ClientConnection::new(tls.clone(), name.clone());
                ByteStream::TlsClient(Box::new(made.map_err(io::Error::other)?))
            }
            TcpProtocol::Plain(_) | TcpProtocol::FirstByte { .. } => ByteStream::Plain,
        };
        Ok(TcpStreamState {
            socket,
            byte_stream,
            config,
            is_client,
            can_open: false,
            buffer: Vec::new(),
            written: 0,
            received: 0,
            is_write_blocked: false,
            may_have_more: false,
            has_unread: false,
            is_read_closed: false,
            finishing: false,
            finished: false,
            closing: false,
            closes_at_once: false,
            stopped: false,
            error: None,
            notifications: Vec::new(),
        })
    }

    fn tls_keys(&self) -> Option<&TlsKeys> {
        match &self.config.protocol {
            TcpProtocol::Plain(keys) => keys.as_ref(),
            TcpProtocol::TlsClient(..) | TcpProtocol::FirstByte { .. } => None,
        }
    }

    /// Finishes the data of this side, as far as the socket accepts it now.
    pub(super) fn finish_now(&mut self) {
        let first = !std::mem::replace(&mut self.finishing, true);
        if self.finished || self.error.is_some() {
            return;
        }
        match self.byte_stream.finish(&mut self.socket, first) {
            Ok(done) => self.finished = done,
            Err(error) => self.error = Some(error),
        }
    }

    fn build_tls(&self) -> Option<ByteStream> {
        let keys = self.tls_keys()?;
        if !self.is_client {
            return Some(ByteStream::TlsServer(Box::new(
                ServerConnection::new(keys.server.clone()).ok()?,
            )));
        }
        let name = ServerName::IpAddress(self.socket.peer_addr().ok()?.ip().to_canonical().into());
        Some(ByteStream::TlsClient(Box::new(
            ClientConnection::new(keys.client.clone(), name).ok()?,
        )))
    }
}

impl Streams for TcpStreamState {
    fn open(&mut self) -> Option<u64> {
        std::mem::take(&mut self.can_open).then_some(0)
    }

    fn write(&mut self, stream: u64, data: Bytes) -> usize {
        let over = self.error.is_some() || self.finishing || self.byte_stream.is_handshaking();
        if stream != 0 || over {
            return 0;
        }
        match self.byte_stream.write(&mut self.socket, &data) {
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

    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadStatus {
        self.has_unread = false;
        if stream != 0 || self.error.is_some() {
            return ReadStatus::Reset;
        }
        if self.is_read_closed {
            return ReadStatus::Finished;
        }
        if self.byte_stream.is_handshaking() {
            self.may_have_more = true;
            return ReadStatus::Open;
        }
        let until = self.received + MAX_BYTES_PER_POLL;
        let (socket, buffer) = (&mut self.socket, &mut self.buffer);
        let read = self.byte_stream.read_until(socket, buffer, &mut self.received, until, take);
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
        wish: Option<&RequestedController>,
    ) -> Result<Option<String>, String> {
        if let Some(wish) = wish {
            let set = self.config.controller_setter.as_ref();
            set.ok_or("it accepts no controller requests")?(&self.socket, wish)?;
        }
        Ok(socket::controller_name(&self.socket))
    }

    fn start_tls(&mut self) -> bool {
        let plain = matches!(self.byte_stream, ByteStream::Plain);
        match self.build_tls().filter(|_| plain) {
            Some(wire) => {
                self.byte_stream = wire;
                true
            }
            None => false,
        }
    }

    fn verify_peer(&self) -> Result<(), String> {
        let expected = self.tls_keys().and_then(|keys| keys.expected_peer.as_ref());
        let Some(expected) = expected else { return Ok(()) };
        match self.byte_stream.certificate() {
            Some(certificate) => expected.verify_node_id(certificate),
            None => Err("the peer presented no certificate".to_owned()),
        }
    }

    fn notify(&mut self, notice: AppNotification) {
        self.notifications.push(notice);
    }

    fn write_budget(&self) -> usize {
        WRITE_BUDGET
    }

    fn close(&mut self) {
        self.closing = true;
    }

    fn close_now(&mut self) {
        self.closing = true;
        self.closes_at_once = true;
    }
}

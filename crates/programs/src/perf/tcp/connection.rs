//! One TCP connection from its handshakes to its close: a socket, and the application of its only stream.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use nix::sys::epoll::EpollFlags;
use runtime::tcp::{ByteStream, TcpInfo, TcpInfoLayout, socket};
use rustls::{ServerConfig, ServerConnection};
use transport::perf_load::{ControllerResponse, StreamReport};
use transport::quic::CloseReason;
use transport::{App, AppEvent};
use units::{Span, Time};

use super::stream::{MAX_BYTES_PER_POLL, PerfTcpStream};
use crate::perf::frames::ConnectionFrame;
use crate::perf::report::ControllerNames;
use crate::perf::{ControllerPolicy, PerfTransport, SenderReport};

/// The requested size of a client that stops the response itself (2^62 - 1, see `PerfClient`).
const ENDLESS_RESPONSE: u64 = (1 << 62) - 1;

/// The first byte of a TLS handshake record (RFC 8446 section 5.1). A size with this first byte would be 1.6 * 10^18
/// bytes, which clients refuse to request.
pub const TLS_RECORD: u8 = 22;

/// The check interval of a closing connection, for which there is no event; and the number of checks of an idle one per
/// idle timeout.
const CHECK_INTERVAL: Span = Span(10_000_000);
const CHECKS_PER_TIMEOUT: u64 = 100;

/// Configuration of accepted connections.
#[derive(Clone)]
pub struct AcceptConfig {
    /// The supported transports.
    pub transport: PerfTransport,
    /// The TLS configuration.
    pub tls: Arc<ServerConfig>,
    /// The controllers that clients can request.
    pub controller_policy: ControllerPolicy,
}

/// One connection.
pub struct PerfTcpConnection {
    stream: PerfTcpStream,
    app: Box<dyn App>,
    accept_config: Option<AcceptConfig>,
    info_layout: TcpInfoLayout,
    /// Bytes of an IP header.
    ip_header_bytes: u64,
    local: SocketAddr,
    remote: SocketAddr,
    started_at: Time,
    /// The TCP handshake is complete.
    tcp_established: bool,
    connected_at: Option<Time>,
    close_reason: Option<CloseReason>,
    closed_at: Option<Time>,
    idle_timeout: Span,
    /// The time of the last progress, and the acknowledged bytes at that time.
    last_progress_at: Time,
    last_acked_bytes: u64,
    /// The time of the last check.
    last_check_at: Time,
    sender_report: SenderReport,
    mss: u64,
    /// The kernel had unsent or unacknowledged data at the last query.
    had_unsent_data: bool,
    /// Bytes of the request, for a client.
    request_bytes: u64,
    /// The kernel's controller at the last query.
    controller: String,
    /// The number of state queries.
    #[cfg(test)]
    pub query_count: std::cell::Cell<u64>,
}

impl PerfTcpConnection {
    /// Creates a client's connection, which is being established.
    pub fn connect(
        now: Time,
        socket: TcpStream,
        remote: SocketAddr,
        wire: ByteStream,
        app: Box<dyn App>,
        kernel: TcpInfoLayout,
        idle: Span,
    ) -> io::Result<PerfTcpConnection> {
        let local = socket.local_addr()?;
        let mut made = PerfTcpConnection::new(now, socket, remote, local, app, kernel, idle);
        made.stream.byte_stream = Some(wire);
        made.stream.can_open = true;
        Ok(made)
    }

    /// Creates a connection that a server has accepted.
    pub fn accept(
        now: Time,
        socket: TcpStream,
        remote: SocketAddr,
        accepting: AcceptConfig,
        app: Box<dyn App>,
        kernel: TcpInfoLayout,
        idle: Span,
    ) -> io::Result<PerfTcpConnection> {
        let local = socket.local_addr()?;
        let mut made = PerfTcpConnection::new(now, socket, remote, local, app, kernel, idle);
        made.stream.controller_policy = Some(accepting.controller_policy);
        made.accept_config = Some(accepting);
        made.tcp_established = true;
        Ok(made)
    }

    fn new(
        now: Time,
        socket: TcpStream,
        remote: SocketAddr,
        local: SocketAddr,
        app: Box<dyn App>,
        kernel: TcpInfoLayout,
        idle: Span,
    ) -> PerfTcpConnection {
        let canonical =
            |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let remote = canonical(remote);
        PerfTcpConnection {
            stream: PerfTcpStream::new(socket),
            app,
            accept_config: None,
            info_layout: kernel,
            ip_header_bytes: if remote.is_ipv4() { 20 } else { 40 },
            local: canonical(local),
            remote,
            started_at: now,
            tcp_established: false,
            connected_at: None,
            close_reason: None,
            closed_at: None,
            idle_timeout: idle,
            last_progress_at: now,
            last_acked_bytes: 0,
            last_check_at: now,
            sender_report: SenderReport::default(),
            mss: 0,
            had_unsent_data: false,
            request_bytes: 0,
            controller: String::new(),
            #[cfg(test)]
            query_count: std::cell::Cell::default(),
        }
    }

    /// Returns the socket, `None` after its release.
    pub fn socket(&self) -> Option<&TcpStream> {
        self.stream.socket.as_ref()
    }

    /// Returns the peer address.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Returns the start time.
    pub fn started_at(&self) -> Time {
        self.started_at
    }

    /// Returns whether the TCP handshake is complete.
    pub fn is_tcp_established(&self) -> bool {
        self.tcp_established
    }

    /// Returns the time when the handshakes were complete.
    pub fn connected_at(&self) -> Option<Time> {
        #[cfg(test)]
        self.query_count.update(|count| count + 1);
        self.connected_at
    }

    /// Returns the close reason and the close time.
    pub fn closed(&self) -> Option<(&CloseReason, Time)> {
        #[cfg(test)]
        self.query_count.update(|count| count + 1);
        self.close_reason.as_ref().zip(self.closed_at)
    }

    /// Returns the streams: at most one.
    pub fn stream_reports(&self) -> &[StreamReport] {
        self.app.stream_reports()
    }

    /// Returns `tcp` or `tls`.
    pub fn transport(&self) -> &'static str {
        self.stream.byte_stream.as_ref().map_or("tcp", ByteStream::name)
    }

    /// Returns the negotiated ALPN.
    pub fn alpn(&self) -> Option<String> {
        self.stream.byte_stream.as_ref().and_then(ByteStream::alpn)
    }

    /// Returns the connection frame for the number `number`, with handshakes complete at `connected`.
    pub fn connection_frame(&self, number: u32, connected: Time) -> ConnectionFrame<'_> {
        ConnectionFrame {
            connection: number,
            transport: self.transport(),
            local: self.local.to_string(),
            remote: self.remote.to_string(),
            congestion: &self.controller,
            started_at: self.started_at,
            connected_at: connected,
            mss_bytes: self.mss,
        }
    }

    /// Returns the maximum segment size at the last query.
    pub fn mss(&self) -> u64 {
        self.mss
    }

    /// Returns the sender statistics at the last query.
    pub fn last_report(&self) -> SenderReport {
        self.sender_report.omit_receiver_window(self.request_bytes)
    }

    /// Sets the request length in bytes, for a client.
    pub fn set_request_bytes(&mut self, bytes: u64) {
        self.request_bytes = bytes;
    }

    /// Returns the controllers.
    pub fn controllers(&self) -> ControllerNames<'_> {
        ControllerNames::new(&self.controller, self.app.peer_controller())
    }

    /// Returns the controller response of a server that refused the request.
    pub fn refused_response(&self) -> Option<&ControllerResponse> {
        self.app.peer_controller().filter(|answer| answer.refusal_reason.is_some())
    }

    /// Queries the state from the kernel.
    pub fn update_report(&mut self) {
        #[cfg(test)]
        self.query_count.update(|count| count + 1);
        if self.close_reason.is_none()
            && let Some(socket) = &self.stream.socket
            && let Ok(info) = TcpInfo::query(socket, self.info_layout)
        {
            self.store_info(&info);
        }
    }

    fn store_info(&mut self, info: &TcpInfo) {
        let largest = self.sender_report.largest_cwnd_bytes;
        self.sender_report = SenderReport::from_tcp_info(
            info,
            self.ip_header_bytes,
            self.stream.written,
            self.stream.received,
        );
        self.sender_report.largest_cwnd_bytes = self.sender_report.largest_cwnd_bytes.max(largest);
        self.mss = info.snd_mss.into();
        self.had_unsent_data = info.is_sending();
        if let Some(name) = self.stream.socket.as_ref().and_then(socket::controller_name) {
            self.controller = name;
        }
    }

    /// Returns whether the sender state can change without work here: the kernel had data to send at the last query.
    pub fn is_sending(&self) -> bool {
        self.close_reason.is_none() && self.had_unsent_data
    }

    /// Returns the next deadline of a run or a check without input.
    pub fn poll_at(&self) -> Time {
        self.run_at().min(self.check_at())
    }

    /// Returns the next deadline of a run without input.
    pub fn run_at(&self) -> Time {
        #[cfg(test)]
        self.query_count.update(|count| count + 1);
        match (&self.close_reason, self.connected_at) {
            (None, Some(_)) if self.stream.may_have_more => Time::ZERO,
            (None, Some(_)) => self.app.poll_at(),
            _ => Time::MAX,
        }
    }

    /// Returns whether both sides have finished and only acknowledgements are missing.
    pub fn is_draining(&self) -> bool {
        self.close_reason.is_none() && self.stream.finished && self.stream.is_read_closed
    }

    /// Returns the poll flags of the socket.
    pub fn interest(&self) -> EpollFlags {
        let mut flags = EpollFlags::empty();
        if self.tcp_established && !self.stream.is_read_closed {
            flags |= EpollFlags::EPOLLIN;
        }
        let blocked = self.stream.byte_stream.as_ref().is_some_and(ByteStream::is_blocked);
        let writes = self.connected_at.is_some() && !self.stream.finishing && self.app.has_data();
        let ends = self.stream.finishing && !self.stream.finished;
        if !self.tcp_established || blocked || writes || ends {
            flags |= EpollFlags::EPOLLOUT;
        }
        flags
    }

    /// Does the due work. Reads go into `scratch`.
    pub fn run(&mut self, now: Time, readable: bool, scratch: &mut Vec<u8>) {
        if self.close_reason.is_some() {
            return;
        }
        std::mem::swap(&mut self.stream.buffer, scratch);
        let moved = (self.stream.received, self.stream.written);
        let done = self.advance(now, readable);
        std::mem::swap(&mut self.stream.buffer, scratch);
        if moved != (self.stream.received, self.stream.written) {
            self.last_progress_at = now;
        }
        if let Err(error) = done {
            self.stream.error.get_or_insert(error);
        }
        if let Some(error) = self.stream.error.take() {
            self.fail(now, &error);
        }
    }

    fn notify_app(&mut self, now: Time, event: AppEvent) {
        self.app.on_event(now, event, &mut self.stream);
    }

    fn advance(&mut self, now: Time, readable: bool) -> io::Result<()> {
        let mut readable = readable || self.stream.may_have_more;
        if self.connected_at.is_none() {
            if !self.advance_handshake(now)? {
                return Ok(());
            }
            self.connected_at = Some(now);
            self.last_progress_at = now;
            if self.accept_config.is_some() {
                self.notify_app(now, AppEvent::StreamOpened(0));
            }
            self.notify_app(now, AppEvent::Ready);
            // TLS can have buffered data that arrived with the last handshake message.
            readable = true;
        }
        if readable && !self.stream.is_read_closed {
            self.notify_app(now, AppEvent::Readable(0));
        }
        if self.app.poll_at() <= now {
            self.notify_app(now, AppEvent::Timer);
        }
        if self.stream.stopped {
            self.abort(now);
            return Ok(());
        }
        self.fill_send_buffer(now);
        let answered = self.stream.is_read_closed && !self.app.has_data();
        let unfinished = self.stream.finishing && !self.stream.finished;
        if self.stream.closing || answered || unfinished {
            self.stream.finish_now();
        }
        if let (Some(wire), Some(socket)) = (&mut self.stream.byte_stream, &mut self.stream.socket)
        {
            wire.flush(socket)?;
        }
        // A client closes when its FIN is sent: it has read the whole response before.
        if self.accept_config.is_none() && self.stream.closing && self.stream.finished {
            self.finish(now, CloseReason::Local);
        }
        Ok(())
    }

    fn fill_send_buffer(&mut self, now: Time) {
        self.stream.is_write_blocked = false;
        let until = self.stream.written + MAX_BYTES_PER_POLL;
        while !self.stream.is_write_blocked
            && !self.stream.finishing
            && self.stream.written < until
            && self.app.has_data()
        {
            let before = self.stream.written;
            self.notify_app(now, AppEvent::Writable);
            if self.stream.written == before {
                break;
            }
        }
    }

    /// Continues the handshakes. Returns whether they are complete.
    fn advance_handshake(&mut self, now: Time) -> io::Result<bool> {
        if self.stream.byte_stream.is_none() {
            self.stream.byte_stream = self.detect_protocol()?;
        }
        let (Some(wire), Some(socket)) = (&mut self.stream.byte_stream, &mut self.stream.socket)
        else {
            return Ok(false);
        };
        if !self.tcp_established {
            if let Some(error) = socket.take_error()? {
                return Err(error);
            }
            match socket.peer_addr() {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(false),
                Err(error) => return Err(error),
            }
            self.tcp_established = true;
            self.local = socket.local_addr()?;
            self.last_progress_at = now;
        }
        // One handshake flight per poll: the reply is sent after `now` and belongs to the next poll.
        if wire.is_handshaking() {
            wire.handshake(socket)?;
        }
        Ok(!wire.is_handshaking())
    }

    /// Detects the protocol of a client by its first byte, `None` before the first byte.
    fn detect_protocol(&self) -> io::Result<Option<ByteStream>> {
        let (Some(accepting), Some(socket)) = (&self.accept_config, &self.stream.socket) else {
            return Ok(None);
        };
        let mut first = [0];
        let count = match socket.peek(&mut first) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let tls = match accepting.transport {
            PerfTransport::Tls => true,
            PerfTransport::All => count > 0 && first[0] == TLS_RECORD,
            PerfTransport::Tcp | PerfTransport::Quic => false,
        };
        if !tls {
            return Ok(Some(ByteStream::Plain));
        }
        let made = ServerConnection::new(accepting.tls.clone())
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        Ok(Some(ByteStream::TlsServer(Box::new(made))))
    }

    /// Returns the time of the next [`PerfTcpConnection::check`]: acknowledgements cause no event.
    pub fn check_at(&self) -> Time {
        if self.close_reason.is_some() {
            return Time::MAX;
        }
        if self.is_draining() {
            return self.last_check_at + CHECK_INTERVAL;
        }
        let quiet = self.last_progress_at + Span::from_secs(1).min(self.idle_timeout);
        quiet.max(
            self.last_check_at
                + CHECK_INTERVAL.max(Span(self.idle_timeout.nanos() / CHECKS_PER_TIMEOUT)),
        )
    }

    /// Checks for the end of the connection and for the idle timeout.
    pub fn check(&mut self, now: Time) {
        if self.close_reason.is_some() || now < self.check_at() {
            return;
        }
        self.last_check_at = now;
        let silent = now.since(self.last_progress_at);
        if let Some(socket) = &self.stream.socket
            && let Ok(info) = TcpInfo::query(socket, self.info_layout)
        {
            self.store_info(&info);
            if info.bytes_acked != self.last_acked_bytes {
                self.last_acked_bytes = info.bytes_acked;
                self.last_progress_at = now;
                return;
            }
            if self.is_draining() && info.is_closed() {
                let failed = self.stream.socket.as_ref().and_then(|it| it.take_error().ok()?);
                match failed {
                    Some(error) => self.fail(now, &error),
                    None => self.finish(now, CloseReason::Peer),
                }
                return;
            }
        }
        if silent >= self.idle_timeout {
            self.finish(now, CloseReason::Lost("timed out".to_owned()));
        }
    }

    fn finish(&mut self, now: Time, end: CloseReason) {
        self.update_report();
        self.close_reason = Some(end);
        self.closed_at = Some(now);
    }

    /// Closes the socket after the end of the connection. The kernel sends the remaining data, unless it was aborted.
    pub fn release_socket(&mut self) {
        debug_assert!(self.close_reason.is_some(), "it has ended");
        self.stream.socket = None;
    }

    /// Aborts the connection with RST, as a client does to stop an endless response.
    pub fn abort(&mut self, now: Time) {
        if self.close_reason.is_none() {
            self.finish(now, CloseReason::Local);
        }
        if let Some(socket) = &self.stream.socket {
            socket::abort(socket);
        }
    }

    /// Closes the connection with RST in favour of a new one, so that its client learns of it.
    pub fn evict(&mut self, now: Time) {
        if self.close_reason.is_none() {
            self.finish(
                now,
                CloseReason::Lost("it was slow, and gave way to a new connection".to_owned()),
            );
        }
        self.abort(now);
    }

    /// Returns the bytes transferred in both directions.
    pub fn transferred_bytes(&self) -> u64 {
        self.stream.written + self.stream.received
    }

    fn fail(&mut self, now: Time, error: &io::Error) {
        let server = self.accept_config.is_some();
        self.update_report();
        let endless = server && u64::from_be_bytes(self.stream.request_head) >= ENDLESS_RESPONSE;
        let reset = matches!(
            error.kind(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted
        );
        if server && self.connected_at.is_some() {
            self.notify_app(now, AppEvent::Stopped(0));
        }
        let peer = if server { "client" } else { "server" };
        let end = match error.kind() {
            _ if reset && endless => CloseReason::Peer,
            _ if reset => CloseReason::Lost(format!("the {peer} has reset the connection")),
            ErrorKind::UnexpectedEof => {
                CloseReason::Lost(format!("the {peer} has closed the connection before its end"))
            }
            ErrorKind::TimedOut => CloseReason::Lost("timed out".to_owned()),
            ErrorKind::ConnectionRefused => CloseReason::Lost("refused".to_owned()),
            _ => CloseReason::Lost(error.to_string()),
        };
        self.finish(now, end);
    }
}

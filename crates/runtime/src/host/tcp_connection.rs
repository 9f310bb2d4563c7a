//! One kernel TCP connection from its handshake to its close: a socket, and the application of its only stream. The
//! application gets the same events at the same points as with the simulated TCP.

use std::borrow::Cow;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use nix::sys::epoll::EpollFlags;
use rustls::ServerConnection;
use transport::quic::CloseReason;
use transport::{App, AppCommand, AppEvent, AppNotification, ConnectionKey, Streams as _};
use units::{Span, Time};

use super::connection_report::{ConnectionReport, canonical_addr};
use super::tcp_connection_config::{TcpConnectionConfig, TcpProtocol};
use super::tcp_stream::{MAX_BYTES_PER_POLL, TcpStreamState};
use crate::SenderReport;
use crate::tcp::{ByteStream, TcpInfo, socket};

/// The first byte of a TLS handshake record (RFC 8446 section 5.1).
pub const TLS_RECORD: u8 = 22;

/// The interval of TCP_INFO queries for changes without an event.
const TCP_INFO_INTERVAL: Span = Span::from_millis(10);

/// The number of TCP_INFO queries of a connection without progress per idle timeout, and the time before the first.
const CHECKS_PER_TIMEOUT: u64 = 100;
const QUIET_TIME: Span = Span::from_secs(1);

/// The timeout for the peer's FIN after this side has closed and all data is acknowledged: Linux's FIN-WAIT-2
/// (`tcp_fin_timeout`).
const FIN_WAIT_TIMEOUT: Span = Span::from_secs(60);

/// One connection.
pub struct KernelTcpConnection {
    stream: TcpStreamState,
    app: Box<dyn App>,
    local: SocketAddr,
    remote: SocketAddr,
    /// The TCP handshake is complete.
    tcp_established: bool,
    /// The connection waits for the first byte of its client.
    awaits_first_byte: bool,
    /// The start of the handshake in progress.
    handshake_started_at: Option<Time>,
    connected_at: Option<Time>,
    /// The time of the last progress, and the acknowledged bytes at the last check.
    last_progress_at: Time,
    last_acked_bytes: u64,
    /// The time of the last check for progress.
    last_check_at: Time,
    info_poll_at: Time,
    /// The time since which all data and the FIN are acknowledged.
    fully_acked_at: Option<Time>,
    /// The poller has no more events of this socket.
    is_hung_up: bool,
    closed: Option<(CloseReason, Time)>,
    /// The last state that the kernel has reported, and the largest window and the controller until then.
    info: Option<TcpInfo>,
    cwnd_max_bytes: u64,
    controller: String,
    /// The number of queries of the state, for tests.
    #[cfg(feature = "test-support")]
    pub query_count: std::cell::Cell<u64>,
}

impl KernelTcpConnection {
    /// Creates a connection that was opened to `remote` or accepted from it.
    ///
    /// # Errors
    /// An error of TLS, or of the kernel.
    pub fn new(
        now: Time,
        socket: TcpStream,
        remote: SocketAddr,
        app: Box<dyn App>,
        is_client: bool,
        config: Arc<TcpConnectionConfig>,
    ) -> io::Result<KernelTcpConnection> {
        let awaits = matches!(config.protocol, TcpProtocol::FirstByte { .. });
        Ok(KernelTcpConnection {
            local: canonical_addr(socket.local_addr()?),
            stream: TcpStreamState::new(socket, config, is_client)?,
            app,
            remote: canonical_addr(remote),
            tcp_established: !is_client,
            awaits_first_byte: awaits,
            handshake_started_at: (is_client || awaits).then_some(now),
            connected_at: None,
            last_progress_at: now,
            last_acked_bytes: 0,
            last_check_at: now,
            info_poll_at: Time::MAX,
            fully_acked_at: None,
            is_hung_up: false,
            closed: None,
            info: None,
            cwnd_max_bytes: 0,
            controller: String::new(),
            #[cfg(feature = "test-support")]
            query_count: std::cell::Cell::default(),
        })
    }

    /// Returns the socket.
    pub(super) fn socket(&self) -> &TcpStream {
        &self.stream.socket
    }

    /// Returns the peer address.
    pub(super) fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Returns the bytes transferred in both directions.
    pub(super) fn transferred_bytes(&self) -> u64 {
        self.stream.written + self.stream.received
    }

    /// Returns the close reason of a closed connection.
    pub fn close_reason(&self) -> Option<&CloseReason> {
        self.closed.as_ref().map(|(reason, _)| reason)
    }

    /// Returns whether both sides have finished and only acknowledgements are missing.
    pub(super) fn is_draining(&self) -> bool {
        self.stream.finished && self.stream.is_read_closed
    }

    /// Returns whether the peer has sent more than its handshake of TCP.
    pub(super) fn has_peer_responded(&self) -> bool {
        match self.config().protocol {
            TcpProtocol::FirstByte { .. } => self.is_established(),
            TcpProtocol::Plain(_) | TcpProtocol::TlsClient(..) => self.transferred_bytes() > 0,
        }
    }

    fn config(&self) -> &TcpConnectionConfig {
        &self.stream.config
    }

    fn count_query(&self) {
        #[cfg(feature = "test-support")]
        self.query_count.update(|count| count + 1);
    }

    /// Queries the state for [`KernelTcpConnection::report`] from the kernel.
    pub(super) fn update_report(&mut self) {
        // A failed query leaves the last state.
        if self.closed.is_none() && self.query_info().is_ok() {
            self.controller = socket::controller_name(&self.stream.socket).unwrap_or_default();
        }
    }

    /// Returns the state at the last query.
    pub fn report(&self, key: ConnectionKey) -> ConnectionReport<'_> {
        self.count_query();
        let TcpStreamState { byte_stream, written, received, .. } = &self.stream;
        let ip_header_bytes = if self.remote.is_ipv4() { 20 } else { 40 };
        let sender = self.info.as_ref().map(|info| {
            let cwnd_max_bytes = Some(self.cwnd_max_bytes);
            let known = SenderReport::from_tcp_info(info, ip_header_bytes, *written, *received);
            SenderReport { cwnd_max_bytes, ..known }
        });
        ConnectionReport {
            key,
            transport: byte_stream.name(),
            local: self.local,
            remote: self.remote,
            tcp_established: self.tcp_established,
            connected_at: self.connected_at,
            closed: self.closed.clone(),
            alpn: byte_stream.alpn(),
            controller: Some(Cow::Borrowed(&self.controller)),
            peer_controller: self.app.peer_controller().map(Cow::Borrowed),
            mss: self.info.as_ref().map_or(0, |info| info.snd_mss.into()),
            sender: sender.unwrap_or_default(),
            is_sending: self.closed.is_none() && self.info.is_some_and(|info| info.is_sending()),
            streams: Cow::Borrowed(self.app.stream_reports()),
        }
    }

    /// Returns whether the application has got `AppEvent::Ready`.
    pub(super) fn is_established(&self) -> bool {
        self.tcp_established && self.handshake_started_at.is_none()
    }

    /// Passes a command to the application.
    pub(super) fn on_command(&mut self, order: AppCommand) {
        self.app.on_command(order);
    }

    /// Takes the notifications of the application since the last call.
    pub(super) fn take_notifications(&mut self) -> std::vec::Drain<'_, AppNotification> {
        self.stream.notifications.drain(..)
    }

    /// Returns the next deadline without input.
    pub(super) fn poll_at(&self) -> Time {
        self.count_query();
        if let Some(since) = self.handshake_started_at {
            return since + self.config().timeouts.handshake;
        }
        if self.stream.may_have_more && !self.stream.has_unread {
            return Time::ZERO;
        }
        self.app.poll_at().min(self.info_poll_at).min(self.idle_check_at())
    }

    /// Returns the time of the next check for progress: acknowledgements cause no event.
    fn idle_check_at(&self) -> Time {
        let Some(idle) = self.config().timeouts.idle else { return Time::MAX };
        let interval = TCP_INFO_INTERVAL.max(Span(idle.nanos() / CHECKS_PER_TIMEOUT));
        (self.last_progress_at + QUIET_TIME.min(idle)).max(self.last_check_at + interval)
    }

    /// Returns the poll flags of the socket, `None` if it needs no events.
    pub(super) fn interest(&self) -> Option<EpollFlags> {
        if self.is_hung_up || (self.stream.finished && self.stream.is_read_closed) {
            // A socket closed by both sides would report EPOLLHUP forever.
            return None;
        }
        let mut flags = EpollFlags::empty();
        let listens = !self.stream.has_unread || self.handshake_started_at.is_some();
        if self.tcp_established && !self.stream.is_read_closed && listens {
            flags |= EpollFlags::EPOLLIN;
        }
        let writes = self.is_established() && !self.stream.finishing && self.app.has_data();
        let ends = self.stream.finishing && !self.stream.finished;
        if !self.tcp_established || self.stream.byte_stream.is_blocked() || writes || ends {
            flags |= EpollFlags::EPOLLOUT;
        }
        Some(flags)
    }

    /// Starts the application of an accepted connection.
    pub(super) fn start_accepted(&mut self, now: Time, scratch: &mut Vec<u8>) {
        if self.awaits_first_byte {
            return;
        }
        self.connected_at = Some(now);
        self.with_buffer(now, scratch, |it| {
            it.notify_app(now, AppEvent::StreamOpened(0));
            if it.handshake_started_at.is_none() && !it.stream.byte_stream.is_handshaking() {
                it.notify_app(now, AppEvent::Ready);
            }
            it.advance(now, false)
        });
    }

    /// Does the due work. Reads go into `scratch`.
    pub fn run(&mut self, now: Time, readable: bool, broken: bool, scratch: &mut Vec<u8>) {
        self.with_buffer(now, scratch, |it| {
            if broken && it.tcp_established {
                // A reset discards the data received before it, as in the simulated stack.
                let reads = it.config().reads_before_reset && !it.stream.is_read_closed;
                if !reads && let Some(error) = it.stream.socket.take_error()? {
                    return Err(error);
                }
                it.is_hung_up |= it.stream.has_unread || it.stream.is_read_closed;
                it.info_poll_at = it.info_poll_at.min(now + TCP_INFO_INTERVAL);
            }
            it.advance(now, readable)
        });
    }

    fn with_buffer(
        &mut self,
        now: Time,
        scratch: &mut Vec<u8>,
        work: impl FnOnce(&mut KernelTcpConnection) -> io::Result<()>,
    ) {
        if self.closed.is_some() {
            return;
        }
        std::mem::swap(&mut self.stream.buffer, scratch);
        let moved = self.transferred_bytes();
        let done = work(self);
        if let Err(error) = done {
            self.stream.error.get_or_insert(error);
        }
        if moved != self.transferred_bytes() {
            self.last_progress_at = now;
        }
        if let Some(error) = self.stream.error.take()
            && self.closed.is_none()
        {
            self.fail(now, &error);
        }
        std::mem::swap(&mut self.stream.buffer, scratch);
    }

    fn notify_app(&mut self, now: Time, event: AppEvent) {
        self.app.on_event(now, event, &mut self.stream);
    }

    fn advance(&mut self, now: Time, readable: bool) -> io::Result<()> {
        let mut readable = readable || (self.stream.may_have_more && !self.stream.has_unread);
        if self.info_poll_at <= now {
            self.info_poll_at = Time::MAX;
        }
        if self.handshake_started_at.is_some() || self.stream.byte_stream.is_handshaking() {
            if !self.advance_handshake(now)? {
                return Ok(());
            }
            self.last_progress_at = now;
            let is_first = self.connected_at.is_none();
            self.connected_at.get_or_insert(now);
            if is_first && !self.stream.is_client {
                self.notify_app(now, AppEvent::StreamOpened(0));
            }
            self.notify_app(now, AppEvent::Ready);
            // TLS can have buffered data that arrived with the last handshake message, and a reset may have come.
            readable |= self.config().reads_before_reset
                || !matches!(self.stream.byte_stream, ByteStream::Plain);
        }
        if self.stream.finished && !self.config().reads_before_reset {
            // Before the received data: the peer may have sent it after it acknowledged all data of this side.
            self.check_acked(now)?;
        }
        if readable && !self.stream.is_read_closed {
            // An application that does not read now has to read later without a further event.
            self.stream.has_unread = true;
            self.notify_app(now, AppEvent::Readable(0));
        }
        if self.app.poll_at() <= now {
            self.notify_app(now, AppEvent::Timer);
        }
        if self.stream.stopped {
            socket::abort(&self.stream.socket);
            self.finish(now, CloseReason::Local);
            return Ok(());
        }
        self.fill_send_buffer(now);
        let answered = self.stream.is_read_closed && !self.app.has_data();
        let unfinished = self.stream.finishing && !self.stream.finished;
        if self.stream.closing || answered || unfinished {
            self.stream.finish_now();
        }
        if self.stream.byte_stream.is_handshaking() && self.handshake_started_at.is_none() {
            // The application has started TLS in this call.
            self.handshake_started_at = Some(now);
        }
        self.stream.byte_stream.flush(&mut self.stream.socket)?;
        if self.stream.closing && self.stream.has_unread {
            // A closing application reads no more, but the peer's FIN follows the data that is still unread.
            self.stream.read(0, &mut |_, _| {});
        }
        if self.stream.closes_at_once {
            // The kernel delivers the unacknowledged data.
            self.finish(now, CloseReason::Local);
            return Ok(());
        }
        let ends = self.config().closes_after_fin && self.stream.error.is_none();
        if ends && self.stream.finished && self.stream.closing {
            self.finish(now, CloseReason::Local);
            return Ok(());
        }
        if self.stream.finished {
            self.advance_close(now)?;
        }
        self.check_idle(now);
        Ok(())
    }

    fn fill_send_buffer(&mut self, now: Time) {
        self.stream.is_write_blocked = false;
        let until = self.stream.written + MAX_BYTES_PER_POLL;
        while !self.stream.is_write_blocked
            && !self.stream.finishing
            && self.stream.written < until
            && !self.stream.byte_stream.is_handshaking()
            && self.app.has_data()
        {
            let before = self.stream.written;
            self.notify_app(now, AppEvent::Writable);
            if self.stream.written == before {
                break;
            }
        }
    }

    fn query_info(&mut self) -> io::Result<TcpInfo> {
        self.count_query();
        let info = TcpInfo::query(&self.stream.socket, self.config().info_layout)?;
        self.cwnd_max_bytes = self.cwnd_max_bytes.max(info.cwnd_bytes());
        self.info = Some(info);
        Ok(info)
    }

    /// Continues the handshakes. Returns whether they are complete.
    fn advance_handshake(&mut self, now: Time) -> io::Result<bool> {
        let since = *self.handshake_started_at.get_or_insert(now);
        let TcpStreamState { socket, byte_stream, config, can_open, .. } = &mut self.stream;
        if !self.tcp_established {
            if let Some(error) = socket.take_error()? {
                return Err(error);
            }
            match socket.peer_addr() {
                Ok(_) => {
                    self.tcp_established = true;
                    self.local = canonical_addr(socket.local_addr()?);
                }
                Err(error) if error.kind() == ErrorKind::NotConnected => {}
                Err(error) => return Err(error),
            }
            *can_open = self.tcp_established;
        }
        if self.awaits_first_byte
            && let Some(detected) = detect_protocol(socket, &config.protocol)?
        {
            *byte_stream = detected;
            self.awaits_first_byte = false;
        }
        // One handshake flight per poll: the reply is sent after `now` and belongs to the next poll.
        let started = self.tcp_established && !self.awaits_first_byte;
        if started && byte_stream.is_handshaking() {
            byte_stream.handshake(socket)?;
        }
        if started && !byte_stream.is_handshaking() {
            self.handshake_started_at = None;
            return Ok(true);
        }
        if now >= since + config.timeouts.handshake {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(false)
    }

    /// Checks whether the FIN of this side is acknowledged, which no event reports.
    fn check_acked(&mut self, now: Time) -> io::Result<()> {
        if self.fully_acked_at.is_none() && self.query_info()?.is_finished() {
            if let Some(error) = self.stream.socket.take_error()? {
                return Err(error);
            }
            self.fully_acked_at = Some(now);
            self.notify_app(now, AppEvent::Finished(0));
        }
        Ok(())
    }

    /// Handles the close after this side has finished.
    fn advance_close(&mut self, now: Time) -> io::Result<()> {
        self.info_poll_at = now + TCP_INFO_INTERVAL;
        self.check_acked(now)?;
        let Some(since) = self.fully_acked_at else { return Ok(()) };
        if self.stream.is_read_closed {
            self.finish(
                now,
                if self.stream.closing { CloseReason::Local } else { CloseReason::Peer },
            );
        } else if self.stream.closing && now >= since + FIN_WAIT_TIMEOUT {
            socket::abort(&self.stream.socket);
            self.finish(now, CloseReason::Local);
        } else if !self.is_hung_up {
            // The peer's FIN is an event.
            self.info_poll_at =
                if self.stream.closing { since + FIN_WAIT_TIMEOUT } else { Time::MAX };
        }
        Ok(())
    }

    /// Closes a connection without progress during the idle timeout.
    fn check_idle(&mut self, now: Time) {
        let Some(idle) = self.config().timeouts.idle else { return };
        if self.closed.is_some() || now < self.idle_check_at() {
            return;
        }
        self.last_check_at = now;
        let acknowledged = self.query_info().map_or(self.last_acked_bytes, |info| info.bytes_acked);
        if std::mem::replace(&mut self.last_acked_bytes, acknowledged) != acknowledged {
            self.last_progress_at = now;
        } else if now >= self.last_progress_at + idle {
            socket::abort(&self.stream.socket);
            self.finish(now, CloseReason::Lost("timed out".to_owned()));
        }
    }

    /// Closes the connection with RST, so that the peer learns of it.
    pub(super) fn abort(&mut self, now: Time, end: CloseReason) {
        if self.closed.is_none() {
            socket::abort(&self.stream.socket);
            self.finish(now, end);
        }
    }

    fn finish(&mut self, now: Time, end: CloseReason) {
        if self.config().keeps_reports {
            self.update_report();
        }
        self.closed = Some((end, now));
        self.notify_app(now, AppEvent::Closed);
    }

    fn fail(&mut self, now: Time, error: &io::Error) {
        // After a reset, shutdown(2) fails with ENOTCONN.
        let reset = matches!(
            error.kind(),
            ErrorKind::ConnectionReset
                | ErrorKind::BrokenPipe
                | ErrorKind::ConnectionAborted
                | ErrorKind::NotConnected
        );
        if reset && self.is_established() {
            self.notify_app(now, AppEvent::Stopped(0));
        }
        let end = match error.kind() {
            _ if reset && self.app.expects_reset() => CloseReason::Peer,
            _ if reset => CloseReason::Lost("the peer has reset the connection".to_owned()),
            ErrorKind::UnexpectedEof => {
                CloseReason::Lost("the peer has closed the connection before its end".to_owned())
            }
            ErrorKind::TimedOut => CloseReason::Lost("timed out".to_owned()),
            ErrorKind::ConnectionRefused => CloseReason::Lost("refused".to_owned()),
            _ => CloseReason::Lost(error.to_string()),
        };
        // A reset could overtake the alert of a TLS error (RFC 8446 section 6.2).
        if error.kind() != ErrorKind::InvalidData {
            socket::abort(&self.stream.socket);
        }
        self.finish(now, end);
    }
}

/// Detects the protocol of a client by its first byte, `None` before the first byte.
fn detect_protocol(socket: &TcpStream, protocol: &TcpProtocol) -> io::Result<Option<ByteStream>> {
    let TcpProtocol::FirstByte { plain, tls } = protocol else { return Ok(None) };
    let mut first = [0];
    let count = match socket.peek(&mut first) {
        Ok(count) => count,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error),
    };
    let speaks_tls = !plain || (count > 0 && first[0] == TLS_RECORD);
    let Some(tls) = tls.as_ref().filter(|_| speaks_tls) else { return Ok(Some(ByteStream::Plain)) };
    let made = ServerConnection::new(tls.clone()).map_err(io::Error::other)?;
    Ok(Some(ByteStream::TlsServer(Box::new(made))))
}

//! One kernel TCP connection from its handshake to its close: a socket, and the application of its only stream. The
//! application gets the same events at the same points as with the simulated TCP.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};

use nix::sys::epoll::EpollFlags;
use transport::quic::CloseReason;
use transport::{App, AppCommand, AppEvent, AppNotification, Streams as _};
use units::{Span, Time};

use super::tcp_stream::{MAX_BYTES_PER_POLL, TcpStreamState, TlsKeys};
use crate::tcp::{ByteStream, TcpInfo, TcpInfoLayout, socket};

/// The interval of TCP_INFO queries for changes without an event.
const TCP_INFO_INTERVAL: Span = Span::from_millis(10);

/// The timeout for the peer's FIN after this side has closed and all data is acknowledged: Linux's FIN-WAIT-2
/// (`tcp_fin_timeout`).
const FIN_WAIT_TIMEOUT: Span = Span::from_secs(60);

/// Configuration shared by all connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct TcpConnectionConfig {
    /// The layout of the kernel's TCP_INFO.
    pub(super) info_layout: TcpInfoLayout,
    /// Timeouts of a connection.
    pub(super) timeouts: ConnectionTimeouts,
}

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionTimeouts {
    /// The limit of a TCP or TLS handshake.
    pub handshake: Span,
    /// The limit without progress, `None` for no limit.
    pub idle: Option<Span>,
}

/// One connection.
pub(super) struct TcpConnection {
    stream: TcpStreamState,
    app: Box<dyn App>,
    remote: SocketAddr,
    config: TcpConnectionConfig,
    /// The TCP handshake is complete.
    tcp_established: bool,
    /// The start of the handshake in progress.
    handshake_started_at: Option<Time>,
    /// The time of the last progress, and the acknowledged bytes at the last check.
    last_progress_at: Time,
    last_acked_bytes: u64,
    info_poll_at: Time,
    /// The time since which all data and the FIN are acknowledged.
    fully_acked_at: Option<Time>,
    /// The poller has no more events of this socket.
    is_hung_up: bool,
    close_reason: Option<CloseReason>,
}

impl TcpConnection {
    /// Creates a connection that was opened to `remote` or accepted from it.
    pub(super) fn new(
        now: Time,
        socket: TcpStream,
        remote: SocketAddr,
        app: Box<dyn App>,
        (dialled, keys, terms): (bool, Option<TlsKeys>, TcpConnectionConfig),
    ) -> TcpConnection {
        TcpConnection {
            stream: TcpStreamState::new(socket, keys, dialled),
            app,
            remote,
            config: terms,
            tcp_established: !dialled,
            handshake_started_at: dialled.then_some(now),
            last_progress_at: now,
            last_acked_bytes: 0,
            info_poll_at: Time::MAX,
            fully_acked_at: None,
            is_hung_up: false,
            close_reason: None,
        }
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
    pub(super) fn close_reason(&self) -> Option<&CloseReason> {
        self.close_reason.as_ref()
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
        if let Some(since) = self.handshake_started_at {
            return since + self.config.timeouts.handshake;
        }
        if self.stream.may_have_more && !self.stream.has_unread {
            return Time::ZERO;
        }
        let idle = self.config.timeouts.idle.map_or(Time::MAX, |idle| self.last_progress_at + idle);
        self.app.poll_at().min(self.info_poll_at).min(idle)
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
        self.with_buffer(now, scratch, |it| {
            it.notify_app(now, AppEvent::StreamOpened(0));
            if it.handshake_started_at.is_none() && !it.stream.byte_stream.is_handshaking() {
                it.notify_app(now, AppEvent::Ready);
            }
            it.advance(now, false)
        });
    }

    /// Does the due work. Reads go into `scratch`.
    pub(super) fn run(&mut self, now: Time, readable: bool, broken: bool, scratch: &mut Vec<u8>) {
        self.with_buffer(now, scratch, |it| {
            if broken && it.tcp_established {
                // A reset discards the data received before it, as in the simulated stack.
                if let Some(error) = it.stream.socket.take_error()? {
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
        work: impl FnOnce(&mut TcpConnection) -> io::Result<()>,
    ) {
        if self.close_reason.is_some() {
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
            && self.close_reason.is_none()
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
            self.notify_app(now, AppEvent::Ready);
            // TLS can have buffered data that arrived with the last handshake message.
            readable |= !matches!(self.stream.byte_stream, ByteStream::Plain);
        }
        if self.stream.finished {
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

    fn query_info(&self) -> io::Result<TcpInfo> {
        Ok(TcpInfo::query(&self.stream.socket, self.config.info_layout)?)
    }

    /// Continues the handshakes. Returns whether they are complete.
    fn advance_handshake(&mut self, now: Time) -> io::Result<bool> {
        let since = *self.handshake_started_at.get_or_insert(now);
        let TcpStreamState { socket, byte_stream: wire, .. } = &mut self.stream;
        if !self.tcp_established {
            if let Some(error) = socket.take_error()? {
                return Err(error);
            }
            match socket.peer_addr() {
                Ok(_) => self.tcp_established = true,
                Err(error) if error.kind() == ErrorKind::NotConnected => {}
                Err(error) => return Err(error),
            }
            self.stream.can_open = self.tcp_established;
        } else if wire.is_handshaking() {
            wire.handshake(socket)?;
        }
        if self.tcp_established && !self.stream.byte_stream.is_handshaking() {
            self.handshake_started_at = None;
            return Ok(true);
        }
        if now >= since + self.config.timeouts.handshake {
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
        let Some(idle) = self.config.timeouts.idle.filter(|_| self.close_reason.is_none()) else {
            return;
        };
        if now < self.last_progress_at + idle {
            return;
        }
        let acknowledged = self.query_info().map_or(self.last_acked_bytes, |info| info.bytes_acked);
        if std::mem::replace(&mut self.last_acked_bytes, acknowledged) != acknowledged {
            self.last_progress_at = now;
            return;
        }
        socket::abort(&self.stream.socket);
        self.finish(now, CloseReason::Lost("timed out".to_owned()));
    }

    /// Closes the connection with RST, so that the peer learns of it.
    pub(super) fn abort(&mut self, now: Time, end: CloseReason) {
        if self.close_reason.is_none() {
            socket::abort(&self.stream.socket);
            self.finish(now, end);
        }
    }

    fn finish(&mut self, now: Time, end: CloseReason) {
        self.close_reason = Some(end);
        self.notify_app(now, AppEvent::Closed);
    }

    fn fail(&mut self, now: Time, error: &io::Error) {
        let reset = matches!(
            error.kind(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted
        );
        if reset && self.is_established() {
            self.notify_app(now, AppEvent::Stopped(0));
        }
        let why = match error.kind() {
            _ if reset => "the peer has reset the connection".to_owned(),
            ErrorKind::UnexpectedEof => {
                "the peer has closed the connection before its end".to_owned()
            }
            ErrorKind::TimedOut => "timed out".to_owned(),
            ErrorKind::ConnectionRefused => "refused".to_owned(),
            _ => error.to_string(),
        };
        socket::abort(&self.stream.socket);
        self.finish(now, CloseReason::Lost(why));
    }
}

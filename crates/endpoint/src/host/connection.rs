//! One connection of the kernel's TCP from its handshake to its end: a socket, and the application of its one stream. What
//! its application hears, and when, is what it hears of the TCP of virtual time.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};

use nix::sys::epoll::EpollFlags;
use transport::quic::End;
use transport::{App, AppEvent, Notice, Order, Streams as _};
use units::{Span, Time};

use super::stream::{Keys, SHARE, Stream};
use crate::tcp_info::{Kernel, TcpInfo};
use crate::tcp_socket;
use crate::wire::Wire;

/// How often the kernel is asked for what no event tells.
const LOOK: Span = Span::from_millis(10);

/// Once this side has closed and all of it is acknowledged the peer has so long to finish: Linux's FIN-WAIT-2
/// (`tcp_fin_timeout`).
const LINGER: Span = Span::from_secs(60);

/// What holds for every connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// What the kernel can tell.
    pub(super) kernel: Kernel,
    /// Longest waits.
    pub(super) patience: Patience,
}

/// Longest waits.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For a handshake, TCP's or TLS's.
    pub handshake: Span,
    /// For anything to move; none: for ever.
    pub idle: Option<Span>,
}

/// One connection.
pub(super) struct Connection {
    stream: Stream,
    app: Box<dyn App>,
    remote: SocketAddr,
    terms: Terms,
    /// TCP's handshake is done.
    reached: bool,
    /// A handshake is waited for, since then.
    waits_since: Option<Time>,
    /// When something last moved, and what was acknowledged when that was last looked at.
    progress: Time,
    acknowledged: u64,
    look_at: Time,
    /// All that was sent is acknowledged, its end included, since then.
    acknowledged_at: Option<Time>,
    /// Events tell no more of it.
    hung: bool,
    end: Option<End>,
}

impl Connection {
    /// A connection that has begun to connect to `remote`, or that comes from there.
    pub(super) fn new(
        now: Time,
        socket: TcpStream,
        remote: SocketAddr,
        app: Box<dyn App>,
        (dialled, keys, terms): (bool, Option<Keys>, Terms),
    ) -> Connection {
        Connection {
            stream: Stream::new(socket, keys, dialled),
            app,
            remote,
            terms,
            reached: !dialled,
            waits_since: dialled.then_some(now),
            progress: now,
            acknowledged: 0,
            look_at: Time::MAX,
            acknowledged_at: None,
            hung: false,
            end: None,
        }
    }

    /// Its socket.
    pub(super) fn socket(&self) -> &TcpStream {
        &self.stream.socket
    }

    /// The other side's address.
    pub(super) fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Bytes moved both ways.
    pub(super) fn moved(&self) -> u64 {
        self.stream.written + self.stream.received
    }

    /// How it ended.
    pub(super) fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Whether its application has been told that it may begin.
    pub(super) fn is_open(&self) -> bool {
        self.reached && self.waits_since.is_none()
    }

    /// Says something to its application.
    pub(super) fn hear(&mut self, order: Order) {
        self.app.hear(order);
    }

    /// What its application has said since the last call.
    pub(super) fn take_said(&mut self) -> std::vec::Drain<'_, Notice> {
        self.stream.said.drain(..)
    }

    /// When it wants to run whatever comes.
    pub(super) fn wake_at(&self) -> Time {
        if let Some(since) = self.waits_since {
            return since + self.terms.patience.handshake;
        }
        if self.stream.more && !self.stream.unread {
            return Time::ZERO;
        }
        let idle = self.terms.patience.idle.map_or(Time::MAX, |idle| self.progress + idle);
        self.app.wake_at().min(self.look_at).min(idle)
    }

    /// What the socket is to be watched for; none: nothing.
    pub(super) fn interest(&self) -> Option<EpollFlags> {
        if self.hung || (self.stream.finished && self.stream.read_end) {
            // A socket that both ends have finished would call for ever (EPOLLHUP).
            return None;
        }
        let mut flags = EpollFlags::empty();
        let listens = !self.stream.unread || self.waits_since.is_some();
        if self.reached && !self.stream.read_end && listens {
            flags |= EpollFlags::EPOLLIN;
        }
        let writes = self.is_open() && !self.stream.finishing && self.app.has_data();
        let ends = self.stream.finishing && !self.stream.finished;
        if !self.reached || self.stream.wire.is_blocked() || writes || ends {
            flags |= EpollFlags::EPOLLOUT;
        }
        Some(flags)
    }

    /// Gives its application the connection as it was accepted.
    pub(super) fn begin(&mut self, now: Time, scratch: &mut Vec<u8>) {
        self.with(now, scratch, |it| {
            it.tell(now, AppEvent::Opened(0));
            if it.waits_since.is_none() && !it.stream.wire.is_handshaking() {
                it.tell(now, AppEvent::Ready);
            }
            it.go_on(now, false)
        });
    }

    /// Works. `scratch` is what it reads into.
    pub(super) fn run(&mut self, now: Time, readable: bool, broken: bool, scratch: &mut Vec<u8>) {
        self.with(now, scratch, |it| {
            if broken && it.reached {
                // What came before a reset is gone with it, as in the stack of virtual time.
                if let Some(error) = it.stream.socket.take_error()? {
                    return Err(error);
                }
                it.hung |= it.stream.unread || it.stream.read_end;
                it.look_at = it.look_at.min(now + LOOK);
            }
            it.go_on(now, readable)
        });
    }

    fn with(
        &mut self,
        now: Time,
        scratch: &mut Vec<u8>,
        work: impl FnOnce(&mut Connection) -> io::Result<()>,
    ) {
        if self.end.is_some() {
            return;
        }
        std::mem::swap(&mut self.stream.buffer, scratch);
        let moved = self.moved();
        let done = work(self);
        if let Err(error) = done {
            self.stream.failure.get_or_insert(error);
        }
        if moved != self.moved() {
            self.progress = now;
        }
        if let Some(error) = self.stream.failure.take()
            && self.end.is_none()
        {
            self.fail(now, &error);
        }
        std::mem::swap(&mut self.stream.buffer, scratch);
    }

    fn tell(&mut self, now: Time, event: AppEvent) {
        self.app.on(now, event, &mut self.stream);
    }

    fn go_on(&mut self, now: Time, readable: bool) -> io::Result<()> {
        let mut readable = readable || (self.stream.more && !self.stream.unread);
        if self.look_at <= now {
            self.look_at = Time::MAX;
        }
        if self.waits_since.is_some() || self.stream.wire.is_handshaking() {
            if !self.establish(now)? {
                return Ok(());
            }
            self.progress = now;
            self.tell(now, AppEvent::Ready);
            // What came with the end of a handshake is in TLS's hands already.
            readable |= !matches!(self.stream.wire, Wire::Plain);
        }
        if self.stream.finished {
            // Before what has come: the peer may have said it after all of ours.
            self.look(now)?;
        }
        if readable && !self.stream.read_end {
            // Who does not read now comes back for it: nothing is told before that.
            self.stream.unread = true;
            self.tell(now, AppEvent::Readable(0));
        }
        if self.app.wake_at() <= now {
            self.tell(now, AppEvent::Timer);
        }
        if self.stream.stopped {
            tcp_socket::abort(&self.stream.socket);
            self.over(now, End::Here);
            return Ok(());
        }
        self.refill(now);
        let answered = self.stream.read_end && !self.app.has_data();
        let unfinished = self.stream.finishing && !self.stream.finished;
        if self.stream.closing || answered || unfinished {
            self.stream.finish_now();
        }
        if self.stream.wire.is_handshaking() && self.waits_since.is_none() {
            // An application has asked for TLS just now.
            self.waits_since = Some(now);
        }
        self.stream.wire.flush(&mut self.stream.socket)?;
        if self.stream.closing && self.stream.unread {
            // Who is done reads no more, and the peer's end is behind what it has said meanwhile.
            self.stream.read(0, &mut |_, _| {});
        }
        if self.stream.at_once {
            // What is unacknowledged is the kernel's to bring.
            self.over(now, End::Here);
            return Ok(());
        }
        if self.stream.finished {
            self.settle(now)?;
        }
        self.give_up(now);
        Ok(())
    }

    fn refill(&mut self, now: Time) {
        self.stream.full = false;
        let until = self.stream.written + SHARE;
        while !self.stream.full
            && !self.stream.finishing
            && self.stream.written < until
            && !self.stream.wire.is_handshaking()
            && self.app.has_data()
        {
            let before = self.stream.written;
            self.tell(now, AppEvent::WantData);
            if self.stream.written == before {
                break;
            }
        }
    }

    fn info(&self) -> io::Result<TcpInfo> {
        Ok(TcpInfo::of(&self.stream.socket, self.terms.kernel)?)
    }

    /// Goes on with the handshakes; whether they are done.
    fn establish(&mut self, now: Time) -> io::Result<bool> {
        let since = *self.waits_since.get_or_insert(now);
        let Stream { socket, wire, .. } = &mut self.stream;
        if !self.reached {
            if let Some(error) = socket.take_error()? {
                return Err(error);
            }
            match socket.peer_addr() {
                Ok(_) => self.reached = true,
                Err(error) if error.kind() == ErrorKind::NotConnected => {}
                Err(error) => return Err(error),
            }
            self.stream.opens = self.reached;
        } else if wire.is_handshaking() {
            wire.handshake(socket)?;
        }
        if self.reached && !self.stream.wire.is_handshaking() {
            self.waits_since = None;
            return Ok(true);
        }
        if now >= since + self.terms.patience.handshake {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(false)
    }

    /// Looks whether the end of this side's bytes is acknowledged, which no event tells.
    fn look(&mut self, now: Time) -> io::Result<()> {
        if self.acknowledged_at.is_none() && self.info()?.is_finished() {
            if let Some(error) = self.stream.socket.take_error()? {
                return Err(error);
            }
            self.acknowledged_at = Some(now);
            self.tell(now, AppEvent::Finished(0));
        }
        Ok(())
    }

    /// What follows once this side has finished.
    fn settle(&mut self, now: Time) -> io::Result<()> {
        self.look_at = now + LOOK;
        self.look(now)?;
        let Some(since) = self.acknowledged_at else { return Ok(()) };
        if self.stream.read_end {
            self.over(now, if self.stream.closing { End::Here } else { End::There });
        } else if self.stream.closing && now >= since + LINGER {
            tcp_socket::abort(&self.stream.socket);
            self.over(now, End::Here);
        } else if !self.hung {
            // The peer's end is an event.
            self.look_at = if self.stream.closing { since + LINGER } else { Time::MAX };
        }
        Ok(())
    }

    /// Ends it where nothing has moved for too long.
    fn give_up(&mut self, now: Time) {
        let Some(idle) = self.terms.patience.idle.filter(|_| self.end.is_none()) else { return };
        if now < self.progress + idle {
            return;
        }
        let acknowledged = self.info().map_or(self.acknowledged, |info| info.bytes_acked);
        if std::mem::replace(&mut self.acknowledged, acknowledged) != acknowledged {
            self.progress = now;
            return;
        }
        tcp_socket::abort(&self.stream.socket);
        self.over(now, End::Lost("timed out".to_owned()));
    }

    /// Ends it at once (RST), so that its peer knows.
    pub(super) fn abort(&mut self, now: Time, end: End) {
        if self.end.is_none() {
            tcp_socket::abort(&self.stream.socket);
            self.over(now, end);
        }
    }

    fn over(&mut self, now: Time, end: End) {
        self.end = Some(end);
        self.tell(now, AppEvent::Closed);
    }

    fn fail(&mut self, now: Time, error: &io::Error) {
        let reset = matches!(
            error.kind(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted
        );
        if reset && self.is_open() {
            self.tell(now, AppEvent::Stopped(0));
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
        tcp_socket::abort(&self.stream.socket);
        self.over(now, End::Lost(why));
    }
}

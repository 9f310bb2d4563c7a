//! One TCP connection, from its handshakes to its end: a socket, and the application of its one stream.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use nix::sys::epoll::EpollFlags;
use rustls::{ServerConfig, ServerConnection};
use transport::load::{Answer, StreamReport};
use transport::quic::End;
use transport::{App, AppEvent};
use units::{Span, Time};

use super::stream::{SHARE, Stream};
use crate::perf::frames::Opening;
use crate::perf::report::Names;
use crate::perf::{Choose, Sender, Transport};
use crate::tcp_info::{Kernel, TcpInfo};
use crate::tcp_socket;
use crate::wire::Wire;

/// A size that a client asks for when it means to stop the server itself (2^62 - 1, see `PerfClient`).
const ENDLESS: u64 = (1 << 62) - 1;

/// First byte of a TLS handshake record (RFC 8446 section 5.1). A size that begins with it would be
/// 1.6 * 10^18 bytes, which clients are kept from asking for.
pub const TLS_RECORD: u8 = 22;

/// How often a connection is looked at of whose end no event tells, and what part of the longest silence lies between two
/// looks at others that are silent.
const LOOK: Span = Span(10_000_000);
const LOOKS: u64 = 100;

/// What a server makes of a new connection.
#[derive(Clone)]
pub struct Accepting {
    /// What it speaks.
    pub transport: Transport,
    /// Its TLS.
    pub tls: Arc<ServerConfig>,
    /// Which controllers clients may choose.
    pub choose: Choose,
}

/// One connection.
pub struct Connection {
    stream: Stream,
    app: Box<dyn App>,
    accepting: Option<Accepting>,
    kernel: Kernel,
    /// Bytes of an IP header.
    ip: u64,
    local: SocketAddr,
    remote: SocketAddr,
    began: Time,
    /// TCP's handshake is done.
    reached: bool,
    connected_at: Option<Time>,
    end: Option<End>,
    ended_at: Option<Time>,
    idle: Span,
    /// When something last moved, and what was acknowledged then.
    progress: Time,
    acked: u64,
    /// When that was last looked at.
    checked: Time,
    sender: Sender,
    mss: u64,
    /// The kernel had something to send, as last asked for.
    sending: bool,
    /// Bytes of a client's request.
    request: u64,
    /// The kernel's controller, as last asked for.
    congestion: String,
    /// How often it was asked for its state.
    #[cfg(test)]
    pub asked: std::cell::Cell<u64>,
}

impl Connection {
    /// A client's connection, which has begun to connect.
    pub fn dial(
        now: Time,
        socket: TcpStream,
        remote: SocketAddr,
        wire: Wire,
        app: Box<dyn App>,
        kernel: Kernel,
        idle: Span,
    ) -> io::Result<Connection> {
        let local = socket.local_addr()?;
        let mut made = Connection::new(now, socket, remote, local, app, kernel, idle);
        made.stream.wire = Some(wire);
        made.stream.opens = true;
        Ok(made)
    }

    /// A connection that a server has accepted.
    pub fn accept(
        now: Time,
        socket: TcpStream,
        remote: SocketAddr,
        accepting: Accepting,
        app: Box<dyn App>,
        kernel: Kernel,
        idle: Span,
    ) -> io::Result<Connection> {
        let local = socket.local_addr()?;
        let mut made = Connection::new(now, socket, remote, local, app, kernel, idle);
        made.stream.choose = Some(accepting.choose);
        made.accepting = Some(accepting);
        made.reached = true;
        Ok(made)
    }

    fn new(
        now: Time,
        socket: TcpStream,
        remote: SocketAddr,
        local: SocketAddr,
        app: Box<dyn App>,
        kernel: Kernel,
        idle: Span,
    ) -> Connection {
        let canonical =
            |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let remote = canonical(remote);
        Connection {
            stream: Stream::new(socket),
            app,
            accepting: None,
            kernel,
            ip: if remote.is_ipv4() { 20 } else { 40 },
            local: canonical(local),
            remote,
            began: now,
            reached: false,
            connected_at: None,
            end: None,
            ended_at: None,
            idle,
            progress: now,
            acked: 0,
            checked: now,
            sender: Sender::default(),
            mss: 0,
            sending: false,
            request: 0,
            congestion: String::new(),
            #[cfg(test)]
            asked: std::cell::Cell::default(),
        }
    }

    /// Its socket; none once it has been given back.
    pub fn socket(&self) -> Option<&TcpStream> {
        self.stream.socket.as_ref()
    }

    /// The other side's address.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// When it began.
    pub fn began(&self) -> Time {
        self.began
    }

    /// Whether TCP's handshake is done.
    pub fn is_reached(&self) -> bool {
        self.reached
    }

    /// When its handshakes were done.
    pub fn connected_at(&self) -> Option<Time> {
        #[cfg(test)]
        self.asked.update(|count| count + 1);
        self.connected_at
    }

    /// How it ended, and when.
    pub fn ended(&self) -> Option<(&End, Time)> {
        #[cfg(test)]
        self.asked.update(|count| count + 1);
        self.end.as_ref().zip(self.ended_at)
    }

    /// Its streams: one, once there is one.
    pub fn streams(&self) -> &[StreamReport] {
        self.app.streams()
    }

    /// `tcp` or `tls`.
    pub fn transport(&self) -> &'static str {
        self.stream.wire.as_ref().map_or("tcp", Wire::name)
    }

    /// The ALPN agreed on.
    pub fn alpn(&self) -> Option<String> {
        self.stream.wire.as_ref().and_then(Wire::alpn)
    }

    /// What frames tell of it once its handshakes are done: at `connected`, as number `number`.
    pub fn opening(&self, number: u32, connected: Time) -> Opening<'_> {
        Opening {
            connection: number,
            transport: self.transport(),
            local: self.local.to_string(),
            remote: self.remote.to_string(),
            congestion: &self.congestion,
            start: self.began,
            connected,
            mss_bytes: self.mss,
        }
    }

    /// Largest segment, as last asked for.
    pub fn mss(&self) -> u64 {
        self.mss
    }

    /// What the kernel last said of it.
    pub fn last(&self) -> Sender {
        self.sender.told(self.request)
    }

    /// Its request has so many bytes: a client's.
    pub fn requests(&mut self, bytes: u64) {
        self.request = bytes;
    }

    /// Its controllers.
    pub fn names(&self) -> Names<'_> {
        Names::new(&self.congestion, self.app.told())
    }

    /// The server's answer, if it does not do what was asked for.
    pub fn refused(&self) -> Option<&Answer> {
        self.app.told().filter(|answer| answer.refused.is_some())
    }

    /// Asks the kernel about it now.
    pub fn sample(&mut self) {
        #[cfg(test)]
        self.asked.update(|count| count + 1);
        if self.end.is_none()
            && let Some(socket) = &self.stream.socket
            && let Ok(info) = TcpInfo::of(socket, self.kernel)
        {
            self.keep(&info);
        }
    }

    fn keep(&mut self, info: &TcpInfo) {
        let largest = self.sender.largest_cwnd_bytes;
        self.sender = Sender::tcp(info, self.ip, self.stream.written, self.stream.received);
        self.sender.largest_cwnd_bytes = self.sender.largest_cwnd_bytes.max(largest);
        self.mss = info.snd_mss.into();
        self.sending = info.is_sending();
        if let Some(name) = self.stream.socket.as_ref().and_then(tcp_socket::congestion) {
            self.congestion = name;
        }
    }

    /// Whether its sender's state may change though it does nothing: its kernel had something to send when last asked.
    pub fn is_sending(&self) -> bool {
        self.end.is_none() && self.sending
    }

    /// When it wants its turn whatever comes: to run or to be looked at.
    pub fn turn_at(&self) -> Time {
        self.wake_at().min(self.check_at())
    }

    /// When it wants to run whatever comes.
    pub fn wake_at(&self) -> Time {
        #[cfg(test)]
        self.asked.update(|count| count + 1);
        match (&self.end, self.connected_at) {
            (None, Some(_)) if self.stream.more => Time::ZERO,
            (None, Some(_)) => self.app.wake_at(),
            _ => Time::MAX,
        }
    }

    /// Whether both ends have finished and only acknowledgements are awaited.
    pub fn is_draining(&self) -> bool {
        self.end.is_none() && self.stream.finished && self.stream.read_end
    }

    /// What the socket is to be watched for.
    pub fn interest(&self) -> EpollFlags {
        let mut flags = EpollFlags::empty();
        if self.reached && !self.stream.read_end {
            flags |= EpollFlags::EPOLLIN;
        }
        let blocked = self.stream.wire.as_ref().is_some_and(Wire::is_blocked);
        let writes = self.connected_at.is_some() && !self.stream.finishing && self.app.has_data();
        let ends = self.stream.finishing && !self.stream.finished;
        if !self.reached || blocked || writes || ends {
            flags |= EpollFlags::EPOLLOUT;
        }
        flags
    }

    /// Works. `scratch` is what it reads into.
    pub fn run(&mut self, now: Time, readable: bool, scratch: &mut Vec<u8>) {
        if self.end.is_some() {
            return;
        }
        std::mem::swap(&mut self.stream.buffer, scratch);
        let moved = (self.stream.received, self.stream.written);
        let done = self.work(now, readable);
        std::mem::swap(&mut self.stream.buffer, scratch);
        if moved != (self.stream.received, self.stream.written) {
            self.progress = now;
        }
        if let Err(error) = done {
            self.stream.failure.get_or_insert(error);
        }
        if let Some(error) = self.stream.failure.take() {
            self.fail(now, &error);
        }
    }

    fn tell(&mut self, now: Time, event: AppEvent) {
        self.app.on(now, event, &mut self.stream);
    }

    fn work(&mut self, now: Time, readable: bool) -> io::Result<()> {
        let mut readable = readable || self.stream.more;
        if self.connected_at.is_none() {
            if !self.establish(now)? {
                return Ok(());
            }
            self.connected_at = Some(now);
            self.progress = now;
            if self.accepting.is_some() {
                self.tell(now, AppEvent::Opened(0));
            }
            self.tell(now, AppEvent::Ready);
            // What came with the end of a handshake is in TLS's hands already.
            readable = true;
        }
        if readable && !self.stream.read_end {
            self.tell(now, AppEvent::Readable(0));
        }
        if self.app.wake_at() <= now {
            self.tell(now, AppEvent::Timer);
        }
        if self.stream.stopped {
            self.abort(now);
            return Ok(());
        }
        self.refill(now);
        let answered = self.stream.read_end && !self.app.has_data();
        let unfinished = self.stream.finishing && !self.stream.finished;
        if self.stream.closing || answered || unfinished {
            self.stream.finish_now();
        }
        if let (Some(wire), Some(socket)) = (&mut self.stream.wire, &mut self.stream.socket) {
            wire.flush(socket)?;
        }
        // A client is done when the server has finished: it read all before.
        if self.accepting.is_none() && self.stream.closing && self.stream.finished {
            self.over(now, End::Here);
        }
        Ok(())
    }

    fn refill(&mut self, now: Time) {
        self.stream.full = false;
        let until = self.stream.written + SHARE;
        while !self.stream.full
            && !self.stream.finishing
            && self.stream.written < until
            && self.app.has_data()
        {
            let before = self.stream.written;
            self.tell(now, AppEvent::WantData);
            if self.stream.written == before {
                break;
            }
        }
    }

    /// Goes on with the handshakes; whether they are done.
    fn establish(&mut self, now: Time) -> io::Result<bool> {
        if self.stream.wire.is_none() {
            self.stream.wire = self.heard()?;
        }
        let (Some(wire), Some(socket)) = (&mut self.stream.wire, &mut self.stream.socket) else {
            return Ok(false);
        };
        if !self.reached {
            if let Some(error) = socket.take_error()? {
                return Err(error);
            }
            match socket.peer_addr() {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(false),
                Err(error) => return Err(error),
            }
            self.reached = true;
            self.local = socket.local_addr()?;
            self.progress = now;
        }
        // One flight a turn: what answers it was sent after `now`, and is the next turn's.
        if wire.is_handshaking() {
            wire.handshake(socket)?;
        }
        Ok(!wire.is_handshaking())
    }

    /// What a client speaks, by its first byte; none: nothing has come.
    fn heard(&self) -> io::Result<Option<Wire>> {
        let (Some(accepting), Some(socket)) = (&self.accepting, &self.stream.socket) else {
            return Ok(None);
        };
        let mut first = [0];
        let count = match socket.peek(&mut first) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let tls = match accepting.transport {
            Transport::Tls => true,
            Transport::All => count > 0 && first[0] == TLS_RECORD,
            Transport::Tcp | Transport::Quic => false,
        };
        if !tls {
            return Ok(Some(Wire::Plain));
        }
        let made = ServerConnection::new(accepting.tls.clone())
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        Ok(Some(Wire::Server(Box::new(made))))
    }

    /// When [`Connection::check`] has something to look at: acknowledgements move without a word to anybody.
    pub fn check_at(&self) -> Time {
        if self.end.is_some() {
            return Time::MAX;
        }
        if self.is_draining() {
            return self.checked + LOOK;
        }
        let quiet = self.progress + Span::from_secs(1).min(self.idle);
        quiet.max(self.checked + LOOK.max(Span(self.idle.nanos() / LOOKS)))
    }

    /// Looks whether it has come to its end, or nothing has moved for too long.
    pub fn check(&mut self, now: Time) {
        if self.end.is_some() || now < self.check_at() {
            return;
        }
        self.checked = now;
        let silent = now.since(self.progress);
        if let Some(socket) = &self.stream.socket
            && let Ok(info) = TcpInfo::of(socket, self.kernel)
        {
            self.keep(&info);
            if info.bytes_acked != self.acked {
                self.acked = info.bytes_acked;
                self.progress = now;
                return;
            }
            if self.is_draining() && info.is_closed() {
                let failed = self.stream.socket.as_ref().and_then(|it| it.take_error().ok()?);
                match failed {
                    Some(error) => self.fail(now, &error),
                    None => self.over(now, End::There),
                }
                return;
            }
        }
        if silent >= self.idle {
            self.over(now, End::Lost("timed out".to_owned()));
        }
    }

    fn over(&mut self, now: Time, end: End) {
        self.sample();
        self.end = Some(end);
        self.ended_at = Some(now);
    }

    /// Gives the socket back, after the end: what it still has to send leaves, unless it was aborted.
    pub fn close(&mut self) {
        debug_assert!(self.end.is_some(), "it has ended");
        self.stream.socket = None;
    }

    /// Ends it without ceremony (RST), as a client that has had enough of an endless response does.
    pub fn abort(&mut self, now: Time) {
        if self.end.is_none() {
            self.over(now, End::Here);
        }
        if let Some(socket) = &self.stream.socket {
            tcp_socket::abort(socket);
        }
    }

    /// Gives its place to another: ends it at once (RST), so that its client knows.
    pub fn give_way(&mut self, now: Time) {
        if self.end.is_none() {
            self.over(now, End::Lost("it was slow, and gave way to a new connection".to_owned()));
        }
        self.abort(now);
    }

    /// Bytes moved both ways.
    pub fn moved(&self) -> u64 {
        self.stream.written + self.stream.received
    }

    fn fail(&mut self, now: Time, error: &io::Error) {
        let server = self.accepting.is_some();
        self.sample();
        let endless = server && u64::from_be_bytes(self.stream.head) >= ENDLESS;
        let reset = matches!(
            error.kind(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted
        );
        if server && self.connected_at.is_some() {
            self.tell(now, AppEvent::Stopped(0));
        }
        let peer = if server { "client" } else { "server" };
        let end = match error.kind() {
            _ if reset && endless => End::There,
            _ if reset => End::Lost(format!("the {peer} has reset the connection")),
            ErrorKind::UnexpectedEof => {
                End::Lost(format!("the {peer} has closed the connection before its end"))
            }
            ErrorKind::TimedOut => End::Lost("timed out".to_owned()),
            ErrorKind::ConnectionRefused => End::Lost("refused".to_owned()),
            _ => End::Lost(error.to_string()),
        };
        self.over(now, end);
    }
}

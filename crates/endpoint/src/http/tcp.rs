//! HTTP/2 and HTTP/1.1 by hyper over the kernel's TCP, on a thread of their own.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::crowd::{Crowd, Room, Signs};
use super::log::{AccessLog, Record};
use super::plan::ServeLimits;
use super::site::{Body, Site};
use super::{Protocol, ServePlan};
use crate::Clock;

/// How often a stop is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// Pause after an accept that failed for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Type of a TLS record that begins a connection (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 22;

/// Least buffer of hyper for HTTP/1.1.
const LEAST_BUFFER: usize = 8192;

/// What all connections share.
pub(super) struct Shared {
    site: Arc<Site>,
    log: Arc<AccessLog>,
    clock: Clock,
    limits: ServeLimits,
    acceptor: TlsAcceptor,
    protocols: Vec<Protocol>,
    /// HTTP/1.1 without TLS is served at the same port: to hosts of the page that have none.
    plain: bool,
    crowd: Arc<Crowd>,
    opened: AtomicU64,
}

impl Shared {
    pub(super) fn new(
        plan: &ServePlan,
        site: Arc<Site>,
        log: Arc<AccessLog>,
        tls: rustls::ServerConfig,
        protocols: Vec<Protocol>,
    ) -> Shared {
        let clock = Clock::start();
        let hosts = plan.content.page.iter().flat_map(|page| &page.hosts);
        let plain = hosts.clone().any(|host| !host.tls) && protocols.contains(&Protocol::Http1);
        Shared {
            plain,
            site,
            log,
            clock,
            limits: plan.limits,
            acceptor: TlsAcceptor::from(Arc::new(tls)),
            protocols,
            crowd: Crowd::new(plan.limits.connections, clock),
            opened: AtomicU64::new(0),
        }
    }
}

/// Serves until `stop` is set.
///
/// # Errors
/// The kernel's.
pub(super) fn run(
    shared: Arc<Shared>,
    listeners: Vec<TcpListener>,
    stop: &AtomicBool,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        for listener in listeners {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tokio::spawn(accept(shared.clone(), listener));
        }
        while !stop.load(Ordering::Relaxed) {
            sleep(LOOK).await;
        }
        Ok(())
    })
}

async fn accept(shared: Arc<Shared>, listener: tokio::net::TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // One too many is closed at once.
                if !has_room(&shared).await {
                    continue;
                }
                shared.crowd.take(|seat, signs| {
                    let shared = shared.clone();
                    let task = tokio::spawn(async move {
                        let _ = serve(shared, stream, peer, signs).await;
                        drop(seat);
                    });
                    task.abort_handle()
                });
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Whether a newcomer gets a place; waits while all others have only just come.
async fn has_room(shared: &Shared) -> bool {
    loop {
        let now = shared.clock.now();
        match shared.crowd.room(now) {
            Room::Free => return true,
            Room::None => return false,
            Room::At(until) => sleep(Duration::from_nanos(until.since(now).nanos())).await,
        }
    }
}

/// One connection, to its end.
async fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    signs: Arc<Signs>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let patience = Duration::from_nanos(shared.limits.handshake_timeout_ns);
    if shared.plain && timeout(patience, is_plain(&stream)).await?? {
        return carry(shared, stream, Protocol::Http1, peer, signs).await;
    }
    let stream = timeout(patience, shared.acceptor.accept(stream)).await??;
    // Who names no protocol speaks HTTP/1.1 (RFC 9112), if that is served.
    let protocol = match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => Protocol::Http2,
        _ if shared.protocols.contains(&Protocol::Http1) => Protocol::Http1,
        _ => return Ok(()),
    };
    carry(shared, stream, protocol, peer, signs).await
}

/// Whether a client's first byte is no record of a TLS handshake (RFC 8446 section 5.1).
async fn is_plain(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    Ok(stream.peek(&mut first).await? == 1 && first[0] != TLS_HANDSHAKE)
}

/// Serves requests over `stream`, to its end.
async fn carry<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    shared: Arc<Shared>,
    stream: S,
    protocol: Protocol,
    peer: SocketAddr,
    signs: Arc<Signs>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    signs.established();
    let index = shared.opened.fetch_add(1, Ordering::Relaxed);
    shared.log.count(|totals| totals.tcp_connections += 1);
    let patience = Duration::from_nanos(shared.limits.idle_timeout_ns);
    let io = TokioIo::new(Idle::new(stream, patience, signs));
    let limits = shared.limits;
    let first = AtomicBool::new(true);
    let service = service_fn(move |request| {
        let first = first.swap(false, Ordering::Relaxed);
        answer(shared.clone(), request, protocol, index, peer, first)
    });
    if protocol == Protocol::Http2 {
        http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams)
            .max_header_list_size(limits.header_bytes)
            .initial_stream_window_size(1 << 16)
            .initial_connection_window_size(1 << 20)
            .serve_connection(io, service)
            .await?;
    } else {
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_nanos(limits.handshake_timeout_ns))
            .max_buf_size(LEAST_BUFFER.max(limits.header_bytes as usize))
            .serve_connection(io, service)
            .await?;
    }
    Ok(())
}

async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
    protocol: Protocol,
    index: u64,
    peer: SocketAddr,
    first: bool,
) -> Result<Response<Logged>, Infallible> {
    let uri = request.uri();
    let host = request.headers().get(http::header::HOST).and_then(|host| host.to_str().ok());
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let answer = shared.site.answer(request.method(), path, protocol, first);
    let mut record = Record {
        time_ns: shared.clock.monotonic_ns(shared.clock.now()),
        protocol: protocol.name(),
        connection: format!("t{index}"),
        peer: SocketAddr::new(peer.ip().to_canonical(), peer.port()).to_string(),
        method: request.method().to_string(),
        authority: uri.authority().map(|name| name.as_str()).or(host).unwrap_or("").to_owned(),
        path: path.to_owned(),
        status: answer.status.as_u16(),
        bytes: 0,
        first_byte_ns: None,
        last_byte_ns: None,
        acked_ns: None,
        complete: false,
    };
    if !answer.think.is_zero() {
        sleep(answer.think).await;
    }
    record.first_byte_ns = Some(shared.clock.monotonic_ns(shared.clock.now()));
    let mut response = Response::new(Logged { body: answer.body, record, shared });
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.header;
    // A body without bytes is never asked for.
    response.body_mut().note();
    Ok(response)
}

/// A body whose going is written down.
struct Logged {
    body: Body,
    record: Record,
    shared: Arc<Shared>,
}

impl Logged {
    fn note(&mut self) {
        if self.body.left() == 0 {
            let clock = self.shared.clock;
            self.record.last_byte_ns.get_or_insert(clock.monotonic_ns(clock.now()));
            self.record.complete = true;
        }
    }
}

impl http_body::Body for Logged {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = match self.body.next() {
            Ok(Some(piece)) => piece,
            Ok(None) => return Poll::Ready(None),
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        self.record.bytes += piece.len() as u64;
        self.note();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.left() == 0
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.body.left())
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        self.shared.log.add(&self.record);
    }
}

/// A connection that ends when nothing has come or gone for a time.
struct Idle<S> {
    inner: S,
    patience: Duration,
    timer: Pin<Box<Sleep>>,
    signs: Arc<Signs>,
}

impl<S> Idle<S> {
    fn new(inner: S, patience: Duration, signs: Arc<Signs>) -> Idle<S> {
        Idle { inner, patience, timer: Box::pin(sleep(patience)), signs }
    }

    /// Something went through, or nothing for too long.
    fn watch<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            let until = Instant::now() + self.patience;
            self.timer.as_mut().reset(until);
            return poll;
        }
        ready!(self.timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Idle<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let poll = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.signs.moved(buffer.filled().len() - before);
        self.watch(cx, poll)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Idle<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(cx, data);
        if let Poll::Ready(Ok(bytes)) = &poll {
            self.signs.moved(*bytes);
        }
        self.watch(cx, poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

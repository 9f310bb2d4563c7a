//! HTTP/2 and HTTP/1.1 by hyper over kernel TCP, on a separate thread.

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
use runtime::Clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::access_log::{AccessLog, AccessRecord};
use super::connection_limiter::{Capacity, ConnectionActivity, ConnectionLimiter};
use super::plan::HttpServerLimits;
use super::site::{ResponseBody, Site};
use super::{HttpServerPlan, HttpVersion};

/// The interval of checks for a stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The pause after an accept that failed for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The type of the first TLS record of a connection (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 22;

/// The minimum buffer of hyper for HTTP/1.1.
const MIN_BUFFER_BYTES: usize = 8192;

/// State shared by all connections.
pub(super) struct TcpServerContext {
    site: Arc<Site>,
    log: Arc<AccessLog>,
    clock: Clock,
    limits: HttpServerLimits,
    acceptor: TlsAcceptor,
    protocols: Vec<HttpVersion>,
    /// HTTP/1.1 without TLS is served at the same port, for hosts of the page without TLS.
    serves_plain: bool,
    limiter: Arc<ConnectionLimiter>,
    opened: AtomicU64,
}

impl TcpServerContext {
    pub(super) fn new(
        plan: &HttpServerPlan,
        site: Arc<Site>,
        log: Arc<AccessLog>,
        tls: rustls::ServerConfig,
        protocols: Vec<HttpVersion>,
    ) -> TcpServerContext {
        let clock = Clock::start();
        let hosts = plan.content.page.iter().flat_map(|page| &page.hosts);
        let plain = hosts.clone().any(|host| !host.tls) && protocols.contains(&HttpVersion::Http1);
        TcpServerContext {
            serves_plain: plain,
            site,
            log,
            clock,
            limits: plan.limits,
            acceptor: TlsAcceptor::from(Arc::new(tls)),
            protocols,
            limiter: ConnectionLimiter::new(plan.limits.connections, clock),
            opened: AtomicU64::new(0),
        }
    }
}

/// Serves until `stop` is set.
///
/// # Errors
/// An error of the kernel.
pub(super) fn run(
    shared: Arc<TcpServerContext>,
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
            sleep(STOP_CHECK_INTERVAL).await;
        }
        Ok(())
    })
}

async fn accept(shared: Arc<TcpServerContext>, listener: tokio::net::TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // A connection beyond the limit is closed immediately.
                if !wait_for_capacity(&shared).await {
                    continue;
                }
                shared.limiter.spawn_connection(|permit, activity| {
                    let shared = shared.clone();
                    let task = tokio::spawn(async move {
                        let _ = serve(shared, stream, peer, activity).await;
                        drop(permit);
                    });
                    task.abort_handle()
                });
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Returns whether a new connection has capacity. Waits while all others are too new to be closed.
async fn wait_for_capacity(shared: &TcpServerContext) -> bool {
    loop {
        let now = shared.clock.now();
        match shared.limiter.reserve_capacity(now) {
            Capacity::Available => return true,
            Capacity::Full => return false,
            Capacity::RetryAt(until) => sleep(Duration::from_nanos(until.since(now).nanos())).await,
        }
    }
}

/// Serves one connection until it closes.
async fn serve(
    shared: Arc<TcpServerContext>,
    stream: TcpStream,
    peer: SocketAddr,
    activity: Arc<ConnectionActivity>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let time_limit = Duration::from_nanos(shared.limits.handshake_timeout_ns);
    if shared.serves_plain && timeout(time_limit, is_plain(&stream)).await?? {
        return serve_http(shared, stream, HttpVersion::Http1, peer, activity).await;
    }
    let stream = timeout(time_limit, shared.acceptor.accept(stream)).await??;
    // Without ALPN the protocol is HTTP/1.1 (RFC 9112), if it is served.
    let protocol = match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => HttpVersion::Http2,
        _ if shared.protocols.contains(&HttpVersion::Http1) => HttpVersion::Http1,
        _ => return Ok(()),
    };
    serve_http(shared, stream, protocol, peer, activity).await
}

/// Returns whether the first byte of a client is not a TLS handshake record (RFC 8446 section 5.1).
async fn is_plain(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    Ok(stream.peek(&mut first).await? == 1 && first[0] != TLS_HANDSHAKE)
}

/// Serves the requests on `stream` until it closes.
async fn serve_http<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    shared: Arc<TcpServerContext>,
    stream: S,
    protocol: HttpVersion,
    peer: SocketAddr,
    activity: Arc<ConnectionActivity>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    activity.mark_established();
    let index = shared.opened.fetch_add(1, Ordering::Relaxed);
    shared.log.update_totals(|totals| totals.tcp_connections += 1);
    let time_limit = Duration::from_nanos(shared.limits.idle_timeout_ns);
    let io = TokioIo::new(IdleTimeoutIo::new(stream, time_limit, activity));
    let limits = shared.limits;
    let first = AtomicBool::new(true);
    let service = service_fn(move |request| {
        let first = first.swap(false, Ordering::Relaxed);
        respond(shared.clone(), request, protocol, index, peer, first)
    });
    if protocol == HttpVersion::Http2 {
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
            .max_buf_size(MIN_BUFFER_BYTES.max(limits.header_bytes as usize))
            .serve_connection(io, service)
            .await?;
    }
    Ok(())
}

async fn respond(
    shared: Arc<TcpServerContext>,
    request: Request<Incoming>,
    protocol: HttpVersion,
    index: u64,
    peer: SocketAddr,
    first: bool,
) -> Result<Response<LoggedBody>, Infallible> {
    let uri = request.uri();
    let host = request.headers().get(http::header::HOST).and_then(|host| host.to_str().ok());
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let answer = shared.site.respond(request.method(), path, protocol, first);
    let mut record = AccessRecord {
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
    if !answer.think_time.is_zero() {
        sleep(answer.think_time).await;
    }
    record.first_byte_ns = Some(shared.clock.monotonic_ns(shared.clock.now()));
    let mut response = Response::new(LoggedBody { body: answer.body, record, shared });
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.header;
    // A body without bytes is never polled.
    response.body_mut().record_end();
    Ok(response)
}

/// A body that logs its transmission.
struct LoggedBody {
    body: ResponseBody,
    record: AccessRecord,
    shared: Arc<TcpServerContext>,
}

impl LoggedBody {
    fn record_end(&mut self) {
        if self.body.remaining() == 0 {
            let clock = self.shared.clock;
            self.record.last_byte_ns.get_or_insert(clock.monotonic_ns(clock.now()));
            self.record.complete = true;
        }
    }
}

impl http_body::Body for LoggedBody {
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
        self.record_end();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.remaining() == 0
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.body.remaining())
    }
}

impl Drop for LoggedBody {
    fn drop(&mut self) {
        self.shared.log.add(&self.record);
    }
}

/// A connection that fails after an idle timeout.
struct IdleTimeoutIo<S> {
    inner: S,
    timeout: Duration,
    timer: Pin<Box<Sleep>>,
    activity: Arc<ConnectionActivity>,
}

impl<S> IdleTimeoutIo<S> {
    fn new(inner: S, time_limit: Duration, activity: Arc<ConnectionActivity>) -> IdleTimeoutIo<S> {
        IdleTimeoutIo { inner, timeout: time_limit, timer: Box::pin(sleep(time_limit)), activity }
    }

    /// Restarts the timer after progress, and fails when it expires.
    fn check_idle<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            let until = Instant::now() + self.timeout;
            self.timer.as_mut().reset(until);
            return poll;
        }
        ready!(self.timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for IdleTimeoutIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let poll = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.activity.add_bytes(buffer.filled().len() - before);
        self.check_idle(cx, poll)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for IdleTimeoutIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(cx, data);
        if let Poll::Ready(Ok(bytes)) = &poll {
            self.activity.add_bytes(*bytes);
        }
        self.check_idle(cx, poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

//! Short connections, sequential or concurrent, and idle ones, to all real servers. This example and tests use this
//! module.

#![allow(dead_code, reason = "no user of this module needs all items")]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use runtime::{BatchedUdpSocket, QuicDriver, tls};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use transport::perf_load::StreamReport;
use transport::quic::{Crypto, NetworkConfig, QuicEndpoint, QuicSpec, TlsConfig};
use transport::{App, AppEvent, ReadStatus, Streams};
use units::{Span, Time};

/// Bytes requested by the perf protocol.
const ANSWER: u64 = 100;

/// Timeout of all operations.
const PATIENCE: Duration = Duration::from_secs(10);

/// HEADERS of `GET https://x/.ok` for HTTP/3 (RFC 9204 appendix A: 17, 23, 1 and 0; no Huffman coding).
const H3_REQUEST: &[u8] = b"\x01\x0d\0\0\xd1\xd7\x51\x04/.ok\x50\x01x";

/// The HTTP/2 request (RFC 7541 appendix A: 2, 7, 4 and 1), after the preface and empty SETTINGS.
const H2_REQUEST: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \0\0\0\x04\0\0\0\0\0\
    \0\0\x0b\x01\x05\0\0\0\x01\x82\x87\x44\x04/.ok\x41\x01x";

/// The protocol and the request of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    Quic,
    Tcp,
    Tls,
    Http1,
    Http2,
    Http3,
}

pub const ALL: [(&str, Speaks); 6] = [
    ("quic", Speaks::Quic),
    ("tcp", Speaks::Tcp),
    ("tls", Speaks::Tls),
    ("http1", Speaks::Http1),
    ("http2", Speaks::Http2),
    ("http3", Speaks::Http3),
];

impl Speaks {
    fn alpn(self) -> &'static str {
        match self {
            Speaks::Quic | Speaks::Tcp | Speaks::Tls => "perf",
            Speaks::Http1 => "http/1.1",
            Speaks::Http2 => "h2",
            Speaks::Http3 => "h3",
        }
    }
}

/// The number of answered and failed connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub answered: u64,
    pub failed: u64,
}

/// Opens `count` connections with one request each, `at_once` of them concurrently.
pub fn run(server: SocketAddr, speaks: Speaks, count: u64, at_once: u64) -> io::Result<Outcome> {
    match speaks {
        Speaks::Quic | Speaks::Http3 => {
            let mut client = QuicClient::new(server, speaks, true)?;
            let mut dialled = 0;
            while dialled < count || client.open() > 0 {
                while dialled < count && (client.open() as u64) < at_once {
                    client.dial()?;
                    dialled += 1;
                }
                client.turn(Span::from_millis(20))?;
            }
            let answered = client.answered();
            Ok(Outcome { answered, failed: count - answered })
        }
        _ => {
            let answered = AtomicU64::new(0);
            let left = AtomicU64::new(count);
            let take =
                || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
            let trusting = tls::client_config(speaks.alpn(), tls::ServerVerification::AcceptAny)
                .map_err(io::Error::other)?;
            let config = Arc::new(trusting.0);
            std::thread::scope(|scope| {
                for _ in 0..at_once {
                    scope.spawn(|| {
                        while take().is_ok() {
                            let config = config.clone();
                            if ask(server, speaks, config).is_ok_and(|answered| answered) {
                                answered.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    });
                }
            });
            let answered = answered.into_inner();
            Ok(Outcome { answered, failed: count - answered })
        }
    }
}

/// Opens one connection over TCP. Returns whether the answer is correct.
fn ask(server: SocketAddr, speaks: Speaks, config: Arc<rustls::ClientConfig>) -> io::Result<bool> {
    let mut socket = TcpStream::connect_timeout(&server, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_nodelay(true)?;
    // Closed with RST after the answer, so that TIME-WAIT (RFC 9293 section 3.6.1) does not use up the ports.
    socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
    let mut all = Vec::new();
    if speaks == Speaks::Tcp {
        socket.write_all(&ANSWER.to_be_bytes())?;
        socket.shutdown(std::net::Shutdown::Write)?;
        socket.read_to_end(&mut all)?;
        return Ok(all.len() as u64 == ANSWER);
    }
    let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
    let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(session, socket);
    match speaks {
        Speaks::Tls => {
            stream.write_all(&ANSWER.to_be_bytes())?;
            stream.conn.send_close_notify();
            stream.flush()?;
            stream.read_to_end(&mut all)?;
            Ok(all.len() as u64 == ANSWER)
        }
        Speaks::Http1 => {
            stream.write_all(b"GET /.ok HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
            stream.read_to_end(&mut all)?;
            // 404 for a folder.
            Ok(all.starts_with(b"HTTP/1.1 200") || all.starts_with(b"HTTP/1.1 404"))
        }
        _ => {
            stream.write_all(H2_REQUEST)?;
            // Frames until the end of stream 1 (RFC 9113 section 4.1).
            loop {
                let mut head = [0; 9];
                stream.read_exact(&mut head)?;
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                let mut body = vec![0; length];
                stream.read_exact(&mut body)?;
                match (head[3], head[4] & 1, head[8]) {
                    // DATA and HEADERS.
                    (0 | 1, 1, 1) => return Ok(true),
                    // RST_STREAM and GOAWAY.
                    (3 | 7, ..) => return Ok(false),
                    _ => {}
                }
            }
        }
    }
}

/// Sends one request and closes, or stays idle.
struct Asking {
    speaks: Speaks,
    asks: bool,
    answered: Arc<AtomicU64>,
    asked: Option<u64>,
    received_bytes: u64,
}

impl App for Asking {
    fn on_event(&mut self, _now: Time, event: AppEvent, streams: &mut dyn Streams) {
        match event {
            AppEvent::Ready if self.asks && self.asked.is_none() => {
                if self.speaks == Speaks::Http3
                    && let Some(control) = streams.open_uni()
                {
                    // Empty SETTINGS.
                    streams.write(control, Bytes::from_static(&[0, 4, 0]));
                }
                self.asked = streams.open();
                if let Some(id) = self.asked {
                    streams.write(
                        id,
                        match self.speaks {
                            Speaks::Http3 => Bytes::from_static(H3_REQUEST),
                            _ => Bytes::copy_from_slice(&ANSWER.to_be_bytes()),
                        },
                    );
                    streams.finish(id);
                }
            }
            AppEvent::StreamOpened(id) | AppEvent::Readable(id) => {
                let end = streams.read(id, &mut |_, data| self.received_bytes += data.len() as u64);
                if Some(id) == self.asked && end != ReadStatus::Open {
                    let whole = self.received_bytes == ANSWER || self.speaks == Speaks::Http3;
                    let right = end == ReadStatus::Finished && whole;
                    self.answered.fetch_add(u64::from(right), Ordering::Relaxed);
                    streams.close_now();
                }
            }
            _ => {}
        }
    }

    fn poll_at(&self) -> Time {
        Time::MAX
    }

    fn has_data(&self) -> bool {
        false
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &[]
    }
}

/// Many QUIC connections on one socket.
pub struct QuicClient {
    driver: QuicDriver,
    server: SocketAddr,
    answered: Arc<AtomicU64>,
}

impl QuicClient {
    /// Creates a client. With `asks` its connections send one request and close, otherwise they stay idle.
    pub fn new(server: SocketAddr, speaks: Speaks, asks: bool) -> io::Result<QuicClient> {
        let (tls, _) = tls::client_config(speaks.alpn(), tls::ServerVerification::AcceptAny)
            .map_err(io::Error::other)?;
        let spec = QuicSpec {
            crypto: Crypto::Rustls,
            initial_window_bytes: 14_720,
            unpaced_burst_packets: 10,
            receive_window_bytes: 1 << 20,
            stream_receive_window_bytes: 1 << 20,
            send_window_bytes: 1 << 20,
            idle_timeout_ns: Some(PATIENCE.as_nanos() as u64),
            ..QuicSpec::default()
        };
        let config = cc::ControllerConfig {
            mss: u64::from(spec.mtu_bytes),
            initial_window: spec.initial_window_bytes,
            initial_rtt: Span(spec.initial_rtt_ns),
            seed: 1,
            is_paced: true,
        };
        let answered = Arc::new(AtomicU64::new(0));
        let shared = answered.clone();
        let endpoint = QuicEndpoint::with_network(
            &NetworkConfig {
                tls: TlsConfig::Client(Arc::new(tls)),
                max_connections: 1,
                handshakes_before_retry: 1,
            },
            &spec,
            Box::new(move |_| {
                let answered = shared.clone();
                Box::new(Asking { speaks, asks, answered, asked: None, received_bytes: 0 })
            }),
            Box::new(move || {
                cc::build_controller("cubic", &serde_json::json!({}), &config).expect("it is known")
            }),
        );
        let endpoint = endpoint.map_err(io::Error::other)?;
        let local = if server.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
        let socket = BatchedUdpSocket::bind(local.parse().expect("an address"), Some(server))?;
        Ok(QuicClient { driver: QuicDriver::new(endpoint, socket)?, server, answered })
    }

    /// Opens a connection.
    pub fn dial(&mut self) -> io::Result<()> {
        let now = self.driver.clock.now();
        let QuicDriver { endpoint, socket, .. } = &mut self.driver;
        endpoint.connect_address(now, self.server, "localhost", socket).map_err(io::Error::other)
    }

    /// Returns the number of connections that have not ended.
    pub fn open(&self) -> usize {
        self.driver.endpoint.live_connections().filter(|live| live.close_reason().is_none()).count()
    }

    /// Returns the number of connections with a complete handshake.
    pub fn connected(&self) -> usize {
        let live = self.driver.endpoint.live_connections();
        live.filter(|live| live.connected_at().is_some() && live.close_reason().is_none()).count()
    }

    /// Polls once, for at most `longest`.
    pub fn turn(&mut self, longest: Span) -> io::Result<()> {
        self.driver.poll_once(self.driver.clock.now() + longest)?;
        self.driver.endpoint.take_closed();
        Ok(())
    }

    /// Returns the number of answered connections.
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }
}

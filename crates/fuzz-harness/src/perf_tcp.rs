//! A client that sends arbitrary bytes over a loopback connection to a server's connection: for tests and for the
//! fuzzer.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use programs::perf::ControllerPolicy;
use programs::test_support::apply_requested_controller;
use runtime::host::{ConnectionTimeouts, KernelTcpConnection, TcpConnectionConfig, TcpProtocol};
use runtime::tcp::TcpInfoLayout;
use rustls::ServerConfig;
use transport::ConnectionKey;
use transport::perf_load::PerfServer;
use units::{Span, Time};

/// The maximum of polls of a connection.
const MAX_POLLS: usize = 64;

/// Sends `bytes` to a server's connection in pieces, then FIN. The first byte selects transport and piece length.
/// Panics if the connection does not close, or has more than one stream.
pub fn exercise_tcp(bytes: &[u8]) {
    static SERVER: OnceLock<(TcpListener, Arc<ServerConfig>)> = OnceLock::new();
    let (listener, tls) = SERVER.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
        let (config, _) = runtime::tls::server_config(None).expect("a certificate");
        (listener, Arc::new(config))
    });
    let [first, bytes @ ..] = bytes else { return };
    let address = listener.local_addr().expect("its address");
    let mut client = TcpStream::connect(address).expect("a connection on loopback");
    // Close with RST: connections in TIME-WAIT would use up the loopback ports (RFC 9293 section 3.6.1).
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    setsockopt(&client, sockopt::Linger, &linger).expect("lingering");
    let (socket, remote) = listener.accept().expect("a connection");
    socket.set_nonblocking(true).expect("no blocking");
    client.set_nonblocking(true).expect("no blocking");
    let [plain, has_tls] = [[true, false], [false, true], [true, true]][usize::from(first % 3)];
    let idle = Span::from_secs(5);
    let config = Arc::new(TcpConnectionConfig {
        info_layout: TcpInfoLayout::detect().expect("a kernel"),
        timeouts: ConnectionTimeouts { handshake: idle, idle: Some(idle) },
        protocol: TcpProtocol::FirstByte { plain, tls: has_tls.then(|| tls.clone()) },
        controller_setter: Some(Arc::new(|socket, wish| {
            apply_requested_controller(socket, wish, ControllerPolicy::Named)
        })),
        closes_after_fin: false,
        reads_before_reset: true,
        keeps_reports: true,
    });
    let app = Box::new(PerfServer::negotiating());
    let made = KernelTcpConnection::new(Time::ZERO, socket, remote, app, false, config);
    let mut connection = made.expect("a connection");
    let key = ConnectionKey { interface: 0, connection: 0 };
    let (mut scratch, mut answer) = (vec![0; 4096], vec![0; 4096]);
    let mut now = Time::ZERO;
    let mut pieces = bytes.chunks(usize::from(first >> 2) + 1);
    for _ in 0..MAX_POLLS {
        now += Span::from_millis(1);
        match pieces.next() {
            Some(piece) => {
                let _ = client.write(piece);
            }
            None => {
                let _ = client.shutdown(std::net::Shutdown::Write);
            }
        }
        connection.run(now, true, false, &mut scratch);
        let _ = client.read(&mut answer);
        assert!(connection.report(key).streams.len() <= 1, "one stream a connection");
        if connection.close_reason().is_some() {
            return;
        }
    }
    connection.run(now + idle + idle, false, false, &mut scratch);
    connection.run(now + idle + idle + idle + idle, false, false, &mut scratch);
    assert!(connection.close_reason().is_some(), "a silent client is given up");
}

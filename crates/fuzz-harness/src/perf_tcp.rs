//! A client that sends arbitrary bytes over a loopback connection to a server's connection: for tests and for the
//! fuzzer.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use programs::perf::{ControllerPolicy, PerfTransport};
use programs::test_support::{AcceptConfig, PerfTcpConnection};
use runtime::tcp::TcpInfoLayout;
use rustls::ServerConfig;
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
    let transport =
        [PerfTransport::Tcp, PerfTransport::Tls, PerfTransport::All][usize::from(first % 3)];
    let accepting =
        AcceptConfig { transport, tls: tls.clone(), controller_policy: ControllerPolicy::Named };
    let app = Box::new(PerfServer::negotiating());
    let idle = Span::from_secs(5);
    let made = PerfTcpConnection::accept(
        Time::ZERO,
        socket,
        remote,
        accepting,
        app,
        TcpInfoLayout::detect().expect("a kernel"),
        idle,
    );
    let mut connection = made.expect("a connection");
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
        connection.run(now, true, &mut scratch);
        connection.check(now);
        let _ = client.read(&mut answer);
        assert!(connection.stream_reports().len() <= 1, "one stream a connection");
        if connection.closed().is_some() {
            return;
        }
    }
    connection.check(now + idle + idle);
    connection.check(now + idle + idle + idle + idle);
    assert!(connection.closed().is_some(), "a silent client is given up");
}

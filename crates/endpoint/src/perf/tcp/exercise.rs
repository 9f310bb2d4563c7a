//! A client that says any bytes over a real connection on loopback, to a server's side of one: for tests and for the
//! fuzzer.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use rustls::ServerConfig;
use transport::load::PerfServer;
use units::{Span, Time};

use super::connection::{Accepting, Connection};
use crate::perf::{Choose, Transport};
use crate::tcp_info::Kernel;

/// Most turns that a connection gets, and bytes of its answer that are read.
const TURNS: usize = 64;

/// Gives `bytes` to a server's connection in pieces and then ends: the first byte chooses what it speaks and the
/// length of the pieces. Panics where it does not end, or keeps more than its one stream.
#[doc(hidden)]
pub fn exercise_tcp(bytes: &[u8]) {
    static SERVER: OnceLock<(TcpListener, Arc<ServerConfig>)> = OnceLock::new();
    let (listener, tls) = SERVER.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
        let (config, _) = crate::tls::server(None).expect("a certificate");
        (listener, Arc::new(config))
    });
    let [first, bytes @ ..] = bytes else { return };
    let address = listener.local_addr().expect("its address");
    let mut client = TcpStream::connect(address).expect("a connection on loopback");
    // Ends at once, so that the ports of loopback are not used up by connections that wait (RFC 9293 section 3.6.1).
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    setsockopt(&client, sockopt::Linger, &linger).expect("lingering");
    let (socket, remote) = listener.accept().expect("a connection");
    socket.set_nonblocking(true).expect("no blocking");
    client.set_nonblocking(true).expect("no blocking");
    let transport = [Transport::Tcp, Transport::Tls, Transport::All][usize::from(first % 3)];
    let accepting = Accepting { transport, tls: tls.clone(), choose: Choose::Named };
    let app = Box::new(PerfServer::listening());
    let idle = Span::from_secs(5);
    let made = Connection::accept(
        Time::ZERO,
        socket,
        remote,
        accepting,
        app,
        Kernel::running().expect("a kernel"),
        idle,
    );
    let mut connection = made.expect("a connection");
    let (mut scratch, mut answer) = (vec![0; 4096], vec![0; 4096]);
    let mut now = Time::ZERO;
    let mut pieces = bytes.chunks(usize::from(first >> 2) + 1);
    for _ in 0..TURNS {
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
        assert!(connection.streams().len() <= 1, "one stream a connection");
        if connection.ended().is_some() {
            return;
        }
    }
    connection.check(now + idle + idle);
    connection.check(now + idle + idle + idle + idle);
    assert!(connection.ended().is_some(), "a silent client is given up");
}

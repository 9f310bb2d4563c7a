//! Bundle nodes on sockets, and hand-written peers: the end of a session, and its protection against strangers.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use programs::dtn::{BundleHost, build_node};
use runtime::host::Host;
use serde_json::{Value, json};
use transport::quic::QuicSpec;
use units::Span;

/// Contact header, and SESS_INIT of ipn:1.0.
const HELLO: &[u8] =
    b"dtn!\x04\x00\x07\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\x10\0\0\0\x07ipn:1.0\0\0\0\0";

/// An unsolicited SESS_TERM, and its reply (RFC 9174 section 6.1).
const TERM: &[u8] = &[5, 0, 0];
const TERM_REPLY: &[u8] = &[5, 1, 0];

/// Creates node 2, which accepts node 1 over TCPCLv4.
fn two() -> (Host<BundleHost>, SocketAddr) {
    over(&json!({"kind": "tcpcl"}), None)
}

/// Creates node 2, which accepts node 1 over a layer.
fn over(layer: &Value, peer: Option<SocketAddr>) -> (Host<BundleHost>, SocketAddr) {
    let plan = json!({
        "name": "2",
        "dtn": {
            "epoch_ms": 800_000_000_000_u64, "links": [], "plan": {"contacts": []},
            "nodes": [{"name": "1", "eid": "ipn:1.0"}, {"name": "2", "eid": "ipn:2.0"}],
        },
        "neighbours": [{
            "neighbour": "1", "cla": layer, "listen": "127.0.0.1:0", "peer": peer,
            "can_send": true, "opens_with_contact": false, "closes_after_contact": false, "quic": QuicSpec::default(),
            "congestion": {"name": "cubic"}, "idle_timeout_ns": 10_000_000_000_u64,
        }],
    });
    let host = build_node(&serde_json::from_value(plan).unwrap()).unwrap();
    let at = host.local_addr(0).unwrap();
    (host, at)
}

/// Polls the node until `done`.
fn turn(host: &mut Host<BundleHost>, mut done: impl FnMut(&mut Host<BundleHost>) -> bool) {
    let until = host.now() + Span::from_secs(10);
    while !done(host) {
        let soon = host.now() + Span::from_millis(1);
        host.poll_once(soon).unwrap();
        assert!(host.now() < until, "it takes too long");
    }
}

/// A hand-written peer.
struct Peer {
    socket: TcpStream,
    received: Vec<u8>,
    /// The end of the connection by the node, and its kind.
    end: Option<ErrorKind>,
}

impl Peer {
    /// Creates a peer with an established session.
    fn established(host: &mut Host<BundleHost>, at: SocketAddr) -> Peer {
        let mut socket = TcpStream::connect(at).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.write_all(HELLO).unwrap();
        let mut peer = Peer { socket, received: Vec::new(), end: None };
        turn(host, |_| peer.listen().windows(7).any(|part| part == b"ipn:2.0"));
        turn(host, |_| peer.listen().ends_with(b"ipn:2.0\0\0\0\0"));
        peer.received.clear();
        peer
    }

    fn listen(&mut self) -> &[u8] {
        let mut buffer = [0; 4096];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => self.end = Some(ErrorKind::UnexpectedEof),
                Ok(count) => {
                    self.received.extend_from_slice(&buffer[..count]);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => self.end = Some(error.kind()),
            }
            return &self.received;
        }
    }
}

#[test]
fn a_node_sends_sess_term_and_waits_for_the_reply() {
    let (mut host, at) = two();
    let mut peer = Peer::established(&mut host, at);
    host.manager().shut_down();
    turn(&mut host, |_| peer.listen() == TERM);
    let soon = host.now() + Span::from_millis(50);
    turn(&mut host, |host| host.now() > soon);
    assert_eq!((peer.end, host.manager().session_count()), (None, 1), "it waits for the answer");
    peer.socket.write_all(TERM_REPLY).unwrap();
    turn(&mut host, |_| {
        peer.listen();
        peer.end.is_some()
    });
    assert_eq!(peer.end, Some(ErrorKind::UnexpectedEof), "an end, no reset");
    assert_eq!(peer.received, TERM);
    drop(peer);
    turn(&mut host, |host| host.manager().session_count() == 0);
    let traffic = host.manager().traffic()[0].clone();
    assert_eq!((traffic.opened, traffic.closed, traffic.lost, traffic.last_error), (1, 1, 0, None));
}

#[test]
fn sess_term_of_a_peer_is_answered() {
    let (mut host, at) = two();
    let mut peer = Peer::established(&mut host, at);
    peer.socket.write_all(TERM).unwrap();
    turn(&mut host, |_| peer.listen() == TERM_REPLY);
    turn(&mut host, |_| {
        peer.listen();
        peer.end.is_some()
    });
    assert_eq!(peer.end, Some(ErrorKind::UnexpectedEof), "an end, no reset");
}

/// Bare connections, invalid data and another node id do not replace a session. A second session of the neighbour does.
#[test]
fn strangers_do_not_end_a_neighbours_session() {
    let (mut host, at) = two();
    let mut peer = Peer::established(&mut host, at);
    let liar: Vec<u8> = HELLO.iter().map(|one| if *one == b'1' { b'7' } else { *one }).collect();
    let mut strangers = Vec::new();
    for words in [&b""[..], b"dtn!\x04\x00", b"GET / HTTP/1.1\r\n\r\n", &liar] {
        let mut socket = TcpStream::connect(at).unwrap();
        socket.write_all(words).unwrap();
        strangers.push(socket);
    }
    let soon = host.now() + Span::from_millis(200);
    turn(&mut host, |host| host.now() > soon);
    assert_eq!(host.manager().traffic()[0].opened, 5);
    assert_eq!(peer.listen(), b"");
    assert_eq!(peer.end, None, "it is there");
    let again = Peer::established(&mut host, at);
    turn(&mut host, |_| {
        peer.listen();
        peer.end.is_some()
    });
    assert_eq!(again.end, None);
}

/// Over UDP the IP address identifies a neighbour, with any source port. Datagrams of other addresses are ignored, and
/// replies go to the configured address of the neighbour.
#[test]
fn segments_of_strangers_open_no_session() {
    let neighbour = UdpSocket::bind("127.0.0.1:0").unwrap();
    neighbour.set_nonblocking(true).unwrap();
    let layer = json!({"kind": "ltp", "rate_bit_s": 1_000_000});
    let (mut host, at) = over(&layer, Some(neighbour.local_addr().unwrap()));
    // A complete red block of engine 1 with three octets that are no bundle (RFC 5326 section 3).
    let block = b"\x03\x01\x07\x00\x01\x00\x03\x05\x00abc";
    UdpSocket::bind("127.0.0.2:0").unwrap().send_to(block, at).unwrap();
    let soon = host.now() + Span::from_millis(50);
    turn(&mut host, |host| host.now() > soon);
    assert_eq!((host.manager().session_count(), host.open_connections(0)), (0, 0));
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(block, at).unwrap();
    let mut received = [0; 100];
    turn(&mut host, |_| {
        let count = neighbour.recv(&mut received).unwrap_or(0);
        // Cancelled by the receiver: the client service rejects it (section 6.16).
        assert!(count == 0 || received[..count] == *b"\x0e\x01\x07\x00\x00");
        count > 0
    });
    assert_eq!((host.manager().session_count(), host.open_connections(0)), (1, 1));
    // The session ends after the acknowledgement of the peer. Later segments open no session.
    host.manager().shut_down();
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"\x0f\x01\x07\x00", at).unwrap();
    turn(&mut host, |host| host.manager().session_count() == 0);
    neighbour.send_to(block, at).unwrap();
    let soon = host.now() + Span::from_millis(50);
    turn(&mut host, |host| host.now() > soon);
    assert_eq!(host.manager().traffic()[0].opened, 1);
}

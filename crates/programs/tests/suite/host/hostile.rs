//! Hostile peers: their cost is bounded, and other clients still connect.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use transport::App;
use transport::quic::CloseReason;
use units::Span;

use super::apps::{EchoClient, EchoServer, Log, SilentApp};
use super::test_manager::{Kind, host, host_of, quic_socket, run_hosts, tcp_socket};

const MAX_CONNECTIONS: usize = 16;

fn echoes() -> Box<dyn App> {
    Box::new(EchoServer::new(Log::default()))
}

fn deaf() -> Box<dyn App> {
    Box::new(SilentApp)
}

/// Opens sockets that write `words` and then stay idle.
fn wave(server: SocketAddr, count: usize, words: &[u8]) -> Vec<TcpStream> {
    let connect = |_| {
        let mut socket = TcpStream::connect(server).unwrap();
        socket.set_nonblocking(true).unwrap();
        let _ = socket.write_all(words);
        socket
    };
    (0..count).map(connect).collect()
}

#[test]
fn silent_connections_stay_within_the_limit_and_are_evicted() {
    for kind in [Kind::Tcp, Kind::Quic] {
        let mut server = host(kind, MAX_CONNECTIONS, echoes);
        let mut crowd = host(kind, 1, deaf);
        let mut friend = host(kind, 1, deaf);
        let to = server.local_addr(0).unwrap();
        let mut idle = Vec::new();
        let log = Log::default();
        for round in 0..3 {
            match kind {
                Kind::Tcp => idle.extend(wave(to, 3 * MAX_CONNECTIONS, b"x")),
                Kind::Quic => {
                    for _ in 0..MAX_CONNECTIONS * if round == 0 { 3 } else { 1 } {
                        crowd.manager().queue_connect(0, &to.to_string(), deaf());
                    }
                }
            }
            if round == 1 {
                friend.manager().queue_connect(
                    0,
                    &to.to_string(),
                    Box::new(EchoClient::new(100_000, log.clone())),
                );
            }
            run_hosts(&mut [&mut crowd, &mut server, &mut friend], 10.0, |hosts| {
                assert!(
                    hosts[1].open_connections(0) <= MAX_CONNECTIONS,
                    "{kind:?}: {}",
                    hosts[1].open_connections(0)
                );
                hosts[1].manager().accepted.len() > (round + 1) * MAX_CONNECTIONS
            });
        }
        run_hosts(&mut [&mut crowd, &mut server, &mut friend], 20.0, |hosts| {
            assert!(hosts[1].open_connections(0) <= MAX_CONNECTIONS);
            hosts[2].manager().closed_count == 1
        });
        let messages = log.take();
        assert!(messages.contains(&"100000 bytes came back".to_owned()), "{kind:?}: {messages:?}");
        let agent = server.manager();
        let was_evicted = |end: &&CloseReason| matches!(end, CloseReason::Lost(why) if why.contains("replaced this slow one"));
        assert!(
            agent.close_reasons.iter().filter(was_evicted).count() > MAX_CONNECTIONS,
            "{kind:?}: {:?}",
            agent.close_reasons
        );
    }
}

/// A peer that never reads stops the answering application, and the idle timeout closes the connection.
#[test]
fn a_peer_that_never_reads_times_out() {
    let mut server = host(Kind::Tcp, MAX_CONNECTIONS, echoes);
    let mut client = TcpStream::connect(server.local_addr(0).unwrap()).unwrap();
    client.set_nonblocking(true).unwrap();
    let (mut sent, words) = (0, vec![7; 1 << 16]);
    run_hosts(&mut [&mut server], 20.0, |hosts| {
        sent += client.write(&words).unwrap_or(0);
        hosts[0].manager().closed_count == 1
    });
    assert_eq!(server.manager().close_reasons, [CloseReason::Lost("timed out".to_owned())]);
    assert!(sent < 64 << 20, "{sent} bytes were taken from who takes none");
}

/// Resets, half-closed connections and connections without data leave no resources behind.
#[test]
fn resets_and_half_closed_connections_leave_no_resources() {
    let mut server = host(Kind::Tcp, 1000, echoes);
    let to = server.local_addr(0).unwrap();
    for round in 0..200_usize {
        let mut client = TcpStream::connect(to).unwrap();
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        match round % 4 {
            0 => setsockopt(&client, sockopt::Linger, &linger).unwrap(),
            1 => {
                client.write_all(b"some words").unwrap();
                setsockopt(&client, sockopt::Linger, &linger).unwrap();
            }
            2 => client.shutdown(std::net::Shutdown::Write).unwrap(),
            _ => client.write_all(&[1; 10_000]).unwrap(),
        }
        let until = server.now() + Span::from_millis(1);
        server.poll_once(until).unwrap();
    }
    run_hosts(&mut [&mut server], 10.0, |hosts| {
        let host = &hosts[0];
        host.manager().accepted.len() == 200 && host.open_connections(0) == 0
    });
    assert_eq!(server.manager().closed_count, 200, "each is told once");
    // The server still answers.
    let mut client = TcpStream::connect(to).unwrap();
    client.write_all(b"still there?").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    client.set_nonblocking(true).unwrap();
    let mut answer = Vec::new();
    run_hosts(&mut [&mut server], 5.0, |_| client.read_to_end(&mut answer).is_ok());
    assert_eq!(answer, b"still there?");
}

/// A flood of incoming connections at the limit does not evict the outgoing connections of a node.
#[test]
fn outgoing_connections_are_not_evicted() {
    for end in [0, 1] {
        let ends = || vec![quic_socket(2), tcp_socket(2, None)];
        let (mut node, mut peer) =
            (host_of(ends(), Box::new(deaf)), host_of(ends(), Box::new(deaf)));
        let mut crowd = host_of(ends(), Box::new(deaf));
        let peer_at = peer.local_addr(end).unwrap().to_string();
        let node_at = node.local_addr(end).unwrap().to_string();
        node.manager().queue_connect(end, &peer_at, deaf());
        let once = node.now() + Span::from_millis(700);
        run_hosts(&mut [&mut node, &mut peer], 5.0, |hosts| hosts[0].now() > once);
        for _ in 0..12 {
            crowd.manager().queue_connect(end, &node_at, deaf());
        }
        run_hosts(&mut [&mut node, &mut peer, &mut crowd], 20.0, |hosts| {
            hosts[0].manager().accepted.len() >= 4
        });
        assert_eq!(node.open_connections(end), 3, "two places, and what was dialled");
        assert_eq!(peer.open_connections(end), 1);
        assert_eq!(peer.manager().closed_count, 0);
    }
}

/// Invalid QUIC datagrams, and a connection to a closed port, affect only themselves.
#[test]
fn invalid_datagrams_and_failed_connections_affect_no_others() {
    let mut server = host(Kind::Quic, MAX_CONNECTIONS, echoes);
    let to = server.local_addr(0).unwrap();
    let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in 0..1400_usize {
        let words: Vec<u8> = (0..length).map(|index| (index * length) as u8 | 0x80).collect();
        noise.send_to(&words, to).unwrap();
    }
    let mut node = host_of(vec![quic_socket(1), tcp_socket(1, None)], Box::new(deaf));
    let closed = {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        socket.local_addr().unwrap().to_string()
    };
    let log = Log::default();
    node.manager().queue_connect(1, &closed, deaf());
    node.manager().queue_connect(
        0,
        &to.to_string(),
        Box::new(EchoClient::new(10_000, log.clone())),
    );
    run_hosts(&mut [&mut node, &mut server], 10.0, |hosts| hosts[0].manager().closed_count == 2);
    assert!(log.take().contains(&"10000 bytes came back".to_owned()));
    assert!(node.manager().close_reasons.contains(&CloseReason::Lost("refused".to_owned())));
}

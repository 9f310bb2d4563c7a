//! Peers that mean no good: what they cost is bounded, and others get in all the same.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use transport::App;
use transport::quic::End;
use units::Span;

use super::apps::{Asks, Deaf, Echo, Log};
use super::party::{Kind, host, host_of, meet, quic_end, tcp_end};

const PLACES: usize = 16;

fn echoes() -> Box<dyn App> {
    Box::new(Echo::new(Log::default()))
}

fn deaf() -> Box<dyn App> {
    Box::new(Deaf)
}

/// Sockets that have said `words`, and do nothing more.
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
fn many_silent_connections_take_no_more_than_the_places_and_shut_nobody_out() {
    for kind in [Kind::Tcp, Kind::Quic] {
        let mut server = host(kind, PLACES, echoes);
        let mut crowd = host(kind, 1, deaf);
        let mut friend = host(kind, 1, deaf);
        let to = server.local(0).unwrap();
        let mut idle = Vec::new();
        let log = Log::default();
        for round in 0..3 {
            match kind {
                Kind::Tcp => idle.extend(wave(to, 3 * PLACES, b"x")),
                Kind::Quic => {
                    for _ in 0..PLACES * if round == 0 { 3 } else { 1 } {
                        crowd.agent().dial(0, &to.to_string(), deaf());
                    }
                }
            }
            if round == 1 {
                friend.agent().dial(0, &to.to_string(), Box::new(Asks::new(100_000, log.clone())));
            }
            meet(&mut [&mut crowd, &mut server, &mut friend], 10.0, |hosts| {
                assert!(hosts[1].open(0) <= PLACES, "{kind:?}: {}", hosts[1].open(0));
                hosts[1].agent().accepted.len() > (round + 1) * PLACES
            });
        }
        meet(&mut [&mut crowd, &mut server, &mut friend], 20.0, |hosts| {
            assert!(hosts[1].open(0) <= PLACES);
            hosts[2].agent().ended == 1
        });
        let heard = log.take();
        assert!(heard.contains(&"100000 bytes came back".to_owned()), "{kind:?}: {heard:?}");
        let agent = server.agent();
        let gave_way = |end: &&End| matches!(end, End::Lost(why) if why.contains("gave way"));
        assert!(agent.ends.iter().filter(gave_way).count() > PLACES, "{kind:?}: {:?}", agent.ends);
    }
}

/// Who asks and never reads the answer stops the answering application, and is given up when nothing moves.
#[test]
fn a_peer_that_never_reads_is_given_up() {
    let mut server = host(Kind::Tcp, PLACES, echoes);
    let mut client = TcpStream::connect(server.local(0).unwrap()).unwrap();
    client.set_nonblocking(true).unwrap();
    let (mut sent, words) = (0, vec![7; 1 << 16]);
    meet(&mut [&mut server], 20.0, |hosts| {
        sent += client.write(&words).unwrap_or(0);
        hosts[0].agent().ended == 1
    });
    assert_eq!(server.agent().ends, [End::Lost("timed out".to_owned())]);
    assert!(sent < 64 << 20, "{sent} bytes were taken from who takes none");
}

/// Resets, ends in the middle and connections without a word leave nothing behind.
#[test]
fn resets_and_halves_leave_nothing() {
    let mut server = host(Kind::Tcp, 1000, echoes);
    let to = server.local(0).unwrap();
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
        server.turn(until).unwrap();
    }
    meet(&mut [&mut server], 10.0, |hosts| {
        let host = &hosts[0];
        host.agent().accepted.len() == 200 && host.open(0) == 0
    });
    assert_eq!(server.agent().ended, 200, "each is told once");
    // It answers as before.
    let mut client = TcpStream::connect(to).unwrap();
    client.write_all(b"still there?").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    client.set_nonblocking(true).unwrap();
    let mut answer = Vec::new();
    meet(&mut [&mut server], 5.0, |_| client.read_to_end(&mut answer).is_ok());
    assert_eq!(answer, b"still there?");
}

/// A flood of strangers does not drive out what this side has dialled, though all places are taken.
#[test]
fn what_was_dialled_gives_way_to_nobody() {
    for end in [0, 1] {
        let ends = || vec![quic_end(2), tcp_end(2, None)];
        let (mut node, mut peer) =
            (host_of(ends(), Box::new(deaf)), host_of(ends(), Box::new(deaf)));
        let mut crowd = host_of(ends(), Box::new(deaf));
        let peer_at = peer.local(end).unwrap().to_string();
        let node_at = node.local(end).unwrap().to_string();
        node.agent().dial(end, &peer_at, deaf());
        let once = node.now() + Span::from_millis(700);
        meet(&mut [&mut node, &mut peer], 5.0, |hosts| hosts[0].now() > once);
        for _ in 0..12 {
            crowd.agent().dial(end, &node_at, deaf());
        }
        meet(&mut [&mut node, &mut peer, &mut crowd], 20.0, |hosts| {
            hosts[0].agent().accepted.len() >= 4
        });
        assert_eq!(node.open(end), 3, "two places, and what was dialled");
        assert_eq!(peer.open(end), 1);
        assert_eq!(peer.agent().ended, 0);
    }
}

/// Datagrams that are no QUIC, and a dial to where nobody answers, end what they are and nothing else.
#[test]
fn nonsense_and_silence_disturb_nobody() {
    let mut server = host(Kind::Quic, PLACES, echoes);
    let to = server.local(0).unwrap();
    let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in 0..1400_usize {
        let words: Vec<u8> = (0..length).map(|place| (place * length) as u8 | 0x80).collect();
        noise.send_to(&words, to).unwrap();
    }
    let mut node = host_of(vec![quic_end(1), tcp_end(1, None)], Box::new(deaf));
    let closed = {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        socket.local_addr().unwrap().to_string()
    };
    let log = Log::default();
    node.agent().dial(1, &closed, deaf());
    node.agent().dial(0, &to.to_string(), Box::new(Asks::new(10_000, log.clone())));
    meet(&mut [&mut node, &mut server], 10.0, |hosts| hosts[0].agent().ended == 2);
    assert!(log.take().contains(&"10000 bytes came back".to_owned()));
    assert!(node.agent().ends.contains(&End::Lost("refused".to_owned())));
}

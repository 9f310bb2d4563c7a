//! All convergence layers over real sockets: bundles arrive once and complete, with the acknowledgements of the layer.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use bundle::cla::{
    ClaSpec, ConnectionParameters, MtcpSpec, QubicleSpec, QuicclSpec, StreamMappingSpec, TcpclSpec,
    TlsPolicy,
};
use runtime::host::Host;
use units::Span;

use crate::common::carry::{Carrying, node, node_with};

/// Ten bundles of 1 MB.
const BUNDLES: u64 = 10;
const BYTES: usize = 1_000_000;

#[test]
fn bundles_arrive_once_over_every_convergence_layer() {
    let each = QuicclSpec { streams: StreamMappingSpec::Each, ..QuicclSpec::default() };
    let priorities = QuicclSpec { streams: StreamMappingSpec::Priorities, ..QuicclSpec::default() };
    for (layer, says_durable) in [
        (ClaSpec::Quiccl(QuicclSpec::default()), true),
        (ClaSpec::Quiccl(each), true),
        (ClaSpec::Quiccl(priorities), true),
        (ClaSpec::Qubicle(QubicleSpec::default()), false),
        (ClaSpec::Tcpcl(TcpclSpec::default()), true),
        (ClaSpec::Mtcp(MtcpSpec::default()), false),
    ] {
        let mut to = node(&layer, None, 0, BYTES);
        let at = to.local_addr(0).unwrap().to_string();
        let mut from = node(&layer, Some(at), BUNDLES, BYTES);
        let until = from.now() + Span::from_secs(20);
        while from.manager().accepted < BUNDLES || to.manager().received < BUNDLES {
            for host in [&mut from, &mut to] {
                let soon = host.now() + Span::from_millis(1);
                host.poll_once(soon).unwrap();
            }
            assert!(from.now() < until, "{layer:?}");
        }
        let (sent, received) = (from.manager(), to.manager());
        assert_eq!(
            (sent.accepted, received.received, received.wrong),
            (BUNDLES, BUNDLES, 0),
            "{layer:?}"
        );
        assert_eq!(sent.durable, if says_durable { BUNDLES } else { 0 }, "{layer:?}");
        assert_eq!((sent.over.len(), received.over.len()), (0, 0), "{layer:?}: {:?}", sent.over);
    }
}

/// The loss of a node ends its session exactly once, over both transports.
#[test]
fn a_lost_node_ends_its_sessions() {
    for layer in [ClaSpec::Quiccl(QuicclSpec::default()), ClaSpec::Tcpcl(TcpclSpec::default())] {
        let mut to = node(&layer, None, 0, BYTES);
        let at = to.local_addr(0).unwrap().to_string();
        let mut from = node(&layer, Some(at), u64::MAX, BYTES);
        let until = from.now() + Span::from_secs(20);
        while from.manager().over.is_empty() {
            if to.manager().received < 3 {
                let soon = to.now() + Span::from_millis(1);
                to.poll_once(soon).unwrap();
            } else {
                to.close();
            }
            let soon = from.now() + Span::from_millis(1);
            from.poll_once(soon).unwrap();
            assert!(from.now() < until, "{layer:?}");
        }
        assert_eq!(from.manager().over.len(), 1, "{layer:?}: {:?}", from.manager().over);
        assert_eq!(
            (from.manager().sessions.count(), from.open_connections(0)),
            (0, 0),
            "{layer:?}"
        );
    }
}

fn tcpcl(tls: TlsPolicy, peer: Option<&str>) -> (ClaSpec, ConnectionParameters) {
    let terms = ConnectionParameters {
        expected_peer: peer.map(str::to_owned),
        ..ConnectionParameters::default()
    };
    (ClaSpec::Tcpcl(TcpclSpec { tls, ..TcpclSpec::default() }), terms)
}

fn answering(tls: TlsPolicy, peer: Option<&str>) -> (Host<Carrying>, SocketAddr) {
    let (layer, terms) = tcpcl(tls, peer);
    let host = node_with(&layer, None, 0, BYTES, terms);
    let at = host.local_addr(0).unwrap();
    (host, at)
}

/// Polls the hosts until `done`.
fn turn(hosts: &mut [&mut Host<Carrying>], mut done: impl FnMut(&[&mut Host<Carrying>]) -> bool) {
    let until = hosts[0].now() + Span::from_secs(20);
    while !done(hosts) {
        for host in hosts.iter_mut() {
            let soon = host.now() + Span::from_millis(1);
            host.poll_once(soon).unwrap();
        }
        assert!(hosts[0].now() < until);
    }
}

#[test]
fn tcpcl_negotiates_tls_by_the_policies_of_both_nodes() {
    for (dials, answers, works) in [
        (TlsPolicy::Require, TlsPolicy::Require, true),
        (TlsPolicy::Require, TlsPolicy::Allow, true),
        (TlsPolicy::Allow, TlsPolicy::No, true),
        (TlsPolicy::Require, TlsPolicy::No, false),
        (TlsPolicy::No, TlsPolicy::Require, false),
    ] {
        let (mut to, at) = answering(answers, Some("ipn:1.0"));
        let (layer, terms) = tcpcl(dials, Some("ipn:2.0"));
        let mut from = node_with(&layer, Some(at.to_string()), BUNDLES, BYTES, terms);
        turn(&mut [&mut to, &mut from], |hosts| {
            hosts[1].manager().accepted == BUNDLES || !hosts[1].manager().over.is_empty()
        });
        assert_eq!(from.manager().accepted == BUNDLES, works, "{dials:?} {answers:?}");
        let received = to.manager();
        assert_eq!((received.received, received.wrong), (if works { BUNDLES } else { 0 }, 0));
    }
}

#[test]
fn a_node_with_an_unexpected_id_gets_no_bundle() {
    let (mut to, at) = answering(TlsPolicy::No, None);
    let (layer, terms) = tcpcl(TlsPolicy::No, Some("ipn:7.0"));
    let mut from = node_with(&layer, Some(at.to_string()), BUNDLES, BYTES, terms);
    turn(&mut [&mut to, &mut from], |hosts| hosts.iter().all(|one| !one.manager().over.is_empty()));
    let why = "the peer has the node id \"ipn:2.0\", expected ipn:7.0".to_owned();
    assert_eq!(from.manager().over, [Some(why)]);
    assert_eq!((from.manager().accepted, to.manager().received), (0, 0));
}

/// Sends `words` after a contact header to a node with TLS. Returns its reply and the closed sessions.
fn stranger(words: &[u8]) -> (Vec<u8>, Vec<Option<String>>) {
    let (mut to, at) = answering(TlsPolicy::Require, None);
    let mut socket = TcpStream::connect(at).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.write_all(b"dtn!\x04\x01").unwrap();
    let (mut received, mut sent_bytes) = (Vec::new(), 0);
    turn(&mut [&mut to], |hosts| {
        let mut buffer = [0; 4096];
        match socket.read(&mut buffer) {
            Ok(count) => received.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => {}
        }
        if received.len() >= 6 && sent_bytes < words.len() {
            sent_bytes += socket.write(&words[sent_bytes..]).unwrap_or(words.len() - sent_bytes);
        }
        !hosts[0].manager().over.is_empty()
    });
    let over = to.manager().over.clone();
    assert_eq!(to.open_connections(0), 0, "nothing is left of it");
    (received, over)
}

#[test]
fn an_invalid_tls_handshake_ends_the_connection() {
    let init = b"\x07\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x07ipn:1.0\x00\x00\x00\x00";
    // A handshake message with an announced length of 16 MB, of which a large part follows.
    let mut long = vec![22, 3, 3, 0x40, 0, 1, 0xff, 0xff, 0xff];
    long.resize(5 + 0x4000, 7);
    let long: Vec<u8> = std::iter::repeat_n(&long[..], 200).flatten().copied().collect();
    for words in [&init[..], &[0; 100_000], &[22, 3, 1, 255, 255], &long] {
        let (received, over) = stranger(words);
        assert!(received.starts_with(b"dtn!\x04\x01"), "{received:?}");
        assert!(
            !received.windows(7).any(|part| part == b"ipn:2.0"),
            "its name is said in TLS alone"
        );
        assert!(matches!(&over[..], [Some(_)]), "{over:?}");
    }
}

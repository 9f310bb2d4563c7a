//! Every convergence layer over real sockets: bundles arrive once and whole, and are acknowledged as the layer can.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use bundle::layers::{
    LayerSpec, MtcpSpec, QubicleSpec, QuicclSpec, Streaming, TcpclSpec, Terms, TlsPolicy,
};
use endpoint::host::Host;
use units::Span;

use crate::common::carry::{Carrying, node, node_with};

/// Ten bundles of 1 MB.
const BUNDLES: u64 = 10;
const BYTES: usize = 1_000_000;

#[test]
fn bundles_arrive_once_and_whole_over_every_layer() {
    let each = QuicclSpec { streams: Streaming::Each, ..QuicclSpec::default() };
    let priorities = QuicclSpec { streams: Streaming::Priorities, ..QuicclSpec::default() };
    for (layer, says_durable) in [
        (LayerSpec::Quiccl(QuicclSpec::default()), true),
        (LayerSpec::Quiccl(each), true),
        (LayerSpec::Quiccl(priorities), true),
        (LayerSpec::Qubicle(QubicleSpec::default()), false),
        (LayerSpec::Tcpcl(TcpclSpec::default()), true),
        (LayerSpec::Mtcp(MtcpSpec::default()), false),
    ] {
        let mut to = node(&layer, None, 0, BYTES);
        let at = to.local(0).unwrap().to_string();
        let mut from = node(&layer, Some(at), BUNDLES, BYTES);
        let until = from.now() + Span::from_secs(20);
        while from.agent().accepted < BUNDLES || to.agent().received < BUNDLES {
            for host in [&mut from, &mut to] {
                let soon = host.now() + Span::from_millis(1);
                host.turn(soon).unwrap();
            }
            assert!(from.now() < until, "{layer:?}");
        }
        let (sent, came) = (from.agent(), to.agent());
        assert_eq!((sent.accepted, came.received, came.wrong), (BUNDLES, BUNDLES, 0), "{layer:?}");
        assert_eq!(sent.durable, if says_durable { BUNDLES } else { 0 }, "{layer:?}");
        assert_eq!((sent.over.len(), came.over.len()), (0, 0), "{layer:?}: {:?}", sent.over);
    }
}

/// A node that is gone is told as the end of its session, once, over either transport.
#[test]
fn a_node_that_is_gone_ends_its_sessions() {
    for layer in [LayerSpec::Quiccl(QuicclSpec::default()), LayerSpec::Tcpcl(TcpclSpec::default())]
    {
        let mut to = node(&layer, None, 0, BYTES);
        let at = to.local(0).unwrap().to_string();
        let mut from = node(&layer, Some(at), u64::MAX, BYTES);
        let until = from.now() + Span::from_secs(20);
        while from.agent().over.is_empty() {
            if to.agent().received < 3 {
                let soon = to.now() + Span::from_millis(1);
                to.turn(soon).unwrap();
            } else {
                to.close();
            }
            let soon = from.now() + Span::from_millis(1);
            from.turn(soon).unwrap();
            assert!(from.now() < until, "{layer:?}");
        }
        assert_eq!(from.agent().over.len(), 1, "{layer:?}: {:?}", from.agent().over);
        assert_eq!((from.agent().sessions.count(), from.open(0)), (0, 0), "{layer:?}");
    }
}

fn tcpcl(tls: TlsPolicy, peer: Option<&str>) -> (LayerSpec, Terms) {
    let terms = Terms { peer: peer.map(str::to_owned), ..Terms::default() };
    (LayerSpec::Tcpcl(TcpclSpec { tls, ..TcpclSpec::default() }), terms)
}

fn answering(tls: TlsPolicy, peer: Option<&str>) -> (Host<Carrying>, SocketAddr) {
    let (layer, terms) = tcpcl(tls, peer);
    let host = node_with(&layer, None, 0, BYTES, terms);
    let at = host.local(0).unwrap();
    (host, at)
}

/// Both turn until `done`.
fn turn(hosts: &mut [&mut Host<Carrying>], mut done: impl FnMut(&[&mut Host<Carrying>]) -> bool) {
    let until = hosts[0].now() + Span::from_secs(20);
    while !done(hosts) {
        for host in hosts.iter_mut() {
            let soon = host.now() + Span::from_millis(1);
            host.turn(soon).unwrap();
        }
        assert!(hosts[0].now() < until);
    }
}

#[test]
fn tcpcl_speaks_tls_where_both_may_and_ends_where_one_must_and_the_other_cannot() {
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
            hosts[1].agent().accepted == BUNDLES || !hosts[1].agent().over.is_empty()
        });
        assert_eq!(from.agent().accepted == BUNDLES, works, "{dials:?} {answers:?}");
        let came = to.agent();
        assert_eq!((came.received, came.wrong), (if works { BUNDLES } else { 0 }, 0));
    }
}

#[test]
fn a_node_of_another_name_gets_no_bundle() {
    let (mut to, at) = answering(TlsPolicy::No, None);
    let (layer, terms) = tcpcl(TlsPolicy::No, Some("ipn:7.0"));
    let mut from = node_with(&layer, Some(at.to_string()), BUNDLES, BYTES, terms);
    turn(&mut [&mut to, &mut from], |hosts| hosts.iter().all(|one| !one.agent().over.is_empty()));
    let why = "the peer says that it is \"ipn:2.0\", expected ipn:7.0".to_owned();
    assert_eq!(from.agent().over, [Some(why)]);
    assert_eq!((from.agent().accepted, to.agent().received), (0, 0));
}

/// What a stranger says after its contact header, to a node that speaks TLS; what came back.
fn stranger(words: &[u8]) -> (Vec<u8>, Vec<Option<String>>) {
    let (mut to, at) = answering(TlsPolicy::Require, None);
    let mut socket = TcpStream::connect(at).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.write_all(b"dtn!\x04\x01").unwrap();
    let (mut heard, mut said) = (Vec::new(), 0);
    turn(&mut [&mut to], |hosts| {
        let mut buffer = [0; 4096];
        match socket.read(&mut buffer) {
            Ok(count) => heard.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => {}
        }
        if heard.len() >= 6 && said < words.len() {
            said += socket.write(&words[said..]).unwrap_or(words.len() - said);
        }
        !hosts[0].agent().over.is_empty()
    });
    let over = to.agent().over.clone();
    assert_eq!(to.open(0), 0, "nothing is left of it");
    (heard, over)
}

#[test]
fn nonsense_in_place_of_a_handshake_ends_the_connection() {
    let init = b"\x07\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x07ipn:1.0\x00\x00\x00\x00";
    // A handshake message that says it is 16 MB long, of which much comes.
    let mut long = vec![22, 3, 3, 0x40, 0, 1, 0xff, 0xff, 0xff];
    long.resize(5 + 0x4000, 7);
    let long: Vec<u8> = std::iter::repeat_n(&long[..], 200).flatten().copied().collect();
    for words in [&init[..], &[0; 100_000], &[22, 3, 1, 255, 255], &long] {
        let (heard, over) = stranger(words);
        assert!(heard.starts_with(b"dtn!\x04\x01"), "{heard:?}");
        assert!(!heard.windows(7).any(|part| part == b"ipn:2.0"), "its name is said in TLS alone");
        assert!(matches!(&over[..], [Some(_)]), "{over:?}");
    }
}

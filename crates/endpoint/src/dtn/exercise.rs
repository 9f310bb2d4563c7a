//! A stranger that says any bytes over a real connection on loopback to a bundle node, or in datagrams: for tests and for
//! the fuzzer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::json;
use transport::quic::QuicSpec;
use units::Span;

use super::{BundleHost, NodePlan, node};
use crate::host::Host;

/// What the node stores at the most.
const STORE: u64 = 1 << 16;

/// Turns, of at most a millisecond each, in which a connection whose peer is gone has to be over.
const TURNS: usize = 5_000;

/// Layers, and whether TLS may be spoken; the last one is over UDP.
const WAYS: [(&str, &str); 4] =
    [("tcpcl", "no"), ("tcpcl", "allow"), ("mtcp", "no"), ("ltp", "no")];

thread_local! {
    static NODES: RefCell<BTreeMap<usize, Host<BundleHost>>> = const { RefCell::new(BTreeMap::new()) };
}

fn plan((layer, tls): (&str, &str)) -> NodePlan {
    let over_udp = layer == "ltp";
    let mut words = json!({"kind": layer});
    if layer == "tcpcl" {
        words["tls"] = json!(tls);
    }
    if over_udp {
        words["rate_bit_s"] = json!(1_000_000_000);
    }
    let integrity = json!({"check": [{"node": "1", "key": "k"}], "on_the_way": true});
    let text = json!({
        "name": "2",
        "dtn": {
            "epoch_ms": 800_000_000_000_u64, "links": [], "plan": {"contacts": []},
            "nodes": [
                {"name": "1", "eid": "ipn:1.0"},
                {"name": "2", "eid": "ipn:2.0", "store_bytes": STORE, "integrity": integrity},
            ],
            "keys_of_names": true,
        },
        "doors": [{
            "neighbour": "1", "layer": words, "listen": "127.0.0.1:0",
            "peer": over_udp.then_some("127.0.0.1:9"),
            "sends": layer != "mtcp", "with_contact": false, "closes": false, "quic": QuicSpec::default(),
            "congestion": {"name": "cubic"}, "idle_timeout_ns": 10_000_000_000_u64,
        }],
    });
    serde_json::from_value(text).expect("a plan")
}

/// Gives `bytes` to a node in pieces, over TCP and then a reset or in datagrams: the first byte chooses the layer and the length
/// of the pieces. Panics where a session of a connection or more than the store is left of it.
#[doc(hidden)]
pub fn exercise_dtn(bytes: &[u8]) {
    let [first, bytes @ ..] = bytes else { return };
    let way = usize::from(*first) % WAYS.len();
    NODES.with_borrow_mut(|nodes| {
        let host = nodes.entry(way).or_insert_with(|| node(&plan(WAYS[way])).expect("a node"));
        let address = host.local(0).expect("its address");
        let pieces = bytes.chunks(usize::from(first >> 2) * 8 + 1);
        if WAYS[way].0 == "ltp" {
            send(host, address, pieces);
        } else {
            say(host, address, pieces);
        }
        host.agent().take_events();
    });
}

fn turn(host: &mut Host<BundleHost>) {
    let soon = host.now() + Span::from_millis(1);
    host.turn(soon).expect("a kernel");
    assert!(host.agent().agent().stored_bytes() <= STORE, "no more than the store");
}

/// In datagrams, from the neighbour's address.
fn send<'a>(
    host: &mut Host<BundleHost>,
    address: SocketAddr,
    pieces: impl Iterator<Item = &'a [u8]>,
) {
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
    for piece in pieces {
        let _ = stranger.send_to(piece, address);
        turn(host);
    }
    assert!(host.agent().sessions() <= 1, "there is one neighbour");
}

/// Over a connection.
fn say<'a>(
    host: &mut Host<BundleHost>,
    address: SocketAddr,
    pieces: impl Iterator<Item = &'a [u8]>,
) {
    let mut stranger = TcpStream::connect(address).expect("a connection on loopback");
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    setsockopt(&stranger, sockopt::Linger, &linger).expect("lingering");
    stranger.set_nonblocking(true).expect("no blocking");
    let mut answer = [0; 4096];
    for piece in pieces {
        let _ = stranger.write(piece);
        turn(host);
        let _ = stranger.read(&mut answer);
    }
    drop(stranger);
    let mut turns = 0;
    // It may not have been accepted yet.
    while turns < 3 || host.open(0) > 0 {
        turn(host);
        turns += 1;
        assert!(turns < TURNS, "a connection whose peer is gone is over");
    }
    assert_eq!(host.agent().sessions(), 0, "a session ends with its connection");
}

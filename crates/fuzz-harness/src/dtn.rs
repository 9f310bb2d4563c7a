//! An untrusted peer that sends arbitrary bytes to a bundle node over a loopback connection or in datagrams: for tests
//! and for the fuzzer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use programs::dtn::{BundleHost, BundleNodePlan, build_node};
use runtime::host::Host;
use serde_json::json;
use transport::quic::QuicSpec;
use units::Span;

/// The store size of the node in bytes.
const STORE_BYTES: u64 = 1 << 16;

/// The maximum of polls, of at most one millisecond each, until a connection without its peer has closed.
const MAX_POLLS: usize = 5_000;

/// CLAs with their TLS policy; the last one uses UDP.
const CASES: [(&str, &str); 4] =
    [("tcpcl", "no"), ("tcpcl", "allow"), ("mtcp", "no"), ("ltp", "no")];

thread_local! {
    static NODES: RefCell<BTreeMap<usize, Host<BundleHost>>> = const { RefCell::new(BTreeMap::new()) };
}

fn plan((layer, tls): (&str, &str)) -> BundleNodePlan {
    let over_udp = layer == "ltp";
    let mut words = json!({"kind": layer});
    if layer == "tcpcl" {
        words["tls"] = json!(tls);
    }
    if over_udp {
        words["rate_bit_s"] = json!(1_000_000_000);
    }
    let integrity = json!({"check": [{"node": "1", "key": "k"}], "checks_forwarded": true});
    let text = json!({
        "name": "2",
        "dtn": {
            "epoch_ms": 800_000_000_000_u64, "links": [], "plan": {"contacts": []},
            "nodes": [
                {"name": "1", "eid": "ipn:1.0"},
                {"name": "2", "eid": "ipn:2.0", "store_bytes": STORE_BYTES, "integrity": integrity},
            ],
            "derive_keys_from_names": true,
        },
        "neighbours": [{
            "neighbour": "1", "cla": words, "listen": "127.0.0.1:0",
            "peer": over_udp.then_some("127.0.0.1:9"),
            "can_send": layer != "mtcp", "opens_with_contact": false, "closes_after_contact": false, "quic": QuicSpec::default(),
            "congestion": {"name": "cubic"}, "idle_timeout_ns": 10_000_000_000_u64,
        }],
    });
    serde_json::from_value(text).expect("a plan")
}

/// Sends `bytes` to a node in pieces, over TCP with a final reset, or in datagrams. The first byte selects the CLA and
/// the piece length. Panics if a session remains, or more bytes than the store holds.
pub fn exercise_dtn(bytes: &[u8]) {
    let [first, bytes @ ..] = bytes else { return };
    let case = usize::from(*first) % CASES.len();
    NODES.with_borrow_mut(|nodes| {
        let host =
            nodes.entry(case).or_insert_with(|| build_node(&plan(CASES[case])).expect("a node"));
        let address = host.local_addr(0).expect("its address");
        let pieces = bytes.chunks(usize::from(first >> 2) * 8 + 1);
        if CASES[case].0 == "ltp" {
            send_datagrams(host, address, pieces);
        } else {
            send_over_tcp(host, address, pieces);
        }
        host.manager().take_events();
    });
}

fn poll_once(host: &mut Host<BundleHost>) {
    let soon = host.now() + Span::from_millis(1);
    host.poll_once(soon).expect("a kernel");
    assert!(host.manager().bpa().stored_bytes() <= STORE_BYTES, "no more than the store");
}

/// Sends the pieces as datagrams from the neighbour's address.
fn send_datagrams<'a>(
    host: &mut Host<BundleHost>,
    address: SocketAddr,
    pieces: impl Iterator<Item = &'a [u8]>,
) {
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
    for piece in pieces {
        let _ = stranger.send_to(piece, address);
        poll_once(host);
    }
    assert!(host.manager().session_count() <= 1, "there is one neighbour");
}

/// Sends the pieces over a connection.
fn send_over_tcp<'a>(
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
        poll_once(host);
        let _ = stranger.read(&mut answer);
    }
    drop(stranger);
    let mut turns = 0;
    // The connection may not be accepted yet.
    while turns < 3 || host.open_connections(0) > 0 {
        poll_once(host);
        turns += 1;
        assert!(turns < MAX_POLLS, "a connection whose peer is gone is over");
    }
    assert_eq!(host.manager().session_count(), 0, "a session ends with its connection");
}

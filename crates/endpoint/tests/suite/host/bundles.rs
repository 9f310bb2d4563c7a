//! Every convergence layer over real sockets: bundles arrive once and whole, and are acknowledged as the layer can.

use bundle::layers::{LayerSpec, MtcpSpec, QubicleSpec, QuicclSpec, Streaming, TcpclSpec};
use units::Span;

use crate::common::carry::node;

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

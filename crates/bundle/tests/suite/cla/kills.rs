//! Acknowledged bundles are durable if the CLA supports it: a receiver fails between a bundle and its acknowledgement.

use std::sync::LazyLock;

use bundle::cla::{ClaSpec, MtcpSpec, QubicleSpec, QuicclSpec, StreamMappingSpec, TcpclSpec};
use bytes::Bytes;
use units::{Span, Time};

use crate::cla::pair::{Pair, StoreBehaviour, payload, seconds};

const BUNDLES: u64 = 40;

/// The payloads of all runs: their generation takes longer than a run.
static PAYLOADS: LazyLock<Vec<Bytes>> =
    LazyLock::new(|| (0..BUNDLES).map(|id| payload(id, 50_000)).collect());

/// Counts the bundles that the receiver acknowledged but did not store before its failure at `at`, and all acknowledged
/// ones.
fn lost(layer: &ClaSpec, at: Time) -> (usize, usize) {
    let mut pair = Pair::new(layer);
    pair.nodes[1].store = StoreBehaviour::After(Span::from_millis(30));
    for (id, payload) in (0..).zip(PAYLOADS.iter()) {
        pair.send(0, id, payload);
    }
    pair.run(at);
    pair.kill(1);
    // Packets in transit still arrive.
    pair.run(at + Span::from_secs(5));
    let accepted = pair.nodes[0].accepted();
    let stored = &pair.nodes[1].stored;
    let lost = accepted.iter().filter(|(id, _)| !stored.contains(&PAYLOADS[*id as usize])).count();
    (lost, accepted.len())
}

/// Returns the maximum loss over the failure times, and the number of runs with acknowledged bundles.
fn over_time(layer: &ClaSpec) -> (usize, usize) {
    let mut max_lost = 0;
    let mut accepted = 0;
    for step in 0..60 {
        let (lost, taken) = lost(layer, seconds(0) + Span::from_millis(37 * step + 150));
        max_lost = max_lost.max(lost);
        accepted += usize::from(taken > 0);
    }
    (max_lost, accepted)
}

#[test]
fn a_failure_loses_no_acknowledged_bundle() {
    for layer in [
        ClaSpec::Tcpcl(TcpclSpec::default()),
        ClaSpec::Quiccl(QuicclSpec::default()),
        ClaSpec::Quiccl(QuicclSpec { streams: StreamMappingSpec::Each, ..QuicclSpec::default() }),
        ClaSpec::Quiccl(QuicclSpec {
            streams: StreamMappingSpec::Priorities,
            ..QuicclSpec::default()
        }),
    ] {
        let (max_lost, accepted) = over_time(&layer);
        assert_eq!(max_lost, 0, "{layer:?}");
        assert!(accepted > 10, "{layer:?}: accepted at {accepted} of 60 instants");
    }
}

/// The figures of docs/explanation/convergence-layers.md.
#[test]
fn a_failure_loses_bundles_of_clas_without_acknowledgements() {
    let (qubicle, _) = over_time(&ClaSpec::Qubicle(QubicleSpec::default()));
    let (mtcp, _) = over_time(&ClaSpec::Mtcp(MtcpSpec::default()));
    println!("qubicle {qubicle}, mtcp {mtcp} of {BUNDLES}");
    assert_eq!((qubicle, mtcp), (39, 29));
}

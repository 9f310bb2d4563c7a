//! What is accepted is durable, where a layer can say so: a receiver that dies between a bundle and its answer.

use std::sync::LazyLock;

use bundle::layers::{LayerSpec, MtcpSpec, QubicleSpec, QuicclSpec, Streaming, TcpclSpec};
use bytes::Bytes;
use units::{Span, Time};

use crate::layers::pair::{Pair, Store, payload, seconds};

const BUNDLES: u64 = 40;

/// Every run sends the same, which takes longer to write than the run.
static PAYLOADS: LazyLock<Vec<Bytes>> =
    LazyLock::new(|| (0..BUNDLES).map(|id| payload(id, 50_000)).collect());

/// Bundles that the sender believes to have arrived and the receiver has not stored, when it dies `at`; and those that were
/// accepted at all.
fn lost(layer: &LayerSpec, at: Time) -> (usize, usize) {
    let mut pair = Pair::new(layer);
    pair.nodes[1].store = Store::After(Span::from_millis(30));
    for (id, payload) in (0..).zip(PAYLOADS.iter()) {
        pair.send(0, id, payload);
    }
    pair.run(at);
    pair.kill(1);
    // What is on the way still arrives.
    pair.run(at + Span::from_secs(5));
    let accepted = pair.nodes[0].accepted();
    let stored = &pair.nodes[1].stored;
    let lost = accepted.iter().filter(|(id, _)| !stored.contains(&PAYLOADS[*id as usize])).count();
    (lost, accepted.len())
}

/// Over the time in which the bundles arrive: the most that are lost, and how often bundles had been accepted.
fn over_time(layer: &LayerSpec) -> (usize, usize) {
    let mut most = 0;
    let mut accepted = 0;
    for step in 0..60 {
        let (lost, taken) = lost(layer, seconds(0) + Span::from_millis(37 * step + 150));
        most = most.max(lost);
        accepted += usize::from(taken > 0);
    }
    (most, accepted)
}

#[test]
fn a_kill_loses_nothing_that_was_accepted() {
    for layer in [
        LayerSpec::Tcpcl(TcpclSpec::default()),
        LayerSpec::Quiccl(QuicclSpec::default()),
        LayerSpec::Quiccl(QuicclSpec { streams: Streaming::Each, ..QuicclSpec::default() }),
        LayerSpec::Quiccl(QuicclSpec { streams: Streaming::Priorities, ..QuicclSpec::default() }),
    ] {
        let (most, accepted) = over_time(&layer);
        assert_eq!(most, 0, "{layer:?}");
        assert!(accepted > 10, "{layer:?}: accepted at {accepted} of 60 instants");
    }
}

/// The figures of docs/models/convergence-layers.md.
#[test]
fn a_kill_loses_what_layers_without_answers_took_for_arrived() {
    let (qubicle, _) = over_time(&LayerSpec::Qubicle(QubicleSpec::default()));
    let (mtcp, _) = over_time(&LayerSpec::Mtcp(MtcpSpec::default()));
    println!("qubicle {qubicle}, mtcp {mtcp} of {BUNDLES}");
    assert_eq!((qubicle, mtcp), (39, 29));
}

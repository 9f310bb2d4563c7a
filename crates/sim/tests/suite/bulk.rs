//! Bulk transfers against physical bounds.

use crate::common::{Case, goodput_up};

#[test]
fn a_long_flow_fills_the_link_and_no_more() {
    let case = Case::default();
    let run = case.run();
    let goodput = goodput_up(&run, case.duration_s);
    let bound =
        10e6 * (crate::common::MTU as f64 / (crate::common::MTU + crate::common::HEADER) as f64);
    assert!(goodput < bound, "{goodput} bit/s over a link whose payload rate is {bound}");
    assert!(goodput > 0.8 * bound, "{goodput} bit/s");
    let flows = run.table("flows");
    let sides = flows.names("side").into_iter();
    let min_rtts: Vec<f64> = sides
        .zip(flows.numbers("min_rtt_ms"))
        .filter(|(side, _)| *side == "client")
        .map(|(_, min_rtt)| min_rtt)
        .collect();
    // There is no value before the first sample, which follows the handshake's round trip. All later rows have one.
    let sampled = min_rtts.iter().position(|min_rtt| !min_rtt.is_nan()).expect("samples");
    assert!(sampled <= 11, "the first sample at row {sampled} of 0.1 s each");
    assert!(min_rtts[sampled..].iter().all(|min_rtt| *min_rtt >= 500.0), "{min_rtts:?}");
    println!("goodput {goodput} packets {} events {}", run.packets, run.events);
}

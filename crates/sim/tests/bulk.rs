//! Bulk transfers against physical bounds.

mod common;

use common::{Case, goodput_up, number};

#[test]
fn a_long_flow_fills_the_link_and_no_more() {
    let case = Case::default();
    let run = case.run();
    let goodput = goodput_up(&run, case.duration_s);
    let bound = 10e6 * (common::MTU as f64 / (common::MTU + common::HEADER) as f64);
    assert!(goodput < bound, "{goodput} bit/s over a link whose payload rate is {bound}");
    assert!(goodput > 0.8 * bound, "{goodput} bit/s");
    let least = number(&run, "flows", &[("side", "client")], "min_rtt_ms");
    assert!(least.is_nan() || least >= 500.0);
    println!("goodput {goodput} packets {} events {}", run.packets, run.events);
}

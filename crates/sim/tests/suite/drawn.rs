//! What tests that draw their cases share.

use proptest::prelude::ProptestConfig;
use sim::Measurements;
use spec::RunSpec;

/// As many cases as PROPTEST_CASES says, or `cases`.
pub fn tries(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(cases), ..ProptestConfig::default() }
}

/// Runs a scenario, and again: same seed, same bytes. Says how to see it once more.
pub fn run_twice(spec: &RunSpec) -> Measurements {
    let json = serde_json::to_string(spec).unwrap();
    println!("cargo run --release -p bentpipe-sim --example replay -- '{json}'");
    let [run, again] = [(); 2].map(|()| sim::run(spec, &mut |_, _| None).unwrap());
    assert_eq!(run.encode("test"), again.encode("test"));
    run
}

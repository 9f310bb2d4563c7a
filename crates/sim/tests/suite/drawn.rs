//! Helpers of the tests with random cases.

use proptest::prelude::ProptestConfig;
use sim::Measurements;
use spec::RunSpec;

/// Returns a configuration with PROPTEST_CASES cases, or `cases` by default.
pub fn tries(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(cases), ..ProptestConfig::default() }
}

/// Runs a scenario twice and compares the bytes. Prints the command that replays it.
pub fn run_twice(spec: &RunSpec) -> Measurements {
    let json = serde_json::to_string(spec).unwrap();
    println!("cargo run --release -p bentpipe-sim --example replay -- '{json}'");
    let [run, again] = [(); 2].map(|()| sim::run(spec, &mut |_, _| None).unwrap());
    assert_eq!(run.encode("test"), again.encode("test"));
    run
}

//! Runs the seeds of the fuzzer (fuzz/seeds) through the functions of the fuzzer.

#[path = "../../../fuzz/src/lib.rs"]
mod targets;

use std::path::Path;

#[test]
fn every_seed_of_every_target() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    for (name, target) in targets::TARGETS {
        let files = std::fs::read_dir(seeds.join(name)).expect("every target has seeds");
        let mut count = 0;
        for file in files {
            let file = file.expect("a seed").path();
            println!("{}", file.display());
            target(&std::fs::read(&file).expect("a seed"));
            count += 1;
        }
        assert!(count > 0, "{name} has no seeds");
    }
}

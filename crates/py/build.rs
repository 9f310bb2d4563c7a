//! The engine's version: the version of the crate, and a hash of every source and locked dependency that affects
//! results. A store of another version is never resumed, also between releases. The build profile is added, which
//! changes no result.

mod sources;

use std::env;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the name of the profile. Cargo passes it to scripts only as a part of a path: PROFILE/build/CRATE/out.
fn profile() -> Option<String> {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if flags.contains("profile-use") {
        return Some("guided".to_owned());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR")?);
    let build = out.ancestors().find(|folder| folder.ends_with("build"))?;
    Some(build.parent()?.file_name()?.to_str()?.to_owned())
}

fn main() -> io::Result<()> {
    let root = Path::new("../..");
    let crates = sources::crates(root, "crates/py")?;
    for folder in &crates {
        println!("cargo:rerun-if-changed={}", folder.join("src").display());
        println!("cargo:rerun-if-changed={}", folder.join("Cargo.toml").display());
    }
    println!("cargo:rerun-if-changed=../../Cargo.lock");
    println!("cargo:rerun-if-changed=../../Cargo.toml");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=sources.rs");
    let hash = sources::hash(root, &sources::files(root, &crates)?)?;
    println!("cargo:rustc-env=ENGINE_SOURCES={:08x}", (hash >> 32) as u32);
    println!("cargo:rustc-env=ENGINE_PROFILE={}", profile().unwrap_or_default());
    Ok(())
}

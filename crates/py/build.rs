//! The engine's version: the crate's, and a hash of every source and locked dependency that a
//! result depends on. A store of another version is never resumed, also between releases. And the profile that it is built
//! with, which changes no result.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates a run goes through, and those that its plan does.
const CRATES: [&str; 8] =
    ["bundle", "cc", "contacts", "orbit", "path", "sim", "transport", "units"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Cargo tells scripts whether code is debugged, and no profile's name but in a folder: PROFILE/build/CRATE/out.
fn profile() -> Option<String> {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if flags.contains("profile-use") {
        return Some("guided".to_owned());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR")?);
    let build = out.ancestors().find(|folder| folder.ends_with("build"))?;
    Some(build.parent()?.file_name()?.to_str()?.to_owned())
}

fn main() {
    let crates = Path::new("..");
    let mut files = vec![crates.join("../Cargo.lock")];
    for name in CRATES {
        let folder = crates.join(name).join("src");
        println!("cargo:rerun-if-changed={}", folder.display());
        sources(&folder, &mut files);
    }
    println!("cargo:rerun-if-changed=../../Cargo.lock");
    files.sort();
    // FNV-1a over names and contents; carriage returns are left out, as some checkouts add them.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        let contents = fs::read(&file).unwrap_or_default();
        let name = file.to_string_lossy().replace('\\', "/");
        for byte in name.bytes().chain(contents).filter(|byte| *byte != b'\r') {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    println!("cargo:rustc-env=ENGINE_SOURCES={:08x}", (hash >> 32) as u32);
    println!("cargo:rustc-env=ENGINE_PROFILE={}", profile().unwrap_or_default());
}

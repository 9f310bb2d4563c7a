//! The crates that affect results, taken from the dependency graph, and a hash of their sources.
//!
//! The build script uses this file. It has no dependencies, because they would be compiled again for the host.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the folder of the crate in `first` and those of all crates of the workspace that it depends on.
///
/// # Errors
/// An unreadable manifest, or a dependency by path that the workspace does not list.
pub fn crates(root: &Path, first: &str) -> io::Result<Vec<PathBuf>> {
    let known = workspace_paths(&read(&root.join("Cargo.toml"))?);
    let mut found = vec![root.join(first)];
    let mut next = 0;
    while let Some(folder) = found.get(next) {
        let manifest = folder.join("Cargo.toml");
        for (name, line) in dependencies(&read(&manifest)?) {
            let Some(path) = known.get(&name) else {
                if line.contains("path") {
                    let file = manifest.display();
                    return Err(io::Error::other(format!(
                        "{file}: {name}: list the path in [workspace.dependencies]"
                    )));
                }
                continue;
            };
            let folder = root.join(path);
            if !found.contains(&folder) {
                found.push(folder);
            }
        }
        next += 1;
    }
    found.sort();
    Ok(found)
}

/// Returns all source files of `crates`, and the locked versions of other crates.
///
/// # Errors
/// An unreadable folder, or a folder without sources.
pub fn files(root: &Path, crates: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![root.join("Cargo.lock")];
    for folder in crates {
        let before = found.len();
        sources(&folder.join("src"), &mut found)?;
        if found.len() == before {
            return Err(io::Error::other(format!("{}: no sources", folder.display())));
        }
    }
    found.sort();
    Ok(found)
}

/// Hashes names, relative to `root`, and contents: FNV-1a. Carriage returns are skipped, as some checkouts add them.
///
/// # Errors
/// An unreadable file.
pub fn hash(root: &Path, files: &[PathBuf]) -> io::Result<u64> {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        let contents = fs::read(file).map_err(|error| named(file, &error))?;
        let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        for byte in name.bytes().chain(contents).filter(|byte| *byte != b'\r') {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    Ok(hash)
}

/// Returns the paths of the workspace crates, by dependency name.
fn workspace_paths(manifest: &str) -> BTreeMap<String, String> {
    let of_workspace = entries(manifest, |section| section == "workspace.dependencies");
    let path = |line: &str| {
        let (_, rest) = line.split_once("path = \"")?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    of_workspace.into_iter().filter_map(|(name, line)| Some((name, path(&line)?))).collect()
}

/// Returns the names of a crate's runtime dependencies, each with its line.
fn dependencies(manifest: &str) -> Vec<(String, String)> {
    let runs = |section: &str| {
        section == "dependencies"
            || section.starts_with("target.") && section.ends_with(".dependencies")
    };
    let mut found = entries(manifest, runs);
    // A dependency with a separate table.
    for line in manifest.lines() {
        if let Some(name) = line.trim().strip_prefix("[dependencies.") {
            found.push((name.trim_end_matches(']').to_owned(), String::new()));
        }
    }
    found
}

/// Returns the keys of the sections that `wanted` accepts, each with its line.
fn entries(manifest: &str, wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            inside = wanted(section.trim_end_matches(']'));
        } else if inside
            && !line.starts_with('#')
            && let Some(end) = line.find(['.', ' ', '='])
        {
            found.push((line[..end].to_owned(), line.to_owned()));
        }
    }
    found
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder).map_err(|error| named(folder, &error))? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

fn read(file: &Path) -> io::Result<String> {
    fs::read_to_string(file).map_err(|error| named(file, &error))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    fn version(root: &Path) -> io::Result<u64> {
        hash(root, &files(root, &crates(root, "crates/py")?)?)
    }

    /// Copies the files that determine the version.
    fn copy(name: &str) -> PathBuf {
        let (from, to) =
            (workspace(), std::env::temp_dir().join(format!("{name}-{}", std::process::id())));
        let folders = crates(&from, "crates/py").unwrap();
        let mut wanted = files(&from, &folders).unwrap();
        wanted.push(from.join("Cargo.toml"));
        wanted.extend(folders.iter().map(|folder| folder.join("Cargo.toml")));
        for file in wanted {
            let target = to.join(file.strip_prefix(&from).unwrap());
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(file, target).unwrap();
        }
        to
    }

    #[test]
    fn a_byte_of_any_crate_changes_the_version() {
        let root = copy("version-of-a-byte");
        let before = version(&root).unwrap();
        let folders = crates(&root, "crates/py").unwrap();
        let names: Vec<_> =
            folders.iter().map(|folder| folder.file_name().unwrap().to_str().unwrap()).collect();
        for name in [
            "bundle",
            "cc",
            "conformance",
            "contacts",
            "link",
            "orbit",
            "py",
            "sim",
            "spec",
            "topology",
            "transport",
            "units",
        ] {
            assert!(names.contains(&name), "{name} is not among {names:?}");
        }
        for folder in folders {
            let file = folder.join("src/lib.rs");
            let text = fs::read(&file).unwrap();
            fs::write(&file, [text.as_slice(), b" "].concat()).unwrap();
            assert_ne!(version(&root).unwrap(), before, "{}", folder.display());
            fs::write(&file, text).unwrap();
        }
        assert_eq!(version(&root).unwrap(), before);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_crate_that_is_missing_fails_the_build() {
        let root = copy("version-without-a-crate");
        fs::remove_dir_all(root.join("crates/spec/src")).unwrap();
        assert!(version(&root).unwrap_err().to_string().contains("spec"));
        let manifest = root.join("crates/sim/Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        let other = "[dependencies]\nother = { path = \"../other\" }";
        fs::write(&manifest, text.replacen("[dependencies]", other, 1)).unwrap();
        assert!(version(&root).unwrap_err().to_string().contains("other: list the path"));
        fs::remove_dir_all(root).unwrap();
    }
}

//! Files of a folder.

use std::fs::File;
use std::path::{Component, Path, PathBuf};

/// Content types by the extension of a file name.
const TYPES: [(&str, &str); 18] = [
    ("html", "text/html; charset=utf-8"),
    ("htm", "text/html; charset=utf-8"),
    ("css", "text/css"),
    ("js", "application/javascript"),
    ("mjs", "application/javascript"),
    ("json", "application/json"),
    ("txt", "text/plain;charset=utf-8"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("ico", "image/vnd.microsoft.icon"),
    ("woff2", "font/woff2"),
    ("mp4", "video/mp4"),
    ("wasm", "application/wasm"),
];

/// A served folder.
pub struct Folder(PathBuf);

impl Folder {
    /// Opens the folder at `root`.
    ///
    /// # Errors
    /// `root` is not a folder.
    pub(super) fn new(root: &Path) -> Result<Folder, String> {
        let real = root
            .canonicalize()
            .map_err(|error| format!("content: root: {}: {error}", root.display()))?;
        if !real.is_dir() {
            return Err(format!("content: root: {} is not a directory", root.display()));
        }
        Ok(Folder(real))
    }

    /// Opens the file at a URL path. Returns its length and type, `None` if it is missing or outside the folder.
    pub(super) fn open(&self, path: &str) -> Option<(File, u64, &'static str)> {
        let decoded = decode(path.strip_prefix('/')?)?;
        let relative = Path::new(&decoded);
        if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
            return None;
        }
        let mut real = self.0.join(relative).canonicalize().ok()?;
        if real.is_dir() {
            real = real.join("index.html").canonicalize().ok()?;
        }
        // Links to a target outside the folder are refused here.
        if !real.starts_with(&self.0) || !real.is_file() {
            return None;
        }
        let end = real.extension().and_then(|end| end.to_str()).unwrap_or("").to_ascii_lowercase();
        let kind = TYPES.iter().find(|(known, _)| *known == end);
        let file = File::open(&real).ok()?;
        let length = file.metadata().ok()?.len();
        Some((file, length, kind.map_or("application/octet-stream", |(_, kind)| kind)))
    }
}

/// Opens the file at a URL path below `root`, for the fuzzer.
#[doc(hidden)]
pub fn open_in_folder(root: &Path, path: &str) -> Option<File> {
    Folder::new(root).ok()?.open(path).map(|(file, ..)| file)
}

/// Decodes percent encoding (RFC 3986 section 2.1). `None` if it is malformed, not UTF-8, or contains NUL.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_the_folder_is_served() {
        let directory =
            std::env::temp_dir().join(format!("bentpipe-folder-{}", std::process::id()));
        let root = directory.join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(directory.join("secret"), "secret").unwrap();
        std::fs::write(root.join("a b.txt"), "text").unwrap();
        std::fs::write(root.join("sub/index.html"), "page").unwrap();
        let _ = std::os::unix::fs::symlink(directory.join("secret"), root.join("link"));
        let folder = Folder::new(&root).unwrap();
        let found = |path: &str| folder.open(path).map(|(_, length, kind)| (length, kind));
        assert_eq!(found("/a%20b.txt"), Some((4, "text/plain;charset=utf-8")));
        assert_eq!(found("/sub/"), Some((4, "text/html; charset=utf-8")));
        for path in
            ["/../secret", "/%2e%2e/secret", "/link", "//etc/passwd", "/a%2", "/%00", "/none", ""]
        {
            assert_eq!(found(path), None, "{path}");
        }
        std::fs::remove_dir_all(directory).unwrap();
    }
}

//! A file of results that grows while something is measured.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::say::say;

/// Lines wait for each other up to so many bytes.
const WAITING: usize = 64 << 10;

/// A file of lines. If its disk fills, the lines that are there are kept, one message names the file, and what
/// is measured goes on without it.
#[derive(Debug)]
pub struct Kept {
    /// What it is for, and where it is.
    name: String,
    file: Option<File>,
    waiting: Vec<u8>,
    /// Bytes on the disk: whole lines.
    whole: u64,
}

impl Kept {
    /// Makes the file; `what` is said before its path.
    ///
    /// # Errors
    /// In words: it cannot be made.
    pub fn create(what: &str, path: &Path) -> Result<Kept, String> {
        let name = format!("{what}: {}", path.display());
        let file = File::create(path).map_err(|error| format!("{name}: {error}"))?;
        Ok(Kept { name, file: Some(file), waiting: Vec::new(), whole: 0 })
    }

    /// Gives the file another place on the same disk.
    ///
    /// # Errors
    /// In words: it stays where it was.
    pub fn rename(&mut self, what: &str, from: &Path, to: &Path) -> Result<(), String> {
        std::fs::rename(from, to).map_err(|error| format!("{}: {error}", self.name))?;
        self.name = format!("{what}: {}", to.display());
        Ok(())
    }

    /// Writes the first line at once, before anything is measured.
    ///
    /// # Errors
    /// In words: the disk is full already.
    pub fn begin(&mut self, line: &[u8]) -> Result<(), String> {
        self.waiting.extend_from_slice(line);
        self.write().map_err(|error| format!("{}: {error}", self.name))
    }

    /// Adds a line, with its end; it is on the disk after the next [`Kept::flush`].
    pub fn put(&mut self, line: &[u8]) {
        if self.file.is_some() {
            self.waiting.extend_from_slice(line);
            if self.waiting.len() >= WAITING {
                self.flush();
            }
        }
    }

    /// Writes what waits.
    pub fn flush(&mut self) {
        if let Err(error) = self.write() {
            let name = &self.name;
            say(format_args!(
                "error: {name}: {error}; the file ends here, the measurement goes on"
            ));
            self.file = None;
        }
    }

    /// Whether lines are missing.
    pub fn is_cut(&self) -> bool {
        self.file.is_none()
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut done = 0;
        let ended = loop {
            if done == self.waiting.len() {
                break Ok(());
            }
            match file.write(&self.waiting[done..]) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        let whole = self.waiting[..done].iter().rposition(|byte| *byte == b'\n');
        self.whole += whole.map_or(0, |place| place as u64 + 1);
        self.waiting.clear();
        if ended.is_err() {
            // No half line for who reads it; what is no file on a disk has no length.
            let _ = file.set_len(self.whole);
        }
        ended
    }
}

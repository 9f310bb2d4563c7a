//! A file of results that grows during a measurement.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::stdio::log_stderr;

/// The buffer size in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// A file of lines. If its disk fills, the written lines remain, one message names the file, and the measurement
/// continues without the file.
#[derive(Debug)]
pub struct ResultFile {
    /// The purpose and the path of the file.
    name: String,
    file: Option<File>,
    pending: Vec<u8>,
    /// Bytes of complete lines on the disk.
    complete_bytes: u64,
}

impl ResultFile {
    /// Creates the file. Messages contain `what` before its path.
    ///
    /// # Errors
    /// The reason why the file cannot be created.
    pub fn create(what: &str, path: &Path) -> Result<ResultFile, String> {
        let name = format!("{what}: {}", path.display());
        let file = File::create(path).map_err(|error| format!("{name}: {error}"))?;
        Ok(ResultFile { name, file: Some(file), pending: Vec::new(), complete_bytes: 0 })
    }

    /// Moves the file to another path on the same disk.
    ///
    /// # Errors
    /// The reason why the file was not moved.
    pub fn rename(&mut self, what: &str, from: &Path, to: &Path) -> Result<(), String> {
        std::fs::rename(from, to).map_err(|error| format!("{}: {error}", self.name))?;
        self.name = format!("{what}: {}", to.display());
        Ok(())
    }

    /// Writes the first line immediately, before the measurement starts.
    ///
    /// # Errors
    /// The disk is full already.
    pub fn write_header(&mut self, line: &[u8]) -> Result<(), String> {
        self.pending.extend_from_slice(line);
        self.write_pending().map_err(|error| format!("{}: {error}", self.name))
    }

    /// Appends a line with its line feed. The next [`ResultFile::flush`] writes it to the disk.
    pub fn append_line(&mut self, line: &[u8]) {
        if self.file.is_some() {
            self.pending.extend_from_slice(line);
            if self.pending.len() >= BUFFER_BYTES {
                self.flush();
            }
        }
    }

    /// Writes the buffered lines.
    pub fn flush(&mut self) {
        if let Err(error) = self.write_pending() {
            let name = &self.name;
            log_stderr(format_args!(
                "error: {name}: {error}; the file ends here, the measurement continues"
            ));
            self.file = None;
        }
    }

    /// Returns whether lines are missing.
    pub fn is_incomplete(&self) -> bool {
        self.file.is_none()
    }

    fn write_pending(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut done = 0;
        let ended = loop {
            if done == self.pending.len() {
                break Ok(());
            }
            match file.write(&self.pending[done..]) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        let whole = self.pending[..done].iter().rposition(|byte| *byte == b'\n');
        self.complete_bytes += whole.map_or(0, |last_newline| last_newline as u64 + 1);
        self.pending.clear();
        if ended.is_err() {
            // Removes a partial line. This fails for a file that is not on a disk, because it has no length.
            let _ = file.set_len(self.complete_bytes);
        }
        ended
    }
}

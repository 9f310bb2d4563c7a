//! Standard error for messages and standard output for results. Either can be a full disk or a pipe without a reader.

use std::fmt::{self, Display};
use std::fs::File;
use std::io::{self, LineWriter, Write};
use std::os::fd::AsFd;

/// Writes a line to standard error. A failed write is ignored: it has no other output and is no reason to end.
pub fn log_stderr(line: impl Display) {
    write_stderr(format_args!("{line}\n"));
}

/// Writes text to standard error unchanged, for example terminal control sequences.
pub fn write_stderr(text: impl Display) {
    // One write, so that processes that share a terminal do not mix their lines.
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// Standard output for results. Its errors are distinguishable from others ([`StdoutError`]).
///
/// The standard library's stdout ignores EBADF, the error of a descriptor that cannot be written to.
pub struct Stdout(LineWriter<File>);

impl Stdout {
    /// Opens the standard output of this process.
    ///
    /// # Errors
    /// The process has no standard output.
    pub fn open() -> io::Result<Stdout> {
        let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(to_stdout_error)?;
        Ok(Stdout(LineWriter::new(stdout.into())))
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(to_stdout_error)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(to_stdout_error)
    }
}

/// Standard output did not accept a result.
#[derive(Debug)]
pub struct StdoutError(io::Error);

impl Display for StdoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "standard output: {}", self.0)
    }
}

impl std::error::Error for StdoutError {}

impl StdoutError {
    /// Returns whether `error` contains a `StdoutError`.
    pub fn is_source_of(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<StdoutError>())
    }
}

fn to_stdout_error(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), StdoutError(error))
}

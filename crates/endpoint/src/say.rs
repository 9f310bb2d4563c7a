//! What an executable says: messages on standard error, results on standard output. Either may be a full disk
//! or a pipe that nobody reads.

use std::fmt::{self, Display};
use std::fs::File;
use std::io::{self, LineWriter, Write};
use std::os::fd::AsFd;

/// A line on standard error. If that takes none there is nobody to tell, and no reason to end.
pub fn say(line: impl Display) {
    put(format_args!("{line}\n"));
}

/// Text on standard error as it is, such as a terminal's control sequences.
pub fn put(text: impl Display) {
    // In one piece, so that processes that share a terminal do not mix their lines.
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// Standard output, for results: its errors name it, and are told apart from others ([`Unwritten`]).
///
/// Rust's own hides that nothing was written where the descriptor cannot be written to (EBADF).
pub struct Screen(LineWriter<File>);

impl Screen {
    /// This process' standard output.
    ///
    /// # Errors
    /// There is none.
    pub fn open() -> io::Result<Screen> {
        let own = io::stdout().as_fd().try_clone_to_owned().map_err(unwritten)?;
        Ok(Screen(LineWriter::new(own.into())))
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(unwritten)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(unwritten)
    }
}

/// Standard output did not take a result.
#[derive(Debug)]
pub struct Unwritten(io::Error);

impl Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "standard output: {}", self.0)
    }
}

impl std::error::Error for Unwritten {}

impl Unwritten {
    /// Whether this is what an error is.
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Unwritten>())
    }
}

fn unwritten(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), Unwritten(error))
}

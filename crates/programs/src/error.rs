//! The error of a program, and its exit status.

use std::fmt;
use std::io;

use runtime::{StdoutError, log_stderr};

/// The reason why a measurement failed.
#[derive(Debug)]
pub enum ProgramError {
    /// The request is invalid.
    Input(String),
    /// The run failed after its start, or the network prevented it.
    Run(String),
    /// The result could not be written.
    Output(String),
    /// A result file is incomplete; a message was logged when its disk filled.
    IncompleteResults,
}

impl ProgramError {
    /// Logs the error to standard error, unless it was logged before. Returns the exit status: 1 if the measurement
    /// failed, 2 for an invalid request or incomplete results.
    pub fn log_and_exit_status(&self) -> u8 {
        if !matches!(self, ProgramError::IncompleteResults) {
            log_stderr(format_args!("error: {self}"));
        }
        if matches!(self, ProgramError::Run(_)) { 1 } else { 2 }
    }
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramError::Input(text) | ProgramError::Run(text) | ProgramError::Output(text) => {
                f.write_str(text)
            }
            ProgramError::IncompleteResults => f.write_str("a result file is incomplete"),
        }
    }
}

impl std::error::Error for ProgramError {}

impl From<io::Error> for ProgramError {
    fn from(error: io::Error) -> ProgramError {
        let text = error.to_string();
        if StdoutError::is_source_of(&error) {
            ProgramError::Output(text)
        } else {
            ProgramError::Run(text)
        }
    }
}

//! What the two sides say over TCP: a line of JSON each.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use transport::calls::DatagramsSpec;

use super::told::Direction;
use crate::clock::Clock;

/// Bytes of a question or an answer at the most.
pub const QUESTION: usize = 64 << 10;

/// Bytes of a result: an hour of delays by milliseconds is below.
pub const RESULT: usize = 64 << 20;

/// Who calls: what is to be sent, and where to.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// What is sent each way.
    pub load: DatagramsSpec,
    /// Seed of the answering side's periods.
    pub seed: u64,
    /// The calling side's port of UDP.
    pub port: u16,
    /// Its machine, as the kernel calls this boot of it.
    pub machine: String,
    /// What its CLOCK_MONOTONIC showed when its clock was set to 0, ns.
    pub zero_ns: u64,
    /// Of a call in a run: its name, and when it began by that clock, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<(String, u64)>,
}

/// Who answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is ready.
    Ready {
        /// Its port of UDP.
        port: u16,
        /// Its machine.
        machine: String,
        /// What its CLOCK_MONOTONIC shows, ns.
        clock_ns: u64,
    },
    /// It does not, and why.
    Refused(String),
}

/// The end: what the calling side's datagrams met.
#[derive(Debug, Serialize, Deserialize)]
pub struct Heard {
    /// Upwards, without what only the calling side knows.
    pub up: Direction,
    /// What the answering side has sent, by window.
    pub sent: Vec<(u32, u64)>,
    /// How late the answering side was, ns ([`super::media::Media::late_ns`]).
    #[serde(default)]
    pub late_ns: Option<u64>,
}

/// Says a line.
///
/// # Errors
/// The kernel's.
pub fn say(stream: &mut TcpStream, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    stream.write_all(&text)
}

/// Hears a line of at most `most` bytes, which may take so long in all.
///
/// # Errors
/// The kernel's; what was said is no such line.
pub fn hear<T: DeserializeOwned>(
    stream: &mut TcpStream,
    most: usize,
    patience: Duration,
) -> io::Result<T> {
    let clock = Clock::start();
    let mut line = Line::new(most);
    let mut piece = [0; 4096];
    loop {
        let left = patience.saturating_sub(Duration::from_nanos(clock.now().nanos()));
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut piece)?;
        if let Some(said) = line.take(&piece[..count])? {
            return Ok(said);
        }
    }
}

/// A line that comes in pieces, of which no more than `most` bytes are kept.
pub struct Line {
    text: Vec<u8>,
    most: usize,
}

impl Line {
    /// None of it has come.
    pub fn new(most: usize) -> Line {
        Line { text: Vec::new(), most }
    }

    /// What the line says, once all of it has come; a piece of no bytes is the end.
    ///
    /// # Errors
    /// It is no such line, too long, or ends before its end.
    pub fn take<T: DeserializeOwned>(&mut self, piece: &[u8]) -> io::Result<Option<T>> {
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let said = &piece[..end.unwrap_or(piece.len())];
        if self.text.len() + said.len() > self.most {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line that is too long"));
        }
        self.text.extend_from_slice(said);
        Ok(end.map(|_| serde_json::from_slice(&self.text)).transpose()?)
    }
}

/// This boot of this machine; empty where the kernel does not say. Two that are the same have one CLOCK_MONOTONIC.
pub fn machine() -> String {
    let found = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    found.map(|text| text.trim().to_owned()).unwrap_or_default()
}

//! The signalling of a call over TCP: one JSON line per message.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use runtime::Clock;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use transport::media::DatagramsSpec;

use super::report::DirectionReport;

/// The maximum length of an offer or an answer in bytes.
pub const MAX_OFFER_BYTES: usize = 64 << 10;

/// The maximum length of a report in bytes: an hour of delays by milliseconds is shorter.
pub const MAX_REPORT_BYTES: usize = 64 << 20;

/// The offer of a caller: the load, and its destination.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallOffer {
    /// The load in each direction.
    pub load: DatagramsSpec,
    /// The seed of the callee's periods.
    pub seed: u64,
    /// The UDP port of the caller.
    pub port: u16,
    /// The boot id of the caller's machine.
    pub machine: String,
    /// CLOCK_MONOTONIC of the caller when its clock was 0, in ns.
    pub zero_ns: u64,
    /// For a call in a run: its name, and its start by that clock, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<(String, u64)>,
}

/// The answer of a callee.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallAnswer {
    /// The callee is ready.
    Ready {
        /// The UDP port of the callee.
        port: u16,
        /// The boot id of the callee's machine.
        machine: String,
        /// CLOCK_MONOTONIC of the callee, in ns.
        clock_ns: u64,
    },
    /// The callee refuses, with a reason.
    Refused(String),
}

/// The final report of the callee.
#[derive(Debug, Serialize, Deserialize)]
pub struct RemoteReport {
    /// The direction from the caller, without values that only the caller knows.
    pub up: DirectionReport,
    /// Datagrams sent by the callee, by window.
    pub sent: Vec<(u32, u64)>,
    /// The lag of the callee in ns (`MediaSession::lag_p95_ns`).
    #[serde(default)]
    pub late_ns: Option<u64>,
}

/// Sends a line.
///
/// # Errors
/// An error of the kernel.
pub fn send_line(stream: &mut TcpStream, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    stream.write_all(&text)
}

/// Receives a line of at most `max_bytes` bytes within `timeout`.
///
/// # Errors
/// An error of the kernel, or an invalid line.
pub fn receive_line<T: DeserializeOwned>(
    stream: &mut TcpStream,
    max_bytes: usize,
    timeout: Duration,
) -> io::Result<T> {
    let clock = Clock::start();
    let mut line = LineReader::new(max_bytes);
    let mut piece = [0; 4096];
    loop {
        let left = timeout.saturating_sub(Duration::from_nanos(clock.now().nanos()));
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut piece)?;
        if let Some(parsed) = line.push(&piece[..count])? {
            return Ok(parsed);
        }
    }
}

/// A reader of a line in pieces. It buffers at most `max_bytes` bytes.
pub struct LineReader {
    text: Vec<u8>,
    max_bytes: usize,
}

impl LineReader {
    /// Creates an empty reader.
    pub fn new(max_bytes: usize) -> LineReader {
        LineReader { text: Vec::new(), max_bytes }
    }

    /// Adds a piece, and returns the parsed line when it is complete. An empty piece is the end of the stream.
    ///
    /// # Errors
    /// The line is invalid, too long or incomplete.
    pub fn push<T: DeserializeOwned>(&mut self, piece: &[u8]) -> io::Result<Option<T>> {
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let text = &piece[..end.unwrap_or(piece.len())];
        if self.text.len() + text.len() > self.max_bytes {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "found a line that is too long",
            ));
        }
        self.text.extend_from_slice(text);
        Ok(end.map(|_| serde_json::from_slice(&self.text)).transpose()?)
    }
}

/// Returns the boot id of this machine, empty if the kernel has none. Equal ids share one CLOCK_MONOTONIC.
pub fn boot_id() -> String {
    let found = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    found.map(|text| text.trim().to_owned()).unwrap_or_default()
}

//! What the two sides say over TCP: a line of JSON each.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use transport::calls::DatagramsSpec;

use super::told::Direction;

/// Bytes of a line at the most: an hour of delays by milliseconds is far below.
const MOST: usize = 8 << 20;

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

/// Hears a line: within the stream's timeout for each piece of it.
///
/// # Errors
/// The kernel's; what was said is no such line.
pub fn hear<T: DeserializeOwned>(stream: &mut TcpStream) -> io::Result<T> {
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            return Ok(serde_json::from_slice(&text[..end])?);
        }
        if text.len() > MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line without an end"));
        }
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => text.extend_from_slice(&piece[..count]),
        }
    }
}

/// This boot of this machine; empty where the kernel does not say. Two that are the same have one CLOCK_MONOTONIC.
pub fn machine() -> String {
    let found = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    found.map(|text| text.trim().to_owned()).unwrap_or_default()
}

//! What a proxy counts, as JSON lines.

use std::io;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::Kept;
use crate::sender::Sender;
use crate::tcp_info::TcpInfo;

/// One side's sockets over all connections so far: their counts together, the state of the newest that is open, or
/// else of the last that was closed.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Side {
    /// Connections so far.
    pub connections: u64,
    /// What the kernel says of them; none yet: nothing.
    #[serde(flatten)]
    pub sender: Option<Sender>,
    /// Bytes that wait for these sockets: received on the other side, not yet taken by the kernel here.
    pub buffered_bytes: u64,
    /// The most that has waited for one connection, bytes, as far as it was looked at.
    pub largest_buffered_bytes: u64,
}

impl Side {
    /// Adds what the kernel has counted for a connection, which is newer than those before; `ip` is the length of an
    /// IP header.
    pub fn add(&mut self, info: &TcpInfo, ip: u64) {
        // A repeat that no device took is counted as sent again, not as sent.
        let written = info.bytes_sent.saturating_sub(info.bytes_retrans);
        let newer = Sender::tcp(info, ip, written, info.bytes_received);
        self.sender = Some(self.sender.map_or(newer, |sum| sum.with(&newer)));
    }
}

/// A line.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Line {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// The last line.
    pub end: bool,
    /// Processor time of the proxy so far; the kernel's work on packets that no process waits for is not in it.
    pub cpu_s: f64,
    /// Sockets towards the client.
    pub client_side: Side,
    /// Sockets towards the server.
    pub server_side: Side,
    /// Connections that are open or being opened.
    pub open: u64,
    /// Connections reset because there were too many.
    pub refused: u64,
    /// Half-open connections that gave their place to new ones.
    pub gave_way: u64,
    /// Connections whose way on could not be opened.
    pub unreachable: u64,
    /// Connections ended by a reset of one side.
    pub reset: u64,
    /// Ways on that do not come from the client's port, which was taken.
    pub other_port: u64,
    /// Connections that had to wait for one out of the pool.
    pub pool_empty: u64,
    /// Pooled connections dropped because of what they sent.
    pub hostile: u64,
}

impl Line {
    /// The sockets of leg `leg`: 0 towards the client, 1 towards the server.
    pub fn side(&mut self, leg: usize) -> &mut Side {
        if leg == 0 { &mut self.client_side } else { &mut self.server_side }
    }
}

/// Where lines go.
#[derive(Debug)]
pub struct Lines(Option<Kept>);

impl Lines {
    /// Writes to `file`; none: nowhere.
    pub fn new(file: Option<Kept>) -> Lines {
        Lines(file)
    }

    /// Writes a line.
    ///
    /// # Errors
    /// The clock's.
    pub fn write(&mut self, line: &Line) -> io::Result<()> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        let read = |clock| -> io::Result<Duration> { Ok(clock_gettime(clock)?.into()) };
        let time_ns = read(ClockId::CLOCK_MONOTONIC)?.as_nanos() as u64;
        let cpu_s = read(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.as_secs_f64();
        let mut text = serde_json::to_vec(&Line { time_ns, cpu_s, ..*line })?;
        text.push(b'\n');
        file.put(&text);
        file.flush();
        Ok(())
    }

    /// Whether lines are missing, because the disk was full.
    pub fn is_cut(&self) -> bool {
        self.0.as_ref().is_some_and(Kept::is_cut)
    }
}

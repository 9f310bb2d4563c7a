//! The counters of a proxy, as JSON lines.

use std::io;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use runtime::tcp::TcpInfo;
use runtime::{ResultFile, SenderReport};
use serde::Serialize;

/// The sockets of one side over all connections so far. The counters are sums. The state is that of the newest open
/// socket, or else of the last closed one.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct SideCounters {
    /// Connections so far.
    pub connections: u64,
    /// The kernel's statistics of these sockets, `None` before the first.
    #[serde(flatten)]
    pub sender: Option<SenderReport>,
    /// Bytes received on the other side that the kernel has not yet accepted for these sockets.
    pub buffered_bytes: u64,
    /// The maximum of these bytes for one connection at any observation.
    pub largest_buffered_bytes: u64,
}

impl SideCounters {
    /// Adds the kernel's counters of a connection, which is newer than the previous ones; `ip` is the length of an IP
    /// header.
    pub fn add(&mut self, info: &TcpInfo, ip: u64) {
        // A retransmission that no device accepted counts as retransmitted, but not as sent.
        let written = info.bytes_sent.saturating_sub(info.bytes_retrans);
        let newer = SenderReport::from_tcp_info(info, ip, written, info.bytes_received);
        self.sender = Some(self.sender.map_or(newer, |sum| sum.merge(&newer)));
    }
}

/// A line.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct CounterLine {
    /// CLOCK_MONOTONIC, in ns.
    pub time_ns: u64,
    /// Whether this is the last line.
    pub end: bool,
    /// CPU time of the proxy so far. It excludes kernel work on packets for which no process waits.
    pub cpu_s: f64,
    /// Sockets of the client side.
    pub client_side: SideCounters,
    /// Sockets of the server side.
    pub server_side: SideCounters,
    /// Connections that are open or being opened.
    pub open: u64,
    /// Connections reset because of the limit.
    pub refused: u64,
    /// Half-open connections that were evicted for new ones.
    pub evicted_half_open: u64,
    /// Connections without an onward connection.
    pub unreachable: u64,
    /// Connections closed by a reset of one side.
    pub reset: u64,
    /// Onward connections from another port than the client's, which was in use.
    pub other_port: u64,
    /// Connections that had to wait for a pooled connection.
    pub pool_empty: u64,
    /// Pooled connections dropped because of invalid data.
    pub hostile: u64,
}

impl CounterLine {
    /// Returns the sockets of a side: 0 is the client side, 1 the server side.
    pub fn side(&mut self, side: usize) -> &mut SideCounters {
        if side == 0 { &mut self.client_side } else { &mut self.server_side }
    }
}

/// The output of the lines.
#[derive(Debug)]
pub struct CounterWriter(Option<ResultFile>);

impl CounterWriter {
    /// Creates a writer to `file`, `None` for no output.
    pub fn new(file: Option<ResultFile>) -> CounterWriter {
        CounterWriter(file)
    }

    /// Writes a line.
    ///
    /// # Errors
    /// An error of the clock.
    pub fn write(&mut self, line: &CounterLine) -> io::Result<()> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        let read = |clock| -> io::Result<Duration> { Ok(clock_gettime(clock)?.into()) };
        let time_ns = read(ClockId::CLOCK_MONOTONIC)?.as_nanos() as u64;
        let cpu_s = read(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.as_secs_f64();
        let mut text = serde_json::to_vec(&CounterLine { time_ns, cpu_s, ..*line })?;
        text.push(b'\n');
        file.append_line(&text);
        file.flush();
        Ok(())
    }

    /// Returns whether lines are missing because the disk was full.
    pub fn is_incomplete(&self) -> bool {
        self.0.as_ref().is_some_and(ResultFile::is_incomplete)
    }
}

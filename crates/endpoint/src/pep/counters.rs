//! What a proxy counts, as JSON lines.

use std::fs::File;
use std::io::{self, Write};

use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::tcp_info::TcpInfo;

/// One side's sockets over all connections so far.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Side {
    /// Connections so far.
    pub connections: u64,
    /// Congestion windows of the connections that are open, bytes, summed.
    pub cwnd_bytes: u64,
    /// Smoothed round-trip time of the newest connection, ms; none: no sample yet.
    pub smoothed_rtt_ms: Option<f64>,
    /// Payload sent, repeats included, bytes.
    pub sent_bytes: u64,
    /// Segments sent.
    pub sent_packets: u64,
    /// Payload received, bytes.
    pub received_bytes: u64,
    /// Segments sent again.
    pub retransmitted_packets: u64,
    /// Payload sent again, bytes.
    pub retransmitted_bytes: u64,
    /// Bytes that wait for these sockets: received on the other side, not yet taken by the kernel here.
    pub buffered_bytes: u64,
    /// The most that has waited for one connection, bytes, as far as it was looked at.
    pub largest_buffered_bytes: u64,
}

impl Side {
    /// Adds what the kernel has counted for a connection; `open`: it still is.
    pub fn add(&mut self, info: &TcpInfo, open: bool) {
        self.sent_bytes += info.bytes_sent;
        self.sent_packets += u64::from(info.segs_out);
        self.received_bytes += info.bytes_received;
        self.retransmitted_packets += u64::from(info.total_retrans);
        self.retransmitted_bytes += info.bytes_retrans;
        if open {
            self.cwnd_bytes += info.cwnd_bytes();
        }
        if info.rtt > 0 {
            self.smoothed_rtt_ms = Some(f64::from(info.rtt) / 1000.0);
        }
    }
}

/// A line.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Line {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// The last line.
    pub end: bool,
    /// Sockets towards the client.
    pub client_side: Side,
    /// Sockets towards the server.
    pub server_side: Side,
    /// Connections that are open or being opened.
    pub open: u64,
    /// Connections reset because there were too many.
    pub refused: u64,
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
pub struct Lines(Option<File>);

impl Lines {
    /// Writes to `file`; none: nowhere.
    pub fn new(file: Option<File>) -> Lines {
        Lines(file)
    }

    /// Writes a line.
    ///
    /// # Errors
    /// The file's.
    pub fn write(&mut self, line: &Line) -> io::Result<()> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
        let time_ns = now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64;
        let mut text = serde_json::to_vec(&Line { time_ns, ..*line })?;
        text.push(b'\n');
        file.write_all(&text)
    }
}

//! The result of one connection.

use std::fmt;

use nix::sys::resource::{UsageWho, getrusage};
use serde::Serialize;
use transport::perf_load::StreamReport;
use transport::quic::CloseReason;
use units::{Span, Time};

use super::SenderReport;
use super::descriptions::describe_close;
use super::report::{ByteTotals, ControllerNames, completed_at};

/// Returns the CPU time of this process in seconds, user and system.
pub fn cpu_seconds() -> f64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return 0.0 };
    [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6)
        .sum()
}

/// The result of one side of a connection. UP is the data sent by this side.
#[derive(Clone, Debug, Serialize)]
pub struct PerfSummary {
    /// `client` or `server`.
    pub role: &'static str,
    /// Address and port of the peer.
    pub peer: String,
    /// The end of the connection: `closed`, `interrupted`, or the reason of its loss.
    pub end: String,
    /// `quic`, `tcp`, or `tls` over TCP.
    pub transport: &'static str,
    /// Number of connections: TCP has one per stream.
    pub connections: usize,
    /// Application protocol; empty for TCP without TLS.
    pub alpn: String,
    /// Controller of the sent data, for TCP the kernel's; null if only requests were sent.
    pub congestion: Option<String>,
    /// Controller of the data sent by the peer; null if it sent only requests or named none.
    pub peer_congestion: Option<String>,
    /// Largest UDP payload in bytes; null for TCP.
    pub mtu_bytes: Option<u64>,
    /// Maximum segment size of TCP in bytes; null for QUIC.
    pub mss_bytes: Option<u64>,
    /// Time from the first packet to the end of the handshake in ms.
    pub handshake_ms: Option<f64>,
    /// Time from the opening of the first stream to the end of the last one in seconds.
    pub seconds: f64,
    /// Stream bytes sent.
    pub up_bytes: u64,
    /// Stream bytes received.
    pub down_bytes: u64,
    /// `up_bytes` over `seconds`, in Mbit/s.
    pub up_mbit_s: f64,
    /// `down_bytes` over `seconds`, in Mbit/s.
    pub down_mbit_s: f64,
    /// Minimum RTT in ms.
    pub rtt_min_ms: Option<f64>,
    /// Smoothed RTT at the end in ms.
    pub rtt_smoothed_ms: Option<f64>,
    /// Congestion window at the end in bytes; null if only requests were sent.
    pub cwnd_bytes: Option<u64>,
    /// Largest congestion window in bytes.
    pub cwnd_max_bytes: Option<u64>,
    /// Datagrams or segments sent.
    pub sent_packets: u64,
    /// Packets declared lost; for TCP, retransmitted segments.
    pub lost_packets: u64,
    /// Congestion signals to the controller; null if the kernel does not provide them.
    pub congestion_events: Option<u64>,
    /// Probe timeouts.
    pub ptos: Option<u64>,
    /// Retransmission timeouts of TCP.
    pub rtos: Option<u64>,
    /// Retransmitted stream bytes.
    pub retransmitted_bytes: Option<u64>,
    /// CPU time of this process during the connection in seconds, user and system.
    pub cpu_s: f64,
    /// CPU time per 10^9 stream bytes of both directions.
    pub cpu_s_per_gb: Option<f64>,
    /// The streams.
    pub streams: Vec<StreamSummary>,
}

/// One stream of a connection.
#[derive(Clone, Debug, Serialize)]
pub struct StreamSummary {
    /// The stream id: from the load at the client, from the protocol at the server.
    pub stream: u64,
    /// Bytes sent.
    pub up_bytes: u64,
    /// Bytes received.
    pub down_bytes: u64,
    /// Time from its opening to its end in seconds.
    pub seconds: f64,
    /// Whether both directions have finished.
    pub done: bool,
}

/// The state of a connection at its end.
pub struct SummaryInput<'a> {
    /// `client` or `server`.
    pub role: &'static str,
    /// The peer address.
    pub peer: String,
    /// The close reason, `None` after an interruption.
    pub close_reason: Option<&'a CloseReason>,
    /// `quic`, `tcp` or `tls`.
    pub transport: &'static str,
    /// The number of connections.
    pub connections: usize,
    /// The application protocol.
    pub alpn: &'a str,
    /// The controllers.
    pub controllers: ControllerNames<'a>,
    /// Largest UDP payload or segment in bytes.
    pub mtu: u64,
    /// The duration of the handshake.
    pub handshake: Option<Span>,
    /// The streams.
    pub streams: Vec<&'a StreamReport>,
    /// The sender statistics.
    pub sender: SenderReport,
    /// CPU time in seconds.
    pub cpu_s: f64,
}

impl PerfSummary {
    /// Creates the summary at `now`.
    pub fn new(now: Time, closing: &SummaryInput<'_>) -> PerfSummary {
        let SummaryInput { sender, streams, .. } = closing;
        let moved = ByteTotals::from_streams(streams.iter().copied(), now);
        let tcp = closing.transport != "quic";
        let bytes = moved.up + moved.down;
        let streams = streams
            .iter()
            .map(|stream| {
                let ByteTotals { up, down, duration: over } = ByteTotals::from_stream(stream, now);
                let done = completed_at(stream).is_some();
                let (stream, seconds) = (stream.label, over.seconds());
                StreamSummary { stream, up_bytes: up, down_bytes: down, seconds, done }
            })
            .collect();
        PerfSummary {
            role: closing.role,
            peer: closing.peer.clone(),
            end: describe_close(closing.close_reason).to_owned(),
            transport: closing.transport,
            connections: closing.connections,
            alpn: closing.alpn.to_owned(),
            congestion: closing.controllers.local_if_sending(sender).map(str::to_owned),
            peer_congestion: closing.controllers.peer.map(str::to_owned),
            mtu_bytes: (!tcp).then_some(closing.mtu),
            mss_bytes: tcp.then_some(closing.mtu),
            handshake_ms: closing.handshake.map(Span::millis),
            seconds: moved.duration.seconds(),
            up_bytes: moved.up,
            down_bytes: moved.down,
            up_mbit_s: moved.up_rate(),
            down_mbit_s: moved.down_rate(),
            rtt_min_ms: sender.min_rtt_ms,
            rtt_smoothed_ms: sender.smoothed_rtt_ms,
            cwnd_bytes: sender.cwnd_bytes,
            cwnd_max_bytes: sender.cwnd_max_bytes,
            sent_packets: sender.sent_packets,
            lost_packets: sender.lost_packets,
            congestion_events: sender.congestion_events,
            ptos: sender.ptos,
            rtos: sender.rtos,
            retransmitted_bytes: sender.retransmitted_bytes,
            cpu_s: closing.cpu_s,
            cpu_s_per_gb: (bytes > 0).then(|| closing.cpu_s / (bytes as f64 * 1e-9)),
            streams,
        }
    }
}

impl fmt::Display for PerfSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |value: Option<f64>| value.map_or("-".to_owned(), |ms| format!("{ms:.2} ms"));
        let share = self.lost_packets as f64 * 100.0 / self.sent_packets.max(1) as f64;
        writeln!(
            f,
            "goodput: UP {:.2} Mbit/s ({} bytes), DOWN {:.2} Mbit/s ({} bytes) in {:.3} s",
            self.up_mbit_s, self.up_bytes, self.down_mbit_s, self.down_bytes, self.seconds
        )?;
        let (word, size) = match (self.mtu_bytes, self.mss_bytes) {
            (Some(mtu), _) => ("mtu", mtu),
            (None, mss) => ("mss", mss.unwrap_or(0)),
        };
        writeln!(
            f,
            "RTT: min {}, smoothed {}; cwnd: {}; UP {}, DOWN {}, {word} {size}",
            ms(self.rtt_min_ms),
            ms(self.rtt_smoothed_ms),
            match (self.cwnd_bytes, self.cwnd_max_bytes) {
                (Some(now), Some(largest)) => format!("{now} bytes at the end, {largest} at most"),
                _ => "-".to_owned(),
            },
            self.congestion.as_deref().unwrap_or("-"),
            self.peer_congestion.as_deref().unwrap_or("-"),
        )?;
        let lost = if self.mss_bytes.is_some() { "retransmitted" } else { "declared lost" };
        write!(
            f,
            "packets: {} sent, {} {lost} ({share:.3} %)",
            self.sent_packets, self.lost_packets
        )?;
        for (count, what) in [
            (self.congestion_events, "congestion events"),
            (self.ptos, "PTOs"),
            (self.rtos, "rtos"),
        ] {
            if let Some(count) = count {
                write!(f, ", {count} {what}")?;
            }
        }
        writeln!(f)?;
        write!(f, "CPU: {:.3} s", self.cpu_s)?;
        if let Some(each) = self.cpu_s_per_gb {
            write!(f, ", {each:.2} s per GB")?;
        }
        Ok(())
    }
}

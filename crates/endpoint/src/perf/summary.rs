//! The result of one connection.

use std::fmt;

use nix::sys::resource::{UsageWho, getrusage};
use serde::Serialize;
use transport::load::StreamReport;
use transport::quic::End;
use units::{Span, Time};

use super::Sender;
use super::report::{Moved, Names, done};

/// CPU seconds this process has used, user and system.
pub fn cpu_seconds() -> f64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return 0.0 };
    [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6)
        .sum()
}

/// What one side measured of one connection. UP is what this side sent.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// `client` or `server`.
    pub role: &'static str,
    /// The other side's address and port.
    pub peer: String,
    /// How the connection ended: `closed`, `interrupted`, or why it was lost.
    pub end: String,
    /// `quic`, `tcp`, or `tls` over TCP.
    pub transport: &'static str,
    /// Connections: of TCP one for each stream.
    pub connections: usize,
    /// Application protocol; empty for TCP without TLS.
    pub alpn: String,
    /// Controller of what this side sent, of TCP the kernel's; null if it sent nothing but requests.
    pub congestion: Option<String>,
    /// Controller of what the other side sent; null if it sent nothing but requests, or has not said.
    pub peer_congestion: Option<String>,
    /// Largest UDP payload, bytes; null for TCP.
    pub mtu_bytes: Option<u64>,
    /// Largest segment of TCP, bytes; null for QUIC.
    pub mss_bytes: Option<u64>,
    /// From the first packet to the end of the handshake, ms.
    pub handshake_ms: Option<f64>,
    /// From the first stream's opening to the last one's end, seconds.
    pub seconds: f64,
    /// Stream bytes sent.
    pub up_bytes: u64,
    /// Stream bytes received.
    pub down_bytes: u64,
    /// `up_bytes` over `seconds`, Mbit/s.
    pub up_mbit_s: f64,
    /// `down_bytes` over `seconds`, Mbit/s.
    pub down_mbit_s: f64,
    /// Least round-trip time, ms.
    pub rtt_min_ms: Option<f64>,
    /// Smoothed round-trip time at the end, ms.
    pub rtt_smoothed_ms: Option<f64>,
    /// Congestion window at the end, bytes; null of a side that sent nothing but requests.
    pub cwnd_bytes: Option<u64>,
    /// The largest, bytes.
    pub largest_cwnd_bytes: Option<u64>,
    /// Datagrams or segments sent.
    pub sent_packets: u64,
    /// Of those, declared lost; of TCP, sent again.
    pub lost_packets: u64,
    /// Congestion signals given to the controller; null where the kernel does not tell.
    pub congestion_events: Option<u64>,
    /// Probe timeouts.
    pub ptos: Option<u64>,
    /// Retransmission timeouts of TCP.
    pub timeouts: Option<u64>,
    /// Stream bytes sent again.
    pub retransmitted_bytes: u64,
    /// CPU seconds of this process meanwhile, user and system.
    pub cpu_s: f64,
    /// The same per 10^9 stream bytes of both directions.
    pub cpu_s_per_gb: Option<f64>,
    /// The streams.
    pub streams: Vec<Stream>,
}

/// One stream of it.
#[derive(Clone, Debug, Serialize)]
pub struct Stream {
    /// Its id: of the load at the client, on the wire at the server.
    pub stream: u64,
    /// Bytes sent.
    pub up_bytes: u64,
    /// Bytes received.
    pub down_bytes: u64,
    /// From its opening to its end, seconds.
    pub seconds: f64,
    /// Whether both directions ended.
    pub done: bool,
}

/// A connection at its end.
pub struct Closing<'a> {
    /// `client` or `server`.
    pub role: &'static str,
    /// The other side.
    pub peer: String,
    /// How it ended; none: it was interrupted.
    pub end: Option<&'a End>,
    /// `quic`, `tcp` or `tls`.
    pub transport: &'static str,
    /// Connections.
    pub connections: usize,
    /// Application protocol.
    pub alpn: &'a str,
    /// Controllers.
    pub names: Names<'a>,
    /// Largest UDP payload or segment, bytes.
    pub mtu: u64,
    /// Length of the handshake.
    pub handshake: Option<Span>,
    /// Streams.
    pub streams: Vec<&'a StreamReport>,
    /// Sender.
    pub sender: Sender,
    /// CPU seconds.
    pub cpu: f64,
}

impl Summary {
    /// The summary at `now`.
    pub fn new(now: Time, closing: &Closing<'_>) -> Summary {
        let Closing { sender, streams, .. } = closing;
        let moved = Moved::all(streams.iter().copied(), now);
        let tcp = closing.transport != "quic";
        let bytes = moved.up + moved.down;
        let streams = streams
            .iter()
            .map(|stream| {
                let Moved { up, down, over } = Moved::of(stream, now);
                let done = done(stream).is_some();
                let (stream, seconds) = (stream.label, over.seconds());
                Stream { stream, up_bytes: up, down_bytes: down, seconds, done }
            })
            .collect();
        Summary {
            role: closing.role,
            peer: closing.peer.clone(),
            end: match closing.end {
                None => "interrupted".to_owned(),
                Some(End::Here | End::There) => "closed".to_owned(),
                Some(End::Lost(why)) => why.clone(),
            },
            transport: closing.transport,
            connections: closing.connections,
            alpn: closing.alpn.to_owned(),
            congestion: closing.names.sent_with(sender).map(str::to_owned),
            peer_congestion: closing.names.peer.map(str::to_owned),
            mtu_bytes: (!tcp).then_some(closing.mtu),
            mss_bytes: tcp.then_some(closing.mtu),
            handshake_ms: closing.handshake.map(Span::millis),
            seconds: moved.over.seconds(),
            up_bytes: moved.up,
            down_bytes: moved.down,
            up_mbit_s: moved.up_rate(),
            down_mbit_s: moved.down_rate(),
            rtt_min_ms: sender.min_rtt_ms,
            rtt_smoothed_ms: sender.smoothed_rtt_ms,
            cwnd_bytes: sender.cwnd_bytes,
            largest_cwnd_bytes: sender.largest_cwnd_bytes,
            sent_packets: sender.sent_packets,
            lost_packets: sender.lost_packets,
            congestion_events: sender.congestion_events,
            ptos: sender.ptos,
            timeouts: sender.timeouts,
            retransmitted_bytes: sender.retransmitted_bytes,
            cpu_s: closing.cpu,
            cpu_s_per_gb: (bytes > 0).then(|| closing.cpu / (bytes as f64 * 1e-9)),
            streams,
        }
    }
}

impl fmt::Display for Summary {
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
            "RTT: least {}, smoothed {}; cwnd: {}; UP {}, DOWN {}, {word} {size}",
            ms(self.rtt_min_ms),
            ms(self.rtt_smoothed_ms),
            match (self.cwnd_bytes, self.largest_cwnd_bytes) {
                (Some(now), Some(most)) => format!("{now} bytes at the end, {most} at most"),
                _ => "-".to_owned(),
            },
            self.congestion.as_deref().unwrap_or("-"),
            self.peer_congestion.as_deref().unwrap_or("-"),
        )?;
        let lost = if self.mss_bytes.is_some() { "sent again" } else { "declared lost" };
        write!(
            f,
            "packets: {} sent, {} {lost} ({share:.3} %)",
            self.sent_packets, self.lost_packets
        )?;
        for (count, what) in [
            (self.congestion_events, "congestion events"),
            (self.ptos, "PTOs"),
            (self.timeouts, "timeouts"),
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

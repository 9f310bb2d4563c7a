//! The result of one direction of a call.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use transport::media::{ReceiverStats, STATS_WINDOW};

/// One direction, with the columns of the tables `calls` and `call_delays`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DirectionReport {
    /// The windows of the direction.
    pub windows: Vec<WindowReport>,
}

/// A window of ten seconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WindowReport {
    /// The number of the window.
    pub window: u32,
    /// The start of the window in seconds.
    pub window_s: f64,
    /// Datagrams sent, by due time.
    pub sent_packets: u64,
    /// Datagrams received.
    pub received_packets: u64,
    /// Duplicates received.
    pub duplicate_packets: u64,
    /// Datagrams that arrived after a later one.
    pub reordered_packets: u64,
    /// Always 0: the caller waits for the last datagrams.
    pub pending_packets: u64,
    /// The sum of the delays in seconds.
    pub delay_sum_s: f64,
    /// The minimum delay in ms.
    #[serde(rename = "delay_min_ms")]
    pub min_delay_ms: Option<f64>,
    /// The maximum delay in ms.
    #[serde(rename = "delay_max_ms")]
    pub max_delay_ms: Option<f64>,
    /// The jitter at the end of the window in ms.
    pub jitter_ms: Option<f64>,
    /// The sum of the jitter after each datagram in seconds.
    pub jitter_sum_s: f64,
    /// Delay in ms, packets, packets before slower ones, packets after faster ones.
    pub delays: Vec<[u64; 4]>,
}

impl DirectionReport {
    /// Converts the statistics of a receiver.
    pub fn from_stats(stats: &ReceiverStats) -> DirectionReport {
        let windows = stats.windows().into_iter().map(|(window, window_stats)| {
            let some = |value: f64| (window_stats.received > 0).then_some(value);
            WindowReport {
                window,
                window_s: f64::from(window) * STATS_WINDOW.seconds(),
                sent_packets: 0,
                received_packets: window_stats.received,
                duplicate_packets: window_stats.duplicates,
                reordered_packets: window_stats.overtaken,
                pending_packets: 0,
                delay_sum_s: window_stats.delay_ns as f64 / 1e9,
                min_delay_ms: some(window_stats.min_delay.millis()),
                max_delay_ms: some(window_stats.max_delay.millis()),
                jitter_ms: some(window_stats.jitter.millis()),
                jitter_sum_s: window_stats.jitter_ns as f64 / 1e9,
                delays: window_stats
                    .bins
                    .iter()
                    .map(|(delay, bin)| {
                        [u64::from(*delay), bin.packets, bin.before_slower, bin.after_quicker]
                    })
                    .collect(),
            }
        });
        DirectionReport { windows: windows.collect() }
    }

    /// Adds the sent datagrams by window.
    pub fn with_sent(mut self, sent: impl IntoIterator<Item = (u32, u64)>) -> DirectionReport {
        let mut sent: BTreeMap<u32, u64> = sent.into_iter().collect();
        for window in &mut self.windows {
            window.sent_packets = sent.remove(&window.window).unwrap_or(0);
        }
        let none = sent.into_iter().map(|(window, sent_packets)| WindowReport {
            window,
            window_s: f64::from(window) * STATS_WINDOW.seconds(),
            sent_packets,
            ..WindowReport::default()
        });
        self.windows.extend(none);
        self.windows.sort_by_key(|window| window.window);
        self
    }
}

/// The result of a call.
#[derive(Debug, Serialize)]
pub struct CallResult {
    /// The number of the call, from 1.
    pub call: u32,
    /// The address of the callee.
    pub peer: String,
    /// Whether both sides share a clock. Otherwise delays use an offset estimated from half of the round trip.
    pub one_clock: bool,
    /// The estimated offset of the other clock in ns; positive if it is ahead.
    pub clock_offset_ns: i64,
    /// CLOCK_MONOTONIC of this side at the start of the windows, in ns.
    pub zero_ns: u64,
    /// The start of the call after that, in ns.
    pub start_ns: u64,
    /// The 95th percentile of the lag of both sides, in ns.
    pub late_ns: [Option<u64>; 2],
    /// From the caller.
    pub up: Option<DirectionReport>,
    /// To the caller.
    pub down: Option<DirectionReport>,
}

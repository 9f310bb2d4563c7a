//! What became of a direction of a call.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use transport::calls::{Heard, WINDOW};

/// One direction, as the tables `calls` and `call_delays` have it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Direction {
    /// By window.
    pub windows: Vec<Window>,
}

/// Ten seconds of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Window {
    /// Its number.
    pub window: u32,
    /// When it began, seconds.
    pub window_s: f64,
    /// Datagrams that were full.
    pub sent_packets: u64,
    /// Datagrams that came.
    pub received_packets: u64,
    /// Copies of them.
    pub duplicate_packets: u64,
    /// Those that a later one had overtaken.
    pub overtaken_packets: u64,
    /// None: who hangs up waits for the last ones.
    pub undecided_packets: u64,
    /// Delays added up.
    pub delay_sum_s: f64,
    /// Least delay.
    pub least_delay_ms: Option<f64>,
    /// Largest delay.
    pub largest_delay_ms: Option<f64>,
    /// Jitter at the end.
    pub jitter_ms: Option<f64>,
    /// The same after each datagram, added up.
    pub jitter_sum_s: f64,
    /// Milliseconds, packets, before slower ones, after quicker ones.
    pub delays: Vec<[u64; 4]>,
}

impl Direction {
    /// What was heard.
    pub fn of(heard: &Heard) -> Direction {
        let windows = heard.windows().into_iter().map(|(window, heard)| {
            let some = |value: f64| (heard.received > 0).then_some(value);
            Window {
                window,
                window_s: f64::from(window) * WINDOW.seconds(),
                sent_packets: 0,
                received_packets: heard.received,
                duplicate_packets: heard.duplicates,
                overtaken_packets: heard.overtaken,
                undecided_packets: 0,
                delay_sum_s: heard.delay_ns as f64 / 1e9,
                least_delay_ms: some(heard.least.millis()),
                largest_delay_ms: some(heard.largest.millis()),
                jitter_ms: some(heard.jitter.millis()),
                jitter_sum_s: heard.jitter_ns as f64 / 1e9,
                delays: heard
                    .bins
                    .iter()
                    .map(|(delay, bin)| {
                        [u64::from(*delay), bin.packets, bin.before_slower, bin.after_quicker]
                    })
                    .collect(),
            }
        });
        Direction { windows: windows.collect() }
    }

    /// With what was sent, by window.
    pub fn with_sent(mut self, sent: impl IntoIterator<Item = (u32, u64)>) -> Direction {
        let mut sent: BTreeMap<u32, u64> = sent.into_iter().collect();
        for window in &mut self.windows {
            window.sent_packets = sent.remove(&window.window).unwrap_or(0);
        }
        let none = sent.into_iter().map(|(window, sent_packets)| Window {
            window,
            window_s: f64::from(window) * WINDOW.seconds(),
            sent_packets,
            ..Window::default()
        });
        self.windows.extend(none);
        self.windows.sort_by_key(|window| window.window);
        self
    }
}

/// The result of a call.
#[derive(Debug, Serialize)]
pub struct Told {
    /// Its number, from 1.
    pub call: u32,
    /// The other side.
    pub peer: String,
    /// Whether both sides have one clock: else delays are what half of the TCP handshake's time makes of two.
    pub one_clock: bool,
    /// What the other clock was found to show more, ns.
    pub clock_offset_ns: i64,
    /// What this side's CLOCK_MONOTONIC showed when windows began, ns.
    pub zero_ns: u64,
    /// When the call began after that, ns.
    pub start_ns: u64,
    /// How late the sides were for what they had to do: of 95 % of it no later than this, ns.
    pub late_ns: [Option<u64>; 2],
    /// From the calling side.
    pub up: Option<Direction>,
    /// To it.
    pub down: Option<Direction>,
}

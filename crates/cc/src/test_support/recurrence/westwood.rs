//! Westwood+, by the paper (Grieco and Mascolo 2004) and by Linux's tcp_westwood, in packets on a path with a constant
//! RTT. b RTTmin is then the filtered number of packets delivered in a round trip.

use super::{WholePackets, WindowAlgorithm};

/// The window of Westwood+.
pub struct WestwoodRecurrence {
    /// Whether the window is halved for recovery and set at its end (Linux).
    sets_window_after_recovery: bool,
    /// The duration of a sample in seconds.
    span: f64,
    rtt: f64,
    /// The weight of the previous value against a sample, and the filter stages.
    weight: f64,
    filters: Vec<f64>,
    has_sample: bool,
    sample_start: f64,
    count: f64,
    growth: WholePackets,
    /// Whether selectively acknowledged data counts again when it is acknowledged cumulatively.
    counts_sacked_twice: bool,
}

impl WestwoodRecurrence {
    /// Returns the paper's variant: alpha = 0.9, one sample per RTT of `rtt` seconds.
    pub fn paper(rtt: f64) -> WestwoodRecurrence {
        WestwoodRecurrence {
            sets_window_after_recovery: false,
            span: rtt,
            rtt,
            weight: 0.9,
            filters: vec![0.0],
            has_sample: false,
            sample_start: 0.0,
            count: 0.0,
            growth: WholePackets::default(),
            counts_sacked_twice: false,
        }
    }

    /// Returns Linux's variant: 7/8 twice, one sample per RTT and at most one per 50 ms.
    pub fn linux(rtt: f64) -> WestwoodRecurrence {
        let filters = vec![0.0; 2];
        WestwoodRecurrence {
            sets_window_after_recovery: true,
            span: rtt.max(0.05),
            weight: 0.875,
            filters,
            ..WestwoodRecurrence::paper(rtt)
        }
    }

    /// Returns the paper's variant with the count of ns-3 (TcpSocketBase::ProcessAck). It counts a packet for each
    /// duplicate ACK, and all from SND.UNA on for the ACK that ends recovery.
    pub fn counting_twice(rtt: f64) -> WestwoodRecurrence {
        WestwoodRecurrence { counts_sacked_twice: true, ..WestwoodRecurrence::paper(rtt) }
    }

    fn bdp(&self) -> f64 {
        self.filters[self.filters.len() - 1] * self.rtt
    }
}

impl WindowAlgorithm for WestwoodRecurrence {
    /// Grows by whole packets, as RFC 5681 section 3.1 counts bytes and Linux segments. A cut resets the count.
    fn on_acked(&mut self, _now: f64, window: f64) -> f64 {
        self.growth.grow(window)
    }

    fn on_cut(&mut self, _now: f64, window: f64) -> f64 {
        self.growth = WholePackets::default();
        if self.sets_window_after_recovery { window / 2.0 } else { self.bdp() }
    }

    fn on_delivered(&mut self, now: f64) {
        // One nanosecond of tolerance: times are sums of the RTT.
        if now - self.sample_start >= self.span - 1e-9 {
            let mut sample = self.count / (now - self.sample_start);
            for filter in &mut self.filters {
                let weight = if self.has_sample { self.weight } else { 0.0 };
                *filter = weight * *filter + (1.0 - weight) * sample;
                sample = *filter;
            }
            // No data is delivered in the first round trip.
            self.has_sample = sample > 0.0;
            (self.sample_start, self.count) = (now, 0.0);
        }
        self.count += 1.0;
    }

    fn on_repeated_ack(&mut self, packets: u64) {
        if self.counts_sacked_twice {
            self.count += packets as f64;
        }
    }

    fn on_recovered(&mut self, window: f64) -> f64 {
        if self.sets_window_after_recovery { self.bdp() } else { window }
    }
}

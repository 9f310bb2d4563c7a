//! Westwood+, by the paper (Grieco and Mascolo 2004) and by Linux's tcp_westwood, in packets on a path
//! whose RTT never changes: b RTTmin is then what is delivered in a round trip, filtered.

use super::WindowAlgorithm;

/// Westwood+'s window.
pub struct Westwood {
    /// Linux: the window is halved for recovery and set when it ends.
    sets_window_after_recovery: bool,
    /// Time over which a sample is taken, seconds.
    span: f64,
    rtt: f64,
    /// Weight of what is known against a sample, and how often the filter is applied.
    weight: f64,
    filters: Vec<f64>,
    has_sample: bool,
    sample_start: f64,
    count: f64,
    /// Packets acknowledged towards the next packet of the window.
    growth: f64,
    /// What was acknowledged selectively counts again when it is acknowledged cumulatively.
    counts_sacked_twice: bool,
}

impl Westwood {
    /// The paper's: alpha = 0.9, a sample each RTT of `rtt` seconds.
    pub fn paper(rtt: f64) -> Westwood {
        Westwood {
            sets_window_after_recovery: false,
            span: rtt,
            rtt,
            weight: 0.9,
            filters: vec![0.0],
            has_sample: false,
            sample_start: 0.0,
            count: 0.0,
            growth: 0.0,
            counts_sacked_twice: false,
        }
    }

    /// Linux's: 7/8 twice, a sample each RTT and at most one in 50 ms.
    pub fn linux(rtt: f64) -> Westwood {
        let filters = vec![0.0; 2];
        Westwood {
            sets_window_after_recovery: true,
            span: rtt.max(0.05),
            weight: 0.875,
            filters,
            ..Westwood::paper(rtt)
        }
    }

    /// The paper's with the count of ns-3 (TcpSocketBase::ProcessAck): a packet for each duplicate ACK,
    /// and all from SND.UNA on for the ACK that ends recovery.
    pub fn counting_twice(rtt: f64) -> Westwood {
        Westwood { counts_sacked_twice: true, ..Westwood::paper(rtt) }
    }

    fn bdp(&self) -> f64 {
        self.filters[self.filters.len() - 1] * self.rtt
    }
}

impl WindowAlgorithm for Westwood {
    /// By whole packets, as RFC 5681 section 3.1 counts bytes and Linux segments; a cut forgets what has
    /// been counted.
    fn on_acked(&mut self, _now: f64, window: f64) -> f64 {
        self.growth += 1.0;
        if self.growth < window {
            return window;
        }
        self.growth -= window;
        window + 1.0
    }

    fn on_cut(&mut self, _now: f64, window: f64) -> f64 {
        self.growth = 0.0;
        if self.sets_window_after_recovery { window / 2.0 } else { self.bdp() }
    }

    fn on_delivered(&mut self, now: f64) {
        // A nanosecond of slack: times are sums of the RTT.
        if now - self.sample_start >= self.span - 1e-9 {
            let mut sample = self.count / (now - self.sample_start);
            for filter in &mut self.filters {
                let weight = if self.has_sample { self.weight } else { 0.0 };
                *filter = weight * *filter + (1.0 - weight) * sample;
                sample = *filter;
            }
            // Nothing comes before the first round trip is over.
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

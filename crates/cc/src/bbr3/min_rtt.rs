//! The minimum RTT and the time of the next ProbeRTT (section 5.3.4.3).

use units::{Span, Time};

/// BBR.MinRTTFilterLen.
const MIN_RTT_FILTER_LEN: Span = Span::from_secs(10);

/// Two filters: a short one that triggers ProbeRTT, a long one for the model.
#[derive(Clone, Debug)]
pub(super) struct MinRttFilter {
    /// BBR.min_rtt.
    pub rtt: Span,
    stamp: Time,
    probe_delay: Span,
    probe_stamp: Time,
    /// BBR.probe_rtt_expired: ProbeRTT is due.
    pub is_probe_rtt_expired: bool,
}

impl MinRttFilter {
    /// Returns the state before the first sample. The filters' age counts from `now`.
    pub fn new(now: Time) -> MinRttFilter {
        let rtt = Span::MAX;
        MinRttFilter {
            rtt,
            stamp: now,
            probe_delay: rtt,
            probe_stamp: now,
            is_probe_rtt_expired: false,
        }
    }

    /// UpdateMinRTT. `interval` is BBR.ProbeRTTInterval.
    pub fn update(&mut self, now: Time, sample: Option<Span>, interval: Span) {
        self.is_probe_rtt_expired = now > self.probe_stamp + interval;
        if let Some(rtt) = sample
            && (rtt < self.probe_delay || self.is_probe_rtt_expired)
        {
            self.probe_delay = rtt;
            self.probe_stamp = now;
        }
        let expired = now > self.stamp + MIN_RTT_FILTER_LEN;
        if self.probe_delay < self.rtt || expired {
            self.rtt = self.probe_delay;
            self.stamp = self.probe_stamp;
        }
    }

    /// Ends ProbeRTT. The next one is due an interval after `now`.
    pub fn on_probe_rtt_done(&mut self, now: Time) {
        self.probe_stamp = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A higher RTT enters the short filter after 5 s, and the model once the long filter is 10 s old.
    #[test]
    fn the_model_uses_the_minimum_of_ten_seconds() {
        let second = |s| Time::ZERO + Span::from_secs(s);
        let mut least = MinRttFilter::new(Time::ZERO);
        let seen = [(0, 30, 30, false), (5, 50, 30, false), (6, 50, 30, true), (11, 60, 50, false)];
        for (at, rtt, model, expired) in seen {
            let interval = Span::from_secs(5);
            least.update(second(at), Some(Span::from_millis(rtt)), interval);
            assert_eq!(
                (least.rtt, least.is_probe_rtt_expired),
                (Span::from_millis(model), expired),
                "{at}"
            );
        }
    }
}

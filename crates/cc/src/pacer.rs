//! The shared pacer of all senders. It sends packets at a rate, in bursts of at most one quantum.

use units::{Rate, Span, Time, divide};

use crate::ControlOutput;

/// RFC 9002 section 7.7: `N * congestion_window / smoothed_rtt` with N = 1.25, so that rounding
/// and a varying RTT do not leave the window unused.
const WINDOW_GAIN_NUMERATOR: u128 = 5;
const WINDOW_GAIN_DENOMINATOR: u64 = 4;

/// The pacer of one sender.
#[derive(Clone, Debug)]
pub struct Pacer {
    rate: Rate,
    quantum: u64,
    /// Release time of the next burst in ns: the end of the transmission time of all bytes sent. It precedes the start
    /// of the run for a sender that has not used its first burst.
    next_release: i128,
}

impl Pacer {
    /// Returns a pacer that releases the first burst at once.
    pub fn new(control: &ControlOutput, smoothed_rtt: Span, mss: u64) -> Pacer {
        let mut pacer = Pacer { rate: Rate(1), quantum: 0, next_release: i128::MIN / 2 };
        pacer.update(control, smoothed_rtt, mss);
        pacer
    }

    /// Returns the current rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Applies a new controller output.
    #[inline]
    pub fn update(&mut self, control: &ControlOutput, smoothed_rtt: Span, mss: u64) {
        self.rate = control.pacing_rate.unwrap_or_else(|| {
            let bits = u128::from(control.cwnd) * 8 * 1_000_000_000 * WINDOW_GAIN_NUMERATOR;
            let time = WINDOW_GAIN_DENOMINATOR.saturating_mul(smoothed_rtt.nanos().max(1));
            let (bits, _) = divide(bits, time);
            Rate(bits.min(u128::from(u64::MAX)) as u64)
        });
        // draft-ietf-ccwg-bbr-06 section 5.6.3: the data of one millisecond, at most 64 KB, at least two packets. Linux
        // uses the same burst size.
        self.quantum = control.quantum.unwrap_or((self.rate.0 / 8_000).min(65_536)).max(2 * mss);
    }

    /// Returns the bytes that may be sent at `now`; 0 before [`Pacer::ready_at`].
    #[inline]
    pub fn budget(&self, now: Time) -> u64 {
        let idle = i128::from(now.nanos()) - self.next_release;
        if idle < 0 {
            return 0;
        }
        // After an hour of idle time the quantum limits the budget in any case.
        let idle = idle.min(3_600_000_000_000) as u128;
        let (earned, _) = divide(idle * u128::from(self.rate.0), 8_000_000_000);
        // The packet due now plus the bytes earned during idle time, up to one quantum.
        (earned.min(u128::from(self.quantum)) as u64).max(1)
    }

    /// Returns the earliest send time of the next burst.
    #[inline]
    pub fn ready_at(&self) -> Time {
        Time(u64::try_from(self.next_release.max(0)).unwrap_or(u64::MAX))
    }

    /// Records `bytes` sent at `now`.
    #[inline]
    pub fn on_sent(&mut self, now: Time, bytes: u64) {
        let nanos = |bytes| i128::from(self.rate.time_for(bytes).nanos());
        let now = i128::from(now.nanos());
        if self.next_release < now {
            self.next_release = self.next_release.max(now - nanos(self.quantum));
        }
        self.next_release += nanos(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_sent_in_four_fifths_of_an_rtt() {
        let control = ControlOutput::from_window(100 * 1200);
        let rtt = Span::from_millis(100);
        let mut pacer = Pacer::new(&control, rtt, 1200);
        let mut now = Time::ZERO + Span::from_secs(1);
        let start = now;
        let mut largest_burst = 0;
        let mut burst = 0;
        let mut last = now;
        for _ in 0..100 {
            now = now.max(pacer.ready_at());
            burst = if now == last { burst + 1 } else { 1 };
            last = now;
            largest_burst = largest_burst.max(burst);
            assert!(pacer.budget(now) > 0);
            pacer.on_sent(now, 1200);
        }
        let took = pacer.ready_at().since(start).millis();
        assert!((75.0..=80.1).contains(&took), "{took} ms");
        assert!(largest_burst <= 3, "{largest_burst} packets in one burst");
    }
}

//! Round-trip time and retransmission timeout (RFC 6298).

use units::Span;

use super::{RtoEstimate, TcpSpec};

/// The clock granularity G of RFC 6298 section 2. Linux limits the variance term to its minimum timeout of 200 ms or
/// more. With a sample for every ACK it would otherwise vanish (RFC 7323 appendix G).
const GRANULARITY: Span = Span::from_millis(200);

/// The estimate of one connection.
#[derive(Clone, Debug)]
pub(super) struct Rtt {
    smoothed: Option<Span>,
    latest: Option<Span>,
    min_rtt: Span,
    /// Mean deviation, and its largest value in this round trip.
    deviation: Span,
    max_deviation: Span,
    /// RTTVAR: the largest mean deviation of recent round trips.
    variance: Span,
    /// Sequence number at which the round trip ends when it is acknowledged.
    round_end: u64,
    initial_rto: Span,
    min_rto: Span,
    max_rto: Span,
    /// G of section 2.
    granularity: Span,
    estimate: RtoEstimate,
    /// Doublings of the timeout (section 5.5).
    backoff: u32,
}

impl Rtt {
    pub(super) fn new(spec: &TcpSpec) -> Rtt {
        Rtt {
            smoothed: None,
            latest: None,
            min_rtt: Span::MAX,
            deviation: Span::ZERO,
            max_deviation: Span::ZERO,
            variance: Span::ZERO,
            round_end: 0,
            initial_rto: Span(spec.initial_rto_ns),
            min_rto: Span(spec.min_rto_ns),
            max_rto: Span(spec.max_rto_ns),
            granularity: match spec.rto_estimate {
                RtoEstimate::Linux => GRANULARITY.min(Span(spec.min_rto_ns)),
                RtoEstimate::Rfc6298 => Span::from_millis(1),
            },
            estimate: spec.rto_estimate,
            backoff: 0,
        }
    }

    /// Adds a sample (sections 2.2 and 2.3), with SND.UNA and SND.NXT. RTTVAR is the largest mean deviation of a round
    /// trip. Thus a high number of samples does not erase it (RFC 7323 section 4.2; Linux does the same).
    pub(super) fn sample(&mut self, rtt: Span, una: u64, next: u64) {
        self.min_rtt = self.min_rtt.min(rtt);
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(rtt);
            self.deviation = Span(rtt.0 / 2);
            self.max_deviation = self.deviation;
            self.variance = self.deviation;
            self.round_end = next;
            return;
        };
        let error = rtt.0 as i64 - smoothed.0 as i64;
        self.smoothed = Some(Span((smoothed.0 as i64 + error / 8) as u64));
        let deviation = self.deviation.0 as i64;
        self.deviation = Span((deviation + (error.abs() - deviation) / 4) as u64);
        if self.estimate == RtoEstimate::Rfc6298 {
            self.variance = self.deviation;
            return;
        }
        self.max_deviation = self.max_deviation.max(self.deviation);
        self.variance = self.variance.max(self.max_deviation);
        if una > self.round_end {
            self.variance = Span(self.variance.0 - (self.variance.0 - self.max_deviation.0) / 4);
            self.max_deviation = Span::ZERO;
            self.round_end = next;
        }
    }

    /// Records the RTT of the newest acknowledged segment, without the receiver's delay of earlier ones.
    pub(super) fn set_latest(&mut self, rtt: Span) {
        self.latest = Some(rtt);
        self.min_rtt = self.min_rtt.min(rtt);
    }

    pub(super) fn smoothed(&self) -> Option<Span> {
        self.smoothed
    }

    /// Returns RTTVAR.
    pub(super) fn variance(&self) -> Span {
        self.variance
    }

    pub(super) fn latest(&self) -> Option<Span> {
        self.latest
    }

    /// Returns the minimum sample, or `None` before the first.
    pub(super) fn min_rtt(&self) -> Option<Span> {
        self.smoothed.map(|_| self.min_rtt)
    }

    /// Returns the timeout with its backoff.
    pub(super) fn rto(&self) -> Span {
        let base = match self.smoothed {
            None => self.initial_rto,
            Some(smoothed) => {
                (smoothed + (self.variance * 4).max(self.granularity)).max(self.min_rto)
            }
        };
        (base * (1 << self.backoff.min(20))).min(self.max_rto)
    }

    /// Handles a handshake with a repeated SYN and without a sample (section 5.7).
    pub(super) fn on_unmeasured_handshake(&mut self) {
        self.initial_rto = self.initial_rto.max(Span::from_secs(3));
    }

    /// Doubles the timeout after the timer has expired (section 5.5).
    pub(super) fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// Clears the backoff after new data was acknowledged: section 5.7 recomputes the timeout.
    pub(super) fn clear_backoff(&mut self) {
        self.backoff = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::spec;
    use super::*;

    /// RFC 6298 section 2 by hand: 100 ms, then 140 ms, then always 100 ms.
    #[test]
    fn the_estimate_of_rfc_6298() {
        let millis = Span::from_millis;
        let mut rtt = Rtt::new(&TcpSpec {
            rto_estimate: RtoEstimate::Rfc6298,
            min_rto_ns: 100_000_000,
            ..spec()
        });
        rtt.sample(millis(100), 1, 2);
        assert_eq!((rtt.variance(), rtt.rto()), (millis(50), millis(300)));
        rtt.sample(millis(140), 2, 3);
        // RTTVAR = 3/4 50 + 1/4 40, SRTT = 7/8 100 + 1/8 140.
        assert_eq!((rtt.variance().0, rtt.smoothed().unwrap().0), (47_500_000, 105_000_000));
        assert_eq!(rtt.rto(), millis(295));
        for number in 0..200 {
            rtt.sample(millis(100), 3 + number, 4 + number);
        }
        let rto = rtt.rto();
        assert!(millis(100) < rto && rto < millis(102), "{rto:?}: the granularity is 1 ms");
    }

    #[test]
    fn linux_has_200_ms_for_the_variance() {
        let mut rtt = Rtt::new(&spec());
        for number in 0..200 {
            rtt.sample(Span::from_millis(100), 1 + number, 2 + number);
        }
        assert_eq!(rtt.rto(), Span::from_millis(300));
    }
}

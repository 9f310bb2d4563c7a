//! Round-trip time and retransmission timeout (RFC 6298).

use units::Span;

use super::{RtoEstimate, TcpSpec};

/// The clock granularity G of RFC 6298 section 2: Linux never lets the variance term fall below its
/// least timeout of 200 ms, which with a sample for every ACK would otherwise vanish (RFC 7323
/// appendix G).
const GRANULARITY: Span = Span::from_millis(200);

/// The estimate of one connection.
#[derive(Clone, Debug)]
pub(super) struct Rtt {
    smoothed: Option<Span>,
    latest: Option<Span>,
    least: Span,
    /// Mean deviation, and its largest value in this round trip.
    deviation: Span,
    largest: Span,
    /// RTTVAR: the largest mean deviation of recent round trips.
    variance: Span,
    /// Sequence number whose acknowledgement ends the round trip.
    round_end: u64,
    initial_rto: Span,
    least_rto: Span,
    most_rto: Span,
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
            least: Span::MAX,
            deviation: Span::ZERO,
            largest: Span::ZERO,
            variance: Span::ZERO,
            round_end: 0,
            initial_rto: Span(spec.initial_rto_ns),
            least_rto: Span(spec.min_rto_ns),
            most_rto: Span(spec.max_rto_ns),
            granularity: match spec.rto_estimate {
                RtoEstimate::Linux => GRANULARITY.min(Span(spec.min_rto_ns)),
                RtoEstimate::Rfc6298 => Span::from_millis(1),
            },
            estimate: spec.rto_estimate,
            backoff: 0,
        }
    }

    /// A sample (section 2.2 and 2.3), with SND.UNA and SND.NXT. RTTVAR is the largest mean
    /// deviation of a round trip, so that many samples a round trip do not make it forget (RFC 7323
    /// section 4.2; Linux does the same).
    pub(super) fn sample(&mut self, rtt: Span, una: u64, next: u64) {
        self.least = self.least.min(rtt);
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(rtt);
            self.deviation = Span(rtt.0 / 2);
            self.largest = self.deviation;
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
        self.largest = self.largest.max(self.deviation);
        self.variance = self.variance.max(self.largest);
        if una > self.round_end {
            self.variance = Span(self.variance.0 - (self.variance.0 - self.largest.0) / 4);
            self.largest = Span::ZERO;
            self.round_end = next;
        }
    }

    /// The RTT of the newest segment acknowledged, without the receiver's delay of the ones before.
    pub(super) fn newest(&mut self, rtt: Span) {
        self.latest = Some(rtt);
        self.least = self.least.min(rtt);
    }

    pub(super) fn smoothed(&self) -> Option<Span> {
        self.smoothed
    }

    /// RTTVAR.
    pub(super) fn variance(&self) -> Span {
        self.variance
    }

    pub(super) fn latest(&self) -> Option<Span> {
        self.latest
    }

    /// The least sample; none before the first.
    pub(super) fn least(&self) -> Option<Span> {
        self.smoothed.map(|_| self.least)
    }

    /// The timeout with its backoff.
    pub(super) fn rto(&self) -> Span {
        let base = match self.smoothed {
            None => self.initial_rto,
            Some(smoothed) => {
                (smoothed + (self.variance * 4).max(self.granularity)).max(self.least_rto)
            }
        };
        (base * (1 << self.backoff.min(20))).min(self.most_rto)
    }

    /// Section 5.7: a SYN was sent again and nothing was measured.
    pub(super) fn was_not_measured(&mut self) {
        self.initial_rto = self.initial_rto.max(Span::from_secs(3));
    }

    /// Section 5.5: the timer expired.
    pub(super) fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// New data was acknowledged: section 5.7 recomputes the timeout.
    pub(super) fn clear_backoff(&mut self) {
        self.backoff = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::spec;
    use super::*;

    /// RFC 6298 section 2 by hand: 100 ms, then 140 ms, then 100 ms for ever.
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
    fn linux_leaves_200_ms_for_the_variance() {
        let mut rtt = Rtt::new(&spec());
        for number in 0..200 {
            rtt.sample(Span::from_millis(100), 1 + number, 2 + number);
        }
        assert_eq!(rtt.rto(), Span::from_millis(300));
    }
}

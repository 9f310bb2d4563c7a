//! The duration of ProbeRTT: section 5.3.4 of the draft, `bbr_update_min_rtt` in Linux.

use units::{Span, Time};

use super::RoundCounter;
use super::self_limited::AppLimitedMark;
use crate::AckEvent;

/// BBR.ProbeRTTDuration.
const PROBE_RTT_DURATION: Span = Span::from_millis(200);

/// A period at a low flight that measures the RTT without the flow's queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProbeRtt {
    done_stamp: Option<Time>,
    round_done: bool,
    app_limited_mark: AppLimitedMark,
}

impl ProbeRtt {
    /// Starts ProbeRTT. The flight is not yet low.
    pub fn begin(&mut self) {
        self.done_stamp = None;
    }

    /// HandleProbeRTT: at least 200 ms and one round at a flight of `low` bytes. Returns whether ProbeRTT is over.
    pub fn update(
        &mut self,
        now: Time,
        ack: &AckEvent,
        low: u64,
        rounds: &mut RoundCounter,
    ) -> bool {
        // The low rates of ProbeRTT must not displace the estimate in the bandwidth filter.
        self.app_limited_mark.mark(ack.delivered, ack.in_flight);
        if self.done_stamp.is_some() {
            self.round_done |= rounds.is_round_start;
            return self.round_done && self.is_done(now);
        }
        if ack.in_flight <= low {
            self.done_stamp = Some(now + PROBE_RTT_DURATION);
            self.round_done = false;
            rounds.begin(ack.delivered);
        }
        false
    }

    /// CheckProbeRTTDone: returns whether the time is over. After idle no round is required.
    pub fn is_done(&self, now: Time) -> bool {
        self.done_stamp.is_some_and(|stamp| now > stamp)
    }

    /// Returns the event with the samples from ProbeRTT marked.
    pub fn mark_samples(&self, ack: &AckEvent) -> AckEvent {
        self.app_limited_mark.apply(ack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::sample_ack;

    #[test]
    fn probe_rtt_lasts_200_ms_and_one_round() {
        let (mut probe, mut rounds) = (ProbeRtt::default(), RoundCounter::default());
        let ms = |ms| Time::ZERO + Span::from_millis(ms);
        let ack = |in_flight| AckEvent { delivered: 100, in_flight, ..sample_ack() };
        probe.begin();
        assert!(!probe.update(ms(0), &ack(51), 50, &mut rounds));
        assert!(!probe.is_done(ms(1_000)));
        assert!(!probe.update(ms(10), &ack(50), 50, &mut rounds));
        assert_eq!(rounds.next_round_delivered, 100);
        rounds.is_round_start = true;
        assert!(!probe.update(ms(210), &ack(50), 50, &mut rounds));
        rounds.is_round_start = false;
        assert!(probe.update(ms(211), &ack(50), 50, &mut rounds));
    }
}

//! How long ProbeRTT lasts: section 5.3.4 of the draft, `bbr_update_min_rtt` in Linux.

use units::{Span, Time};

use super::RoundCounter;
use super::self_limited::SelfLimited;
use crate::Ack;

/// BBR.ProbeRTTDuration.
const DURATION: Span = Span::from_millis(200);

/// The time at a low flight, from which the path is seen without one's own queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProbeRtt {
    done_stamp: Option<Time>,
    round_done: bool,
    limited: SelfLimited,
}

impl ProbeRtt {
    /// ProbeRTT begins; the flight is not yet low.
    pub fn begin(&mut self) {
        self.done_stamp = None;
    }

    /// HandleProbeRTT: at least 200 ms and one round at a flight of `low` bytes. True: it is over.
    pub fn hold(&mut self, now: Time, ack: &Ack, low: u64, rounds: &mut RoundCounter) -> bool {
        // Its low rates must not push the true one out of the bandwidth filter.
        self.limited.mark(ack.delivered, ack.in_flight);
        if self.done_stamp.is_some() {
            self.round_done |= rounds.start;
            return self.round_done && self.is_over(now);
        }
        if ack.in_flight <= low {
            self.done_stamp = Some(now + DURATION);
            self.round_done = false;
            rounds.begin(ack.delivered);
        }
        false
    }

    /// CheckProbeRTTDone: the time is over; after idleness no round is waited for.
    pub fn is_over(&self, now: Time) -> bool {
        self.done_stamp.is_some_and(|stamp| now > stamp)
    }

    /// The event, with the samples of what left in ProbeRTT marked.
    pub fn mark(&self, ack: &Ack) -> Ack {
        self.limited.apply(ack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::sample_ack;

    #[test]
    fn it_lasts_for_200_ms_and_a_round_at_the_low_flight() {
        let (mut probe, mut rounds) = (ProbeRtt::default(), RoundCounter::default());
        let ms = |ms| Time::ZERO + Span::from_millis(ms);
        let ack = |in_flight| Ack { delivered: 100, in_flight, ..sample_ack() };
        probe.begin();
        assert!(!probe.hold(ms(0), &ack(51), 50, &mut rounds));
        assert!(!probe.is_over(ms(1_000)));
        assert!(!probe.hold(ms(10), &ack(50), 50, &mut rounds));
        assert_eq!(rounds.next_delivered, 100);
        rounds.start = true;
        assert!(!probe.hold(ms(210), &ack(50), 50, &mut rounds));
        rounds.start = false;
        assert!(probe.hold(ms(211), &ack(50), 50, &mut rounds));
    }
}

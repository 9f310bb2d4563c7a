//! Marks samples as application-limited while the controller deliberately sends little: they do not show the capacity
//! of the path. See MarkConnectionAppLimited of draft-ietf-ccwg-bbr-06 section 4.1.2.4, called in section 5.3.4.3.

use crate::AckEvent;

/// The range of packets sent under the mark, in bytes delivered at their send time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AppLimitedMark {
    range: Option<(u64, u64)>,
}

impl AppLimitedMark {
    /// Marks packets sent from now on, until all data now in flight is delivered.
    pub fn mark(&mut self, delivered: u64, in_flight: u64) {
        let from = match self.range {
            Some((from, until)) if delivered <= until => from,
            _ => delivered,
        };
        self.range = Some((from, (delivered + in_flight).max(1)));
    }

    /// Returns the event with its samples marked.
    pub fn apply(&self, ack: &AckEvent) -> AckEvent {
        let mut ack = *ack;
        let Some((from, until)) = self.range else { return ack };
        if let Some(sample) = &mut ack.rate_sample {
            sample.is_app_limited |= (from..=until).contains(&sample.prior_delivered);
        }
        if let Some(sample) = &mut ack.loss_sample {
            sample.is_app_limited |= (from..=until).contains(&sample.prior_delivered);
        }
        ack
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LossSample;
    use crate::conformance::sample_ack;

    #[test]
    fn samples_of_marked_packets_are_application_limited() {
        let mut limited = AppLimitedMark::default();
        let marked = |limited: &AppLimitedMark, prior_delivered| {
            let sample =
                LossSample { tx_in_flight: 0, lost: 0, prior_delivered, is_app_limited: false };
            let ack = AckEvent { loss_sample: Some(sample), ..sample_ack() };
            limited.apply(&ack).loss_sample.unwrap().is_app_limited
        };
        assert!(!marked(&limited, 0));
        limited.mark(1_000, 500);
        limited.mark(1_400, 300);
        let all = [999, 1_000, 1_500, 1_700, 1_701].map(|delivered| marked(&limited, delivered));
        assert_eq!(all, [false, true, true, true, false]);
        limited.mark(9_000, 100);
        assert!(!marked(&limited, 1_500) && marked(&limited, 9_100));
    }
}

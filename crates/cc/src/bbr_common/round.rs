//! Packet-timed round trips: section 5.5.1 of the draft, `bbr_update_bw` in Linux.

/// Counts rounds by the delivered bytes at the send time of a packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoundCounter {
    /// BBR.next_round_delivered.
    pub next_round_delivered: u64,
    /// BBR.round_count.
    pub count: u64,
    /// BBR.round_start: the last ACK started a round.
    pub is_round_start: bool,
}

impl RoundCounter {
    /// StartRound: the round ends when a packet sent from now on is acknowledged.
    pub fn begin(&mut self, delivered: u64) {
        self.next_round_delivered = delivered;
    }

    /// UpdateRound for a packet sent when `prior_delivered` bytes had been delivered.
    pub fn update(&mut self, prior_delivered: u64, delivered: u64) {
        self.is_round_start = prior_delivered >= self.next_round_delivered;
        if self.is_round_start {
            self.begin(delivered);
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_lasts_until_a_packet_sent_in_it_is_acknowledged() {
        let mut rounds = RoundCounter::default();
        let starts = [(0, 10), (5, 20), (9, 30), (10, 40), (39, 50)].map(|(prior, delivered)| {
            rounds.update(prior, delivered);
            rounds.is_round_start
        });
        assert_eq!((starts, rounds.count), ([true, false, false, true, false], 2));
        rounds.begin(60);
        rounds.update(59, 70);
        assert!(!rounds.is_round_start);
    }
}

//! RACK: loss detection by time (RFC 8985 section 6). The tail loss probe is in `sender` and `timers`.

use units::{Span, Time};

use super::scoreboard::SentSegment;
use super::{is_before, timestamp_ms};

/// Number of recoveries for which D-SACK widens the reordering window (section 6.2).
const PERSIST: u32 = 16;

/// RACK's variables (section 5.2), with the names of the RFC.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    xmit_ts: Time,
    end_seq: u64,
    rtt: Span,
    /// Send time and end of the last-sent segment that this ACK reports.
    newest: (Time, u64),
    reordering_seen: bool,
    reo_wnd_mult: u64,
    reo_wnd_persist: u32,
    /// RACK.dsack_round: SND.NXT when a D-SACK last widened the window.
    dsack_round: Option<u64>,
    adapt: bool,
}

impl Rack {
    pub(super) fn new(adapt: bool) -> Rack {
        Rack {
            xmit_ts: Time::ZERO,
            end_seq: 0,
            rtt: Span::ZERO,
            newest: (Time::ZERO, 0),
            reordering_seen: false,
            reo_wnd_mult: 1,
            reo_wnd_persist: 0,
            dsack_round: None,
            adapt,
        }
    }

    /// Begins an ACK. [`Rack::on_acked`] gets the segments that it reports.
    pub(super) fn begin_ack(&mut self) {
        self.newest = (Time::ZERO, 0);
    }

    /// Performs steps 1 to 3 for a received segment. `echo` is the TSecr of an ACK that covers it cumulatively.
    /// `highest` is the highest sequence number received before; `min_rtt` is the minimum RTT.
    pub(super) fn on_acked(
        &mut self,
        now: Time,
        record: &SentSegment,
        echo: Option<u32>,
        highest: u64,
        min_rtt: Option<Span>,
    ) {
        let rtt = now.since(record.sent);
        // Step 2: an ACK that echoes an earlier timestamp, or comes too soon after the retransmission, belongs to the
        // original.
        let acks_original = echo.is_some_and(|echo| is_before(echo, timestamp_ms(record.sent)));
        if record.is_retransmitted()
            && (acks_original || min_rtt.is_some_and(|min_rtt| rtt < min_rtt))
        {
            return;
        }
        // RACK.rtt is that of the ACK's newest segment, even if it was overtaken. Late segments then wait longer
        // (Linux's tcp_rack_advance).
        let transmission = (record.sent, record.end());
        if transmission >= self.newest {
            self.newest = transmission;
            self.rtt = rtt;
        }
        if transmission > (self.xmit_ts, self.end_seq) {
            (self.xmit_ts, self.end_seq) = transmission;
        }
        // Step 3: an original below data received before was overtaken.
        if !record.is_retransmitted() && record.end() <= highest {
            self.reordering_seen = true;
        }
    }

    /// Handles a D-SACK (step 4); `una` and `next` are SND.UNA and SND.NXT.
    pub(super) fn on_dsack(&mut self, una: u64, next: u64) {
        if self.adapt && self.dsack_round.is_none_or(|round| una >= round) {
            self.dsack_round = Some(next);
            self.reo_wnd_mult += 1;
            self.reo_wnd_persist = PERSIST;
        }
    }

    /// Handles the end of a recovery.
    pub(super) fn on_recovered(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }

    /// Returns the reordering window (step 4). `in_recovery`: recovery runs, or 3 segments have arrived above a hole.
    /// Without reordering there is then no reason to wait.
    pub(super) fn reo_wnd(
        &self,
        in_recovery: bool,
        min_rtt: Option<Span>,
        smoothed: Option<Span>,
    ) -> Span {
        if !self.reordering_seen && in_recovery {
            return Span::ZERO;
        }
        let quarter = Span(min_rtt.unwrap_or(Span::ZERO).0 / 4);
        (quarter * self.reo_wnd_mult).min(smoothed.unwrap_or(Span::ZERO))
    }

    /// Returns whether a segment sent after `record` has arrived (RACK_sent_after). Sequence numbers order the segments
    /// of one instant. They do not order a retransmission: it may follow segments above it.
    pub(super) fn overtaken(&self, record: &SentSegment) -> bool {
        let later = self.end_seq > record.end() && !record.is_retransmitted();
        self.xmit_ts > record.sent || (self.xmit_ts == record.sent && later)
    }

    /// Returns the time at which an overtaken segment is lost (step 5).
    pub(super) fn lost_at(&self, record: &SentSegment, reo_wnd: Span) -> Time {
        record.sent + self.rtt + reo_wnd
    }
}

#[cfg(test)]
mod tests {
    use super::super::scoreboard::Scoreboard;
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// RFC 8985 section 6.2, step 2. A segment is sent at 0 and at 200 ms. Its ACK arrives at 350 ms with a minimum RTT
    /// of 100 ms, so it may belong to either. The TSecr of a cumulative ACK decides: 1 is the original's timestamp, 201
    /// the retransmission's.
    #[test]
    fn the_echo_identifies_the_transmission() {
        let min_rtt = Some(Span::from_millis(100));
        let newest = |echo: Option<u32>, now: u64| {
            let mut board = Scoreboard::new(1, 10, true);
            board.push(at(0), 10, false);
            board.mark_retransmitted(0, at(200));
            let mut rack = Rack::new(true);
            rack.begin_ack();
            rack.on_acked(at(now), board.get(0).unwrap(), echo, 1, min_rtt);
            (rack.xmit_ts, rack.rtt)
        };
        let ignored = (Time::ZERO, Span::ZERO);
        let taken = (at(200), Span::from_millis(150));
        assert_eq!(newest(Some(1), 350), ignored);
        assert_eq!(newest(Some(200), 350), ignored);
        assert_eq!(newest(Some(201), 350), taken);
        assert_eq!(newest(None, 350), taken);
        // The second condition, without timestamps: less than RACK.min_rtt ago.
        assert_eq!(newest(None, 299), ignored);
    }
}

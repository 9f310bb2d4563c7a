//! RACK: loss by time (RFC 8985 section 6). The tail loss probe is in `probe`.

use units::{Span, Time};

use super::scoreboard::Record;
use super::{is_before, milliseconds};

/// Recoveries for which a reordering window widened by D-SACK lasts (section 6.2).
const PERSIST: u32 = 16;

/// RACK's variables (section 5.2), names as there.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    xmit_ts: Time,
    end_seq: u64,
    rtt: Span,
    /// What was sent last of the segments that this ACK says have arrived.
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

    /// An ACK came: what it says has arrived is told by [`Rack::arrived`].
    pub(super) fn begin(&mut self) {
        self.newest = (Time::ZERO, 0);
    }

    /// Steps 1 to 3: a segment has arrived; `echo` is the TSecr of an ACK that covers it cumulatively, `highest` the
    /// highest sequence number that had arrived before, `least` the least RTT.
    pub(super) fn arrived(
        &mut self,
        now: Time,
        record: &Record,
        echo: Option<u32>,
        highest: u64,
        least: Option<Span>,
    ) {
        let rtt = now.since(record.sent);
        // Step 2: an ACK that echoes an earlier timestamp, or came too soon after the retransmission, is one of the
        // original.
        let of_original = echo.is_some_and(|echo| is_before(echo, milliseconds(record.sent)));
        if record.is_resent() && (of_original || least.is_some_and(|least| rtt < least)) {
            return;
        }
        // RACK.rtt is that of the ACK's newest segment, also where it was overtaken: what is late
        // then waits longer (Linux's tcp_rack_advance).
        let this = (record.sent, record.end());
        if this >= self.newest {
            self.newest = this;
            self.rtt = rtt;
        }
        if this > (self.xmit_ts, self.end_seq) {
            (self.xmit_ts, self.end_seq) = this;
        }
        // Step 3: an original below what has arrived before has been overtaken.
        if !record.is_resent() && record.end() <= highest {
            self.reordering_seen = true;
        }
    }

    /// Step 4: a D-SACK came; `una` and `next` are SND.UNA and SND.NXT.
    pub(super) fn on_dsack(&mut self, una: u64, next: u64) {
        if self.adapt && self.dsack_round.is_none_or(|round| una >= round) {
            self.dsack_round = Some(next);
            self.reo_wnd_mult += 1;
            self.reo_wnd_persist = PERSIST;
        }
    }

    /// A recovery ended.
    pub(super) fn on_recovered(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }

    /// Step 4: the reordering window. `hurry` says that recovery is under way or 3 segments have
    /// arrived above a hole: without reordering there is then no reason to wait.
    pub(super) fn reo_wnd(&self, hurry: bool, least: Option<Span>, smoothed: Option<Span>) -> Span {
        if !self.reordering_seen && hurry {
            return Span::ZERO;
        }
        let quarter = Span(least.unwrap_or(Span::ZERO).0 / 4);
        (quarter * self.reo_wnd_mult).min(smoothed.unwrap_or(Span::ZERO))
    }

    /// Whether a segment sent after `record` has arrived (RACK_sent_after). Of segments sent at one
    /// instant the sequence number tells the order, but not when one of them was sent again: it may
    /// have left after those above it.
    pub(super) fn overtaken(&self, record: &Record) -> bool {
        let later = self.end_seq > record.end() && !record.is_resent();
        self.xmit_ts > record.sent || (self.xmit_ts == record.sent && later)
    }

    /// Step 5: when a segment that was overtaken is lost.
    pub(super) fn lost_at(&self, record: &Record, reo_wnd: Span) -> Time {
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

    /// RFC 8985 section 6.2, step 2. A segment left at 0 and again at 200 ms; its ACK comes at 350 ms, when the least RTT
    /// is 100 ms, so that it may be either's. TSecr tells, of an ACK that covers it cumulatively: 1 is the original's
    /// timestamp, 201 that of the retransmission.
    #[test]
    fn the_echo_tells_which_transmission_has_arrived() {
        let least = Some(Span::from_millis(100));
        let newest = |echo: Option<u32>, now: u64| {
            let mut board = Scoreboard::new(1, 10, true);
            board.push(at(0), 10, false);
            board.resend(0, at(200));
            let mut rack = Rack::new(true);
            rack.begin();
            rack.arrived(at(now), board.get(0).unwrap(), echo, 1, least);
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

//! Detection of a full pipe: section 5.3.1.2 of the draft, `bbr_check_full_bw_reached` in Linux.

/// The pipe is full when the bandwidth has grown by less than a quarter in three rounds.
const FULL_BW_GROWTH: f64 = 1.25;
const FULL_BW_ROUNDS: u32 = 3;

/// The state of the full-pipe detection.
#[derive(Clone, Debug, Default)]
pub(crate) struct FullPipe {
    /// BBR.full_bw, bit/s.
    pub full_bw: u64,
    /// BBR.full_bw_count: rounds without sufficient growth.
    full_bw_count: u32,
    /// BBR.full_bw_now: full since the last reset.
    pub is_full_bw_now: bool,
    /// BBR.full_bw_reached: full at any time so far.
    pub is_full_bw_reached: bool,
}

impl FullPipe {
    /// ResetFullBW.
    pub fn reset(&mut self) {
        self.restart_at(0);
    }

    /// Restarts the detection with the base `bw`.
    pub fn restart_at(&mut self, bw: u64) {
        self.full_bw = bw;
        self.full_bw_count = 0;
        self.is_full_bw_now = false;
    }

    /// Processes the bandwidth `bw` of a round.
    pub fn check(&mut self, bw: u64) {
        if bw as f64 >= self.full_bw as f64 * FULL_BW_GROWTH {
            self.restart_at(bw);
            return;
        }
        self.full_bw_count += 1;
        self.is_full_bw_now = self.full_bw_count >= FULL_BW_ROUNDS;
        self.is_full_bw_reached |= self.is_full_bw_now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_rounds_without_a_quarter_more_fill_the_pipe() {
        let mut pipe = FullPipe::default();
        for (bw, full) in [(100, false), (124, false), (124, false), (125, false)] {
            pipe.check(bw);
            assert_eq!(pipe.is_full_bw_reached, full, "{bw}");
        }
        for full in [false, false, true] {
            pipe.check(156);
            assert_eq!((pipe.is_full_bw_now, pipe.is_full_bw_reached), (full, full));
        }
        pipe.reset();
        assert_eq!((pipe.is_full_bw_now, pipe.is_full_bw_reached), (false, true));
    }
}

//! Whether the pipe is full: section 5.3.1.2 of the draft, `bbr_check_full_bw_reached` in Linux.

/// The pipe is full when bandwidth has grown by less than a quarter in three rounds.
const GROWTH: f64 = 1.25;
const ROUNDS: u32 = 3;

/// The plateau of the bandwidth.
#[derive(Clone, Debug, Default)]
pub(crate) struct FullPipe {
    /// BBR.full_bw, bit/s.
    pub bw: u64,
    /// BBR.full_bw_count: rounds without much growth.
    count: u32,
    /// BBR.full_bw_now: since the last reset.
    pub now: bool,
    /// BBR.full_bw_reached: ever.
    pub reached: bool,
}

impl FullPipe {
    /// ResetFullBW.
    pub fn reset(&mut self) {
        self.restart_at(0);
    }

    /// The plateau is sought anew, above `bw`.
    pub fn restart_at(&mut self, bw: u64) {
        self.bw = bw;
        self.count = 0;
        self.now = false;
    }

    /// A round has shown `bw`.
    pub fn check(&mut self, bw: u64) {
        if bw as f64 >= self.bw as f64 * GROWTH {
            self.restart_at(bw);
            return;
        }
        self.count += 1;
        self.now = self.count >= ROUNDS;
        self.reached |= self.now;
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
            assert_eq!(pipe.reached, full, "{bw}");
        }
        for full in [false, false, true] {
            pipe.check(156);
            assert_eq!((pipe.now, pipe.reached), (full, full));
        }
        pipe.reset();
        assert_eq!((pipe.now, pipe.reached), (false, true));
    }
}

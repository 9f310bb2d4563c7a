//! A fading channel: one time grid per user, generated forward in blocks up to the requested time.

use std::collections::VecDeque;

use units::Time;

use super::ChannelState;
use super::state::mutual_information_array;
use crate::Channel;

/// Number of steps per block.
pub(super) const BLOCK: usize = 128;

/// Number of steps for which the information is computed together in sequential access.
const LOOKAHEAD: usize = 8;

/// A value for each step of a block.
pub(super) type BlockSteps = [f64; BLOCK];

/// History of a channel in nanoseconds.
const HISTORY_NS: u64 = 1_000_000_000;

/// The fading of one user. A block's values depend on the block only, not on earlier requests.
pub(super) trait Fading: Send {
    /// Computes the power gains in `block`, at most [`FadingGrid::history_blocks`] before the latest one requested.
    fn fill(&mut self, block: u64, gains: &mut BlockSteps);
}

/// A channel with independent fading per user. Between two steps, the value of the first applies.
pub(super) struct FadingGrid {
    step_ns: u64,
    /// Es/N0 without attenuation, as a ratio.
    reference: f64,
    new_fading: Box<dyn Fn(u32) -> Box<dyn Fading> + Send>,
    /// By user number.
    users: Vec<Option<UserFading>>,
}

struct UserFading {
    fading: Box<dyn Fading>,
    /// Generated blocks, in order of their numbers.
    blocks: VecDeque<Block>,
    /// The latest block requested.
    latest: u64,
}

struct Block {
    number: u64,
    gains: BlockSteps,
    /// Information per coded bit; NaN until it is computed.
    information: BlockSteps,
}

impl FadingGrid {
    /// Creates a grid with steps of `step_ns` and mean Es/N0 `snr_db`; `begin` creates the fading of a user.
    pub fn new(
        step_ns: u64,
        snr_db: f64,
        begin: impl Fn(u32) -> Box<dyn Fading> + Send + 'static,
    ) -> FadingGrid {
        let reference = libm::exp10(snr_db / 10.0);
        FadingGrid { step_ns, reference, new_fading: Box::new(begin), users: Vec::new() }
    }

    /// Returns the number of stored blocks before the latest one.
    pub fn history_blocks(step_ns: u64) -> u64 {
        HISTORY_NS.div_ceil(step_ns * BLOCK as u64)
    }
}

impl Channel for FadingGrid {
    fn at(&mut self, user: u32, at: Time) -> ChannelState {
        let step = at.nanos() / self.step_ns;
        let offset = (step % BLOCK as u64) as usize;
        let history_blocks = FadingGrid::history_blocks(self.step_ns);
        let reference = self.reference;
        self.user(user).block(step / BLOCK as u64, history_blocks).state(reference, offset)
    }

    fn rates(&mut self, at: Time, users: &[u32], rates: &mut [f64]) {
        let step = at.nanos() / self.step_ns;
        let (number, offset) = (step / BLOCK as u64, (step % BLOCK as u64) as usize);
        let (history_blocks, reference) =
            (FadingGrid::history_blocks(self.step_ns), self.reference);
        for (user, rate) in users.iter().zip(rates) {
            *rate =
                self.user(*user).block(number, history_blocks).state(reference, offset).information;
        }
    }
}

impl FadingGrid {
    fn user(&mut self, user: u32) -> &mut UserFading {
        let index = user as usize;
        if self.users.len() <= index {
            self.users.resize_with(index + 1, || None);
        }
        let begin = &self.new_fading;
        self.users[index].get_or_insert_with(|| UserFading {
            fading: begin(user),
            blocks: VecDeque::new(),
            latest: 0,
        })
    }
}

impl Block {
    fn state(&mut self, reference: f64, offset: usize) -> ChannelState {
        if self.information[offset].is_nan() {
            self.compute_information(offset, reference);
        }
        ChannelState {
            es_n0: reference * self.gains[offset],
            information: self.information[offset],
        }
    }

    /// Computes the information at `offset`. After the previous step, it also computes the following steps.
    fn compute_information(&mut self, offset: usize, reference: f64) {
        let follows = offset > 0 && !self.information[offset - 1].is_nan();
        if follows && let Some(gains) = self.gains[offset..].first_chunk::<LOOKAHEAD>() {
            let known = mutual_information_array(&gains.map(|gain| reference * gain));
            self.information[offset..offset + LOOKAHEAD].copy_from_slice(&known);
        } else {
            self.information[offset] =
                ChannelState::from_es_n0(reference * self.gains[offset]).information;
        }
    }
}

impl UserFading {
    fn block(&mut self, number: u64, history_blocks: u64) -> &mut Block {
        // For a time before the history, the oldest stored block applies.
        let number = number.max(self.latest.saturating_sub(history_blocks));
        let later = self.blocks.iter().rev().take_while(|block| block.number > number).count();
        let position = self.blocks.len() - later;
        if position > 0 && self.blocks[position - 1].number == number {
            return &mut self.blocks[position - 1];
        }
        self.latest = self.latest.max(number);
        let mut block = match self.blocks.front() {
            Some(oldest) if oldest.number + history_blocks < self.latest => self.blocks.pop_front(),
            _ => None,
        }
        .unwrap_or(Block { number, gains: [0.0; BLOCK], information: [f64::NAN; BLOCK] });
        while self.blocks.front().is_some_and(|oldest| oldest.number + history_blocks < self.latest)
        {
            self.blocks.pop_front();
        }
        block.number = number;
        block.information = [f64::NAN; BLOCK];
        self.fading.fill(number, &mut block.gains);
        let position = self.blocks.len() - later;
        self.blocks.insert(position, block);
        &mut self.blocks[position]
    }
}

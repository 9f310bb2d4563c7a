//! A channel that fades: a time grid of its own for each user, generated forward in blocks, as far as is asked for.

use std::collections::VecDeque;

use units::Time;

use super::Quality;
use super::quality::informations;
use crate::Channel;

/// Steps that are generated at once.
pub(super) const BLOCK: usize = 128;

/// Steps whose information is worked out together where one step is asked for after the other.
const AHEAD: usize = 8;

/// A value for each step of a block.
pub(super) type Steps = [f64; BLOCK];

/// How far back a channel answers.
const PAST_NS: u64 = 1_000_000_000;

/// The fading towards one user. What it says of a block depends on the block alone, never on what was asked before.
pub(super) trait Fading: Send {
    /// The power gains in `block`, which is at most [`Grid::kept`] before the latest one asked for.
    fn fill(&mut self, block: u64, gains: &mut Steps);
}

/// A channel of users that fade, each by itself. What is between two steps is what was at the first of them.
pub(super) struct Grid {
    step_ns: u64,
    /// Es/N0 without attenuation, as a ratio.
    reference: f64,
    begin: Box<dyn Fn(u32) -> Box<dyn Fading> + Send>,
    /// By their numbers.
    users: Vec<Option<User>>,
}

struct User {
    fading: Box<dyn Fading>,
    /// Blocks that were asked for, in order of their numbers.
    blocks: VecDeque<Block>,
    /// The latest block that was asked for.
    latest: u64,
}

struct Block {
    number: u64,
    gains: Steps,
    /// Information per coded bit; NaN until it is asked for.
    information: Steps,
}

impl Grid {
    /// Steps of `step_ns` about Es/N0 `snr_db`; `begin` makes the fading towards a user.
    pub fn new(
        step_ns: u64,
        snr_db: f64,
        begin: impl Fn(u32) -> Box<dyn Fading> + Send + 'static,
    ) -> Grid {
        let reference = libm::exp10(snr_db / 10.0);
        Grid { step_ns, reference, begin: Box::new(begin), users: Vec::new() }
    }

    /// How many blocks before the latest one are kept.
    pub fn kept(step_ns: u64) -> u64 {
        PAST_NS.div_ceil(step_ns * BLOCK as u64)
    }
}

impl Channel for Grid {
    fn at(&mut self, user: u32, at: Time) -> Quality {
        let step = at.nanos() / self.step_ns;
        let place = (step % BLOCK as u64) as usize;
        let kept = Grid::kept(self.step_ns);
        let reference = self.reference;
        self.user(user).block(step / BLOCK as u64, kept).quality(reference, place)
    }

    fn rates(&mut self, at: Time, users: &[u32], rates: &mut [f64]) {
        let step = at.nanos() / self.step_ns;
        let (number, place) = (step / BLOCK as u64, (step % BLOCK as u64) as usize);
        let (kept, reference) = (Grid::kept(self.step_ns), self.reference);
        for (user, rate) in users.iter().zip(rates) {
            *rate = self.user(*user).block(number, kept).quality(reference, place).information;
        }
    }
}

impl Grid {
    fn user(&mut self, user: u32) -> &mut User {
        let index = user as usize;
        if self.users.len() <= index {
            self.users.resize_with(index + 1, || None);
        }
        let begin = &self.begin;
        self.users[index].get_or_insert_with(|| User {
            fading: begin(user),
            blocks: VecDeque::new(),
            latest: 0,
        })
    }
}

impl Block {
    fn quality(&mut self, reference: f64, place: usize) -> Quality {
        if self.information[place].is_nan() {
            self.inform(place, reference);
        }
        Quality { es_n0: reference * self.gains[place], information: self.information[place] }
    }

    /// Works out the information at `place`; where the step before was asked for too, that of the next ones with it.
    fn inform(&mut self, place: usize, reference: f64) {
        let follows = place > 0 && !self.information[place - 1].is_nan();
        if follows && let Some(gains) = self.gains[place..].first_chunk::<AHEAD>() {
            let known = informations(&gains.map(|gain| reference * gain));
            self.information[place..place + AHEAD].copy_from_slice(&known);
        } else {
            self.information[place] = Quality::of(reference * self.gains[place]).information;
        }
    }
}

impl User {
    fn block(&mut self, number: u64, kept: u64) -> &mut Block {
        // Of what is too long ago to be known, the oldest that is.
        let number = number.max(self.latest.saturating_sub(kept));
        let later = self.blocks.iter().rev().take_while(|block| block.number > number).count();
        let place = self.blocks.len() - later;
        if place > 0 && self.blocks[place - 1].number == number {
            return &mut self.blocks[place - 1];
        }
        self.latest = self.latest.max(number);
        let mut block = match self.blocks.front() {
            Some(oldest) if oldest.number + kept < self.latest => self.blocks.pop_front(),
            _ => None,
        }
        .unwrap_or(Block { number, gains: [0.0; BLOCK], information: [f64::NAN; BLOCK] });
        while self.blocks.front().is_some_and(|oldest| oldest.number + kept < self.latest) {
            self.blocks.pop_front();
        }
        block.number = number;
        block.information = [f64::NAN; BLOCK];
        self.fading.fill(number, &mut block.gains);
        let place = self.blocks.len() - later;
        self.blocks.insert(place, block);
        &mut self.blocks[place]
    }
}

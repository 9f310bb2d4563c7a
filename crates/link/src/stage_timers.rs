//! The deadlines of the stages of a simplex link, and the earliest next delivery.

use units::{Span, Time};

/// Indexes after those of the stages: updates that cause work, and feedback.
pub(crate) const STAGE_UPDATE: usize = 0;
pub(crate) const FEEDBACK: usize = 1;

/// The next deadline of each stage of a simplex link, and of work that belongs to no stage.
#[derive(Debug)]
pub(crate) struct StageTimers {
    stage_count: usize,
    /// Contiguous for the minimum search; [`STAGE_UPDATE`] and [`FEEDBACK`] follow the stages if in use.
    deadlines: Vec<Time>,
    /// The minimum delay from the output of each stage to the far end.
    min_remaining_delays: Vec<Span>,
    /// The earliest of all deadlines.
    next_deadline: Time,
    /// The stage with the earliest deadline; `None` if it is a pending arrival.
    next_stage: Option<usize>,
    /// The earliest time of the next delivery.
    next_delivery: Time,
}

impl StageTimers {
    /// Creates the timers of stages with deadlines `times` and unknown delays.
    pub fn new(times: Vec<Time>) -> StageTimers {
        let (stages, beyond) = (times.len(), vec![Span::ZERO; times.len()]);
        StageTimers {
            stage_count: stages,
            deadlines: times,
            min_remaining_delays: beyond,
            next_deadline: Time::MAX,
            next_stage: None,
            next_delivery: Time::MAX,
        }
    }

    /// Sets the minimum delay of each stage.
    pub fn set_min_delays(&mut self, delays: impl DoubleEndedIterator<Item = Span>) {
        let mut sum = Span::ZERO;
        self.min_remaining_delays.fill(sum);
        let spans = self.min_remaining_delays[..self.stage_count].iter_mut().rev();
        for (remaining, delay) in spans.zip(delays.rev()) {
            *remaining = sum;
            sum += delay;
        }
    }

    /// Returns the deadline of the stage at `index`.
    #[inline]
    pub fn deadline(&self, index: usize) -> Time {
        self.deadlines[index]
    }

    /// Sets the deadline of the stage at `index`.
    #[inline]
    pub fn set_deadline(&mut self, index: usize, at: Time) {
        self.deadlines[index] = at;
    }

    /// Sets the deadline of work that belongs to no stage: [`STAGE_UPDATE`] or [`FEEDBACK`].
    pub fn set_extra_deadline(&mut self, which: usize, at: Time) {
        let index = self.stage_count + which;
        if self.deadlines.len() <= index {
            self.deadlines.resize(index + 1, Time::MAX);
            self.min_remaining_delays.resize(index + 1, Span::ZERO);
        }
        self.deadlines[index] = at;
    }

    /// Returns the time of the next work; [`Time::MAX`] without work.
    #[inline]
    pub fn next_deadline(&self) -> Time {
        self.next_deadline
    }

    /// Returns the index of the next work; `None` for a pending arrival.
    #[inline]
    pub fn next_stage(&self) -> Option<usize> {
        self.next_stage
    }

    /// Returns a lower bound for the next delivery, at or after [`StageTimers::next_deadline`].
    #[inline]
    pub fn next_delivery(&self) -> Time {
        self.next_delivery
    }

    /// Finds the earliest deadline. A pending packet enters a stage at `next_arrival`.
    #[inline]
    pub fn update(&mut self, next_arrival: Time) {
        let (mut next, mut stage, mut next_delivery) = (Time::MAX, None, next_arrival);
        for (index, (deadline, remaining)) in
            self.deadlines.iter().zip(&self.min_remaining_delays).enumerate()
        {
            if *deadline < next {
                (next, stage) = (*deadline, Some(index));
            }
            next_delivery = next_delivery.min(*deadline + *remaining);
        }
        if next_arrival < next {
            (next, stage) = (next_arrival, None);
        }
        (self.next_deadline, self.next_stage, self.next_delivery) = (next, stage, next_delivery);
    }
}

//! A link: both directions in one state machine, because stages of one may answer those of the other.

use units::{Direction, Packet, Random, Span, Time};

use crate::departures::Heap;
use crate::{Change, Feedback, Line, Output};

/// A stage of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its direction.
    pub direction: Direction,
    /// Its index there.
    pub stage: usize,
}

/// How what one stage tells comes to another, or to itself: a transmitter that models both of its sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WireSpec {
    /// Who tells.
    pub from: Place,
    /// Who hears it.
    pub to: Place,
    /// How much later; more than zero.
    pub delay: Span,
    /// Chance that it never does.
    pub loss: f64,
}

/// What was told over a link since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Feedback on each wire.
    pub sent: u64,
    /// Of that, what was lost.
    pub lost: u64,
}

/// A link of two [`Line`]s and the feedback between their stages.
///
/// Feedback is an event with a due time: what a stage tells at an instant is heard later ([`WireSpec::delay`]), or
/// lost. Work is done in order of its due time, whenever the caller comes, so that a late [`Link::poll`] gives the same
/// packets with the same stamps. At one instant: first the scheduled changes of a line, then the feedback that its stages
/// hear, in the order in which it was told, then its own work as [`Line`] has it, upwards before downwards, then
/// arrivals. As feedback takes time, the directions do not touch each other within an instant; what they tell at
/// one is ordered so: in hearing, in work (upwards, downwards), in taking arrivals, and within each by wire.
///
/// Without wires a link is its two lines, each as if it were alone.
///
/// Call [`Link::push`] with instants that do not run backwards (with wires over both directions together, without
/// within each), [`Link::poll`] at or after [`Link::poll_at`], and [`Link::change`] for a live change. Everything else
/// is a getter.
pub struct Link {
    lines: [Line; 2],
    /// The stages to which somebody listens.
    sources: Vec<Source>,
    /// What was told and is not heard yet, and by whom it will be.
    under_way: Heap<(Place, Feedback)>,
    told: Told,
}

struct Source {
    from: Place,
    wires: Vec<(WireSpec, Random)>,
}

impl Link {
    /// A link whose stages do not hear each other.
    pub fn of(up: Line, down: Line) -> Link {
        Link {
            lines: [up, down],
            sources: Vec::new(),
            under_way: Heap::default(),
            told: Told::default(),
        }
    }

    /// From now on the stage `wire.to` hears what `wire.from` tells. `random` draws once for each, whatever the
    /// chance of loss.
    ///
    /// # Panics
    /// If there is no such stage, or the feedback would take no time.
    pub fn wire(&mut self, wire: WireSpec, random: Random) {
        assert!(wire.delay > Span::ZERO, "feedback takes time");
        for place in [wire.from, wire.to] {
            let stages = self.lines[place.direction as usize].stage_count();
            assert!(place.stage < stages, "no stage {} in this direction", place.stage);
        }
        self.lines[wire.from.direction as usize].listen(wire.from.stage);
        match self.sources.iter_mut().find(|source| source.from == wire.from) {
            Some(source) => source.wires.push((wire, random)),
            None => self.sources.push(Source { from: wire.from, wires: vec![(wire, random)] }),
        }
    }

    /// A packet arrives in `direction` at `due`, after all own work due by then.
    pub fn push(&mut self, direction: Direction, due: Time, packet: Packet, out: &mut [Output; 2]) {
        if !self.sources.is_empty() {
            self.advance(due, out);
        }
        self.lines[direction as usize].push(due, packet, &mut out[direction as usize]);
        self.collect(direction);
    }

    /// Does all work due by `now`; `out` is what left upwards and downwards.
    pub fn poll(&mut self, now: Time, out: &mut [Output; 2]) {
        if self.sources.is_empty() {
            for (line, out) in self.lines.iter_mut().zip(out) {
                line.poll(now, out);
            }
        } else {
            self.advance(now, out);
        }
    }

    /// When there is work next; [`Time::MAX`]: nothing is inside, and nothing told is under way.
    pub fn poll_at(&self) -> Time {
        let [up, down] = &self.lines;
        up.poll_at().min(down.poll_at()).min(self.under_way.next())
    }

    /// As [`Line::change`] of `direction`.
    ///
    /// # Panics
    /// If there is no such stage.
    pub fn change(&mut self, place: Place, due: Time, change: &Change) {
        self.lines[place.direction as usize].change(due, place.stage, change);
    }

    /// One direction.
    pub fn line(&self, direction: Direction) -> &Line {
        &self.lines[direction as usize]
    }

    /// What was told since the start.
    pub fn told(&self) -> Told {
        self.told
    }

    /// Does all work due by `now`, instant by instant: what is told at one is heard at a later one.
    fn advance(&mut self, now: Time, out: &mut [Output; 2]) {
        loop {
            let due = self.poll_at();
            if due > now || due == Time::MAX {
                return;
            }
            while let Some((_, (to, feedback))) = self.under_way.pop(due) {
                let side = to.direction as usize;
                self.lines[side].hear(due, to.stage, &feedback, &mut out[side]);
                self.collect(to.direction);
            }
            for direction in [Direction::Up, Direction::Down] {
                let line = &mut self.lines[direction as usize];
                if line.poll_at() <= due {
                    line.poll(due, &mut out[direction as usize]);
                    self.collect(direction);
                }
            }
            if self.poll_at() <= due {
                // A stage has not done all its work: the caller sees by `poll_at` that the link does not
                // get past this instant.
                return;
            }
        }
    }

    /// Sends what the stages of `direction` have told on its way.
    fn collect(&mut self, direction: Direction) {
        let line = &mut self.lines[direction as usize];
        for Source { from, wires } in &mut self.sources {
            if from.direction != direction {
                continue;
            }
            for (at, feedback) in line.take_told(from.stage) {
                for (wire, random) in wires.iter_mut() {
                    self.told.sent += 1;
                    if random.chance(wire.loss) {
                        self.told.lost += 1;
                    } else {
                        self.under_way.push(at + wire.delay, (wire.to, feedback));
                    }
                }
            }
        }
    }
}

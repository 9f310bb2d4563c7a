//! Makes a line from its specification: its stages, its scheduled changes, and what it cannot beat.

use std::cell::Cell;

use units::{Span, Time};

use crate::blueprint::Place;
use crate::{Change, Deciders, Line, SpecError, StageSpec, Wire};

/// The line `name` of run `seed`, but for its scheduled changes and bounds.
pub(crate) fn line(
    specs: &[StageSpec],
    name: &str,
    seed: u64,
    deciders: &Deciders<'_>,
) -> Result<Line, SpecError> {
    let (mut stages, mut wires) = (Vec::with_capacity(specs.len()), Vec::new());
    for (index, spec) in specs.iter().enumerate() {
        let blueprint = spec.blueprint();
        let kind = blueprint.kind();
        let wrong = |message| SpecError::new(format!("{name} stage {index} ({kind})"), message);
        blueprint.check().map_err(wrong)?;
        let decider = match blueprint.own() {
            Some(own) => Some(
                deciders(own, name, seed)
                    .ok_or_else(|| wrong(format!("there is no scheduler {:?}", own.called)))?,
            ),
            None => None,
        };
        // The index enters the stream's name only if a direction has several stages of a kind, so
        // that inserting another stage leaves the chance of this one as it was.
        let several = specs.iter().filter(|other| other.blueprint().kind() == kind).count() > 1;
        let purpose = if several { format!("{kind}.{index}") } else { kind.to_owned() };
        let place = Place { line: name, seed, purpose, decider: Cell::new(decider) };
        if let Some(spec) = blueprint.feedback() {
            wires.push((Wire { from: index, to: index, spec }, place.feedback()));
        }
        stages.push(blueprint.make(&place));
    }
    let mut line = Line::of(stages);
    for (wire, random) in wires {
        line.wire(wire, random);
    }
    Ok(line)
}

/// The scheduled changes of all stages in order of time, ties by stage.
pub(crate) fn changes(specs: &[StageSpec]) -> Vec<(Time, usize, Change)> {
    let mut all = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        all.extend(spec.blueprint().changes().into_iter().map(|(at, change)| (at, index, change)));
    }
    all.sort_by_key(|(at, _, _)| *at);
    all
}

/// What each stage of a line cannot do better than, over all its scheduled and live changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    /// Smallest constant delay per stage; none: the stage has no such delay.
    delays: Vec<Option<u64>>,
    /// Largest rate per stage; none: no transmitter.
    rates: Vec<Option<u64>>,
}

impl Bounds {
    pub fn propagation_ns(&self) -> u64 {
        self.delays.iter().flatten().sum()
    }

    /// Of each stage how long a packet is in it at the least.
    pub fn delays(&self) -> impl DoubleEndedIterator<Item = Span> {
        self.delays.iter().map(|delay| Span(delay.unwrap_or(0)))
    }

    pub fn rate_bit_s(&self) -> Option<u64> {
        self.rates.iter().flatten().copied().min()
    }

    /// Takes a change of stage `index` into account.
    pub fn widen(&mut self, index: usize, change: &Change) {
        match change {
            Change::Delay(delay) => {
                if let Some(Some(least)) = self.delays.get_mut(index) {
                    *least = (*least).min(delay.nanos());
                }
            }
            Change::Rate(rate) => {
                if let Some(Some(most)) = self.rates.get_mut(index) {
                    *most = (*most).max(rate.bits_per_second());
                }
            }
            Change::Loss(_) | Change::Limit(_) | Change::InFlight(_) | Change::Serves(_) => {}
        }
    }
}

/// The bounds of a list of stages.
pub(crate) fn bounds(specs: &[StageSpec]) -> Bounds {
    let mut bounds = Bounds {
        delays: specs.iter().map(|spec| spec.blueprint().least_delay_ns()).collect(),
        rates: specs.iter().map(|spec| spec.blueprint().most_rate_bit_s()).collect(),
    };
    for (_, index, change) in changes(specs) {
        bounds.widen(index, &change);
    }
    bounds
}

//! The stages of a simplex link, their scheduled updates and their bounds, from a list of specifications.

use std::cell::Cell;

use units::{RandomStream, Span, Time};

use crate::stage_factory::BuildContext;
use crate::{ExternalSchedulers, FeedbackChannel, SpecError, Stage, StageSpec, StageUpdate};

/// Stages, and the feedback channels between them with their random streams.
pub(crate) type StageChain = (Vec<Box<dyn Stage>>, Vec<(FeedbackChannel, RandomStream)>);

/// Builds the stages of the simplex link `name` of run `seed`.
pub(crate) fn build_stages(
    specs: &[StageSpec],
    name: &str,
    seed: u64,
    schedulers: &ExternalSchedulers<'_>,
) -> Result<StageChain, SpecError> {
    let (mut stages, mut channels) = (Vec::with_capacity(specs.len()), Vec::new());
    for (index, spec) in specs.iter().enumerate() {
        let blueprint = spec.factory();
        let kind = blueprint.kind();
        let wrong = |message| SpecError::new(format!("{name} stage {index} ({kind})"), message);
        blueprint.validate().map_err(wrong)?;
        let external_scheduler = match blueprint.external_scheduler() {
            Some(external) => Some(schedulers(external, name, seed).ok_or_else(|| {
                wrong(format!("there is no scheduler {:?}", external.scheduler_name))
            })?),
            None => None,
        };
        // The index is part of the stream's name only if a direction has several stages of a kind. The insertion of
        // another stage therefore does not change the random stream of this one.
        let several = specs.iter().filter(|other| other.factory().kind() == kind).count() > 1;
        let purpose = if several { format!("{kind}.{index}") } else { kind.to_owned() };
        let context = BuildContext {
            link_name: name,
            seed,
            purpose,
            external_scheduler: Cell::new(external_scheduler),
        };
        if let Some(spec) = blueprint.feedback() {
            channels.push((
                FeedbackChannel { from: index, to: index, spec },
                context.feedback_stream(),
            ));
        }
        stages.push(blueprint.build(&context));
    }
    Ok((stages, channels))
}

/// Returns the scheduled updates of all stages in order of time, ties by stage.
pub(crate) fn scheduled_updates(specs: &[StageSpec]) -> Vec<(Time, usize, StageUpdate)> {
    let mut all = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        all.extend(
            spec.factory().scheduled_updates().into_iter().map(|(at, update)| (at, index, update)),
        );
    }
    all.sort_by_key(|(at, _, _)| *at);
    all
}

/// The best possible delay and rate of each stage, over all scheduled and live updates.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkBounds {
    /// Smallest constant delay per stage; `None` for a stage without such a delay.
    min_delays: Vec<Option<u64>>,
    /// Largest delay per stage without queueing; `None` if no maximum is known.
    max_delays: Vec<Option<u64>>,
    /// Largest rate per stage; `None` for a stage without a transmitter.
    max_rates: Vec<Option<u64>>,
}

impl LinkBounds {
    pub fn propagation_ns(&self) -> u64 {
        self.min_delays.iter().flatten().sum()
    }

    /// Returns the largest delay without queueing; `None` if a stage has no known maximum.
    pub fn max_propagation_ns(&self) -> Option<u64> {
        self.max_delays.iter().copied().sum()
    }

    /// Returns the minimum delay of a packet in each stage.
    pub fn min_delays(&self) -> impl DoubleEndedIterator<Item = Span> {
        self.min_delays.iter().map(|delay| Span(delay.unwrap_or(0)))
    }

    pub fn rate_bit_s(&self) -> Option<u64> {
        self.max_rates.iter().flatten().copied().min()
    }

    /// Includes an update of stage `index` in the bounds.
    pub fn widen(&mut self, index: usize, update: &StageUpdate) {
        match update {
            StageUpdate::Delay(delay) => {
                if let Some(Some(least)) = self.min_delays.get_mut(index) {
                    *least = (*least).min(delay.nanos());
                }
                if let Some(Some(most)) = self.max_delays.get_mut(index) {
                    *most = (*most).max(delay.nanos());
                }
            }
            StageUpdate::Rate(rate) => {
                if let Some(Some(most)) = self.max_rates.get_mut(index) {
                    *most = (*most).max(rate.bits_per_second());
                }
            }
            StageUpdate::Loss(_)
            | StageUpdate::Limit(_)
            | StageUpdate::InFlight(_)
            | StageUpdate::Enabled(_) => {}
        }
    }
}

/// Returns the bounds of a list of stages.
pub(crate) fn link_bounds(specs: &[StageSpec]) -> LinkBounds {
    let mut bounds = LinkBounds {
        min_delays: specs.iter().map(|spec| spec.factory().min_delay_ns()).collect(),
        max_delays: specs.iter().map(|spec| spec.factory().max_delay_ns()).collect(),
        max_rates: specs.iter().map(|spec| spec.factory().max_rate_bit_s()).collect(),
    };
    for (_, index, update) in scheduled_updates(specs) {
        bounds.widen(index, &update);
    }
    bounds
}

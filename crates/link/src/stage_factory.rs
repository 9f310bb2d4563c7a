//! The factory of a stage: validates the specification and builds the stage. Each stage implements it in its own file.
//! From its stages, this file builds a simplex link, its scheduled updates and its bounds.

use std::cell::Cell;

use units::{RandomStream, Span, Time};

use crate::{
    ExternalScheduler, ExternalSchedulerSpec, ExternalSchedulers, FeedbackChannel, FeedbackSpec,
    SimplexLink, SpecError, Stage, StageSpec, StageUpdate,
};

/// The result of a validation: a message for the user, or success.
pub(crate) type ValidationResult = Result<(), String>;

/// The specification of a stage, as seen by its simplex link.
pub(crate) trait StageFactory {
    /// Returns the name of the kind, as in the specification.
    fn kind(&self) -> &'static str;

    /// Validates the specification.
    fn validate(&self) -> ValidationResult {
        Ok(())
    }

    /// Builds the stage. The specification must be valid.
    fn build(&self, context: &BuildContext) -> Box<dyn Stage>;

    /// Returns the external scheduler that the stage needs.
    fn external_scheduler(&self) -> Option<&ExternalSchedulerSpec> {
        None
    }

    /// Returns the delay and the loss probability of the stage's feedback to itself.
    fn feedback(&self) -> Option<FeedbackSpec> {
        None
    }

    /// Returns whether the stage supports an update.
    fn supports(&self, _update: &StageUpdate) -> bool {
        false
    }

    /// Returns the scheduled updates of the stage, in order of time.
    fn scheduled_updates(&self) -> Vec<(Time, StageUpdate)> {
        Vec::new()
    }

    /// Returns the smallest delay before any update; `None` if no minimum is known.
    fn min_delay_ns(&self) -> Option<u64> {
        None
    }

    /// Returns the largest rate before any update; `None` for a stage without a transmitter.
    fn max_rate_bit_s(&self) -> Option<u64> {
        None
    }
}

/// The context in which a stage is built. It names the random streams of the stage.
pub(crate) struct BuildContext<'a> {
    /// The simplex link, `"<link>.up"` or `"<link>.down"`.
    pub link_name: &'a str,
    /// The seed of the run.
    pub seed: u64,
    /// The name of the stage within its simplex link.
    pub purpose: String,
    /// The external scheduler, until the stage takes it.
    pub external_scheduler: Cell<Option<Box<dyn ExternalScheduler>>>,
}

impl BuildContext<'_> {
    /// Returns the random stream of the stage.
    pub fn random_stream(&self) -> RandomStream {
        RandomStream::named(self.seed, self.link_name, &self.purpose)
    }

    /// Returns the random stream of the stage's feedback to itself.
    pub fn feedback_stream(&self) -> RandomStream {
        RandomStream::named(self.seed, self.link_name, &format!("{}.feedback", self.purpose))
    }
}

/// Builds the simplex link `name` of run `seed`, without its scheduled updates and bounds.
pub(crate) fn build_link(
    specs: &[StageSpec],
    name: &str,
    seed: u64,
    schedulers: &ExternalSchedulers<'_>,
) -> Result<SimplexLink, SpecError> {
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
    let mut link = SimplexLink::from_stages(stages);
    for (channel, random) in channels {
        link.add_feedback(channel, random);
    }
    Ok(link)
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
    /// Largest rate per stage; `None` for a stage without a transmitter.
    max_rates: Vec<Option<u64>>,
}

impl LinkBounds {
    pub fn propagation_ns(&self) -> u64 {
        self.min_delays.iter().flatten().sum()
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
                if let Some(Some(min_delay)) = self.min_delays.get_mut(index) {
                    *min_delay = (*min_delay).min(delay.nanos());
                }
            }
            StageUpdate::Rate(rate) => {
                if let Some(Some(max_rate)) = self.max_rates.get_mut(index) {
                    *max_rate = (*max_rate).max(rate.bits_per_second());
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
        max_rates: specs.iter().map(|spec| spec.factory().max_rate_bit_s()).collect(),
    };
    for (_, index, update) in scheduled_updates(specs) {
        bounds.widen(index, &update);
    }
    bounds
}

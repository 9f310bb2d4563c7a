//! The stages with a queue and a transmitter: constant or variable rate, radio, 5G, adaptive coding.

use units::{Rate, Time};

use crate::checks::ValidationResult;
use crate::stage_factory::{BuildContext, StageFactory};
use crate::{
    Acm, AcmSpec, Arq, Channel, ChannelSpec, DropTail, ExternalSchedulerSpec, FeedbackSpec,
    FixedChannel, InFlightPolicy, NrLink, NrSpec, Queue, QueueSpec, RadioSpec, RateService,
    ReorderingSpec, ServiceProcess, ServiceSpec, SlotRate, Stage, StageUpdate, TraceService,
    TransmitSpec, Transmitter, validate,
};

impl StageFactory for TransmitSpec {
    fn kind(&self) -> &'static str {
        "transmit"
    }

    fn validate(&self) -> ValidationResult {
        self.queue.factory().validate()?;
        validate::service(&self.service)
    }

    fn build(&self, context: &BuildContext) -> Box<dyn Stage> {
        match (&self.queue, &self.service) {
            // The most frequent pair has a concrete type, without dynamic dispatch. All other pairs share one type,
            // because each type is compiled separately.
            (QueueSpec::DropTail(queue), ServiceSpec::Rate { rate_bit_s, .. }) => Box::new(
                Transmitter::new(DropTail::new(queue.limit), RateService::new(Rate(*rate_bit_s))),
            ),
            (queue_spec, service_spec) => Box::new(Transmitter::with_channel(
                queue_spec.factory().build(context),
                build_service(service_spec, context),
                build_channel(None, context),
            )),
        }
    }

    fn external_scheduler(&self) -> Option<&ExternalSchedulerSpec> {
        self.queue.factory().external_scheduler()
    }

    fn supports(&self, update: &StageUpdate) -> bool {
        match update {
            StageUpdate::Rate(_) | StageUpdate::Enabled(_) => {
                matches!(self.service, ServiceSpec::Rate { .. })
            }
            _ => queue_supports(&self.queue, update),
        }
    }

    fn scheduled_updates(&self) -> Vec<(Time, StageUpdate)> {
        let ServiceSpec::Rate { changes, .. } = &self.service else { return Vec::new() };
        changes.iter().map(|c| (Time(c.at_ns), StageUpdate::Rate(Rate(c.rate_bit_s)))).collect()
    }

    fn max_rate_bit_s(&self) -> Option<u64> {
        match &self.service {
            ServiceSpec::Rate { rate_bit_s, .. } => Some(*rate_bit_s),
            ServiceSpec::Reconfiguration { rate_bit_s, .. } => rate_bit_s.last().copied(),
            ServiceSpec::Trace { opportunities_ns, opportunity_bytes, repeat_ns } => {
                let bits = opportunities_ns.len() as u128 * u128::from(*opportunity_bytes) * 8;
                Some((bits * 1_000_000_000).div_ceil(u128::from(*repeat_ns)) as u64)
            }
        }
    }
}

impl StageFactory for RadioSpec {
    fn kind(&self) -> &'static str {
        "radio"
    }

    fn validate(&self) -> ValidationResult {
        self.check()
    }

    fn build(&self, context: &BuildContext) -> Box<dyn Stage> {
        let channel = build_channel(self.channel.as_ref(), context);
        let arq = Arq::new(&self.link_layer, self.channel.as_ref(), context.random_stream());
        build_radio(self.queue.factory().build(context), Box::new(arq), channel, self.reordering)
    }

    fn feedback(&self) -> Option<FeedbackSpec> {
        self.link_layer.feedback
    }

    fn external_scheduler(&self) -> Option<&ExternalSchedulerSpec> {
        self.queue.factory().external_scheduler()
    }

    fn supports(&self, update: &StageUpdate) -> bool {
        matches!(update, StageUpdate::Rate(_)) || queue_supports(&self.queue, update)
    }

    fn max_rate_bit_s(&self) -> Option<u64> {
        Some(self.link_layer.max_goodput_bit_s())
    }

    fn max_delay_ns(&self) -> Option<u64> {
        None
    }
}

impl StageFactory for NrSpec {
    fn kind(&self) -> &'static str {
        "nr"
    }

    fn validate(&self) -> ValidationResult {
        if matches!(self.queue, QueueSpec::PerUser(_)) {
            return Err("the bearer of one terminal has one queue for all".into());
        }
        self.queue.factory().validate()?;
        NrSpec::validate(self)
    }

    fn build(&self, context: &BuildContext) -> Box<dyn Stage> {
        let channel = build_channel(self.channel.as_ref(), context);
        Box::new(NrLink::new(
            self,
            self.queue.factory().build(context),
            channel,
            context.random_stream(),
        ))
    }

    fn feedback(&self) -> Option<FeedbackSpec> {
        self.feedback
    }

    fn supports(&self, update: &StageUpdate) -> bool {
        queue_supports(&self.queue, update)
    }

    fn max_rate_bit_s(&self) -> Option<u64> {
        Some(self.max_goodput_bit_s())
    }

    fn max_delay_ns(&self) -> Option<u64> {
        None
    }
}

impl StageFactory for AcmSpec {
    fn kind(&self) -> &'static str {
        "acm"
    }

    fn validate(&self) -> ValidationResult {
        self.queue.factory().validate()?;
        AcmSpec::validate(self)
    }

    fn build(&self, context: &BuildContext) -> Box<dyn Stage> {
        let channel = self.channel.factory().build(context.link_name, context.seed);
        build_radio(self.queue.factory().build(context), Box::new(Acm::new(self)), channel, None)
    }

    fn external_scheduler(&self) -> Option<&ExternalSchedulerSpec> {
        self.queue.factory().external_scheduler()
    }

    fn supports(&self, update: &StageUpdate) -> bool {
        queue_supports(&self.queue, update)
    }

    fn max_rate_bit_s(&self) -> Option<u64> {
        Some(AcmSpec::max_rate_bit_s(self))
    }
}

/// Builds the channel; without a specification it has no noise.
fn build_channel(spec: Option<&ChannelSpec>, context: &BuildContext) -> Box<dyn Channel> {
    match spec {
        Some(spec) => spec.factory().build(context.link_name, context.seed),
        None => Box::new(FixedChannel::PERFECT),
    }
}

/// Returns whether a queue supports `update`. A handover can drop queued packets but not reorder them.
fn queue_supports(queue: &QueueSpec, update: &StageUpdate) -> bool {
    match update {
        StageUpdate::Limit(limit) => queue.factory().supports_limit(*limit),
        StageUpdate::InFlight(policy) => *policy == InFlightPolicy::Drop,
        _ => false,
    }
}

/// Builds a radio link with statistics per user.
fn build_radio(
    queue: Box<dyn Queue>,
    service: Box<dyn ServiceProcess>,
    channel: Box<dyn Channel>,
    reordering: Option<ReorderingSpec>,
) -> Box<dyn Stage> {
    let transmitter = Transmitter::with_channel(queue, service, channel).with_user_stats();
    Box::new(match reordering {
        None => transmitter,
        Some(spec) => transmitter.with_reordering(spec),
    })
}

fn build_service(spec: &ServiceSpec, context: &BuildContext) -> Box<dyn ServiceProcess> {
    match spec {
        ServiceSpec::Rate { rate_bit_s, .. } => Box::new(RateService::new(Rate(*rate_bit_s))),
        ServiceSpec::Trace { opportunities_ns, opportunity_bytes, repeat_ns } => {
            Box::new(TraceService::new(opportunities_ns, *opportunity_bytes, *repeat_ns))
        }
        ServiceSpec::Reconfiguration { reconfiguration, rate_bit_s } => {
            Box::new(SlotRate::new(*reconfiguration, rate_bit_s, context.link_name, context.seed))
        }
    }
}

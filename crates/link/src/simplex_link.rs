//! A simplex link: one direction of a link, a chain of stages that processes its events in order of time.

use std::collections::VecDeque;

use units::{Packet, RandomStream, Time};

use crate::delay_queue::DelayHeap;
use crate::feedback::{FeedbackChannel, FeedbackChannels, FeedbackStats};
use crate::link_output::record_step;
use crate::stage_chain::{self, LinkBounds};
use crate::stage_timers::{FEEDBACK, STAGE_UPDATE, StageTimers};
use crate::{
    DropReason, ExternalSchedulers, Histogram, InFlightPolicy, LinkCounters, LinkOutput,
    QueueGauge, SpecError, Stage, StageOutput, StageSpec, StageStep, StageUpdate,
    TransmissionAttempt, UserLinkStats, UserQueueStats,
};

/// One direction of a link.
///
/// A simplex link processes work in order of its due time. A late [`SimplexLink::poll`] therefore gives the same
/// packets with the same stamps. At one instant, scheduled updates precede feedback ([`SimplexLink::add_feedback`]),
/// which is delivered in the order in which it was sent. The work of the stages from first to last follows, then
/// arrivals. Within the chain, too, a stage does its work of an instant before it accepts a packet that arrives at that
/// instant. Feedback has a delay greater than zero.
///
/// Call [`SimplexLink::push`] with monotonic times, [`SimplexLink::poll`] at or after [`SimplexLink::poll_at`], and
/// [`SimplexLink::schedule_update`] for a live update. The other methods read state.
pub struct SimplexLink {
    stages: Vec<StageEntry>,
    /// The next deadlines of the stages and of [`SimplexLink::pending`].
    timers: StageTimers,
    /// Packets that a stage has emitted with a due time in the future, with the index of the stage that they enter
    /// next.
    pending: DelayHeap<(usize, Packet)>,
    /// Future updates, in order of time.
    scheduled_updates: VecDeque<(Time, usize, StageUpdate)>,
    /// The time of the first of them.
    next_update_at: Time,
    /// Feedback channels between the stages; `None` without any.
    feedback: Option<Box<FeedbackChannels>>,
    counters: LinkCounters,
    /// Number of instants with work, and the last of them.
    work_instants: u64,
    last_work_at: Time,
    bounds: LinkBounds,
    /// All steps since the last call of `take_steps`; `None` unless they are recorded.
    steps: Option<Vec<StageStep>>,
}

struct StageEntry {
    stage: Box<dyn Stage>,
    output: StageOutput,
}

impl SimplexLink {
    /// Builds the simplex link `name` (`"<link>.up"` or `"<link>.down"`, the key of its random streams) of run `seed`.
    /// Without stages, the delay is zero and the rate unlimited.
    pub fn build(stages: &[StageSpec], name: &str, seed: u64) -> Result<SimplexLink, SpecError> {
        SimplexLink::build_with(stages, name, seed, &|_, _, _| None)
    }

    /// Builds the simplex link with external schedulers.
    pub fn build_with(
        stages: &[StageSpec],
        name: &str,
        seed: u64,
        schedulers: &ExternalSchedulers<'_>,
    ) -> Result<SimplexLink, SpecError> {
        let (built, channels) = stage_chain::build_stages(stages, name, seed, schedulers)?;
        let mut link = SimplexLink::from_stages(built);
        for (channel, random) in channels {
            link.add_feedback(channel, random);
        }
        link.scheduled_updates = stage_chain::scheduled_updates(stages).into();
        link.refresh_next_update();
        link.bounds = stage_chain::link_bounds(stages);
        link.update_min_delays();
        Ok(link)
    }

    /// Builds a simplex link from existing stages, without scheduled updates and known bounds.
    pub fn from_stages(stages: Vec<Box<dyn Stage>>) -> SimplexLink {
        let mut link = SimplexLink {
            timers: StageTimers::new(stages.iter().map(|stage| stage.poll_at()).collect()),
            stages: stages
                .into_iter()
                .map(|stage| StageEntry { stage, output: StageOutput::default() })
                .collect(),
            pending: DelayHeap::default(),
            scheduled_updates: VecDeque::new(),
            next_update_at: Time::MAX,
            feedback: None,
            counters: LinkCounters::default(),
            work_instants: 0,
            last_work_at: Time::MAX,
            bounds: LinkBounds::default(),
            steps: None,
        };
        link.update_timers();
        link
    }

    /// Enables recording: every step of every packet for [`SimplexLink::take_steps`], and every attempt of a radio link
    /// for [`SimplexLink::take_attempts`].
    pub fn record_steps(&mut self) {
        self.steps = Some(Vec::new());
        for StageEntry { output, .. } in &mut self.stages {
            output.attempts = Some(Vec::new());
        }
    }

    /// Returns the steps since the last call, in the order of their execution.
    pub fn take_steps(&mut self) -> impl Iterator<Item = StageStep> {
        self.steps.iter_mut().flat_map(|steps| steps.drain(..))
    }

    /// Returns the attempts since the last call with their stage; those of one stage are in order of their begin.
    pub fn take_attempts(&mut self) -> impl Iterator<Item = (usize, TransmissionAttempt)> {
        self.stages.iter_mut().enumerate().flat_map(|(index, StageEntry { output, .. })| {
            let attempts = output.attempts.iter_mut().flat_map(|attempts| attempts.drain(..));
            attempts.map(move |attempt| (index, attempt))
        })
    }

    /// Accepts a packet that arrives at `due`, after all work due by then.
    #[inline]
    pub fn push(&mut self, due: Time, packet: Packet, out: &mut LinkOutput) {
        if self.timers.next_deadline().min(self.next_update_at) <= due {
            self.advance(due, out);
        }
        self.counters.arrived_packets += 1;
        self.counters.arrived_bytes += u64::from(packet.bytes);
        self.arrive(0, due, packet, out);
        self.collect_feedback();
        self.update_timers();
        if self.timers.next_deadline() <= due {
            self.advance(due, out);
        }
    }

    /// Does all work due by `now`.
    #[inline]
    pub fn poll(&mut self, now: Time, out: &mut LinkOutput) {
        self.advance(now, out);
    }

    /// Moves `packet` from the delivered to the dropped counters, because the next node has no route for it.
    pub fn count_no_route_drop(&mut self, packet: &Packet) {
        self.counters.delivered_packets -= 1;
        self.counters.delivered_bytes -= u64::from(packet.bytes);
        self.counters.dropped_packets[DropReason::NoRoute as usize] += 1;
        self.counters.dropped_bytes[DropReason::NoRoute as usize] += u64::from(packet.bytes);
    }

    /// Returns the time of the next work; [`Time::MAX`] if the link is empty. Scheduled updates do not count, unless
    /// they drop packets or enable a transmitter. The others are applied before the first packet that they affect.
    pub fn poll_at(&self) -> Time {
        self.timers.next_deadline()
    }

    /// Returns a lower bound for the next delivery. It can be later than [`SimplexLink::poll_at`] if the work in
    /// between delivers no packet. A caller that polls only then misses no delivery but sees drops late. Counters and
    /// gauges are those of the last call.
    pub fn next_delivery_at(&self) -> Time {
        // Recorded steps require a poll per step, so that the steps of all simplex links are in order of time.
        if self.steps.is_some() { self.timers.next_deadline() } else { self.timers.next_delivery() }
    }

    /// Applies the minimum delays of the stages, which became known or smaller.
    fn update_min_delays(&mut self) {
        self.timers.set_min_delays(self.bounds.min_delays());
        self.update_timers();
    }

    /// Schedules `update` of the stage at `stage_index` for `due`, like an update of the specification. It follows work
    /// due earlier and precedes work due at the same instant, unless that work is already done. Updates of one instant
    /// are applied in order of the calls.
    ///
    /// # Panics If there is no such stage.
    pub fn schedule_update(&mut self, due: Time, stage_index: usize, update: &StageUpdate) {
        assert!(stage_index < self.stages.len(), "no stage {stage_index} in this line");
        self.bounds.widen(stage_index, update);
        self.update_min_delays();
        let position = self.scheduled_updates.partition_point(|(at, _, _)| *at <= due);
        self.scheduled_updates.insert(position, (due, stage_index, *update));
        self.refresh_next_update();
        if causes_work(update) {
            self.arm_update_timer();
        }
    }

    fn refresh_next_update(&mut self) {
        self.next_update_at = self.scheduled_updates.front().map_or(Time::MAX, |(at, _, _)| *at);
    }

    /// Applies the next scheduled update.
    #[cold]
    fn apply_next_update(&mut self, out: &mut LinkOutput) {
        let Some((at, index, update)) = self.scheduled_updates.pop_front() else { return };
        self.refresh_next_update();
        self.apply_update(at, index, &update, out);
    }

    /// Sets the timer for the next update that causes work: it drops packets or enables a transmitter.
    #[cold]
    #[inline(never)]
    fn arm_update_timer(&mut self) {
        let next = self.scheduled_updates.iter().find(|(_, _, update)| causes_work(update));
        let at = next.map_or(Time::MAX, |(at, _, _)| *at);
        self.timers.set_extra_deadline(STAGE_UPDATE, at);
        self.update_timers();
    }

    /// Adds a feedback channel from stage `channel.from` to stage `channel.to`. `random` draws once per message, for
    /// every loss probability.
    ///
    /// # Panics If there is no such stage, or if the delay is zero.
    pub fn add_feedback(&mut self, channel: FeedbackChannel, random: RandomStream) {
        assert!(channel.spec.delay_ns > 0, "feedback takes time");
        for index in [channel.from, channel.to] {
            assert!(index < self.stages.len(), "no stage {index} in this line");
        }
        self.stages[channel.from].output.feedback.get_or_insert_default();
        self.feedback.get_or_insert_default().add(channel, random);
    }

    /// Returns the feedback counters since the start.
    pub fn feedback_stats(&self) -> FeedbackStats {
        self.feedback.as_ref().map_or(FeedbackStats::default(), |channels| channels.stats())
    }

    /// Sends the pending feedback of the stages.
    #[inline]
    fn collect_feedback(&mut self) {
        if self.feedback.is_some() {
            self.send_feedback();
        }
    }

    #[inline(never)]
    fn send_feedback(&mut self) {
        let Some(channels) = &mut self.feedback else { return };
        let stages = &mut self.stages;
        channels.send_pending(|from, list| {
            list.extend(
                stages[from].output.feedback.iter_mut().flat_map(|feedback| feedback.drain(..)),
            )
        });
        let next = channels.next_due();
        self.timers.set_extra_deadline(FEEDBACK, next);
    }

    /// Delivers the feedback due at `due` to the stages.
    fn deliver_feedback(&mut self, due: Time, out: &mut LinkOutput) {
        while let Some((index, feedback)) =
            self.feedback.as_mut().and_then(|channels| channels.pop_due(due))
        {
            let StageEntry { stage, output } = &mut self.stages[index];
            stage.on_feedback(due, &feedback, output);
            self.timers.set_deadline(index, stage.poll_at());
            self.forward(index, due, out);
        }
        self.send_feedback();
    }

    /// Returns the number of instants with work since the start.
    pub fn work_instants(&self) -> u64 {
        self.work_instants
    }

    /// Returns the counters since the start.
    pub fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// Returns the sum of the gauges of the stages.
    pub fn gauge(&self) -> QueueGauge {
        self.stages.iter().map(|slot| slot.stage.gauge()).fold(QueueGauge::default(), |sum, one| {
            QueueGauge {
                queued_packets: sum.queued_packets + one.queued_packets,
                queued_bytes: sum.queued_bytes + one.queued_bytes,
                sent_bytes: sum.sent_bytes + one.sent_bytes,
            }
        })
    }

    /// Returns the user statistics of the first radio link; empty without one.
    pub fn user_stats(&self) -> &[UserLinkStats] {
        let mut all = self.stages.iter().map(|slot| slot.stage.user_stats());
        all.find(|users| !users.is_empty()).unwrap_or(&[])
    }

    /// Returns the statistics of the first stage with queues per user; empty without one.
    pub fn user_queues(&self) -> Vec<UserQueueStats> {
        let mut all = self.stages.iter().map(|slot| slot.stage.user_queues());
        all.find(|queues| !queues.is_empty()).unwrap_or_default()
    }

    /// Returns the sojourn times of the first stage with a transmitter.
    pub fn sojourn(&self) -> Option<&Histogram> {
        self.stages.iter().find_map(|slot| slot.stage.sojourn())
    }

    /// Returns an upper bound of the rate in bits per second. It is the smallest of the transmitters' largest rates
    /// (for a trace, the mean over one repeat). `None` without a transmitter or for a link built from existing stages.
    pub fn rate_bit_s(&self) -> Option<u64> {
        self.bounds.rate_bit_s()
    }

    /// Returns a lower bound of the one-way delay in nanoseconds. It is the sum of the smallest delays of the stages,
    /// without serialisation; 0 for a link built from existing stages.
    pub fn propagation_ns(&self) -> u64 {
        self.bounds.propagation_ns()
    }

    /// Returns an upper bound of the one-way delay in nanoseconds, without serialisation and queueing. `None` for a
    /// stage without a known maximum, such as jitter, outages or retransmissions of a radio link.
    pub fn max_propagation_ns(&self) -> Option<u64> {
        self.bounds.max_propagation_ns()
    }

    /// Returns the packets and bytes inside the link: neither delivered nor dropped.
    pub fn in_transit(&self) -> (u64, u64) {
        let c = &self.counters;
        (
            c.arrived_packets - c.delivered_packets - c.dropped_packets.iter().sum::<u64>(),
            c.arrived_bytes - c.delivered_bytes - c.dropped_bytes.iter().sum::<u64>(),
        )
    }

    /// Applies updates and does work due by `now`, in order of time.
    fn advance(&mut self, now: Time, out: &mut LinkOutput) {
        loop {
            let work = self.timers.next_deadline();
            if self.next_update_at <= work.min(now) && self.next_update_at != Time::MAX {
                self.apply_next_update(out);
                self.update_timers();
                continue;
            }
            if work > now || work == Time::MAX {
                return;
            }
            self.work_instants +=
                u64::from(work != std::mem::replace(&mut self.last_work_at, work));
            if self.feedback.as_ref().is_some_and(|channels| channels.next_due() <= work) {
                self.deliver_feedback(work, out);
            } else if let Some(index) = self.timers.next_stage() {
                self.poll_stage(index, work, out);
                if self.timers.deadline(index) <= work {
                    // The stage still has work at this instant. The caller sees by `poll_at` that the link does not
                    // advance.
                    self.update_timers();
                    return;
                }
            } else if let Some((_, (index, packet))) = self.pending.pop_due(work) {
                self.arrive(index, work, packet, out);
            }
            self.collect_feedback();
            self.update_timers();
        }
    }

    fn apply_update(
        &mut self,
        due: Time,
        index: usize,
        update: &StageUpdate,
        out: &mut LinkOutput,
    ) {
        let StageEntry { stage, output } = &mut self.stages[index];
        stage.apply_update(due, update, output);
        self.timers.set_deadline(index, stage.poll_at());
        self.forward(index, due, out);
        self.collect_feedback();
        if causes_work(update) {
            self.arm_update_timer();
        }
    }

    /// Polls stage `index` for the work due at `due`.
    fn poll_stage(&mut self, index: usize, due: Time, out: &mut LinkOutput) {
        let StageEntry { stage, output } = &mut self.stages[index];
        stage.poll(due, output);
        self.timers.set_deadline(index, stage.poll_at());
        match self.take_single_output(index, due) {
            Some((due, packet)) => self.arrive(index + 1, due, packet, out),
            None => self.forward(index, due, out),
        }
    }

    /// Moves `packet` into the stage at `index`, or to the far end, at `due`, and onwards while stages emit at once.
    fn arrive(
        &mut self,
        mut index: usize,
        mut due: Time,
        mut packet: Packet,
        out: &mut LinkOutput,
    ) {
        while index < self.stages.len() {
            if self.timers.deadline(index) <= due {
                self.poll_stage(index, due, out);
            }
            record_step(&mut self.steps, due, &packet, index, None);
            let StageEntry { stage, output } = &mut self.stages[index];
            stage.push(due, packet, output);
            self.timers.set_deadline(index, stage.poll_at());
            let Some(next) = self.take_single_output(index, due) else {
                return self.forward(index, due, out);
            };
            (due, packet) = next;
            index += 1;
        }
        record_step(&mut self.steps, due, &packet, index, None);
        self.counters.delivered_packets += 1;
        self.counters.delivered_bytes += u64::from(packet.bytes);
        out.delivered.push((due, packet));
    }

    /// Returns the output of stage `index` at `now` in the common case: one packet that departs at once.
    #[inline]
    fn take_single_output(&mut self, index: usize, now: Time) -> Option<(Time, Packet)> {
        let output = &mut self.stages[index].output;
        let [(due, packet)] = output.emitted[..] else { return None };
        if due > now || !output.dropped.is_empty() {
            return None;
        }
        output.emitted.clear();
        self.counters.marked_packets += std::mem::take(&mut output.marked);
        Some((due, packet))
    }

    /// Forwards the output of stage `index` at `now`. Only later stages are polled meanwhile.
    #[inline]
    fn forward(&mut self, index: usize, now: Time, out: &mut LinkOutput) {
        let output = &self.stages[index].output;
        if !output.emitted.is_empty() || !output.dropped.is_empty() || output.marked > 0 {
            self.forward_outputs(index, now, out);
        }
    }

    fn forward_outputs(&mut self, index: usize, now: Time, out: &mut LinkOutput) {
        let mut position = 0;
        while let Some((due, packet)) = self.stages[index].output.emitted.get(position).copied() {
            position += 1;
            if due > now {
                self.pending.push(due, (index + 1, packet));
            } else {
                self.arrive(index + 1, due, packet, out);
            }
        }
        let output = &mut self.stages[index].output;
        output.emitted.clear();
        for (due, packet, reason) in output.dropped.drain(..) {
            record_step(&mut self.steps, due, &packet, index, Some(reason));
            self.counters.dropped_packets[reason as usize] += 1;
            self.counters.dropped_bytes[reason as usize] += u64::from(packet.bytes);
            out.dropped.push((due, packet, reason));
        }
        self.counters.marked_packets += std::mem::take(&mut output.marked);
    }

    #[inline]
    fn update_timers(&mut self) {
        self.timers.update(self.pending.next_due());
    }
}

/// Returns whether `update` itself drops packets or starts a service.
fn causes_work(update: &StageUpdate) -> bool {
    matches!(update, StageUpdate::InFlight(InFlightPolicy::Drop) | StageUpdate::Enabled(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stage with a deadline that never advances.
    struct Stuck;

    impl Stage for Stuck {
        fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
            out.emit(due, packet);
        }

        fn poll(&mut self, _now: Time, _out: &mut StageOutput) {}

        fn poll_at(&self) -> Time {
            Time(5)
        }
    }

    #[test]
    fn a_stage_without_progress_returns_to_the_caller() {
        let mut line = SimplexLink::from_stages(vec![Box::new(Stuck)]);
        line.poll(Time(7), &mut LinkOutput::default());
        assert_eq!(line.poll_at(), Time(5), "the caller sees that the line holds time");
    }
}

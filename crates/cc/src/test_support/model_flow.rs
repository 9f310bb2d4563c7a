//! One sender of the model with its receiver: RTT samples, loss detection and probes.

use std::collections::{BTreeMap, VecDeque};

use units::{Rate, Span, Time};

use super::model_path::ModelPath;
use crate::{
    AckEvent, CongestionControl, ControlOutput, ControllerConfig, ControllerEvent, Estimator, Pacer,
};

/// The default max_ack_delay of RFC 9000 section 18.2 and the packet threshold of RFC 9002 section 6.1.1.
const MAX_ACK_DELAY: Span = Span::from_millis(25);
const PACKET_THRESHOLD: u64 = 3;

/// The maximum number of controller timers per second: one every 10 us, ten times the rate of a kernel's pacing timer.
const MAX_TIMERS_PER_SECOND: u32 = 100_000;

/// The receiver's flow-control limit in bytes. It bounds the memory that a faulty controller can use.
pub(super) const MAX_FLIGHT: u64 = 16_000_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PacketState {
    Outstanding,
    Acked,
    Lost,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SentPacket {
    pub(super) sent_at: Time,
    pub(super) state: PacketState,
}

/// The output of a controller for one event.
#[derive(Clone, Copy, Debug)]
pub struct EventRecord {
    /// The time of the event.
    pub now: Time,
    /// The acknowledgement; `None` for other events.
    pub ack: Option<AckEvent>,
    /// Whether the event was a retransmission timeout.
    pub is_timeout: bool,
    /// The output.
    pub control: ControlOutput,
}

/// One sender with its receiver.
pub struct ModelFlow {
    /// The round-trip time without queueing.
    pub rtt: Span,
    /// The application's rate. `None` means unlimited data.
    pub app_rate: Option<Rate>,
    /// The start time of the flow.
    pub start_time: Time,
    /// Whether a retransmission timer (RFC 6298) replaces the probes (RFC 9002 section 6.2).
    pub has_retransmission_timer: bool,
    /// Whether the pacer delays packets. Otherwise only the window does.
    pub is_paced: bool,
    /// Whether the late arrival of packets declared lost reports [`ControllerEvent::SpuriousLoss`]: of all packets (RFC
    /// 3708), after a timeout of one (RFC 4015). Otherwise late packets are duplicates.
    pub detects_spurious_losses: bool,
    /// The controller.
    pub controller: Box<dyn CongestionControl>,
    /// The last output of the controller.
    pub control: ControlOutput,
    /// The output for every event, if [`ModelFlow::is_recording`] is set.
    pub records: Vec<EventRecord>,
    /// Whether to record the outputs.
    pub is_recording: bool,
    /// The estimator of flight, rounds and samples.
    pub estimator: Estimator,
    /// The integral of the window over time in byte-seconds.
    pub window_byte_seconds: f64,
    /// The number of congestion signals.
    pub congestion_signals: u64,
    /// The smoothed RTT.
    pub smoothed_rtt: Span,
    /// The timer fault of the controller. A fault disables its timer.
    pub timer_fault: Option<String>,
    /// The current second, and the number of timers in it.
    timers: (u64, u32),
    pub(super) mss: u64,
    pub(super) pacer: Pacer,
    pub(super) has_started: bool,
    pub(super) sent: VecDeque<SentPacket>,
    first_number: u64,
    pub(super) next_number: u64,
    pub(super) sent_bytes: u64,
    pub(super) arrivals: VecDeque<(Time, u64)>,
    unacked_arrivals: Vec<u64>,
    ack_at: Time,
    rtt_var: Span,
    min_rtt: Span,
    sampled_at: Option<Time>,
    pub(super) probe_at: Time,
    pub(super) probes: u32,
    /// Packets that timeouts declared lost and that no delivery has replaced.
    unrepaired: u64,
    pub(super) window_since: Time,
    /// The time from which the application's rate counts, and the bytes sent before.
    app_from: (Time, u64),
    /// Packets declared lost since the last recovery began that have not arrived, with their send times.
    missing: BTreeMap<u64, Time>,
    /// The reduction that may be spurious.
    undoable: Option<LossCause>,
}

/// The event that declared packets lost.
#[derive(Clone, Copy, Debug, PartialEq)]
enum LossCause {
    Acknowledgement,
    Timeout,
}

impl ModelFlow {
    /// Returns a bulk sender on a path of `rtt`.
    pub fn new(
        controller: Box<dyn CongestionControl>,
        config: &ControllerConfig,
        rtt: Span,
    ) -> ModelFlow {
        ModelFlow {
            rtt,
            app_rate: None,
            start_time: Time::ZERO,
            has_retransmission_timer: false,
            is_paced: true,
            detects_spurious_losses: false,
            controller,
            control: ControlOutput::from_window(config.initial_window),
            records: Vec::new(),
            is_recording: false,
            estimator: Estimator::default(),
            window_byte_seconds: 0.0,
            congestion_signals: 0,
            smoothed_rtt: config.initial_rtt,
            timer_fault: None,
            timers: (0, 0),
            mss: config.mss,
            pacer: Pacer::new(
                &ControlOutput::from_window(config.initial_window),
                config.initial_rtt,
                config.mss,
            ),
            has_started: false,
            sent: VecDeque::new(),
            first_number: 0,
            next_number: 0,
            sent_bytes: 0,
            arrivals: VecDeque::new(),
            unacked_arrivals: Vec::new(),
            ack_at: Time::MAX,
            rtt_var: Span(config.initial_rtt.0 / 2),
            min_rtt: Span::MAX,
            sampled_at: None,
            probe_at: Time::MAX,
            probes: 0,
            unrepaired: 0,
            window_since: Time::ZERO,
            app_from: (Time::ZERO, 0),
            missing: BTreeMap::new(),
            undoable: None,
        }
    }

    /// Returns the bytes delivered so far.
    pub fn delivered(&self) -> u64 {
        self.estimator.delivered()
    }

    pub(super) fn apply_event(
        &mut self,
        now: Time,
        ack: Option<AckEvent>,
        event: &ControllerEvent,
    ) {
        self.window_byte_seconds +=
            self.control.cwnd as f64 * now.since(self.window_since).seconds();
        self.window_since = now;
        self.control = self.controller.on_event(now, event);
        self.check_timer(now, event);
        self.estimator.set_window(self.control.cwnd.min(MAX_FLIGHT), self.mss);
        self.pacer.update(&self.control, self.smoothed_rtt, self.mss);
        if self.is_recording {
            let timeout = matches!(event, ControllerEvent::Timeout { .. });
            self.records.push(EventRecord { now, ack, is_timeout: timeout, control: self.control });
        }
    }

    fn check_timer(&mut self, now: Time, event: &ControllerEvent) {
        let at = self.control.timer_at;
        if *event == ControllerEvent::Timer {
            let second = now.0 / 1_000_000_000;
            let before = if self.timers.0 == second { self.timers.1 } else { 0 };
            self.timers = (second, before + 1);
        }
        if at < now {
            let text = format!("requests at {} ns a timer at {} ns, which has passed", now.0, at.0);
            self.timer_fault.get_or_insert(text);
        } else if self.timers.1 > MAX_TIMERS_PER_SECOND {
            let text = format!(
                "requests more than {MAX_TIMERS_PER_SECOND} timers in the second before {now}"
            );
            self.timer_fault.get_or_insert(text);
        }
        if self.timer_fault.is_some() {
            self.control.timer_at = Time::MAX;
        }
    }

    /// Sets the application's rate from `now` on. A rate of zero is a pause.
    pub fn set_app_rate(&mut self, now: Time, rate: Option<Rate>) {
        self.app_rate = rate;
        self.app_from = (now, self.sent_bytes);
    }

    /// Returns the bytes that the application can send.
    pub(super) fn ready_bytes(&self, now: Time) -> u64 {
        match self.app_rate {
            None => u64::MAX,
            Some(rate) => {
                let (from, sent_before) = self.app_from;
                let produced =
                    rate.bytes_per_second() * now.since(from.max(self.start_time)).seconds();
                (produced as u64).saturating_sub(self.sent_bytes - sent_before)
            }
        }
    }

    pub(super) fn poll_at(&self, now: Time) -> Time {
        if !self.has_started {
            return self.start_time;
        }
        let arrival = self.arrivals.front().map_or(Time::MAX, |(at, _)| *at);
        let fits_window =
            self.estimator.in_flight() + self.mss <= self.control.cwnd.min(MAX_FLIGHT);
        let send = match self.app_rate {
            _ if !fits_window => Time::MAX,
            _ if !self.is_paced && self.app_rate.is_none() => now,
            None => self.pacer.ready_at(),
            Some(Rate(0)) => Time::MAX,
            Some(rate) => {
                let missing = self.mss.saturating_sub(self.ready_bytes(now));
                self.pacer.ready_at().max(now + rate.time_for(missing))
            }
        };
        let send = if send == Time::MAX { send } else { send.max(now + Span(1)) };
        arrival.min(self.ack_at).min(send).min(self.probe_at).min(self.control.timer_at)
    }

    /// Returns the probe timeout (RFC 9002 section 6.2.1).
    pub(super) fn probe_timeout(&self) -> Span {
        let variation = Span(4 * self.rtt_var.0).max(Span::from_millis(1));
        self.smoothed_rtt + variation + MAX_ACK_DELAY
    }

    /// Processes arrivals, the delayed-ACK timer, and the release times of the ACK path.
    pub(super) fn receive(&mut self, now: Time, path: &ModelPath) {
        while let Some((at, number)) = self.arrivals.front().copied().filter(|(at, _)| *at <= now) {
            self.arrivals.pop_front();
            self.unacked_arrivals.push(number);
            if path.ack_grid > Span::ZERO {
                self.ack_at = Time(at.0.next_multiple_of(path.ack_grid.0));
            } else if self.unacked_arrivals.len() >= path.ack_every {
                self.ack_at = at;
            } else if self.unacked_arrivals.len() == 1 {
                self.ack_at = at + MAX_ACK_DELAY;
            }
            if self.ack_at <= now {
                self.acknowledge(now);
            }
        }
        if self.ack_at <= now {
            self.acknowledge(now);
        }
    }

    fn acknowledge(&mut self, now: Time) {
        self.ack_at = Time::MAX;
        let held = std::mem::take(&mut self.unacked_arrivals);
        let late = self.acknowledge_late(now, &held);
        // A packet that arrives after a timeout declared it lost is a duplicate.
        let numbers = held.iter().filter(|number| **number >= self.first_number);
        let largest = numbers.clone().max().copied();
        let mut newly_lost = Vec::new();
        for number in numbers {
            let packet = &mut self.sent[(*number - self.first_number) as usize];
            if packet.state == PacketState::Acked {
                continue;
            }
            packet.state = PacketState::Acked;
            self.estimator.on_acked(now, packet.sent_at, self.mss);
            self.unrepaired = self.unrepaired.saturating_sub(1);
        }
        if let Some(largest) = largest {
            let sent_at = self.sent[(largest - self.first_number) as usize].sent_at;
            self.sample_rtt(now, now.since(sent_at));
            newly_lost = self.detect_losses(now, largest);
        }
        if largest.is_some() || late > 0 {
            self.probes = 0;
            self.probe_at = now + self.probe_timeout();
        }
        if let Some(mut ack) =
            self.estimator.flush(now, self.smoothed_rtt, self.min_rtt, &*self.controller)
        {
            ack.is_in_rto_recovery = self.unrepaired > 0;
            self.congestion_signals += u64::from(ack.is_congestion_event);
            if ack.is_congestion_event {
                self.missing.clear();
                self.undoable = Some(LossCause::Acknowledgement);
            }
            self.missing.extend(newly_lost);
            self.apply_event(now, Some(ack), &ControllerEvent::Ack(ack));
        }
        let is_undone = self.undoable == Some(LossCause::Timeout)
            || (self.undoable.is_some() && self.missing.is_empty());
        if late > 0 && is_undone {
            self.undoable = None;
            self.apply_event(now, None, &ControllerEvent::SpuriousLoss);
        }
        self.unacked_arrivals = held;
        self.unacked_arrivals.clear();
    }

    /// Acknowledges packets that were declared lost and have arrived. Returns their number.
    fn acknowledge_late(&mut self, now: Time, numbers: &[u64]) -> usize {
        if !self.detects_spurious_losses {
            return 0;
        }
        let mut late = 0;
        for number in numbers {
            let Some(sent_at) = self.missing.remove(number) else { continue };
            late += 1;
            self.estimator.on_spurious_loss(sent_at, self.mss);
            self.estimator.on_acked(now, sent_at, self.mss);
            self.unrepaired = self.unrepaired.saturating_sub(1);
            if let Some(index) = number.checked_sub(self.first_number) {
                self.sent[index as usize].state = PacketState::Acked;
            }
        }
        late
    }

    /// Updates the RTT estimate (RFC 9002 section 5.3).
    fn sample_rtt(&mut self, now: Time, rtt: Span) {
        self.min_rtt = self.min_rtt.min(rtt);
        if self.sampled_at.is_none() {
            self.sampled_at = Some(now);
            self.smoothed_rtt = rtt;
            self.rtt_var = Span(rtt.0 / 2);
        } else {
            let deviation = self.smoothed_rtt.0.abs_diff(rtt.0);
            self.rtt_var = Span((3 * self.rtt_var.0 + deviation) / 4);
            self.smoothed_rtt = Span((7 * self.smoothed_rtt.0 + rtt.0) / 8);
        }
    }

    /// Declares all outstanding packets lost (RFC 5681 section 3.1, RFC 6298 section 5).
    pub(super) fn on_retransmission_timeout(&mut self, now: Time) {
        let flight_size = self.estimator.in_flight();
        self.missing.clear();
        self.undoable = Some(LossCause::Timeout);
        for (number, packet) in (self.first_number..).zip(self.sent.drain(..)) {
            if packet.state == PacketState::Outstanding {
                self.estimator.on_lost(now, packet.sent_at, self.mss, false);
                self.unrepaired += 1;
                self.missing.insert(number, packet.sent_at);
            }
        }
        self.first_number = self.next_number;
        let _ = self.estimator.flush(now, self.smoothed_rtt, self.min_rtt, &*self.controller);
        self.estimator.end_recovery();
        let in_flight = self.estimator.in_flight();
        self.apply_event(now, None, &ControllerEvent::Timeout { flight_size, in_flight });
    }

    /// Detects losses (RFC 9002 section 6.1) and persistent congestion (section 7.6).
    /// Returns the packets that it declares lost.
    fn detect_losses(&mut self, now: Time, largest: u64) -> Vec<(u64, Time)> {
        let loss_delay = Span(self.smoothed_rtt.0 / 8 * 9);
        let (mut lost, mut newest, mut persistent) = (Vec::new(), Time::ZERO, false);
        let mut run: Option<Time> = None;
        let mut index = 0;
        while index < self.sent.len() && self.first_number + index as u64 <= largest {
            let packet = &mut self.sent[index];
            let number = self.first_number + index as u64;
            index += 1;
            if packet.state == PacketState::Acked {
                run = None;
                continue;
            }
            if number + PACKET_THRESHOLD > largest && packet.sent_at + loss_delay > now {
                continue;
            }
            if packet.state == PacketState::Outstanding {
                lost.push((number, packet.sent_at));
            }
            packet.state = PacketState::Lost;
            newest = packet.sent_at;
            let begin = *run.get_or_insert(packet.sent_at);
            let span = self.smoothed_rtt
                + Span(4 * self.rtt_var.0).max(Span::from_millis(1))
                + MAX_ACK_DELAY;
            let sampled = self.sampled_at.is_some_and(|sampled| begin > sampled);
            persistent |= sampled && packet.sent_at.since(begin) > span * 3;
        }
        while self.sent.front().is_some_and(|packet| packet.state != PacketState::Outstanding) {
            self.sent.pop_front();
            self.first_number += 1;
        }
        if !lost.is_empty() {
            self.estimator.on_lost(now, newest, lost.len() as u64 * self.mss, persistent);
        }
        lost
    }
}

//! Support for tests of controllers: [`sample_ack`], and a small deterministic simulation. It contains senders with the
//! shared [`Estimator`] and [`Pacer`], one drop-tail bottleneck, and a receiver. There is no transport protocol. Packets
//! are numbers, and loss detection uses the packet threshold, time threshold and probes of RFC 9002 section 6.
//!
//! The path preserves the order, so the arrival time is known at the send time and the loop needs no heap.

use std::collections::VecDeque;

use units::{RandomStream, Rate, Serializer, Span, Time};

use crate::{
    AckEvent, CongestionControl, ControlOutput, ControllerConfig, ControllerEvent, Estimator, Pacer,
};

/// Random or scheduled loss before the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ModelLoss {
    /// No loss.
    None,
    /// Independent loss of each packet with this probability.
    Bernoulli(f64),
    /// Loss of every n-th packet.
    Every(u64),
    /// Loss of the first packet sent at or after this instant.
    Once(Time),
}

/// The path that all flows share.
#[derive(Clone, Debug)]
pub struct ModelPath {
    /// The bottleneck rate. `None` means unlimited, so that the RTT is constant.
    pub rate: Option<Rate>,
    /// The bottleneck queue in bytes, including the packet in service.
    pub queue: u64,
    /// The loss before the bottleneck.
    pub loss: ModelLoss,
    /// The number of packets per ACK. A delayed ACK follows after 25 ms.
    pub ack_every: usize,
    /// The period of ACK releases: the ACK path releases ACKs at multiples of this span. Zero means at once.
    pub ack_grid: Span,
    /// The interval in which all packets sent are lost: from the first instant, up to the second.
    pub outage: Option<(Time, Time)>,
    /// The seed of the loss.
    pub seed: u64,
}

impl ModelPath {
    /// Returns a bottleneck of `rate` with `queue` bytes, no loss, and an ACK for every second packet.
    pub fn bottleneck(rate: Rate, queue: u64) -> ModelPath {
        ModelPath {
            rate: Some(rate),
            queue,
            loss: ModelLoss::None,
            ack_every: 2,
            ack_grid: Span::ZERO,
            outage: None,
            seed: 1,
        }
    }

    /// Returns a path with delay and loss only, and an ACK for every packet.
    pub fn lossy(loss: ModelLoss, seed: u64) -> ModelPath {
        ModelPath {
            rate: None,
            ack_every: 1,
            loss,
            seed,
            ..ModelPath::bottleneck(Rate(1), u64::MAX)
        }
    }
}

/// The default max_ack_delay of RFC 9000 section 18.2 and the packet threshold of RFC 9002 section 6.1.1.
const MAX_ACK_DELAY: Span = Span::from_millis(25);
const PACKET_THRESHOLD: u64 = 3;

/// The maximum number of controller timers per second: one every 10 us, ten times the rate of a kernel's pacing timer.
const MAX_TIMERS_PER_SECOND: u32 = 100_000;

/// The receiver's flow-control limit in bytes. It bounds the memory that a faulty controller can use.
const MAX_FLIGHT: u64 = 16_000_000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum PacketState {
    Outstanding,
    Acked,
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct SentPacket {
    sent_at: Time,
    state: PacketState,
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
    mss: u64,
    pacer: Pacer,
    has_started: bool,
    sent: VecDeque<SentPacket>,
    first_number: u64,
    next_number: u64,
    sent_bytes: u64,
    arrivals: VecDeque<(Time, u64)>,
    unacked_arrivals: Vec<u64>,
    ack_at: Time,
    rtt_var: Span,
    min_rtt: Span,
    sampled_at: Option<Time>,
    probe_at: Time,
    probes: u32,
    /// Packets that timeouts declared lost and that no delivery has replaced.
    unrepaired: u64,
    window_since: Time,
}

/// The simulation.
pub struct BottleneckModel {
    /// The path.
    pub path: ModelPath,
    /// The senders.
    pub flows: Vec<ModelFlow>,
    /// The current time.
    pub now: Time,
    link: Option<Serializer>,
    link_free_at: Time,
    random: RandomStream,
    packet_count: u64,
    has_lost_once: bool,
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
        }
    }

    /// Returns the bytes delivered so far.
    pub fn delivered(&self) -> u64 {
        self.estimator.delivered()
    }

    fn apply_event(&mut self, now: Time, ack: Option<AckEvent>, event: &ControllerEvent) {
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
            let text = format!("asks at {} ns to be woken at {} ns, which has passed", now.0, at.0);
            self.timer_fault.get_or_insert(text);
        } else if self.timers.1 > MAX_TIMERS_PER_SECOND {
            let text = format!(
                "asks for more than {MAX_TIMERS_PER_SECOND} timers in the second before {now}"
            );
            self.timer_fault.get_or_insert(text);
        }
        if self.timer_fault.is_some() {
            self.control.timer_at = Time::MAX;
        }
    }

    /// Returns the bytes that the application can send.
    fn ready_bytes(&self, now: Time) -> u64 {
        match self.app_rate {
            None => u64::MAX,
            Some(rate) => {
                let produced = rate.bytes_per_second() * now.since(self.start_time).seconds();
                (produced as u64).saturating_sub(self.sent_bytes)
            }
        }
    }

    fn poll_at(&self, now: Time) -> Time {
        if !self.has_started {
            return self.start_time;
        }
        let arrival = self.arrivals.front().map_or(Time::MAX, |(at, _)| *at);
        let fits_window =
            self.estimator.in_flight() + self.mss <= self.control.cwnd.min(MAX_FLIGHT);
        let send = match self.app_rate {
            _ if !fits_window => Time::MAX,
            None => self.pacer.ready_at(),
            Some(rate) => {
                let missing = self.mss.saturating_sub(self.ready_bytes(now));
                self.pacer.ready_at().max(now + rate.time_for(missing))
            }
        };
        let send = if send == Time::MAX { send } else { send.max(now + Span(1)) };
        arrival.min(self.ack_at).min(send).min(self.probe_at).min(self.control.timer_at)
    }

    /// Returns the probe timeout (RFC 9002 section 6.2.1).
    fn probe_timeout(&self) -> Span {
        let variation = Span(4 * self.rtt_var.0).max(Span::from_millis(1));
        self.smoothed_rtt + variation + MAX_ACK_DELAY
    }

    /// Processes arrivals, the delayed-ACK timer, and the release times of the ACK path.
    fn receive(&mut self, now: Time, path: &ModelPath) {
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
        // A packet that arrives after a timeout declared it lost is a duplicate.
        let Some(&largest) = held.last().filter(|largest| **largest >= self.first_number) else {
            return;
        };
        for number in held.iter().filter(|number| **number >= self.first_number) {
            let packet = &mut self.sent[(*number - self.first_number) as usize];
            packet.state = PacketState::Acked;
            self.estimator.on_acked(now, packet.sent_at, self.mss);
            self.unrepaired = self.unrepaired.saturating_sub(1);
        }
        let sent_at = self.sent[(largest - self.first_number) as usize].sent_at;
        self.sample_rtt(now, now.since(sent_at));
        self.detect_losses(now, largest);
        self.probes = 0;
        self.probe_at = now + self.probe_timeout();
        if let Some(mut ack) =
            self.estimator.flush(now, self.smoothed_rtt, self.min_rtt, &*self.controller)
        {
            ack.is_in_rto_recovery = self.unrepaired > 0;
            self.congestion_signals += u64::from(ack.is_congestion_event);
            self.apply_event(now, Some(ack), &ControllerEvent::Ack(ack));
        }
        self.unacked_arrivals = held;
        self.unacked_arrivals.clear();
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
    fn on_retransmission_timeout(&mut self, now: Time) {
        let flight_size = self.estimator.in_flight();
        for packet in self.sent.drain(..).filter(|packet| packet.state == PacketState::Outstanding)
        {
            self.estimator.on_lost(now, packet.sent_at, self.mss, false);
            self.unrepaired += 1;
        }
        self.first_number = self.next_number;
        let _ = self.estimator.flush(now, self.smoothed_rtt, self.min_rtt, &*self.controller);
        self.estimator.end_recovery();
        let in_flight = self.estimator.in_flight();
        self.apply_event(now, None, &ControllerEvent::Timeout { flight_size, in_flight });
    }

    /// Detects losses (RFC 9002 section 6.1) and persistent congestion (section 7.6).
    fn detect_losses(&mut self, now: Time, largest: u64) {
        let loss_delay = Span(self.smoothed_rtt.0 / 8 * 9);
        let (mut lost, mut newest, mut persistent) = (0, Time::ZERO, false);
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
            packet.state = PacketState::Lost;
            lost += self.mss;
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
        if lost > 0 {
            self.estimator.on_lost(now, newest, lost, persistent);
        }
    }
}

impl BottleneckModel {
    /// Returns a simulation at time zero.
    pub fn new(path: ModelPath, flows: Vec<ModelFlow>) -> BottleneckModel {
        BottleneckModel {
            link: path.rate.map(Serializer::new),
            link_free_at: Time::ZERO,
            random: RandomStream::named(path.seed, "model", "loss"),
            path,
            flows,
            now: Time::ZERO,
            packet_count: 0,
            has_lost_once: false,
        }
    }

    /// Returns the bytes queued at the bottleneck.
    pub fn backlog(&self) -> u64 {
        let rate = self.path.rate.map_or(0, |rate| rate.0);
        let waiting = u128::from(self.link_free_at.since(self.now).nanos());
        (waiting * u128::from(rate) / 8_000_000_000) as u64
    }

    /// Runs until `end`.
    pub fn run_until(&mut self, end: Time) {
        loop {
            let now = self.now;
            let next = self.flows.iter().map(|flow| flow.poll_at(now)).min();
            let next = next.unwrap_or(Time::MAX);
            if next > end {
                break;
            }
            self.now = next.max(now);
            for index in 0..self.flows.len() {
                self.step(index);
            }
        }
        self.now = end;
    }

    fn step(&mut self, index: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        if !flow.has_started {
            if now < flow.start_time {
                return;
            }
            flow.has_started = true;
            flow.window_since = now;
            flow.control = flow.controller.start(now);
            flow.estimator.set_window(flow.control.cwnd, flow.mss);
            flow.pacer.update(&flow.control, flow.smoothed_rtt, flow.mss);
            flow.probe_at = now + flow.probe_timeout();
        }
        flow.receive(now, &self.path);
        if flow.control.timer_at <= now {
            flow.apply_event(now, None, &ControllerEvent::Timer);
        }
        if flow.probe_at <= now {
            // RFC 9002 section 6.2.4: probes ignore the window.
            flow.probes += 1;
            flow.probe_at = now + flow.probe_timeout() * (1 << flow.probes.min(10));
            if flow.has_retransmission_timer && flow.estimator.in_flight() > 0 {
                flow.on_retransmission_timeout(now);
            }
            self.send(index);
        }
        self.send_all(index);
    }

    fn send_all(&mut self, index: usize) {
        let now = self.now;
        loop {
            let flow = &mut self.flows[index];
            if flow.ready_bytes(now) < flow.mss {
                flow.estimator.mark_app_limited();
                return;
            }
            if flow.estimator.in_flight() + flow.mss > flow.control.cwnd.min(MAX_FLIGHT)
                || flow.pacer.budget(now) == 0
            {
                return;
            }
            self.send(index);
        }
    }

    fn send(&mut self, index: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        let bytes = flow.mss;
        // A packet sent after a timeout is not a restart from idle.
        if flow.estimator.in_flight() == 0 && flow.next_number > 0 && flow.probes == 0 {
            flow.apply_event(now, None, &ControllerEvent::RestartFromIdle);
        }
        flow.estimator.on_sent(now, bytes);
        flow.pacer.on_sent(now, bytes);
        flow.sent.push_back(SentPacket { sent_at: now, state: PacketState::Outstanding });
        let number = flow.next_number;
        flow.next_number += 1;
        flow.sent_bytes += bytes;
        let rtt = flow.rtt;
        if self.is_lost(bytes) {
            return;
        }
        if let Some(link) = &mut self.link {
            self.link_free_at = link.begin(now, bytes as u32);
        } else {
            self.link_free_at = now;
        }
        self.flows[index].arrivals.push_back((self.link_free_at + rtt, number));
    }

    fn is_lost(&mut self, bytes: u64) -> bool {
        self.packet_count += 1;
        let now = self.now;
        let random = match self.path.loss {
            ModelLoss::None => false,
            ModelLoss::Bernoulli(p) => self.random.chance(p),
            ModelLoss::Every(n) => self.packet_count.is_multiple_of(n),
            ModelLoss::Once(at) => {
                now >= at && !std::mem::replace(&mut self.has_lost_once, now >= at)
            }
        };
        let outage = self.path.outage.is_some_and(|(from, to)| from <= now && now < to);
        random || outage || self.backlog() + bytes > self.path.queue
    }
}

/// Returns an ACK without loss or marks, as a base for tests.
pub fn sample_ack() -> AckEvent {
    AckEvent {
        acked: 1200,
        acked_in_recovery: 0,
        lost: 0,
        has_new_ce_marks: false,
        is_congestion_event: false,
        is_persistent_congestion: false,
        is_in_rto_recovery: false,
        latest_rtt: Some(Span::from_millis(100)),
        smoothed_rtt: Span::from_millis(100),
        min_rtt: Span::from_millis(100),
        prior_in_flight: 12_000,
        in_flight: 10_800,
        delivered: 1200,
        total_lost: 0,
        rate_sample: None,
        loss_sample: None,
        is_round_start: false,
        round_count: 0,
        is_cwnd_limited: true,
        slow_start_limit: u64::MAX,
        growth_limit: u64::MAX,
    }
}

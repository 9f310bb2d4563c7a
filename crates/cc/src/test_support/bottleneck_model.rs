//! The model: senders that share one drop-tail bottleneck.

use units::{RandomStream, Rate, Serializer, Span, Time};

use super::model_flow::{MAX_FLIGHT, ModelFlow, PacketState, SentPacket};
use super::model_path::{ModelLoss, ModelPath};
use crate::ControllerEvent;

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
    /// The time from which the policer's bucket fills, in ns. It precedes the start of the run by the fill time.
    policer_from: i128,
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
            policer_from: i128::MIN / 2,
        }
    }

    /// Returns the bytes queued at the bottleneck.
    pub fn backlog(&self) -> u64 {
        let rate = self.path.rate.map_or(0, |rate| rate.0);
        let waiting = u128::from(self.link_free_at.since(self.now).nanos());
        (waiting * u128::from(rate) / 8_000_000_000) as u64
    }

    /// Changes the bottleneck rate now. Queued packets leave at the new rate.
    pub fn set_rate(&mut self, rate: Rate) {
        let Some(before) = self.path.rate.replace(rate) else { return };
        let now = self.now;
        let moved = |at: Time| {
            let nanos = u128::from(at.since(now).nanos()) * u128::from(before.0.max(1));
            now + Span((nanos / u128::from(rate.0.max(1))) as u64)
        };
        for flow in &mut self.flows {
            for (at, _) in &mut flow.arrivals {
                let left = Time(at.0.saturating_sub(flow.rtt.0));
                if left > now {
                    *at = moved(left) + flow.rtt;
                }
            }
        }
        let free = moved(self.link_free_at);
        let mut link = Serializer::new(rate);
        link.begin_bits(free, 0);
        self.link = Some(link);
        self.link_free_at = free;
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
        if flow.probe_at <= now
            && flow.estimator.in_flight() == 0
            && flow.ready_bytes(now) < flow.mss
        {
            // The timer runs only while a packet is in flight (RFC 9002 section 6.2.1).
            flow.probe_at = Time::MAX;
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
                || (flow.is_paced && flow.pacer.budget(now) == 0)
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
        if flow.probe_at == Time::MAX {
            flow.probe_at = now + flow.probe_timeout();
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
        let mut at = self.link_free_at + rtt;
        if let Some(reordering) = self.path.reordering
            && (reordering.from..reordering.until).contains(&now)
        {
            at += reordering.delay;
        }
        let arrivals = &mut self.flows[index].arrivals;
        let place = arrivals.iter().rposition(|(other, _)| *other <= at).map_or(0, |last| last + 1);
        arrivals.insert(place, (at, number));
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
        random || outage || self.is_policed(bytes) || self.backlog() + bytes > self.path.queue
    }

    /// Takes the tokens of a packet. Returns true if there are too few.
    fn is_policed(&mut self, bytes: u64) -> bool {
        let Some(policer) = self.path.policer else { return false };
        let time_for = |bytes| i128::from(policer.rate.time_for(bytes).nanos());
        let now = i128::from(self.now.nanos());
        let from = self.policer_from.max(now - time_for(policer.burst));
        let is_short = from + time_for(bytes) > now;
        self.policer_from = if is_short { from } else { from + time_for(bytes) };
        is_short
    }
}

//! A queue before a transmitter.

use std::collections::VecDeque;

use units::{Packet, Time};

use crate::{
    Cause, Change, Channel, Cx, Fate, Gauge, Histogram, InFlight, Quality, Queue, Service, Stage,
};

/// A channel without noise or fading, the default of a [`Transmitter`].
#[derive(Clone, Copy, Debug, Default)]
pub struct PerfectChannel;

impl Channel for PerfectChannel {
    fn at(&mut self, _user: u32, _at: Time) -> Quality {
        Quality { snr_db: f64::INFINITY }
    }
}

/// Serves the packets of a queue one at a time. It takes a packet from the queue when the link
/// frees, never before, so that the queue's decision (a drop, a mark, whose turn it is) rests on
/// what is known then. Packets that the service wants to serve again ([`Fate::Again`]) go before
/// new ones once their instant has come; until then new ones use the link.
#[derive(Debug)]
pub struct Transmitter<Q, S, C = PerfectChannel> {
    queue: Q,
    service: S,
    channel: C,
    /// The packet on the link, and the end of its service.
    serving: Option<(Time, Packet)>,
    /// Packets to be served again, in order of the instant from which they may.
    again: VecDeque<(Time, Packet)>,
    again_bytes: u64,
    wake: Time,
    sent_bytes: u64,
    sojourn: Histogram,
}

impl<Q: Queue, S: Service> Transmitter<Q, S> {
    /// A transmitter over a perfect channel.
    pub fn new(queue: Q, service: S) -> Transmitter<Q, S> {
        Transmitter::over(queue, service, PerfectChannel)
    }
}

impl<Q: Queue, S: Service, C: Channel> Transmitter<Q, S, C> {
    /// A transmitter over `channel`.
    pub fn over(queue: Q, service: S, channel: C) -> Transmitter<Q, S, C> {
        Transmitter {
            queue,
            service,
            channel,
            serving: None,
            again: VecDeque::new(),
            again_bytes: 0,
            wake: Time::MAX,
            sent_bytes: 0,
            sojourn: Histogram::default(),
        }
    }

    /// Puts the next packet, if there is one, on the free link at `due`; sets the next wake-up.
    fn start(&mut self, due: Time, cx: &mut Cx) {
        let packet = match self.again.front() {
            Some((at, packet)) if *at <= due => {
                let packet = *packet;
                self.again.pop_front();
                self.again_bytes -= u64::from(packet.bytes);
                Some(packet)
            }
            _ => self.fresh(due, cx),
        };
        let Some(packet) = packet else {
            let again = self.again.front().map_or(Time::MAX, |(at, _)| *at);
            let ready = self.queue.ready_at();
            debug_assert!(ready > due, "a queue that is ready gives a packet");
            self.wake = if ready > due { again.min(ready) } else { again };
            return;
        };
        self.wake = self.service.begin(due, &packet, &mut self.channel).max(due);
        self.serving = Some((self.wake, packet));
    }

    /// A packet that has not been served yet.
    fn fresh(&mut self, due: Time, cx: &mut Cx) -> Option<Packet> {
        let packet = self.queue.dequeue(due, &mut self.channel, cx)?;
        if let Some(arrival) = self.queue.last_arrival() {
            self.sojourn.record(due.since(arrival));
        }
        Some(packet)
    }

    /// The service of `packet` ended at `due`.
    fn end(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        match self.service.end(due, &packet) {
            Fate::Deliver => {
                self.sent_bytes += u64::from(packet.bytes);
                cx.emit(due, packet);
            }
            Fate::Drop(cause) => cx.drop(due, packet, cause),
            Fate::Again { at } => {
                // The feedback delay is mostly constant: the place is mostly the last.
                let later = self.again.iter().rev().take_while(|(other, _)| *other > at).count();
                self.again.insert(self.again.len() - later, (at, packet));
                self.again_bytes += u64::from(packet.bytes);
            }
        }
    }
}

impl<Q: Queue, S: Service, C: Channel> Stage for Transmitter<Q, S, C> {
    fn push(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        self.queue.enqueue(due, packet, cx);
        if self.serving.is_none() {
            self.start(due, cx);
        }
    }

    fn poll(&mut self, now: Time, cx: &mut Cx) {
        while self.wake <= now {
            let due = self.wake;
            if let Some((_, packet)) = self.serving.take() {
                self.end(due, packet, cx);
            }
            self.start(due, cx);
        }
    }

    fn poll_at(&self) -> Time {
        self.wake
    }

    fn change(&mut self, due: Time, change: &Change, cx: &mut Cx) {
        self.queue.change(due, change, cx);
        self.service.change(due, change);
        if *change == Change::InFlight(InFlight::Lost) {
            for (_, packet) in self.again.drain(..) {
                cx.drop(due, packet, Cause::Outage);
            }
            self.again_bytes = 0;
            // Whoever is being served is served to the end.
            if self.serving.is_none() {
                self.wake = self.queue.ready_at();
            }
        }
    }

    fn gauge(&self) -> Gauge {
        let (packets, bytes) = self.queue.backlog();
        Gauge {
            queued_packets: packets + self.again.len() as u64,
            queued_bytes: bytes + self.again_bytes,
            sent_bytes: self.sent_bytes,
        }
    }

    fn sojourn(&self) -> Option<&Histogram> {
        Some(&self.sojourn)
    }
}

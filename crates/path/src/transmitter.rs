//! A queue before a transmitter.

use std::collections::VecDeque;

use units::{Packet, Time};

use crate::{
    Cause, Change, Channel, Cx, Fate, Feedback, FixedChannel, Gauge, Histogram, InFlight, Job,
    News, Queue, Service, Stage,
};

/// Serves the packets of a queue one at a time. It takes a packet from the queue when the link
/// frees, never before, so that the queue's decision (a drop, a mark, whose turn it is) rests on
/// what is known then. Packets that the service wants to serve again ([`Fate::Again`]) go before
/// new ones once their instant has come; until then new ones use the link. Each packet leaves once, however often
/// it is served: when it is delivered without the service knowing, what waits is a copy ([`Fate::Unconfirmed`]).
#[derive(Debug)]
pub struct Transmitter<Q, S, C = FixedChannel> {
    queue: Q,
    service: S,
    channel: C,
    /// What is on the link; its service ends at the next wake-up.
    serving: Option<Job>,
    /// What is to be served again, in order of the instant from which it may.
    again: VecDeque<(Time, Job)>,
    /// Of that, what has not left yet.
    again_packets: u64,
    again_bytes: u64,
    /// Packets that have been served.
    count: u64,
    wake: Time,
    sent_bytes: u64,
    sojourn: Histogram,
}

impl<Q: Queue, S: Service> Transmitter<Q, S> {
    /// A transmitter over a perfect channel.
    pub fn new(queue: Q, service: S) -> Transmitter<Q, S> {
        Transmitter::over(queue, service, FixedChannel::PERFECT)
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
            again_packets: 0,
            again_bytes: 0,
            count: 0,
            wake: Time::MAX,
            sent_bytes: 0,
            sojourn: Histogram::default(),
        }
    }

    /// Puts the next packet, if there is one, on the free link at `due`; sets the next wake-up.
    fn start(&mut self, due: Time, cx: &mut Cx) {
        let job = match self.again.front() {
            Some((at, _)) if *at <= due => {
                self.take_again(0).map(|job| Job { attempt: job.attempt + 1, ..job })
            }
            _ => self.fresh(due, cx),
        };
        let Some(job) = job else {
            let again = self.again.front().map_or(Time::MAX, |(at, _)| *at);
            let ready = self.queue.ready_at().max(self.service.free_at());
            debug_assert!(ready > due, "a queue that is ready gives a packet");
            self.wake = if ready > due { again.min(ready) } else { again };
            return;
        };
        self.wake = self.service.begin(due, &job, &mut self.channel).max(due);
        self.serving = Some(job);
    }

    /// A packet that has not been served yet.
    fn fresh(&mut self, due: Time, cx: &mut Cx) -> Option<Job> {
        if self.service.free_at() > due {
            return None;
        }
        let packet = self.queue.dequeue(due, &mut self.channel, cx)?;
        if let Some(arrival) = self.queue.last_arrival() {
            self.sojourn.record(due.since(arrival));
        }
        let number = self.count;
        self.count += 1;
        Some(Job { packet, number, attempt: 1, copy: false })
    }

    /// What is on the link has been served at `due`.
    fn end(&mut self, due: Time, cx: &mut Cx) {
        let Some(job) = &self.serving else { return };
        let fate = self.service.end(due, job, cx);
        if let Fate::Deliver | Fate::Unconfirmed { .. } = fate
            && !job.copy
        {
            self.sent_bytes += u64::from(job.packet.bytes);
            cx.emit(due, job.packet);
        }
        match fate {
            Fate::Deliver => {}
            Fate::Unconfirmed { at } => self.serve_again(at, Job { copy: true, ..*job }),
            Fate::Again { at } => self.serve_again(at, *job),
            Fate::Drop(_) if job.copy => {}
            Fate::Drop(cause) => cx.drop(due, job.packet, cause),
        }
        self.serving = None;
    }

    /// `job` waits until `at`, or for news.
    fn serve_again(&mut self, at: Time, job: Job) {
        // The feedback delay is mostly constant: the place is mostly the last.
        let later = self.again.iter().rev().take_while(|(other, _)| *other > at).count();
        self.again.insert(self.again.len() - later, (at, job));
        if !job.copy {
            self.again_packets += 1;
            self.again_bytes += u64::from(job.packet.bytes);
        }
    }

    /// Takes out what waits at `place`.
    fn take_again(&mut self, place: usize) -> Option<Job> {
        let (_, job) = self.again.remove(place)?;
        if !job.copy {
            self.again_packets -= 1;
            self.again_bytes -= u64::from(job.packet.bytes);
        }
        Some(job)
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
            self.end(due, cx);
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
            for (_, job) in self.again.drain(..).filter(|(_, job)| !job.copy) {
                cx.drop(due, job.packet, Cause::Outage);
            }
            (self.again_packets, self.again_bytes) = (0, 0);
            // Whoever is being served is served to the end.
            if self.serving.is_none() {
                self.start(due, cx);
            }
        }
    }

    fn feedback(&mut self, due: Time, feedback: &Feedback, cx: &mut Cx) {
        if let Some((number, news)) = self.service.feedback(due, feedback)
            && let Some(place) = self.again.iter().position(|(_, job)| job.number == number)
            && let Some(job) = self.take_again(place)
        {
            match news {
                News::Again { at } => self.serve_again(at, job),
                News::Done if job.copy => {}
                News::Done => cx.drop(due, job.packet, Cause::Link),
            }
        }
        if self.serving.is_none() {
            self.start(due, cx);
        }
    }

    fn gauge(&self) -> Gauge {
        let (packets, bytes) = self.queue.backlog();
        Gauge {
            queued_packets: packets + self.again_packets,
            queued_bytes: bytes + self.again_bytes,
            sent_bytes: self.sent_bytes,
        }
    }

    fn sojourn(&self) -> Option<&Histogram> {
        Some(&self.sojourn)
    }
}

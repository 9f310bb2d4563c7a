//! A queue before a transmitter.

use std::collections::VecDeque;

use units::{Packet, Time};

use crate::reordering::Reordering;
use crate::tally::Tallies;
use crate::{
    Attempt, Cause, Change, Channel, Cx, Fate, Feedback, FixedChannel, Gauge, Histogram, InFlight,
    Job, News, Queue, ReorderingSpec, Service, Stage, UserQueue, UserTally,
};

/// Serves the packets of a queue one at a time. It takes a packet from the queue when the link
/// frees, never before, so that the queue's decision (a drop, a mark, whose turn it is) rests on
/// what is known then. Packets that the service wants to serve again ([`Fate::Again`]) go before
/// new ones once their instant has come, unless the queue has it otherwise ([`Queue::again`]); until then new ones use
/// the link. Each packet leaves once, however often
/// it is served: when it is delivered without the service knowing, what waits is a copy ([`Fate::Unconfirmed`]).
/// Of a radio link it may keep who had what ([`Transmitter::tallied`]), and put packets in order again
/// ([`Transmitter::reordering`]).
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
    /// It serves nobody until [`Change::Serves`] says so.
    closed: bool,
    /// Packets that have been served.
    count: u64,
    wake: Time,
    /// When the service of what is on the link began.
    began: Time,
    tallies: Option<Tallies>,
    reordering: Option<Reordering>,
    /// When the reordering buffer has work.
    timer: Time,
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
            closed: false,
            count: 0,
            wake: Time::MAX,
            began: Time::ZERO,
            tallies: None,
            reordering: None,
            timer: Time::MAX,
            sent_bytes: 0,
            sojourn: Histogram::default(),
        }
    }

    /// Keeps what each user had.
    pub fn tallied(mut self) -> Self {
        self.tallies = Some(Tallies::default());
        self
    }

    /// Puts the packets of a flow in order again.
    pub fn reordering(mut self, spec: ReorderingSpec) -> Self {
        self.reordering = Some(Reordering::new(spec));
        self
    }

    /// Puts the next packet, if there is one, on the free link at `due`; sets the next wake-up.
    fn start(&mut self, due: Time, cx: &mut Cx) {
        if self.closed {
            self.wake = Time::MAX;
            return;
        }
        let job = match self.again.front() {
            Some((at, _)) if *at <= due => self.served_again(due, cx),
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
        self.began = due;
        self.serving = Some(job);
        if self.tallies.is_some()
            && let Some(attempts) = &mut cx.attempts
        {
            let Job { packet, number, attempt, copy, .. } = job;
            let (handle, user) = (packet.handle, packet.user);
            let end = self.wake;
            attempts.push(Attempt { begin: due, end, handle, user, number, attempt, copy });
        }
    }

    /// Of what may be served again at `due` what the queue chooses, or a new packet if it prefers one and has one.
    fn served_again(&mut self, due: Time, cx: &mut Cx) -> Option<Job> {
        let mut ready = self.again.iter().take_while(|(at, _)| *at <= due).map(|(_, job)| job);
        let chosen = self.queue.again(due, &mut ready, &mut self.channel);
        if chosen.is_none()
            && let Some(job) = self.fresh(due, cx)
        {
            return Some(job);
        }
        let job = self.take_again(chosen.unwrap_or(0))?;
        Some(Job { attempt: job.attempt + 1, ..job })
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
        let sequence = self.reordering.as_mut().map_or(0, |buffer| buffer.number(&packet));
        Some(Job { packet, number, attempt: 1, copy: false, sequence })
    }

    /// What is on the link has been served at `due`.
    fn end(&mut self, due: Time, cx: &mut Cx) {
        let Some(job) = self.serving.take() else { return };
        let fate = self.service.end(due, &job, cx);
        let air = due.since(self.began);
        self.queue.served(due, &job, air, fate);
        if let Some(tallies) = &mut self.tallies {
            tallies.served(&job, air, self.service.bits(&job), fate);
        }
        if let Fate::Deliver | Fate::Unconfirmed { .. } = fate
            && !job.copy
        {
            self.sent_bytes += u64::from(job.packet.bytes);
            match &mut self.reordering {
                None => cx.emit(due, job.packet),
                Some(buffer) => {
                    buffer.decoded(due, &job, cx);
                    self.timer = buffer.timer();
                }
            }
        }
        match fate {
            Fate::Deliver => {}
            Fate::Unconfirmed { at } => self.serve_again(at, Job { copy: true, ..job }),
            Fate::Again { at } => self.serve_again(at, job),
            Fate::Drop(_) if job.copy => {}
            Fate::Drop(cause) => self.give_up(due, &job, cause, cx),
        }
    }

    /// `job`, which has not left, never will.
    fn give_up(&mut self, due: Time, job: &Job, cause: Cause, cx: &mut Cx) {
        cx.drop(due, job.packet, cause);
        if let Some(buffer) = &mut self.reordering {
            buffer.gave_up(due, job, cx);
            self.timer = buffer.timer();
        }
    }

    /// `job` waits until `at`, or for news.
    fn serve_again(&mut self, at: Time, job: Job) {
        self.insert(at, job);
        if !job.copy {
            self.again_packets += 1;
            self.again_bytes += u64::from(job.packet.bytes);
        }
    }

    fn insert(&mut self, at: Time, job: Job) {
        // The feedback delay is mostly constant: the place is mostly the last.
        let later = self.again.iter().rev().take_while(|(other, _)| *other > at).count();
        self.again.insert(self.again.len() - later, (at, job));
    }

    /// What waits with `number` and above waits until `at`, in order of the numbers.
    fn go_back(&mut self, number: u64, at: Time) {
        let mut moved = Vec::new();
        self.again.retain(|(_, job)| {
            let stays = job.number < number;
            if !stays {
                moved.push(*job);
            }
            stays
        });
        moved.sort_by_key(|job| job.number);
        for job in moved {
            self.insert(at, job);
        }
    }

    fn place(&self, number: u64) -> Option<usize> {
        self.again.iter().position(|(_, job)| job.number == number)
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
        while self.wake.min(self.timer) <= now {
            let due = self.wake.min(self.timer);
            if let Some(buffer) = &mut self.reordering
                && self.timer <= due
            {
                buffer.time_out(due, cx);
                self.timer = buffer.timer();
            }
            if self.wake <= due {
                self.end(due, cx);
                self.start(due, cx);
            }
        }
    }

    fn poll_at(&self) -> Time {
        self.wake.min(self.timer)
    }

    fn change(&mut self, due: Time, change: &Change, cx: &mut Cx) {
        self.queue.change(due, change, cx);
        self.service.change(due, change);
        if let Change::Serves(serves) = change {
            self.closed = !serves;
            if self.serving.is_none() {
                self.start(due, cx);
            }
        }
        if *change == Change::InFlight(InFlight::Lost) {
            for (_, job) in std::mem::take(&mut self.again) {
                if !job.copy {
                    self.give_up(due, &job, Cause::Outage, cx);
                }
            }
            (self.again_packets, self.again_bytes) = (0, 0);
            if let Some(buffer) = &mut self.reordering {
                buffer.flush(due, cx);
                self.timer = buffer.timer();
            }
            // Whoever is being served is served to the end.
            if self.serving.is_none() {
                self.start(due, cx);
            }
        }
    }

    fn feedback(&mut self, due: Time, feedback: &Feedback, cx: &mut Cx) {
        match self.service.feedback(due, feedback) {
            None => {}
            Some((number, News::Again { at })) => {
                if let Some((_, job)) =
                    self.place(number).and_then(|place| self.again.remove(place))
                {
                    self.insert(at, job);
                }
            }
            Some((number, News::GoBack { at })) => self.go_back(number, at),
            Some((number, News::Done)) => {
                if let Some(job) = self.place(number).and_then(|place| self.take_again(place))
                    && !job.copy
                {
                    if let Some(tallies) = &mut self.tallies {
                        tallies.gave_up(job.packet.user);
                    }
                    self.give_up(due, &job, Cause::Link, cx);
                }
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

    fn users(&self) -> &[UserTally] {
        self.tallies.as_ref().map_or(&[], Tallies::users)
    }

    fn user_queues(&self) -> Vec<UserQueue> {
        self.queue.user_queues()
    }

    fn sojourn(&self) -> Option<&Histogram> {
        Some(&self.sojourn)
    }
}

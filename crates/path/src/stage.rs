//! The four boundaries of a path: [`Stage`], [`Queue`], [`Service`] and [`Channel`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Ecn, Packet, Rate, Span, Time};

use crate::{Limit, Quality};

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A loss model said so.
    Loss,
    /// No room in a queue.
    Overflow,
    /// Active queue management.
    Aqm,
    /// The link was out, or what was on it was lost when it changed.
    Outage,
    /// A link layer gave up (retransmission limit, air-time limit).
    Link,
    /// From the node at the end of the line no way led on.
    Route,
}

impl Cause {
    /// Every cause, in the order of the counters.
    pub const ALL: [Cause; 6] =
        [Cause::Loss, Cause::Overflow, Cause::Aqm, Cause::Outage, Cause::Link, Cause::Route];

    /// The name used in results.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Loss => "loss",
            Cause::Overflow => "overflow",
            Cause::Aqm => "aqm",
            Cause::Outage => "outage",
            Cause::Link => "link",
            Cause::Route => "route",
        }
    }
}

/// Where a stage puts what it is done with. Buffers are reused; nothing is allocated per packet.
#[derive(Debug, Default)]
pub struct Cx {
    /// Packets passed on, each with the instant it leaves, in order of emission.
    pub emitted: Vec<(Time, Packet)>,
    /// Packets dropped, each with the instant and the cause.
    pub dropped: Vec<(Time, Packet, Cause)>,
    /// Packets on which [`Cx::mark`] has set congestion experienced, since the start.
    pub marked: u64,
    /// What the stage told, each with the instant, in order of time; none: nobody listens.
    pub told: Option<Vec<(Time, Feedback)>>,
    /// Attempts of a radio link that have begun, in order of time; none: nobody asks.
    pub attempts: Option<Vec<Attempt>>,
}

impl Cx {
    /// Passes `packet` on; it leaves the stage at `due`.
    pub fn emit(&mut self, due: Time, packet: Packet) {
        self.emitted.push((due, packet));
    }

    /// Sets congestion experienced on `packet` (RFC 3168 section 5) and counts it.
    pub fn mark(&mut self, packet: &mut Packet) {
        packet.ecn = Ecn::Ce;
        self.marked += 1;
    }

    /// Drops `packet` at `due`.
    pub fn drop(&mut self, due: Time, packet: Packet, cause: Cause) {
        self.dropped.push((due, packet, cause));
    }

    /// Tells `feedback` at `due` to the stages that listen to this one ([`crate::Link::wire`]). If none does,
    /// it is lost.
    pub fn tell(&mut self, due: Time, feedback: Feedback) {
        if let Some(told) = &mut self.told {
            told.push((due, feedback));
        }
    }
}

/// An attempt of a radio link at a packet. No two of a link are on the air at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// When it begins.
    pub begin: Time,
    /// When it ends.
    pub end: Time,
    /// The packet's payload; of another packet where this is at a copy.
    pub handle: u32,
    /// Whose packet it is.
    pub user: u32,
    /// The packet, by [`Job::number`].
    pub number: u64,
    /// Which attempt it is, counted from 1.
    pub attempt: u32,
    /// Whether the packet has left already.
    pub copy: bool,
}

/// What a stage tells another stage of its link. A stage ignores what does not concern it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Feedback {
    /// A receiver's answer to an attempt (HARQ).
    Attempt {
        /// Whose packet it is.
        user: u32,
        /// The packet, by [`Job::number`].
        number: u64,
        /// Whether it is decoded by now.
        decoded: bool,
    },
    /// A receiver's report of what has come (RLC).
    Status {
        /// Which report it is.
        number: u64,
    },
}

/// A change of a stage while it runs: scheduled in the specification or made live.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// A new rate, from the next packet on.
    Rate(Rate),
    /// A new constant delay, for packets that arrive from now on.
    Delay(Span),
    /// A new Bernoulli loss probability.
    Loss(f64),
    /// A new limit of a queue, for packets that arrive from now on; what waits stays.
    Limit(Option<Limit>),
    /// What becomes of the packets that a stage holds at this instant.
    InFlight(InFlight),
    /// Whether a transmitter serves: those who wait stay where they are until it does again. Whoever is being served is
    /// served to the end.
    Serves(bool),
}

/// What becomes of the packets that are on their way when their link is handed over.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum InFlight {
    /// Nobody who comes later overtakes them.
    InOrder,
    /// Those who come later may overtake them, not each other.
    Overtaken,
    /// They are dropped, [`Cause::Outage`]; in a transmitter those that wait.
    Lost,
}

/// What a stage holds at an instant, read at the sampling tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauge {
    /// Packets waiting for the transmitter.
    pub queued_packets: u64,
    /// Bytes waiting for the transmitter.
    pub queued_bytes: u64,
    /// Bytes that have left the transmitter since the start.
    pub sent_bytes: u64,
}

/// One direction of one impairment. Time is an argument; outputs carry their due time, so a late
/// wake-up changes nothing but when the output is seen.
pub trait Stage: Send {
    /// A packet arrives at `due`. Arrivals come in order of time, after all own work due earlier.
    fn push(&mut self, due: Time, packet: Packet, cx: &mut Cx);

    /// Does all work due by `now`, in due order, stamped with its due time.
    fn poll(&mut self, now: Time, cx: &mut Cx);

    /// The instant of the next work; [`Time::MAX`] if none. The caller caches it between calls.
    fn poll_at(&self) -> Time;

    /// Applies a change at `due`. A stage that the change does not concern ignores it.
    fn change(&mut self, due: Time, change: &Change, cx: &mut Cx) {
        let _ = (due, change, cx);
    }

    /// Hears at `due` what a stage has told to which this one listens, after all own work due earlier and
    /// before own work due at the same instant.
    fn feedback(&mut self, due: Time, feedback: &Feedback, cx: &mut Cx) {
        let _ = (due, feedback, cx);
    }

    /// The packet that leaves after `others`, where that is known already.
    fn coming(&self, others: usize) -> Option<&Packet> {
        let _ = others;
        None
    }

    /// What the stage holds now.
    fn gauge(&self) -> Gauge {
        Gauge::default()
    }

    /// What each user had of a radio link, by its index; empty for other stages.
    fn users(&self) -> &[crate::UserTally] {
        &[]
    }

    /// What waited of each user, in order of their numbers, where each has a queue; empty for other stages.
    fn user_queues(&self) -> Vec<crate::UserQueue> {
        Vec::new()
    }

    /// Time each packet waited for the transmitter, for stages that have one.
    fn sojourn(&self) -> Option<&crate::Histogram> {
        None
    }
}

/// What waits for a transmitter. Active queue management drops at dequeue; a scheduler chooses
/// when the link frees.
pub trait Queue: Send {
    /// A packet arrives.
    fn enqueue(&mut self, due: Time, packet: Packet, cx: &mut Cx);

    /// The packet to send now, if any is ready.
    fn dequeue(&mut self, now: Time, channel: &mut dyn Channel, cx: &mut Cx) -> Option<Packet>;

    /// When [`Queue::dequeue`] will have a packet: `Time::ZERO` if it has one now, an instant if
    /// one becomes ready by itself, [`Time::MAX`] if only an arrival can help.
    fn ready_at(&self) -> Time;

    /// Packets and bytes that wait.
    fn backlog(&self) -> (u64, u64);

    /// Which of the packets that may be served again now goes before new ones, by its place among `ready` (in order of
    /// the instants from which they might; at least one); none: a new one first. The default: the first.
    fn again(
        &mut self,
        now: Time,
        ready: &mut dyn Iterator<Item = &Job>,
        channel: &mut dyn Channel,
    ) -> Option<usize> {
        let _ = (now, ready, channel);
        Some(0)
    }

    /// The service of `job` ended at `due`, after it had used the link for `air`: a scheduler learns what its choice
    /// came to.
    fn served(&mut self, due: Time, job: &Job, air: Span, fate: Fate) {
        let _ = (due, job, air, fate);
    }

    /// The instant at which the packet that [`Queue::dequeue`] returned last had arrived; the
    /// transmitter records the waiting time from it. None: the queue does not keep it.
    fn last_arrival(&self) -> Option<Time> {
        None
    }

    /// What waited of each user, in order of their numbers, where each has a queue.
    fn user_queues(&self) -> Vec<crate::UserQueue> {
        Vec::new()
    }

    /// Applies a change.
    fn change(&mut self, due: Time, change: &Change, cx: &mut Cx) {
        let _ = (due, change, cx);
    }
}

/// A packet in service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The packet.
    pub packet: Packet,
    /// Which of the transmitter's packets it is, counted from 0: a handle may be used again as soon as its packet
    /// has left, while a copy of it still waits.
    pub number: u64,
    /// Which attempt it is, counted from 1.
    pub attempt: u32,
    /// Whether the packet has left already ([`Fate::Unconfirmed`]).
    pub copy: bool,
    /// Its place among its flow's first transmissions, counted from 0, where a reordering buffer goes by that.
    pub sequence: u64,
}

/// The fate of a packet at the end of its service. A copy only costs air: of it nothing is delivered or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It leaves the transmitter, which is done with it.
    Deliver,
    /// It leaves the transmitter, which does not know: a copy stays, to be served as [`Fate::Again`] says unless
    /// [`Service::feedback`] has news before.
    Unconfirmed {
        /// When the next attempt may begin; [`Time::MAX`]: only when there is news.
        at: Time,
    },
    /// It is to be served again at this instant, before new packets (HARQ).
    Again {
        /// When the next attempt may begin; [`Time::MAX`]: only when there is news.
        at: Time,
    },
    /// It is lost on the link.
    Drop(Cause),
}

/// What feedback means for a packet that waits to be served again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It needs no further attempt. If it was never delivered (an answer misheard), it is dropped
    /// ([`Cause::Link`]).
    Done,
    /// The next attempt may begin at this instant.
    Again {
        /// When.
        at: Time,
    },
    /// It and every packet counted after it that waits may be served again at this instant, in their order (go-back-N);
    /// it may have left meanwhile.
    GoBack {
        /// When.
        at: Time,
    },
}

/// How a transmitter spends air time on a packet: a rate, the slots of a trace, HARQ.
pub trait Service: Send {
    /// Begins to serve `job` at `due`; returns the end of the service.
    fn begin(&mut self, due: Time, job: &Job, channel: &mut dyn Channel) -> Time;

    /// The service of `job` ended at `due`. What its receiver answers is told to `cx`, which is for nothing else.
    fn end(&mut self, due: Time, job: &Job, cx: &mut Cx) -> Fate;

    /// When a packet that was not served yet may begin, for a window of packets on the way (stop-and-wait, HARQ
    /// processes); [`Time::MAX`]: after an end or with feedback.
    fn free_at(&self) -> Time {
        Time::ZERO
    }

    /// Bits that `job`, which is the last that began, puts on the air in this attempt.
    fn bits(&self, job: &Job) -> u64 {
        u64::from(job.packet.bytes) * 8
    }

    /// Hears `feedback` at `due`: news of the packet with a number ([`Job::number`]), if it says any. For one in
    /// service it comes too late: the next [`Service::end`] decides.
    fn feedback(&mut self, due: Time, feedback: &Feedback) -> Option<(u64, News)> {
        let _ = (due, feedback);
        None
    }

    /// Applies a change. By [`InFlight::Lost`] all that waits to be served again is gone.
    fn change(&mut self, due: Time, change: &Change) {
        let _ = (due, change);
    }
}

/// A channel: a function of (seed, user, time) on its own time grid, never of the traffic.
pub trait Channel: Send {
    /// The channel of `user` at `at`, which may lie up to a second before the latest instant asked for of that user.
    fn at(&mut self, user: u32, at: Time) -> Quality;

    /// The mutual information per coded bit of each of `users` at `at`: what a scheduler asks again and again.
    fn rates(&mut self, at: Time, users: &[u32], rates: &mut [f64]) {
        for (user, rate) in users.iter().zip(rates) {
            *rate = self.at(*user, at).information;
        }
    }
}

//! What every scheduler must do, whatever it goes by: a list of checks, each of packets over a small model of a link, one
//! packet of 1000 bytes a millisecond.
//!
//! A scheduler that breaks a rule by design says so; the verdict then still says that the check failed, and what was found.

use std::sync::{Arc, Mutex, PoisonError};

use units::{Packet, RandomStream, Span, Time};

use crate::{
    AverageSpec, Averaged, Channel, Cx, DeadlineSpec, Decider, Decision, Fate, Job, Outcome,
    PerUser, PerUserSpec, Quality, Queue, SchedulerSpec, Waiter,
};

/// The outcome of one check.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The check.
    pub name: &'static str,
    /// What it asks.
    pub asks: &'static str,
    /// Whether the scheduler did as asked.
    pub passed: bool,
    /// What was found.
    pub detail: String,
    /// Why a failure is accepted.
    pub exemption: Option<&'static str>,
}

/// Makes a scheduler from outside anew.
pub type Make<'a> = &'a mut dyn FnMut() -> Box<dyn Decider>;

type Check = (&'static str, &'static str, fn(&mut Subject) -> (bool, String));

/// The checks: name, what is asked, run.
const CHECKS: &[Check] = &[
    ("who-waits", "only users who have a packet are chosen, whatever their numbers", who_waits),
    ("work-conserving", "the link rests only when nobody waits", work_conserving),
    ("deterministic", "the same packets in the same order, twice", deterministic),
    ("alone", "who is alone has the whole link, in order", alone),
    ("equal-shares", "users of equal statistics have between half and twice an equal share", equal),
    ("no-starvation", "who has a bad channel waits for at most 2 s", starvation),
    ("newcomer", "who comes later, and who was there, has a quarter of an equal share", newcomer),
    ("no-signal", "channels of rate 0 are served too", no_signal),
];

/// Whose conformance it is.
enum Subject<'a> {
    Ours(SchedulerSpec),
    Own(Make<'a>, Arc<Mutex<Vec<String>>>),
}

/// Runs every check on the schedulers that `make` builds.
pub fn check(make: Make) -> Vec<Verdict> {
    run(&mut Subject::Own(make, Arc::default()))
}

/// The same for one of ours, by its name in a specification; none: there is no such.
pub fn check_named(name: &str) -> Option<Vec<Verdict>> {
    let (_, spec) = ours().into_iter().find(|(known, _)| *known == name)?;
    let mut verdicts = run(&mut Subject::Ours(spec));
    for verdict in &mut verdicts {
        let starves = name == "maximum-rate" && verdict.name == "no-starvation";
        verdict.exemption = (starves && !verdict.passed)
            .then_some("it serves the best channel alone: what is best for the link");
    }
    Some(verdicts)
}

/// Names of ours, with the options that a scenario has for them.
pub fn ours() -> Vec<(&'static str, SchedulerSpec)> {
    let average = AverageSpec { of: Averaged::Channel, window_ns: 1_667_000_000 };
    let limit = 100_000_000;
    let deadline = DeadlineSpec { delay_ns: limit, violation: 0.03, best_effort: Vec::new() };
    vec![
        ("round-robin", SchedulerSpec::RoundRobin),
        (
            "deficit-round-robin",
            SchedulerSpec::DeficitRoundRobin { quantum_bytes: 1500, weights: Vec::new() },
        ),
        ("maximum-rate", SchedulerSpec::MaximumRate),
        ("proportional-fair", SchedulerSpec::ProportionalFair { average }),
        ("codes", SchedulerSpec::Codes { average, time_limit_ns: limit }),
        ("m-lwdf", SchedulerSpec::MLwdf { average, deadline: deadline.clone() }),
        ("exp-pf", SchedulerSpec::ExpPf { average, deadline }),
    ]
}

fn run(subject: &mut Subject) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (name, asks, check) in CHECKS {
        let (passed, detail) = check(subject);
        verdicts.push(Verdict { name, asks, passed, detail, exemption: None });
    }
    verdicts
}

/// A scheduler from outside whose wrong decisions are counted, and do not end the run.
struct Watched {
    inner: Box<dyn Decider>,
    faults: Arc<Mutex<Vec<String>>>,
}

impl Decider for Watched {
    fn arrived(&mut self, now: Time, user: u32, bytes: u32) {
        self.inner.arrived(now, user, bytes);
    }
    fn decide(&mut self, now: Time, waiting: &[Waiter]) -> Decision {
        self.inner.decide(now, waiting)
    }
    fn served(&mut self, now: Time, user: u32, bytes: u32, air: Span, outcome: Outcome) {
        self.inner.served(now, user, bytes, air, outcome);
    }
    fn refused(&mut self, why: String) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push(why);
    }
}

impl Subject<'_> {
    /// Its queue, fresh.
    fn queue(&mut self) -> PerUser {
        let spec =
            |scheduler| PerUserSpec { scheduler, limit: None, total: None, channel_delay_ns: 0 };
        match self {
            Subject::Ours(scheduler) => PerUser::new(&spec(scheduler.clone())),
            Subject::Own(make, faults) => {
                let watched = Watched { inner: make(), faults: faults.clone() };
                let own = crate::OwnSpec { called: String::new(), options_json: String::new() };
                PerUser::by(&spec(SchedulerSpec::Own(own)), Some(Box::new(watched)))
            }
        }
    }

    /// Wrong decisions since the last time.
    fn faults(&mut self) -> Vec<String> {
        match self {
            Subject::Ours(_) => Vec::new(),
            Subject::Own(_, faults) => {
                std::mem::take(&mut *faults.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }
}

const BYTES: u32 = 1000;
const SLOT: Span = Span::from_millis(1);

fn at(ms: u64) -> Time {
    Time(ms * SLOT.nanos())
}

/// Who sends: always with two packets in the queue, or by chance.
#[derive(Clone, Copy)]
struct Source {
    user: u32,
    from: Time,
    until: Time,
    /// Mean time between packets; none: always.
    every: Option<Span>,
}

impl Source {
    fn always(user: u32) -> Source {
        Source { user, from: Time::ZERO, until: Time::MAX, every: None }
    }
}

/// Rayleigh fading that is drawn anew for each slot and user, about a mean of its own.
struct Fading(fn(u32) -> f64);

impl Channel for Fading {
    fn at(&mut self, user: u32, at: Time) -> Quality {
        let mean = (self.0)(user);
        let slot = at.nanos() / SLOT.nanos();
        let mut random = RandomStream::named(slot, "conformance", &format!("{user}"));
        Quality::of(-mean * libm::log(1.0 - random.uniform()))
    }
}

/// What a run came to.
#[derive(Default, PartialEq)]
struct Found {
    /// Who was served when, by the number of its packet.
    sent: Vec<(Time, u32, u32)>,
    /// Slots in which somebody waited and nobody was served.
    idle: u64,
}

impl Found {
    /// Packets of a user from `from` to `until`.
    fn of(&self, user: u32, from: Time, until: Time) -> usize {
        self.sent.iter().filter(|(at, who, _)| *who == user && (from..until).contains(at)).count()
    }

    /// The longest that a user who always has packets went without, up to `end`.
    fn longest(&self, user: u32, end: Time) -> Span {
        let mut last = Time::ZERO;
        let mut longest = Span::ZERO;
        for (at, ..) in self.sent.iter().filter(|(_, who, _)| *who == user) {
            longest = longest.max(at.since(last));
            last = *at;
        }
        longest.max(end.since(last))
    }
}

/// Packets of `sources` over the link for so many slots. Each tenth attempt is in vain.
fn drive(subject: &mut Subject, mut channel: Fading, sources: &[Source], slots: u64) -> Found {
    let (mut queue, mut cx, mut found) = (subject.queue(), Cx::default(), Found::default());
    let mut random = RandomStream::named(7, "conformance", "arrivals");
    let mut queued = vec![0u64; sources.len()];
    let mut numbers = vec![0u32; sources.len()];
    for slot in 0..slots {
        let now = at(slot);
        for (index, source) in sources.iter().enumerate() {
            let sends = now >= source.from && now < source.until;
            let more = match source.every {
                None => 2u64.saturating_sub(queued[index]),
                Some(every) => u64::from(random.chance(SLOT.nanos() as f64 / every.nanos() as f64)),
            };
            for _ in 0..if sends { more } else { 0 } {
                let handle = numbers[index];
                let packet = Packet { user: source.user, handle, ..Packet::of_bytes(BYTES) };
                queue.enqueue(now, packet, &mut cx);
                numbers[index] += 1;
                queued[index] += 1;
            }
        }
        let waits = queue.backlog().0 > 0;
        let packet = queue.dequeue(now, &mut channel, &mut cx);
        for (_, packet, _) in cx.dropped.drain(..) {
            if let Some(index) = sources.iter().position(|one| one.user == packet.user) {
                queued[index] -= 1;
            }
        }
        let Some(packet) = packet else {
            found.idle += u64::from(waits && queue.backlog().0 > 0);
            continue;
        };
        if let Some(index) = sources.iter().position(|one| one.user == packet.user) {
            queued[index] -= 1;
        }
        found.sent.push((now, packet.user, packet.handle));
        let job = Job { packet, number: slot, attempt: 1, copy: false, sequence: slot };
        let end = at(slot + 1);
        if random.chance(0.1) {
            queue.served(end, &job, SLOT, Fate::Again { at: end });
        }
        queue.served(end, &job, SLOT, Fate::Deliver);
    }
    found
}

fn first(faults: &[String]) -> String {
    faults.first().map_or(String::new(), |fault| format!("; first: {fault}"))
}

/// Five users with numbers far apart who come and go.
fn crowd() -> Vec<Source> {
    let rare =
        |user: u32, every| Source { every: Some(Span::from_millis(every)), ..Source::always(user) };
    vec![rare(0, 5), rare(7, 8), rare(70, 40), rare(1_000, 400), rare(65_535, 10)]
}

fn who_waits(subject: &mut Subject) -> (bool, String) {
    subject.faults();
    let found = drive(subject, Fading(|_| 2.0), &crowd(), 10_000);
    let faults = subject.faults();
    (
        faults.is_empty(),
        format!("{} decisions, {} of them wrong{}", found.sent.len(), faults.len(), first(&faults)),
    )
}

fn work_conserving(subject: &mut Subject) -> (bool, String) {
    let found = drive(subject, Fading(|_| 2.0), &crowd(), 10_000);
    (found.idle == 0, format!("{} ms of 10,000 at rest while somebody waited", found.idle))
}

fn deterministic(subject: &mut Subject) -> (bool, String) {
    let [one, two] = [0, 1].map(|_| {
        let mut sources = crowd();
        sources.extend((1..6).map(Source::always));
        drive(subject, Fading(|_| 2.0), &sources, 3_000)
    });
    let other = one.sent.iter().zip(&two.sent).position(|(a, b)| a != b);
    match other {
        None if one == two => (true, format!("{} decisions alike", one.sent.len())),
        other => {
            let place = other.unwrap_or(one.sent.len().min(two.sent.len()));
            (false, format!("decision {} is another", place + 1))
        }
    }
}

fn alone(subject: &mut Subject) -> (bool, String) {
    let found = drive(subject, Fading(|_| 2.0), &[Source::always(3)], 1_000);
    let ordered = found.sent.windows(2).all(|pair| pair[0].2 < pair[1].2);
    (found.sent.len() == 1_000 && ordered, format!("{} packets in 1,000 ms", found.sent.len()))
}

fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(a, b), x| (a + x, b + x * x));
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

fn equal(subject: &mut Subject) -> (bool, String) {
    let users = 8u32;
    let sources: Vec<Source> = (0..users).map(Source::always).collect();
    let found = drive(subject, Fading(|_| 2.0), &sources, 16_000);
    let total = found.sent.len().max(1) as f64;
    let shares: Vec<f64> = (0..users)
        .map(|user| found.of(user, Time::ZERO, Time::MAX) as f64 * f64::from(users) / total)
        .collect();
    let (least, most) = shares.iter().fold((f64::MAX, 0.0f64), |(a, b), x| (a.min(*x), b.max(*x)));
    (
        least >= 0.5 && most <= 2.0,
        format!("{least:.2} to {most:.2} of an equal share, Jain's index {:.3}", jain(&shares)),
    )
}

fn starvation(subject: &mut Subject) -> (bool, String) {
    let sources: Vec<Source> = (0..8).map(Source::always).collect();
    let channel = Fading(|user| if user == 5 { 0.02 } else { 4.0 });
    let found = drive(subject, channel, &sources, 10_000);
    let waits = |user| found.longest(user, at(10_000)).nanos() as f64 / 1e9;
    let worst = (0..8).map(waits).fold(0.0, f64::max);
    (worst <= 2.0, format!("at most {worst:.2} s without a packet"))
}

fn newcomer(subject: &mut Subject) -> (bool, String) {
    let mut sources: Vec<Source> = (0..5).map(Source::always).collect();
    sources[1].until = at(3_000);
    sources.push(Source { from: at(5_000), ..Source::always(9) });
    let found = drive(subject, Fading(|_| 2.0), &sources, 11_000);
    let share = |user| found.of(user, at(5_000), at(11_000)) as f64 * 5.0 / 6_000.0;
    let new = share(9);
    let old = [0, 2, 3, 4].map(share).into_iter().fold(f64::MAX, f64::min);
    (
        new >= 0.25 && old >= 0.25,
        format!("the newcomer {new:.2}, the others {old:.2} or more of an equal share"),
    )
}

fn no_signal(subject: &mut Subject) -> (bool, String) {
    subject.faults();
    let sources: Vec<Source> = (0..4).map(Source::always).collect();
    let found = drive(subject, Fading(|_| 0.0), &sources, 2_000);
    let faults = subject.faults();
    let served = (0..4).filter(|user| found.of(*user, Time::ZERO, Time::MAX) > 0).count();
    (
        served == 4 && faults.is_empty(),
        format!("{served} of 4 users served, {} decisions wrong{}", faults.len(), first(&faults)),
    )
}

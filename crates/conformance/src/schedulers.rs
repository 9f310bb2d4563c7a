//! Conformance checks for schedulers. Each check sends packets over a small link model, one packet of 1000 bytes per
//! millisecond.
//!
//! A scheduler that violates a rule by design has an exemption; the result still reports the failure and its detail.

use std::sync::{Arc, Mutex, PoisonError};

use link::{
    BackloggedUser, Channel, ChannelState, ExternalDecision, ExternalOutcome, ExternalScheduler,
    PerUserQueue, PerUserSpec, Queue, SchedulerSpec, ServiceOutcome, StageOutput, Transmission,
};
use units::{Packet, RandomStream, Span, Time};

use crate::descriptors::sample_spec;

/// The result of one check.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerCheckResult {
    /// The name of the check.
    pub name: &'static str,
    /// The requirement.
    pub requirement: &'static str,
    /// Whether the scheduler meets the requirement.
    pub passed: bool,
    /// The measured values.
    pub detail: String,
    /// The reason for an accepted failure.
    pub exemption: Option<&'static str>,
}

/// Builds a new external scheduler.
pub type SchedulerBuilder<'a> = &'a mut dyn FnMut() -> Box<dyn ExternalScheduler>;

type CheckEntry = (&'static str, &'static str, fn(&mut Subject) -> (bool, String));

/// The checks: name, requirement, function.
const CHECKS: &[CheckEntry] = &[
    (
        "who-waits",
        "the scheduler selects only users with a packet, for any user numbers",
        only_backlogged,
    ),
    ("work-conserving", "the link is idle only without waiting packets", work_conserving),
    ("deterministic", "two runs send the same packets in the same order", deterministic),
    ("alone", "a single user has the whole link, with its packets in order", alone),
    ("equal-shares", "users of equal statistics have between half and twice an equal share", equal),
    ("no-starvation", "a user with a bad channel waits at most 2 s", starvation),
    (
        "newcomer",
        "a new user and each earlier user have at least a quarter of an equal share",
        newcomer,
    ),
    ("no-signal", "users with a channel of rate 0 are served", no_signal),
];

/// The scheduler under test.
enum Subject<'a> {
    BuiltIn(SchedulerSpec),
    External(SchedulerBuilder<'a>, Arc<Mutex<Vec<String>>>),
}

/// Runs all checks on the schedulers that `build` creates.
pub fn check(build: SchedulerBuilder) -> Vec<SchedulerCheckResult> {
    run(&mut Subject::External(build, Arc::default()))
}

/// Runs all checks on a built-in scheduler, by its name in a specification; `None` for an unknown name.
pub fn check_named(name: &str) -> Option<Vec<SchedulerCheckResult>> {
    let (_, spec) = built_in_schedulers().into_iter().find(|(known, _)| *known == name)?;
    let mut verdicts = run(&mut Subject::BuiltIn(spec));
    for verdict in &mut verdicts {
        let starves = name == "maximum-rate" && verdict.name == "no-starvation";
        verdict.exemption = (starves && !verdict.passed).then_some(
            "it serves only the best channel, which maximises the throughput of the link",
        );
    }
    Some(verdicts)
}

/// Returns the names of the built-in schedulers with their default options.
pub fn built_in_schedulers() -> Vec<(&'static str, SchedulerSpec)> {
    let named = SchedulerSpec::DESCRIPTORS.iter().filter(|one| !one.scenario_name.is_empty());
    named
        .map(|one| (one.scenario_name, serde_json::from_value(sample_spec(one, "name"))))
        .filter_map(|(name, spec)| Some((name, spec.ok()?)))
        .collect()
}

fn run(subject: &mut Subject) -> Vec<SchedulerCheckResult> {
    let mut verdicts = Vec::new();
    for (name, asks, check) in CHECKS {
        let (passed, detail) = check(subject);
        verdicts.push(SchedulerCheckResult {
            name,
            requirement: asks,
            passed,
            detail,
            exemption: None,
        });
    }
    verdicts
}

/// Records invalid decisions of an external scheduler, which do not end the run.
struct RecordingScheduler {
    inner: Box<dyn ExternalScheduler>,
    invalid_decisions: Arc<Mutex<Vec<String>>>,
}

impl ExternalScheduler for RecordingScheduler {
    fn on_enqueue(&mut self, now: Time, user: u32, bytes: u32) {
        self.inner.on_enqueue(now, user, bytes);
    }
    fn decide(&mut self, now: Time, waiting: &[BackloggedUser]) -> ExternalDecision {
        self.inner.decide(now, waiting)
    }
    fn on_service_end(
        &mut self,
        now: Time,
        user: u32,
        bytes: u32,
        airtime: Span,
        outcome: ExternalOutcome,
    ) {
        self.inner.on_service_end(now, user, bytes, airtime, outcome);
    }
    fn on_invalid_decision(&mut self, reason: String) {
        self.invalid_decisions.lock().unwrap_or_else(PoisonError::into_inner).push(reason);
    }
}

impl Subject<'_> {
    /// Creates a new queue with the scheduler.
    fn queue(&mut self) -> PerUserQueue {
        let spec = |scheduler| PerUserSpec { scheduler, limit: None, total: None, csi_delay_ns: 0 };
        match self {
            Subject::BuiltIn(scheduler) => PerUserQueue::new(&spec(scheduler.clone())),
            Subject::External(make, faults) => {
                let watched =
                    RecordingScheduler { inner: make(), invalid_decisions: faults.clone() };
                let external = link::ExternalSchedulerSpec {
                    scheduler_name: String::new(),
                    options_json: String::new(),
                };
                PerUserQueue::with_external(
                    &spec(SchedulerSpec::External(external)),
                    Some(Box::new(watched)),
                )
            }
        }
    }

    /// Returns the invalid decisions since the last call.
    fn take_invalid_decisions(&mut self) -> Vec<String> {
        match self {
            Subject::BuiltIn(_) => Vec::new(),
            Subject::External(_, faults) => {
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

/// A packet source: always with two queued packets, or random.
#[derive(Clone, Copy)]
struct PacketSource {
    user: u32,
    from: Time,
    until: Time,
    /// Mean time between packets; `None`: always two queued packets.
    mean_interval: Option<Span>,
}

impl PacketSource {
    fn always(user: u32) -> PacketSource {
        PacketSource { user, from: Time::ZERO, until: Time::MAX, mean_interval: None }
    }
}

/// Rayleigh fading, drawn per slot and user, with a mean per user.
struct Fading(fn(u32) -> f64);

impl Channel for Fading {
    fn at(&mut self, user: u32, at: Time) -> ChannelState {
        let mean = (self.0)(user);
        let slot = at.nanos() / SLOT.nanos();
        let mut random = RandomStream::named(slot, "conformance", &format!("{user}"));
        ChannelState::from_es_n0(-mean * libm::log(1.0 - random.uniform()))
    }
}

/// The result of a run.
#[derive(Default, PartialEq)]
struct DriveResult {
    /// Services: time, user and packet number.
    sent: Vec<(Time, u32, u32)>,
    /// Slots without a service although packets waited.
    idle_slots: u64,
}

impl DriveResult {
    /// Returns the number of packets of a user from `from` to `until`.
    fn packets_served(&self, user: u32, from: Time, until: Time) -> usize {
        self.sent
            .iter()
            .filter(|(at, served, _)| *served == user && (from..until).contains(at))
            .count()
    }

    /// Returns the longest time without a service of a user that always has packets, up to `end`.
    fn max_gap(&self, user: u32, end: Time) -> Span {
        let mut last = Time::ZERO;
        let mut longest = Span::ZERO;
        for (at, ..) in self.sent.iter().filter(|(_, served, _)| *served == user) {
            longest = longest.max(at.since(last));
            last = *at;
        }
        longest.max(end.since(last))
    }
}

/// Sends packets of `sources` over the link for a number of slots. One of ten attempts fails.
fn drive(
    subject: &mut Subject,
    mut channel: Fading,
    sources: &[PacketSource],
    slots: u64,
) -> DriveResult {
    let (mut queue, mut out, mut found) =
        (subject.queue(), StageOutput::default(), DriveResult::default());
    let mut random = RandomStream::named(7, "conformance", "arrivals");
    let mut queued = vec![0u64; sources.len()];
    let mut numbers = vec![0u32; sources.len()];
    for slot in 0..slots {
        let now = at(slot);
        for (index, source) in sources.iter().enumerate() {
            let sends = now >= source.from && now < source.until;
            let more = match source.mean_interval {
                None => 2u64.saturating_sub(queued[index]),
                Some(every) => u64::from(random.chance(SLOT.nanos() as f64 / every.nanos() as f64)),
            };
            for _ in 0..if sends { more } else { 0 } {
                let handle = numbers[index];
                let packet = Packet { user: source.user, handle, ..Packet::of_bytes(BYTES) };
                queue.enqueue(now, packet, &mut out);
                numbers[index] += 1;
                queued[index] += 1;
            }
        }
        let waits = queue.backlog().0 > 0;
        let packet = queue.dequeue(now, &mut channel, &mut out);
        for (_, packet, _) in out.dropped.drain(..) {
            if let Some(index) = sources.iter().position(|one| one.user == packet.user) {
                queued[index] -= 1;
            }
        }
        let Some(packet) = packet else {
            found.idle_slots += u64::from(waits && queue.backlog().0 > 0);
            continue;
        };
        if let Some(index) = sources.iter().position(|one| one.user == packet.user) {
            queued[index] -= 1;
        }
        found.sent.push((now, packet.user, packet.handle));
        let transmission =
            Transmission { packet, id: slot, attempt: 1, is_duplicate: false, sequence: slot };
        let end = at(slot + 1);
        if random.chance(0.1) {
            queue.on_service_end(end, &transmission, SLOT, ServiceOutcome::Retransmit { at: end });
        }
        queue.on_service_end(end, &transmission, SLOT, ServiceOutcome::Deliver);
    }
    found
}

fn first_detail(faults: &[String]) -> String {
    faults.first().map_or(String::new(), |fault| format!("; the first: {fault}"))
}

/// Returns five intermittent users with numbers far apart.
fn sparse_sources() -> Vec<PacketSource> {
    let rare = |user: u32, every| PacketSource {
        mean_interval: Some(Span::from_millis(every)),
        ..PacketSource::always(user)
    };
    vec![rare(0, 5), rare(7, 8), rare(70, 40), rare(1_000, 400), rare(65_535, 10)]
}

fn only_backlogged(subject: &mut Subject) -> (bool, String) {
    subject.take_invalid_decisions();
    let found = drive(subject, Fading(|_| 2.0), &sparse_sources(), 10_000);
    let faults = subject.take_invalid_decisions();
    (
        faults.is_empty(),
        format!(
            "{} decisions, {} invalid{}",
            found.sent.len(),
            faults.len(),
            first_detail(&faults)
        ),
    )
}

fn work_conserving(subject: &mut Subject) -> (bool, String) {
    let found = drive(subject, Fading(|_| 2.0), &sparse_sources(), 10_000);
    (found.idle_slots == 0, format!("{} of 10,000 ms idle with waiting packets", found.idle_slots))
}

fn deterministic(subject: &mut Subject) -> (bool, String) {
    let [one, two] = [0, 1].map(|_| {
        let mut sources = sparse_sources();
        sources.extend((1..6).map(PacketSource::always));
        drive(subject, Fading(|_| 2.0), &sources, 3_000)
    });
    let other = one.sent.iter().zip(&two.sent).position(|(a, b)| a != b);
    match other {
        None if one == two => (true, format!("{} equal decisions", one.sent.len())),
        other => {
            let index = other.unwrap_or(one.sent.len().min(two.sent.len()));
            (false, format!("decision {} differs", index + 1))
        }
    }
}

fn alone(subject: &mut Subject) -> (bool, String) {
    let found = drive(subject, Fading(|_| 2.0), &[PacketSource::always(3)], 1_000);
    let ordered = found.sent.windows(2).all(|pair| pair[0].2 < pair[1].2);
    (found.sent.len() == 1_000 && ordered, format!("{} packets in 1,000 ms", found.sent.len()))
}

fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(a, b), x| (a + x, b + x * x));
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

fn equal(subject: &mut Subject) -> (bool, String) {
    let users = 8u32;
    let sources: Vec<PacketSource> = (0..users).map(PacketSource::always).collect();
    let found = drive(subject, Fading(|_| 2.0), &sources, 16_000);
    let total = found.sent.len().max(1) as f64;
    let shares: Vec<f64> = (0..users)
        .map(|user| {
            found.packets_served(user, Time::ZERO, Time::MAX) as f64 * f64::from(users) / total
        })
        .collect();
    let (min_share, max_share) =
        shares.iter().fold((f64::MAX, 0.0f64), |(a, b), x| (a.min(*x), b.max(*x)));
    (
        min_share >= 0.5 && max_share <= 2.0,
        format!(
            "{min_share:.2} to {max_share:.2} of an equal share, Jain's index {:.3}",
            jain(&shares)
        ),
    )
}

fn starvation(subject: &mut Subject) -> (bool, String) {
    let sources: Vec<PacketSource> = (0..8).map(PacketSource::always).collect();
    let channel = Fading(|user| if user == 5 { 0.02 } else { 4.0 });
    let found = drive(subject, channel, &sources, 10_000);
    let waits = |user| found.max_gap(user, at(10_000)).nanos() as f64 / 1e9;
    let worst = (0..8).map(waits).fold(0.0, f64::max);
    (worst <= 2.0, format!("at most {worst:.2} s without a packet"))
}

fn newcomer(subject: &mut Subject) -> (bool, String) {
    let mut sources: Vec<PacketSource> = (0..5).map(PacketSource::always).collect();
    sources[1].until = at(3_000);
    sources.push(PacketSource { from: at(5_000), ..PacketSource::always(9) });
    let found = drive(subject, Fading(|_| 2.0), &sources, 11_000);
    let share = |user| found.packets_served(user, at(5_000), at(11_000)) as f64 * 5.0 / 6_000.0;
    let new = share(9);
    let old = [0, 2, 3, 4].map(share).into_iter().fold(f64::MAX, f64::min);
    (
        new >= 0.25 && old >= 0.25,
        format!("the new user has {new:.2}, each earlier user {old:.2} or more of an equal share"),
    )
}

fn no_signal(subject: &mut Subject) -> (bool, String) {
    subject.take_invalid_decisions();
    let sources: Vec<PacketSource> = (0..4).map(PacketSource::always).collect();
    let found = drive(subject, Fading(|_| 0.0), &sources, 2_000);
    let faults = subject.take_invalid_decisions();
    let served =
        (0..4).filter(|user| found.packets_served(*user, Time::ZERO, Time::MAX) > 0).count();
    (
        served == 4 && faults.is_empty(),
        format!(
            "{served} of 4 users served, {} invalid decisions{}",
            faults.len(),
            first_detail(&faults)
        ),
    )
}

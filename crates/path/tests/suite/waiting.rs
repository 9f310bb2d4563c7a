//! Waits below capacity against closed forms: Poisson arrivals, one server that never rests while somebody waits.

use path::{
    AverageSpec, Averaged, Channel, Cx, DeadlineSpec, DropTail, Fate, FixedChannel, Job, PerUser,
    PerUserSpec, SchedulerSpec, Service, Stage, Transmitter,
};
use units::{Packet, RandomStream, Span, Time};

use crate::common::packet;

/// A user whose packets come as a Poisson process: so many a second, each of one of two sizes.
#[derive(Clone, Copy)]
struct User {
    rate: f64,
    /// The share of the first size.
    share: f64,
    bytes: [u32; 2],
}

/// Packets of one size that take so much of the link's time.
fn constant(load: f64, bytes: u32) -> User {
    User { rate: load * BYTES_S / f64::from(bytes), share: 1.0, bytes: [bytes, bytes] }
}

/// Packets of two sizes, of which 40 % are full.
fn mixed(load: f64) -> User {
    let user = User { rate: 1.0, share: 0.4, bytes: [1_500, 100] };
    User { rate: load / user.load(), ..user }
}

impl User {
    /// The n-th moment of a packet's service, in seconds to the n.
    fn moment(&self, n: i32) -> f64 {
        let of = |bytes: u32| libm::pow(f64::from(bytes) / BYTES_S, f64::from(n));
        self.share * of(self.bytes[0]) + (1.0 - self.share) * of(self.bytes[1])
    }

    fn load(&self) -> f64 {
        self.rate * self.moment(1)
    }
}

/// Pollaczek and Khinchine: the mean wait in one queue of all, in seconds (Kleinrock, Queueing Systems I, 1975, chapter 5).
fn one_queue(users: &[User]) -> f64 {
    let left: f64 = users.iter().map(|user| user.rate * user.moment(2) / 2.0).sum();
    left / (1.0 - users.iter().map(User::load).sum::<f64>())
}

/// A byte a microsecond.
const BYTES_S: f64 = 1e6;

struct Bytes;

impl Service for Bytes {
    fn begin(&mut self, due: Time, job: &Job, _: &mut dyn Channel) -> Time {
        due + service(&job.packet)
    }
    fn end(&mut self, _: Time, _: &Job, _: &mut Cx) -> Fate {
        Fate::Deliver
    }
}

fn service(packet: &Packet) -> Span {
    Span(u64::from(packet.bytes) * 1_000)
}

const PACKETS: usize = 400_000;
const BATCHES: usize = 20;

/// All users' arrivals, in order.
fn arrivals(users: &[User]) -> Vec<Packet> {
    let total: f64 = users.iter().map(|user| user.rate).sum();
    let mut random = RandomStream::named(7, "waiting", "arrivals");
    let mut at = 0.0;
    (0..PACKETS as u32)
        .map(|number| {
            at += random.exponential(1e9 / total);
            let mut whose = random.uniform() * total;
            let user = (users.iter())
                .position(|user| {
                    whose -= user.rate;
                    whose < 0.0
                })
                .unwrap_or(users.len() - 1);
            let size = usize::from(!random.chance(users[user].share));
            let born = Time(at as u64);
            Packet {
                user: user as u32,
                created_at: born,
                ..packet(number, users[user].bytes[size])
            }
        })
        .collect()
}

/// How long each packet waited, by its number.
fn waits(mut link: impl Stage, arrivals: &[Packet]) -> Vec<Span> {
    let (mut cx, mut waited) = (Cx::default(), vec![None; arrivals.len()]);
    let mut left = |cx: &mut Cx| {
        assert!(cx.dropped.is_empty());
        for (due, packet) in cx.emitted.drain(..) {
            let wait = Span(due.since(packet.created_at).nanos() - service(&packet).nanos());
            assert!(waited[packet.handle as usize].replace(wait).is_none());
        }
    };
    for packet in arrivals {
        link.poll(packet.created_at, &mut cx);
        link.push(packet.created_at, *packet, &mut cx);
        left(&mut cx);
    }
    link.poll(Time(u64::MAX - 1), &mut cx);
    left(&mut cx);
    // What is told of users is what was seen of their packets.
    for queue in link.user_queues() {
        let own = arrivals.iter().filter(|packet| packet.user == queue.user);
        let own: Vec<Span> = own.filter_map(|packet| waited[packet.handle as usize]).collect();
        let sum = own.iter().fold(Span::ZERO, |sum, wait| sum + *wait);
        assert_eq!((queue.sent, queue.waited), (own.len() as u64, sum));
        assert_eq!(Some(queue.longest), own.into_iter().max());
    }
    waited.into_iter().map(|wait| wait.expect("it has left")).collect()
}

fn drop_tail(arrivals: &[Packet]) -> Vec<Span> {
    waits(Transmitter::new(DropTail::new(None), Bytes), arrivals)
}

fn shared(scheduler: SchedulerSpec, arrivals: &[Packet]) -> Vec<Span> {
    let spec = PerUserSpec { scheduler, limit: None, total: None, channel_delay_ns: 0 };
    waits(Transmitter::over(PerUser::new(&spec), Bytes, FixedChannel::new(5.0)), arrivals)
}

/// The means of batches after the first, which begins with nobody there.
fn batches(values: &[f64]) -> Vec<f64> {
    let all = values.chunks_exact(values.len() / BATCHES).skip(1);
    all.map(|batch| batch.iter().sum::<f64>() / batch.len() as f64).collect()
}

/// Whether the mean of `values`, one after the other in time, is `expected`, as far as their batches tell: those are longer
/// than a queue remembers, some 1 / (1 - sqrt(load))^2 services. Batches that tell nothing would be a test of nothing.
fn judge(what: &str, values: &[f64], expected: f64) {
    let (mean, error) = mean_and_error(&batches(values));
    assert!(error < 0.04 * expected, "{what}: {mean} within {error}");
    assert!((mean - expected).abs() < 4.5 * error, "{what}: {mean}, {expected} expected");
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
    (mean, (variance / (count - 1.0) / count).sqrt())
}

/// Waits in seconds of the packets of `user`, or of all.
fn seconds(waits: &[Span], arrivals: &[Packet], user: Option<u32>) -> Vec<f64> {
    let own =
        arrivals.iter().zip(waits).filter(|(packet, _)| user.is_none_or(|n| n == packet.user));
    own.map(|(_, wait)| wait.nanos() as f64 / 1e9).collect()
}

fn average(of: Averaged) -> AverageSpec {
    AverageSpec { of, window_ns: 300_000_000 }
}

/// Who takes turns: by themselves, or because their channels are alike for ever.
fn in_turns() -> [SchedulerSpec; 3] {
    [
        SchedulerSpec::RoundRobin,
        SchedulerSpec::MaximumRate,
        SchedulerSpec::ProportionalFair { average: average(Averaged::Channel) },
    ]
}

/// Every scheduler that drops nobody.
fn all() -> Vec<SchedulerSpec> {
    let deadline = DeadlineSpec { delay_ns: 100_000_000, violation: 0.03, best_effort: Vec::new() };
    let average = average(Averaged::Served);
    let drr =
        |quantum_bytes| SchedulerSpec::DeficitRoundRobin { quantum_bytes, weights: vec![(1, 3.0)] };
    let mut all = in_turns().to_vec();
    all.extend([
        drr(150),
        drr(1_500),
        SchedulerSpec::ProportionalFair { average },
        SchedulerSpec::Codes { average, time_limit_ns: u64::MAX / 2 },
        SchedulerSpec::MLwdf { average, deadline: deadline.clone() },
        SchedulerSpec::ExpPf { average, deadline },
    ]);
    all
}

#[test]
fn one_queue_is_md1_and_mg1() {
    for load in [0.3, 0.6, 0.8, 0.9] {
        for (what, user) in [("M/D/1", constant(load, 1_000)), ("M/G/1", mixed(load))] {
            let arrivals = arrivals(&[user]);
            let waited = seconds(&drop_tail(&arrivals), &arrivals, None);
            judge(&format!("{what} at {load}"), &waited, one_queue(&[user]));
        }
        // Of packets of one size the formula is load x service / 2 (1 - load).
        let by_hand = load * 1e-3 / (2.0 * (1.0 - load));
        assert!((one_queue(&[constant(load, 1_000)]) / by_hand - 1.0).abs() < 1e-12);
    }
}

/// Whoever goes first, the link has the same work before it at every instant: the sum over packets of service times wait is the
/// same to the nanosecond, whatever the sizes. (The integral of that work over time is this sum and half of all services squared.)
#[test]
fn work_that_waits_is_conserved() {
    let users = [mixed(0.3), constant(0.2, 200), mixed(0.15), constant(0.2, 1_200)];
    let arrivals = arrivals(&users);
    let work = |waits: &[Span]| -> u128 {
        let each = arrivals.iter().zip(waits);
        each.map(|(packet, wait)| u128::from(packet.bytes) * u128::from(wait.nanos())).sum()
    };
    let first_in_first_out = drop_tail(&arrivals);
    for scheduler in all() {
        let waited = shared(scheduler.clone(), &arrivals);
        assert_eq!(work(&waited), work(&first_in_first_out), "{scheduler:?}");
        // Who waited longest goes first on equal channels; everybody else has another order.
        let same = waited == first_in_first_out;
        assert!(!same || matches!(scheduler, SchedulerSpec::MLwdf { .. }), "{scheduler:?}");
    }
}

/// Kleinrock's conservation law (Naval Research Logistics Quarterly 12, 1965): of work-conserving disciplines that do not cut a service short
/// and do not look at its length within a user, the sum of load times wait over users is load times the wait in one queue.
#[test]
fn loads_times_waits_are_conserved() {
    let users = [constant(0.1, 200), constant(0.3, 600), constant(0.4, 1_500)];
    let (arrivals, load) = (arrivals(&users), users.iter().map(User::load).sum::<f64>());
    let expected = load * one_queue(&users);
    let total: f64 = users.iter().map(|user| user.rate).sum();
    let drr = |weights| SchedulerSpec::DeficitRoundRobin { quantum_bytes: 1_500, weights };
    let of = [
        ("drop-tail", drop_tail(&arrivals)),
        ("round robin", shared(SchedulerSpec::RoundRobin, &arrivals)),
        ("deficit round robin", shared(drr(Vec::new()), &arrivals)),
        ("weighted", shared(drr(vec![(2, 8.0)]), &arrivals)),
    ];
    let mut each = Vec::new();
    for (what, waited) in &of {
        // A packet's part of the sum: the rate of all times its service times its wait.
        let parts: Vec<f64> = (arrivals.iter().zip(waited))
            .map(|(packet, wait)| {
                total * service(packet).nanos() as f64 * wait.nanos() as f64 / 1e18
            })
            .collect();
        judge(what, &parts, expected);
        each.push([0, 1, 2].map(|user| batches(&seconds(waited, &arrivals, Some(user)))));
    }
    // In one queue all wait alike. In turns of a packet who sends the fewest waits less and the others longer, in turns of as
    // many bytes who sends the least and who sends the most, unless its weight is large.
    for own in &each[0] {
        let (mean, error) = mean_and_error(own);
        assert!((mean - one_queue(&users)).abs() < 4.5 * error, "{mean} within {error}");
    }
    // The same arrivals: batches are pairs.
    let apart = |one: &[f64], other: &[f64]| {
        let more: Vec<f64> = one.iter().zip(other).map(|(one, other)| other - one).collect();
        let (mean, error) = mean_and_error(&more);
        assert!(mean > 4.5 * error, "{mean} within {error}");
    };
    let [queue, packets, bytes, weighted] = &each[..] else { unreachable!() };
    apart(&packets[2], &queue[2]);
    apart(&queue[0], &packets[0]);
    apart(&bytes[0], &queue[0]);
    apart(&queue[2], &bytes[2]);
    apart(&weighted[2], &bytes[2]);
}

/// Users of equal statistics have equal waits in turns, which are those of one queue: polling without time to change over
/// (Takagi, Analysis of Polling Systems, 1986) is M/G/1 by conservation.
#[test]
fn equal_users_in_turns_wait_as_in_one_queue() {
    for load in [0.5, 0.8] {
        let users = [mixed(load / 5.0); 5];
        let arrivals = arrivals(&users);
        for scheduler in in_turns() {
            let waited = shared(scheduler.clone(), &arrivals);
            for user in 0..5 {
                let own = seconds(&waited, &arrivals, Some(user));
                judge(&format!("{scheduler:?}, {user} at {load}"), &own, one_queue(&users));
            }
        }
    }
}

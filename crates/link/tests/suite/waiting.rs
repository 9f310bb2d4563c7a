//! Waiting times below capacity compared with closed forms: Poisson arrivals and one work-conserving server.

use link::{
    AverageSpec, AveragedQuantity, Channel, CodesSpec, DeadlineSpec, DeficitRoundRobinSpec,
    DropTail, ExpPfSpec, FixedChannel, MLwdfSpec, MaximumRateSpec, PerUserQueue, PerUserSpec,
    ProportionalFairSpec, RoundRobinSpec, SchedulerSpec, ServiceOutcome, ServiceProcess, Stage,
    StageOutput, Transmission, Transmitter,
};
use units::{Packet, RandomStream, Span, Time};

use crate::common::packet;

/// A user with Poisson arrivals: packets per second, each of one of two sizes.
#[derive(Clone, Copy)]
struct User {
    rate: f64,
    /// The share of the first size.
    share: f64,
    bytes: [u32; 2],
}

/// Returns a user with packets of one size and the given load of the link.
fn constant(load: f64, bytes: u32) -> User {
    User { rate: load * BYTES_S / f64::from(bytes), share: 1.0, bytes: [bytes, bytes] }
}

/// Returns a user with packets of two sizes, 40 % of which are full.
fn mixed(load: f64) -> User {
    let user = User { rate: 1.0, share: 0.4, bytes: [1_500, 100] };
    User { rate: load / user.load(), ..user }
}

impl User {
    /// Returns the n-th moment of a packet's service time, in seconds to the power of n.
    fn moment(&self, n: i32) -> f64 {
        let of = |bytes: u32| libm::pow(f64::from(bytes) / BYTES_S, f64::from(n));
        self.share * of(self.bytes[0]) + (1.0 - self.share) * of(self.bytes[1])
    }

    fn load(&self) -> f64 {
        self.rate * self.moment(1)
    }
}

/// Returns the mean wait in one shared queue in s (Pollaczek and Khinchine; Kleinrock, Queueing Systems I, 1975, ch.
/// 5).
fn one_queue(users: &[User]) -> f64 {
    let left: f64 = users.iter().map(|user| user.rate * user.moment(2) / 2.0).sum();
    left / (1.0 - users.iter().map(User::load).sum::<f64>())
}

/// One byte per microsecond.
const BYTES_S: f64 = 1e6;

struct Bytes;

impl ServiceProcess for Bytes {
    fn begin(&mut self, due: Time, job: &Transmission, _: &mut dyn Channel) -> Time {
        due + service(&job.packet)
    }
    fn end(&mut self, _: Time, _: &Transmission, _: &mut StageOutput) -> ServiceOutcome {
        ServiceOutcome::Deliver
    }
}

fn service(packet: &Packet) -> Span {
    Span(u64::from(packet.bytes) * 1_000)
}

const PACKETS: usize = 400_000;
const BATCHES: usize = 20;

/// Returns the time-ordered arrivals of all users.
fn arrivals(users: &[User]) -> Vec<Packet> {
    let total: f64 = users.iter().map(|user| user.rate).sum();
    let mut random = RandomStream::named(7, "waiting", "arrivals");
    let mut at = 0.0;
    (0..PACKETS as u32)
        .map(|number| {
            at += random.exponential(1e9 / total);
            let mut rate_left = random.uniform() * total;
            let user = (users.iter())
                .position(|user| {
                    rate_left -= user.rate;
                    rate_left < 0.0
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

/// Returns the waiting time of each packet, by its number.
fn waits(mut link: impl Stage, arrivals: &[Packet]) -> Vec<Span> {
    let (mut out, mut waited) = (StageOutput::default(), vec![None; arrivals.len()]);
    let mut left = |out: &mut StageOutput| {
        assert!(out.dropped.is_empty());
        for (due, packet) in out.emitted.drain(..) {
            let wait = Span(due.since(packet.created_at).nanos() - service(&packet).nanos());
            assert!(waited[packet.handle as usize].replace(wait).is_none());
        }
    };
    for packet in arrivals {
        link.poll(packet.created_at, &mut out);
        link.push(packet.created_at, *packet, &mut out);
        left(&mut out);
    }
    link.poll(Time(u64::MAX - 1), &mut out);
    left(&mut out);
    // The statistics of users must match the observed packets.
    for queue in link.user_queues() {
        let of_user = arrivals.iter().filter(|packet| packet.user == queue.user);
        let of_user: Vec<Span> =
            of_user.filter_map(|packet| waited[packet.handle as usize]).collect();
        let sum = of_user.iter().fold(Span::ZERO, |sum, wait| sum + *wait);
        assert_eq!((queue.sent, queue.total_wait), (of_user.len() as u64, sum));
        assert_eq!(Some(queue.max_wait), of_user.into_iter().max());
    }
    waited.into_iter().map(|wait| wait.expect("it has left")).collect()
}

fn drop_tail(arrivals: &[Packet]) -> Vec<Span> {
    waits(Transmitter::new(DropTail::new(None), Bytes), arrivals)
}

fn shared(scheduler: SchedulerSpec, arrivals: &[Packet]) -> Vec<Span> {
    let spec = PerUserSpec { scheduler, limit: None, total: None, csi_delay_ns: 0 };
    waits(
        Transmitter::with_channel(PerUserQueue::new(&spec), Bytes, FixedChannel::new(5.0)),
        arrivals,
    )
}

/// Returns the means of the batches, except the first one, which begins with an empty queue.
fn batches(values: &[f64]) -> Vec<f64> {
    let all = values.chunks_exact(values.len() / BATCHES).skip(1);
    all.map(|batch| batch.iter().sum::<f64>() / batch.len() as f64).collect()
}

/// Checks that the mean of `values`, a time series, is `expected` within the error of batch means. Batches are longer
/// than the correlation of the queue, some 1 / (1 - sqrt(load))^2 services. A large error fails the test.
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

/// Returns the waits in seconds of the packets of `user`, or of all users.
fn seconds(waits: &[Span], arrivals: &[Packet], user: Option<u32>) -> Vec<f64> {
    let rate_waits =
        arrivals.iter().zip(waits).filter(|(packet, _)| user.is_none_or(|n| n == packet.user));
    rate_waits.map(|(_, wait)| wait.nanos() as f64 / 1e9).collect()
}

fn average(of: AveragedQuantity) -> AverageSpec {
    AverageSpec { quantity: of, window_ns: 300_000_000 }
}

/// Returns the schedulers that serve in turns: by design, or because the channels are permanently equal.
fn in_turns() -> [SchedulerSpec; 3] {
    [
        SchedulerSpec::RoundRobin(RoundRobinSpec {}),
        SchedulerSpec::MaximumRate(MaximumRateSpec {}),
        SchedulerSpec::ProportionalFair(ProportionalFairSpec {
            average: average(AveragedQuantity::Channel),
        }),
    ]
}

/// Returns every scheduler that drops no packets.
fn all() -> Vec<SchedulerSpec> {
    let deadline =
        DeadlineSpec { delay_ns: 100_000_000, violation_ratio: 0.03, best_effort: Vec::new() };
    let average = average(AveragedQuantity::Served);
    let drr = |quantum_bytes| {
        SchedulerSpec::DeficitRoundRobin(DeficitRoundRobinSpec {
            quantum_bytes,
            weights: vec![(1, 3.0)],
        })
    };
    let mut all = in_turns().to_vec();
    all.extend([
        drr(150),
        drr(1_500),
        SchedulerSpec::ProportionalFair(ProportionalFairSpec { average }),
        SchedulerSpec::Codes(CodesSpec { average, time_limit_ns: u64::MAX / 2 }),
        SchedulerSpec::MLwdf(MLwdfSpec { average, deadline: deadline.clone() }),
        SchedulerSpec::ExpPf(ExpPfSpec { average, deadline }),
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
        // For packets of one size the formula is load x service / 2 (1 - load).
        let by_hand = load * 1e-3 / (2.0 * (1.0 - load));
        assert!((one_queue(&[constant(load, 1_000)]) / by_hand - 1.0).abs() < 1e-12);
    }
}

/// In every service order the link has the same unfinished work at every instant. So the sum over packets of service
/// time times wait is equal to the nanosecond, for all sizes. (The time integral of that work is this sum plus half of
/// all services squared.)
#[test]
fn unfinished_work_is_conserved() {
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
        // On equal channels M-LWDF serves the longest wait first. All other schedulers have another order.
        let same = waited == first_in_first_out;
        assert!(!same || matches!(scheduler, SchedulerSpec::MLwdf(_)), "{scheduler:?}");
    }
}

/// Kleinrock's conservation law (Naval Research Logistics Quarterly 12, 1965) for work-conserving disciplines that do
/// not preempt and ignore service times within a user. The sum of load times wait over users is load times the wait in
/// one queue.
#[test]
fn loads_times_waits_are_conserved() {
    let users = [constant(0.1, 200), constant(0.3, 600), constant(0.4, 1_500)];
    let (arrivals, load) = (arrivals(&users), users.iter().map(User::load).sum::<f64>());
    let expected = load * one_queue(&users);
    let total: f64 = users.iter().map(|user| user.rate).sum();
    let drr = |weights| {
        SchedulerSpec::DeficitRoundRobin(DeficitRoundRobinSpec { quantum_bytes: 1_500, weights })
    };
    let of = [
        ("drop-tail", drop_tail(&arrivals)),
        ("round robin", shared(SchedulerSpec::RoundRobin(RoundRobinSpec {}), &arrivals)),
        ("deficit round robin", shared(drr(Vec::new()), &arrivals)),
        ("weighted", shared(drr(vec![(2, 8.0)]), &arrivals)),
    ];
    let mut each = Vec::new();
    for (what, waited) in &of {
        // The contribution of a packet to the sum: the total rate times its service times its wait.
        let parts: Vec<f64> = (arrivals.iter().zip(waited))
            .map(|(packet, wait)| {
                total * service(packet).nanos() as f64 * wait.nanos() as f64 / 1e18
            })
            .collect();
        judge(what, &parts, expected);
        each.push([0, 1, 2].map(|user| batches(&seconds(waited, &arrivals, Some(user)))));
    }
    // In one queue all users wait equally. With turns per packet, the user with the fewest packets waits less and the
    // others longer. With turns per bytes, the user with the fewest bytes waits less and the one with the most longer,
    // unless its weight is large.
    for of_user in &each[0] {
        let (mean, error) = mean_and_error(of_user);
        assert!((mean - one_queue(&users)).abs() < 4.5 * error, "{mean} within {error}");
    }
    // The arrivals are equal, so the batches are pairs.
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

/// With turns, users of equal statistics have the waits of one queue. Polling without switchover times (Takagi,
/// Analysis of Polling Systems, 1986) is M/G/1 by conservation.
#[test]
fn equal_users_in_turns_wait_as_in_one_queue() {
    for load in [0.5, 0.8] {
        let users = [mixed(load / 5.0); 5];
        let arrivals = arrivals(&users);
        for scheduler in in_turns() {
            let waited = shared(scheduler.clone(), &arrivals);
            for user in 0..5 {
                let of_user = seconds(&waited, &arrivals, Some(user));
                judge(&format!("{scheduler:?}, {user} at {load}"), &of_user, one_queue(&users));
            }
        }
    }
}

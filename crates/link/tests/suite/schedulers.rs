//! User schedulers compared with closed forms.

use std::sync::{Arc, Mutex};

use link::{
    AverageSpec, AveragedQuantity, Channel, ChannelState, CodesSpec, DeadlineSpec,
    DeficitRoundRobinSpec, DropReason, DropTail, ExpPfSpec, FixedChannel, MLwdfSpec,
    MaximumRateSpec, PerUserQueue, PerUserSpec, ProportionalFairSpec, QueueLimit, RoundRobinSpec,
    SchedulerSpec, ServiceOutcome, ServiceProcess, Stage, StageOutput, Transmission, Transmitter,
};
use units::{Packet, RandomStream, Span, Time};

use crate::common::packet;

const MS: u64 = 1_000_000;
const SLOT: Span = Span(MS);

fn average(of: AveragedQuantity, window_ms: u64) -> AverageSpec {
    AverageSpec { quantity: of, window_ns: window_ms * MS }
}

fn pf(of: AveragedQuantity) -> SchedulerSpec {
    SchedulerSpec::ProportionalFair(ProportionalFairSpec { average: average(of, 300) })
}

fn deadline(best_effort: &[u32]) -> DeadlineSpec {
    DeadlineSpec { delay_ns: 100 * MS, violation_ratio: 0.03, best_effort: best_effort.to_vec() }
}

/// Returns every scheduler.
fn all() -> Vec<SchedulerSpec> {
    let average = average(AveragedQuantity::Served, 100);
    vec![
        SchedulerSpec::RoundRobin(RoundRobinSpec {}),
        SchedulerSpec::DeficitRoundRobin(DeficitRoundRobinSpec {
            quantum_bytes: 700,
            weights: vec![(1, 3.0)],
        }),
        SchedulerSpec::MaximumRate(MaximumRateSpec {}),
        pf(AveragedQuantity::Channel),
        pf(AveragedQuantity::Served),
        SchedulerSpec::Codes(CodesSpec { average, time_limit_ns: 20 * MS }),
        SchedulerSpec::MLwdf(MLwdfSpec { average, deadline: deadline(&[2]) }),
        SchedulerSpec::ExpPf(ExpPfSpec { average, deadline: deadline(&[2]) }),
    ]
}

fn queue(scheduler: SchedulerSpec) -> PerUserSpec {
    PerUserSpec { scheduler, limit: None, total: None, csi_delay_ns: 0 }
}

/// A service of one packet per slot, or of one byte per microsecond.
struct Slots {
    by_bytes: bool,
}

impl ServiceProcess for Slots {
    fn begin(&mut self, due: Time, job: &Transmission, _: &mut dyn Channel) -> Time {
        due + if self.by_bytes { Span(u64::from(job.packet.bytes) * 1_000) } else { SLOT }
    }
    fn end(&mut self, _: Time, _: &Transmission, _: &mut StageOutput) -> ServiceOutcome {
        ServiceOutcome::Deliver
    }
}

/// Rayleigh fading with mean Es/N0 `mean`, independent for each slot and user.
struct Independent {
    mean: f64,
}

impl Channel for Independent {
    fn at(&mut self, user: u32, at: Time) -> ChannelState {
        let slot = at.nanos() / SLOT.nanos();
        let mut random = RandomStream::named(slot, "test", &format!("{user}"));
        ChannelState::from_es_n0(-self.mean * libm::log(1.0 - random.uniform()))
    }
}

/// Returns the packets served in `slots` slots, for `users` users with permanent backlog and packets of `bytes`.
fn backlogged(
    spec: &PerUserSpec,
    channel: impl Channel + 'static,
    users: u32,
    slots: usize,
    bytes: fn(u32) -> u32,
) -> Vec<(Time, Packet)> {
    let service = Slots { by_bytes: bytes(0) != bytes(1) };
    let mut link = Transmitter::with_channel(PerUserQueue::new(spec), service, channel);
    let mut out = StageOutput::default();
    let of = |user: u32| Packet { user, ..packet(user, bytes(user)) };
    for user in (0..300).flat_map(|_| 0..users) {
        link.push(Time::ZERO, of(user), &mut out);
    }
    let mut left = Vec::new();
    while left.len() < slots {
        link.poll(link.poll_at(), &mut out);
        for (due, packet) in out.emitted.drain(..) {
            left.push((due, packet));
            link.push(due, of(packet.user), &mut StageOutput::default());
        }
    }
    left
}

fn shares(left: &[(Time, Packet)], users: u32) -> Vec<f64> {
    let of = |user| left.iter().filter(|(_, packet)| packet.user == user).count();
    (0..users).map(|user| of(user) as f64 / left.len() as f64).collect()
}

#[test]
fn round_robin_has_exact_shares() {
    let left = backlogged(
        &queue(SchedulerSpec::RoundRobin(RoundRobinSpec {})),
        FixedChannel::PERFECT,
        7,
        700,
        |u| 100 + 50 * u,
    );
    assert!(left.iter().zip((0..7).cycle()).all(|((_, packet), user)| packet.user == user));
}

/// On permanently equal channels a channel-aware scheduler serves in turns.
#[test]
fn equal_channels_are_served_by_longest_wait() {
    for scheduler in [SchedulerSpec::MaximumRate(MaximumRateSpec {}), pf(AveragedQuantity::Channel)]
    {
        let left = backlogged(&queue(scheduler), FixedChannel::new(5.0), 5, 500, |_| 1_000);
        assert!(left.iter().zip((0..5).cycle()).all(|((_, packet), user)| packet.user == user));
    }
}

/// Bytes in proportion to the weights for all packet sizes. At every instant two users differ by at most a quantum and
/// two packets (Shreedhar and Varghese, theorem 4.2; each quantum times the user's weight).
#[test]
fn deficit_round_robin_has_bytes_by_weight() {
    for quantum_bytes in [7, 500, 1_500, 40_000] {
        let weights = vec![(1, 2.0), (3, 0.5)];
        let scheduler =
            SchedulerSpec::DeficitRoundRobin(DeficitRoundRobinSpec { quantum_bytes, weights });
        let size = |user: u32| 200 + 433 * user;
        let left = backlogged(&queue(scheduler), FixedChannel::PERFECT, 4, 20_000, size);
        let mut sent = [0.0f64; 4];
        for (_, packet) in left {
            let user = packet.user as usize;
            sent[user] += f64::from(packet.bytes) / [1.0, 2.0, 1.0, 0.5][user];
            let (min, max) =
                sent.iter().fold((f64::MAX, 0.0f64), |(a, b), x| (a.min(*x), b.max(*x)));
            let bound = f64::from(quantum_bytes) + 2.0 * f64::from(size(3)) / 0.5;
            assert!(max - min <= bound, "{quantum_bytes}: {sent:?}");
        }
    }
}

/// With n users in Rayleigh fading the largest of n exponential values is served. Its mean is the n-th harmonic number
/// times their mean, and the rate is the integral of I(g) d(1 - exp(-g/g0))^n.
#[test]
fn maximum_rate_over_rayleigh_has_the_harmonic_gain() {
    let mean = 1.3;
    for users in [1u32, 2, 5, 20] {
        let slots = 40_000;
        let left = backlogged(
            &queue(SchedulerSpec::MaximumRate(MaximumRateSpec {})),
            Independent { mean },
            users,
            slots,
            |_| 1_000,
        );
        let mut channel = Independent { mean };
        let had: Vec<ChannelState> = left
            .iter()
            .map(|(due, packet)| channel.at(packet.user, Time(due.nanos() - MS)))
            .collect();
        let harmonic: f64 = (1..=users).map(|k| 1.0 / f64::from(k)).sum();
        // The variance of the largest of n exponential values is the sum of 1/k^2.
        let deviation = mean * (1..=users).map(|k| 1.0 / f64::from(k * k)).sum::<f64>().sqrt();
        let found = had.iter().map(|quality| quality.es_n0).sum::<f64>() / slots as f64;
        let error = (found - mean * harmonic) / (deviation / (slots as f64).sqrt());
        assert!(error.abs() < 4.5, "{users}: {found}, {} expected", mean * harmonic);

        // Quadrature by the midpoints of equal probabilities.
        let parts = 200_000;
        let largest = |part: u32| {
            let probability = (f64::from(part) + 0.5) / f64::from(parts);
            -mean * libm::log(1.0 - libm::pow(probability, 1.0 / f64::from(users)))
        };
        let rates: Vec<f64> =
            (0..parts).map(|part| ChannelState::from_es_n0(largest(part)).information).collect();
        let expected = rates.iter().sum::<f64>() / f64::from(parts);
        let variance = rates.iter().map(|rate| (rate - expected) * (rate - expected)).sum::<f64>()
            / f64::from(parts);
        let found = had.iter().map(|quality| quality.information).sum::<f64>() / slots as f64;
        let error = (found - expected) / (variance / slots as f64).sqrt();
        assert!(error.abs() < 4.5, "{users}: {found}, {expected} expected");
    }
}

/// With equal statistics proportional fair gives equal shares of the time, and a higher rate than serving in turns.
#[test]
fn proportional_fair_gives_equal_users_equal_time() {
    for of in [AveragedQuantity::Channel, AveragedQuantity::Served] {
        let (users, slots) = (8, 40_000);
        let left = backlogged(&queue(pf(of)), Independent { mean: 1.0 }, users, slots, |_| 1_000);
        // The variance of a share is at most that of independent selections.
        let one = 1.0 / f64::from(users);
        let error = (one * (1.0 - one) / slots as f64).sqrt();
        for share in shares(&left, users) {
            assert!((share - one).abs() < 4.5 * error, "{of:?}: {share}");
        }
        let mut channel = Independent { mean: 1.0 };
        let mut rate = |due: Time, user| channel.at(user, Time(due.nanos() - MS)).information;
        let chosen: f64 = left.iter().map(|(due, packet)| rate(*due, packet.user)).sum();
        let in_turn: f64 = left.iter().zip(0..).map(|((due, _), n)| rate(*due, n % users)).sum();
        assert!(chosen > 1.5 * in_turn, "{chosen} and {in_turn}");
    }
}

/// The channel of one user is three times as good as the other's. Proportional fair gives both half of the time,
/// because the ratio of their rates is constant; maximum rate serves one.
#[test]
fn proportional_fair_gives_a_worse_channel_equal_time() {
    struct Uneven;
    impl Channel for Uneven {
        fn at(&mut self, user: u32, _: Time) -> ChannelState {
            ChannelState { es_n0: 1.0, information: if user == 0 { 0.9 } else { 0.3 } }
        }
    }
    let left = backlogged(&queue(pf(AveragedQuantity::Channel)), Uneven, 2, 1_000, |_| 1_000);
    assert_eq!(shares(&left, 2), [0.5, 0.5]);
    let left = backlogged(
        &queue(SchedulerSpec::MaximumRate(MaximumRateSpec {})),
        Uneven,
        2,
        1_000,
        |_| 1_000,
    );
    assert_eq!(shares(&left, 2), [1.0, 0.0]);
    // A packet of the worse user counts as one of the better: r / (served bytes) gives a byte ratio of three to one.
    let left = backlogged(&queue(pf(AveragedQuantity::Served)), Uneven, 2, 40_000, |_| 1_000);
    assert!((shares(&left, 2)[0] - 0.75).abs() < 0.01, "{:?}", shares(&left, 2));
}

/// The scheduler drops packets that have waited for longer than the limit, and sends none of them.
#[test]
fn codes_sends_no_late_packet() {
    let limit = 20 * MS;
    let average = average(AveragedQuantity::Channel, 100);
    let spec = queue(SchedulerSpec::Codes(CodesSpec { average, time_limit_ns: limit }));
    let mut link = Transmitter::with_channel(
        PerUserQueue::new(&spec),
        Slots { by_bytes: false },
        Independent { mean: 1.0 },
    );
    let (mut out, packets) = (StageOutput::default(), 900);
    for number in 0..packets {
        // Three packets arrive for every two that can be sent.
        let at = Time(u64::from(number) * MS * 2 / 3);
        link.poll(at, &mut out);
        link.push(
            at,
            Packet { user: number % 4, created_at: at, ..packet(number, 1_000) },
            &mut out,
        );
    }
    link.poll(Time(u64::MAX - 1), &mut out);
    assert_eq!(out.emitted.len() + out.dropped.len(), packets as usize);
    let waited = |(due, packet): &(Time, Packet)| due.since(packet.created_at).nanos() - MS;
    assert!(out.emitted.iter().all(|one| waited(one) <= limit));
    assert!(out.dropped.len() > 200 && out.dropped.len() < 400, "{}", out.dropped.len());
    for (at, packet, cause) in &out.dropped {
        assert!(at.since(packet.created_at).nanos() > limit && *cause == DropReason::Aqm);
    }
    let queues = link.user_queues();
    assert_eq!(queues.len(), 4);
    let late: u64 = queues.iter().map(|queue| queue.dropped_late).sum();
    assert_eq!(late, out.dropped.len() as u64);
    assert!(queues.iter().all(|queue| queue.max_wait.nanos() <= limit));
}

/// On equal channels M-LWDF and EXP-PF serve the longest wait first. Without a deadline the metric ignores the wait.
#[test]
fn urgency_is_the_waiting_time() {
    let average = average(AveragedQuantity::Channel, 100);
    for scheduler in [
        SchedulerSpec::MLwdf(MLwdfSpec { average, deadline: deadline(&[]) }),
        SchedulerSpec::ExpPf(ExpPfSpec { average, deadline: deadline(&[]) }),
    ] {
        let mut link = Transmitter::with_channel(
            PerUserQueue::new(&queue(scheduler.clone())),
            Slots { by_bytes: false },
            FixedChannel::new(3.0),
        );
        let mut out = StageOutput::default();
        // Users in arbitrary order, a quarter of a slot apart.
        for number in 0..200u32 {
            let at = Time(u64::from(number) * MS / 4);
            link.poll(at, &mut out);
            link.push(at, Packet { user: number * 7 % 40, ..packet(number, 1_000) }, &mut out);
        }
        link.poll(Time(u64::MAX - 1), &mut out);
        assert!(out.emitted.iter().map(|(_, packet)| packet.handle).eq(0..200), "{scheduler:?}");
    }
}

/// The formula of EXP-PF, calculated for three waiting users.
#[test]
fn exponential_rule() {
    struct Given;
    impl Channel for Given {
        fn at(&mut self, user: u32, _: Time) -> ChannelState {
            ChannelState { es_n0: 1.0, information: [0.2, 0.9, 0.5, 0.4][user as usize] }
        }
    }
    // 0 and 1 have waited for 90 ms and 20 ms, 2 has no deadline; 3 is in service while they arrive.
    let value = |waited_ms: f64, ratio: f64| {
        let a = -libm::log(0.03) / 100.0;
        let mean = a * (90.0 + 20.0) / 2.0;
        libm::exp((a * waited_ms - mean) / (1.0 + mean.sqrt())) * ratio
    };
    // The average of the channel equals the channel: the ratios are 1.
    assert!(value(90.0, 1.0) > 1.0 && value(20.0, 1.0) < 1.0);
    let average = average(AveragedQuantity::Channel, 100);
    let spec = queue(SchedulerSpec::ExpPf(ExpPfSpec { average, deadline: deadline(&[2]) }));
    struct Long;
    impl ServiceProcess for Long {
        fn begin(&mut self, due: Time, _: &Transmission, _: &mut dyn Channel) -> Time {
            due + Span(100 * MS)
        }
        fn end(&mut self, _: Time, _: &Transmission, _: &mut StageOutput) -> ServiceOutcome {
            ServiceOutcome::Deliver
        }
    }
    let mut link = Transmitter::with_channel(PerUserQueue::new(&spec), Long, Given);
    let mut out = StageOutput::default();
    for (at, user) in [(0, 3), (10, 0), (50, 2), (80, 1)] {
        link.push(Time(at * MS), Packet { user, ..packet(user, 1_000) }, &mut out);
    }
    link.poll(Time(u64::MAX - 1), &mut out);
    // Without 0 the mean is that of 1 alone: exp(0) = 1, equal to the value of 2. User 2 was last served equally long
    // ago and has the lower index.
    assert!(out.emitted.iter().map(|(_, packet)| packet.user).eq([3, 0, 2, 1]));
}

/// The scheduler reads the channel only at instants earlier by its delay.
#[test]
fn a_channel_delay_reads_the_past_channel() {
    #[derive(Clone, Default)]
    struct Watched(Arc<Mutex<Vec<Time>>>);
    impl Channel for Watched {
        fn at(&mut self, user: u32, at: Time) -> ChannelState {
            Independent { mean: 1.0 }.at(user, at)
        }
        fn rates(&mut self, at: Time, users: &[u32], rates: &mut [f64]) {
            self.0.lock().unwrap().push(at);
            for (user, rate) in users.iter().zip(rates) {
                *rate = self.at(*user, at).information;
            }
        }
    }
    let run = |csi_delay_ns| {
        let watched = Watched::default();
        let spec =
            PerUserSpec { csi_delay_ns, ..queue(SchedulerSpec::MaximumRate(MaximumRateSpec {})) };
        let left = backlogged(&spec, watched.clone(), 6, 300, |_| 1_000);
        let asked = watched.0.lock().unwrap().clone();
        (left.into_iter().map(|(_, packet)| packet.user).collect::<Vec<_>>(), asked)
    };
    let ((at_once, now), (later, asked)) = (run(0), run(10 * MS));
    let expected = now.iter().map(|at| Time(at.nanos().saturating_sub(10 * MS)));
    assert!(asked.iter().copied().eq(expected));
    // After the first delayed reading within the run, the selected user is the best one of ten slots before.
    assert_eq!(later[20..300], at_once[10..290]);
}

#[test]
fn queues_are_bounded_each_and_together() {
    let bounded = |limit, total| PerUserSpec {
        limit,
        total,
        ..queue(SchedulerSpec::RoundRobin(RoundRobinSpec {}))
    };
    for (spec, each, together) in [
        (bounded(Some(QueueLimit::Packets(3)), None), 3, 12),
        // An arrival displaces a packet of a longer queue.
        (bounded(None, Some(QueueLimit::Packets(7))), 2, 7),
        (bounded(Some(QueueLimit::Packets(3)), Some(QueueLimit::Bytes(9_500))), 3, 9),
    ] {
        let mut link = Transmitter::with_channel(
            PerUserQueue::new(&spec),
            Slots { by_bytes: false },
            FixedChannel::PERFECT,
        );
        let mut out = StageOutput::default();
        link.push(Time::ZERO, packet(0, 1_000), &mut out);
        for number in 0..40 {
            link.push(Time::ZERO, Packet { user: number / 10, ..packet(number, 1_000) }, &mut out);
        }
        let queued: Vec<u64> =
            link.user_queues().iter().map(|queue| queue.queued_packets).collect();
        assert_eq!(queued.iter().max(), Some(&each));
        assert_eq!(queued.iter().sum::<u64>(), together);
        assert_eq!(out.dropped.len() as u64, 40 - together);
        let dropped: u64 = link.user_queues().iter().map(|queue| queue.dropped_overflow).sum();
        assert_eq!(dropped, 40 - together);
    }
}

/// A single user gets the service of a queue without a scheduler; only CoDeS drops.
#[test]
fn a_single_user_is_served_like_a_plain_queue() {
    let run = |mut link: Box<dyn Stage>| {
        let mut out = StageOutput::default();
        for number in 0..300 {
            let at = Time(u64::from(number) * MS * 2 / 3);
            link.poll(at, &mut out);
            link.push(at, Packet { user: 9, ..packet(number, 100 + number) }, &mut out);
        }
        link.poll(Time(u64::MAX - 1), &mut out);
        (out.emitted, out.dropped)
    };
    let limit = Some(QueueLimit::Packets(12));
    let service = || Slots { by_bytes: false };
    let alone = run(Box::new(Transmitter::new(DropTail::new(limit), service())));
    for scheduler in all() {
        let spec = PerUserSpec { limit, ..queue(scheduler) };
        let channel = Independent { mean: 1.0 };
        assert_eq!(
            run(Box::new(Transmitter::with_channel(PerUserQueue::new(&spec), service(), channel))),
            alone
        );
    }
}

/// The duration of best-channel periods: two users alternate every five slots, so each has half of the time in ten
/// periods.
#[test]
fn best_channel_periods_are_counted() {
    struct InTurn;
    impl Channel for InTurn {
        fn at(&mut self, user: u32, at: Time) -> ChannelState {
            let first = (at.nanos() / (5 * MS)).is_multiple_of(2);
            ChannelState { es_n0: 1.0, information: if first == (user == 0) { 0.9 } else { 0.1 } }
        }
    }
    let spec = queue(pf(AveragedQuantity::Channel));
    let mut link =
        Transmitter::with_channel(PerUserQueue::new(&spec), Slots { by_bytes: false }, InTurn);
    let mut out = StageOutput::default();
    for number in 0..201 {
        link.push(Time::ZERO, Packet { user: number % 2, ..packet(number, 1_000) }, &mut out);
    }
    link.poll(Time(100 * MS), &mut out);
    for queue in link.user_queues() {
        assert_eq!(
            queue.best_channel,
            Some((Span(50 * MS), if queue.user == 0 { 11 } else { 10 }))
        );
    }
}

/// With a total limit, an arrival displaces the last packet of a longer queue until the queues are equal.
#[test]
fn a_total_limit_is_shared_between_users() {
    let spec = PerUserSpec {
        total: Some(QueueLimit::Packets(7)),
        ..queue(SchedulerSpec::RoundRobin(RoundRobinSpec {}))
    };
    let service = Slots { by_bytes: false };
    let mut link =
        Transmitter::with_channel(PerUserQueue::new(&spec), service, FixedChannel::PERFECT);
    let mut out = StageOutput::default();
    for number in 0..18 {
        let user = u32::from(number > 8);
        link.push(Time::ZERO, Packet { user, ..packet(number, 1_000) }, &mut out);
    }
    // 0 is in service, 1 to 7 wait, 8 is dropped. The first three of user 1 displace 7, 6 and 5.
    let dropped: Vec<u32> = out.dropped.iter().map(|(_, packet, _)| packet.handle).collect();
    assert_eq!(dropped, [8, 7, 6, 5, 12, 13, 14, 15, 16, 17]);
    let queued: Vec<u64> = link.user_queues().iter().map(|queue| queue.queued_packets).collect();
    assert_eq!(queued, [4, 3]);
}

//! The processor time of a decision, by scheduler and number of users, all backlogged. The first channel costs no time,
//! the second models terminals under trees, queried every 0.35 ms (about a packet of Adaptive-HARQ at 50 Mbit/s).
//! Prints the median of seven.

use std::hint::black_box;

use link::{
    AverageSpec, AveragedQuantity, Channel, ChannelSpec, ChannelState, CodesSpec, DeadlineSpec,
    DeficitRoundRobinSpec, ExpPfSpec, LooSpec, LookAngle, MLwdfSpec, MaximumRateSpec, PerUserQueue,
    PerUserSpec, ProportionalFairSpec, Queue, ReferenceSnr, RoundRobinSpec, SchedulerSpec,
    StageOutput, TerminalMotion, ThreeStateSpec,
};
use units::{Packet, Time};

const REPEATS: usize = 7;
/// Much longer than a tick of the kernel's processor-time clock.
const MIN_US: f64 = 50_000.0;
const PACKET_NS: u64 = 350_000;
const USERS: [u32; 5] = [10, 50, 100, 200, 1_000];

fn schedulers() -> Vec<(&'static str, SchedulerSpec)> {
    let average = |of| AverageSpec { quantity: of, window_ns: 300_000_000 };
    let channel = average(AveragedQuantity::Channel);
    let deadline =
        || DeadlineSpec { delay_ns: 100_000_000, violation_ratio: 0.03, best_effort: Vec::new() };
    vec![
        ("round robin", SchedulerSpec::RoundRobin(RoundRobinSpec {})),
        (
            "deficit round robin",
            SchedulerSpec::DeficitRoundRobin(DeficitRoundRobinSpec {
                quantum_bytes: 1_500,
                weights: Vec::new(),
            }),
        ),
        ("maximum rate", SchedulerSpec::MaximumRate(MaximumRateSpec {})),
        ("PF, channel", SchedulerSpec::ProportionalFair(ProportionalFairSpec { average: channel })),
        (
            "PF, served",
            SchedulerSpec::ProportionalFair(ProportionalFairSpec {
                average: average(AveragedQuantity::Served),
            }),
        ),
        (
            "CoDeS",
            SchedulerSpec::Codes(CodesSpec { average: channel, time_limit_ns: u64::MAX / 2 }),
        ),
        ("M-LWDF", SchedulerSpec::MLwdf(MLwdfSpec { average: channel, deadline: deadline() })),
        ("EXP-PF", SchedulerSpec::ExpPf(ExpPfSpec { average: channel, deadline: deadline() })),
    ]
}

/// Given, different rates that cost only a copy.
struct Given(Vec<f64>);

impl Channel for Given {
    fn at(&mut self, user: u32, _: Time) -> ChannelState {
        ChannelState { es_n0: 1.0, information: self.0[user as usize] }
    }
    fn rates(&mut self, at: Time, _: &[u32], rates: &mut [f64]) {
        let turn = (at.nanos() / PACKET_NS) as usize % self.0.len();
        let (end, begin) = self.0.split_at(turn);
        rates[..begin.len()].copy_from_slice(begin);
        rates[begin.len()..].copy_from_slice(end);
    }
}

#[allow(clippy::approx_constant, reason = "a level in dB")]
fn under_trees() -> ChannelSpec {
    let state =
        |mean_db, deviation_db, multipath_db| LooSpec { mean_db, deviation_db, multipath_db };
    ChannelSpec::ThreeState(ThreeStateSpec {
        reference: ReferenceSnr { snr_db: 11.0, error_db: 0.0 },
        motion: TerminalMotion {
            seed: None,
            step_ns: 511_009,
            carrier_hz: 2_200_000_000,
            speed_m_s: 60.0 / 3.6,
        },
        look_angle: LookAngle { elevation_deg: 40.0, azimuth_deg: 0.0 },
        transitions: vec![
            vec![0.7193, 0.1865, 0.0942],
            vec![0.1848, 0.7269, 0.0883],
            vec![0.1771, 0.0971, 0.7258],
        ],
        states: vec![state(-0.4, 1.5, -13.2), state(-8.2, 3.9, -12.7), state(-17.0, 3.14, -10.0)],
        frames_m: vec![6.3, 6.3, 4.5],
        transition_m: 2.6,
        correlation_m: 1.5,
    })
}

/// Returns the processor time of this thread in microseconds, with the resolution of Linux's ticks.
fn cpu_microseconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel that tells");
    let nanos = text.split_whitespace().next().and_then(|field| field.parse::<f64>().ok());
    nanos.expect("nanoseconds") / 1e3
}

/// Returns the microseconds per packet: one decision, and one new packet for the departed one.
fn microseconds(scheduler: &SchedulerSpec, users: u32, channel: &mut dyn Channel) -> f64 {
    let spec =
        PerUserSpec { scheduler: scheduler.clone(), limit: None, total: None, csi_delay_ns: 0 };
    let (mut queue, mut out) = (PerUserQueue::new(&spec), StageOutput::default());
    for user in (0..users).chain(0..users) {
        queue.enqueue(Time::ZERO, Packet { user, ..Packet::of_bytes(1_000) }, &mut out);
    }
    let (mut number, mut decisions) = (0, 250);
    loop {
        let start = cpu_microseconds();
        for _ in 0..decisions {
            number += 1;
            let now = Time(number * PACKET_NS);
            let packet = queue.dequeue(now, channel, &mut out).expect("somebody has a packet");
            queue.enqueue(now, black_box(packet), &mut out);
        }
        let taken = cpu_microseconds() - start;
        if taken > MIN_US {
            return taken / decisions as f64;
        }
        decisions *= 2;
    }
}

fn main() {
    println!("microseconds a decision over {USERS:?} users");
    for (name, scheduler) in schedulers() {
        let median = |users: u32, of: &dyn Fn() -> Box<dyn Channel>| {
            let mut all: Vec<f64> =
                (0..REPEATS).map(|_| microseconds(&scheduler, users, &mut *of())).collect();
            all.sort_by(f64::total_cmp);
            all[REPEATS / 2]
        };
        let given = |users: u32| {
            let rates: Vec<f64> =
                (0..users).map(|user| f64::from(user * 37 % 101 + 1) / 102.0).collect();
            move || Box::new(Given(rates.clone())) as Box<dyn Channel>
        };
        let alone = USERS.map(|users| format!("{:7.3}", median(users, &given(users))));
        let trees = || under_trees().build("bench", 1).expect("a good specification");
        let with = USERS.map(|users| format!("{:7.3}", median(users, &trees)));
        println!("{name:20} {}   under trees {}", alone.join(" "), with.join(" "));
    }
}

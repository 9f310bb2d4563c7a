use std::cell::RefCell;
use std::collections::VecDeque;

use link::{
    ArqScheme, AverageSpec, AveragedQuantity, BernoulliLossSpec, Channel, ChannelSpec, CodeSpec,
    DecoderSpec, DelayTraceSpec, DropTailSpec, FeedbackSpec, FqCodelSpec, HarqCombining,
    Interpolation, JitterModel, JitterSpec, LinkLayerSpec, LossModel, LossSpec, NrSpec, Numbering,
    OutageSpec, PdcpReorderingSpec, PerUserSpec, ProportionalFairSpec, Queue, QueueLimit,
    QueueSpec, RadioSpec, RateService, RayleighSpec, ReferenceSnr, ReorderingSpec,
    RlcAcknowledgedSpec, RlcSpec, SchedulerSpec, ServiceSpec, StageOutput, StageSpec,
    TerminalMotion, TransmitSpec, Transmitter,
};
use units::{Ecn, RandomStream, Rate};

use super::*;
use crate::tun_port::ReceivedFrames;

const MS: u64 = 1_000_000;

/// The result of one read: frames, or one frame that cannot be split.
#[derive(Clone)]
enum Arrival {
    Frames(Vec<Vec<u8>>),
    Broken,
}

/// A clock that each operation advances by a random time. A wait ends too late or too early.
struct Hand {
    now: Time,
    random: RandomStream,
    lateness: Span,
}

impl Hand {
    fn spend(&mut self, max: Span) -> Time {
        if self.lateness > Span::ZERO {
            self.now += self.random.span_below(max);
        }
        self.now
    }
}

/// A script of arrivals in the role of a device, and a record of the departures.
struct Script<'a> {
    arrivals: VecDeque<(Time, Arrival)>,
    frames: Vec<Vec<u8>>,
    sizes: Vec<usize>,
    hand: RefCell<Hand>,
    left: &'a Mutex<Vec<(Time, u32, Ecn)>>,
    stop: &'a AtomicBool,
}

impl PacketIo for Script<'_> {
    fn now(&self) -> Time {
        self.hand.borrow_mut().spend(Span(2_000))
    }

    fn headroom(&self) -> usize {
        10
    }

    fn receive(&mut self) -> io::Result<ReceiveResult<'_>> {
        let now = self.hand.get_mut().now;
        // The scheduler may suspend the thread before it uses the result.
        self.hand.get_mut().spend(Span(MS));
        if self.arrivals.front().is_none_or(|(arrived_at, _)| *arrived_at > now) {
            return Ok(ReceiveResult::Empty(now));
        }
        let (arrived_at, arrival) = self.arrivals.pop_front().unwrap();
        let Arrival::Frames(frames) = arrival else {
            return Ok(ReceiveResult::Unsplittable(arrived_at));
        };
        (self.sizes, self.frames) = (frames.iter().map(Vec::len).collect(), frames);
        Ok(ReceiveResult::Packets(
            arrived_at,
            match &self.frames[..] {
                [frame] => ReceivedFrames::Single(frame),
                frames => ReceivedFrames::Segments(frames, &self.sizes),
            },
        ))
    }

    fn send(&mut self, due: Time, packet: &[u8]) -> io::Result<()> {
        assert!(self.hand.get_mut().spend(Span(20_000)) >= due, "nothing leaves early");
        let (headroom, frame) = packet.split_at(self.headroom());
        assert!(headroom.iter().all(|byte| *byte == 0));
        let number = u32::from_be_bytes(frame[28..32].try_into().unwrap());
        self.left.lock().unwrap().push((due, number, classifier::ecn(frame).unwrap()));
        Ok(())
    }

    fn wait(&mut self, due: Time) -> io::Result<()> {
        let arrived_at = self.arrivals.front().map_or(Time::MAX, |(arrived_at, _)| *arrived_at);
        let until = due.min(arrived_at);
        if until == Time::MAX {
            self.stop.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let hand = self.hand.get_mut();
        if hand.lateness > Span::ZERO && hand.random.chance(0.2) {
            // Like the long step of a sleep, which ends early.
            hand.now += hand.random.span_below(until.since(hand.now) + Span(1));
        } else {
            hand.now = hand.now.max(until);
            hand.spend(hand.lateness);
        }
        Ok(())
    }
}

/// Builds an ECN-capable UDP datagram over IPv4 with a number.
fn datagram(number: u32, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; bytes];
    (frame[0], frame[1], frame[9]) = (0x45, Ecn::Ect0 as u8, 17);
    frame[23] = number as u8 % 3;
    frame[28..32].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Builds single packets, bursts larger than a batch, frames of several packets, invalid frames and non-IP frames.
fn arrivals(seed: u64) -> VecDeque<(Time, Arrival)> {
    let mut random = RandomStream::named(seed, "test", "arrivals");
    let (mut at, mut number, mut turn, mut all) = (Time::ZERO, 0, 0, VecDeque::new());
    for _ in 0..600 {
        let burst = random.chance(0.02);
        at += if burst { Span(0) } else { random.span_below(Span(3 * MS)) };
        for _ in 0..if burst { 200 } else { 1 } {
            let mut next = || {
                number += 1;
                datagram(number, 40 + random.below(1_400) as usize)
            };
            let arrival = match turn % 41 {
                0 => Arrival::Frames(vec![vec![1; 60], next()]),
                1 => Arrival::Broken,
                2..6 => Arrival::Frames((0..30).map(|_| next()).collect()),
                _ => Arrival::Frames(vec![next()]),
            };
            turn += 1;
            all.push_back((at, arrival));
        }
    }
    all
}

/// A last-in first-out queue: a packet that enters too late changes the sequence.
#[derive(Default)]
struct Stack(Vec<Packet>);

impl Queue for Stack {
    fn enqueue(&mut self, _: Time, packet: Packet, _: &mut StageOutput) {
        self.0.push(packet);
    }
    fn dequeue(&mut self, _: Time, _: &mut dyn Channel, _: &mut StageOutput) -> Option<Packet> {
        self.0.pop()
    }
    fn ready_at(&self) -> Time {
        if self.0.is_empty() { Time::MAX } else { Time::ZERO }
    }
    fn backlog(&self) -> (u64, u64) {
        (self.0.len() as u64, 0)
    }
}

/// Builds a radio link in deep fading, with feedback loss and a reordering buffer.
fn radio() -> StageSpec {
    let motion =
        TerminalMotion { seed: None, step_ns: MS / 2, carrier_hz: 2_200_000_000, speed_m_s: 15.0 };
    let link_layer = LinkLayerSpec {
        rate_bit_s: 12_000_000,
        frame_bytes: 400,
        overhead_bits: 64,
        first_overhead_bits: 0,
        code: CodeSpec::Given { coded_bits: vec![4_000] },
        decoder: DecoderSpec::Information { margin: 1.05 },
        combining: HarqCombining::Incremental,
        repeat: ArqScheme::Selective,
        attempts: Some(3),
        window: Some(60),
        feedback: Some(FeedbackSpec { delay_ns: 7 * MS, loss: 0.1 }),
        timeout_ns: Some(9 * MS),
    };
    let reference = ReferenceSnr { snr_db: 6.0, error_db: 0.0 };
    StageSpec::Radio(Box::new(RadioSpec {
        queue: QueueSpec::DropTail(DropTailSpec { limit: Some(QueueLimit::Packets(100)) }),
        channel: Some(ChannelSpec::Rayleigh(RayleighSpec { reference, motion })),
        link_layer,
        reordering: Some(ReorderingSpec {
            packets: 40,
            time_limit_ns: Some(30 * MS),
            numbering: Numbering::Link,
        }),
    }))
}

/// Builds a 5G link with losses of feedback and status reports.
fn nr() -> StageSpec {
    StageSpec::Nr(Box::new(NrSpec {
        queue: QueueSpec::DropTail(DropTailSpec { limit: Some(QueueLimit::Packets(100)) }),
        channel: None,
        slot_ns: MS / 2,
        block_bytes: 700,
        coded_bits: 11_200,
        decoder: DecoderSpec::BlockErrors { probabilities: vec![0.2, 0.1] },
        combining: HarqCombining::Incremental,
        processes: 16,
        feedback_disabled_processes: 2,
        repetitions: 1,
        attempts: 3,
        offset_slots: 2,
        feedback: Some(FeedbackSpec { delay_ns: 7 * MS, loss: 0.1 }),
        rlc: RlcSpec::Acknowledged(RlcAcknowledgedSpec {
            poll_pdus: Some(8),
            poll_bytes: None,
            poll_retransmit_ns: 60 * MS,
            reassembly_ns: 20 * MS,
            status_prohibit_ns: 15 * MS,
            max_retransmissions: 8,
        }),
        reordering: Some(PdcpReorderingSpec { time_limit_ns: Some(90 * MS) }),
    }))
}

/// Builds five links with all mechanisms that depend on the arrival time of a packet.
fn lines(seed: u64) -> Vec<SimplexLink> {
    let codel = QueueSpec::FqCodel(FqCodelSpec {
        limit_packets: 200,
        flows: 16,
        quantum_bytes: 1514,
        target_ns: 5 * MS,
        interval_ns: 50 * MS,
        ecn: true,
    });
    let rate = |rate_bit_s| ServiceSpec::Rate { rate_bit_s, changes: Vec::new() };
    let space = [
        StageSpec::Transmit(TransmitSpec { queue: codel, service: rate(8_000_000) }),
        StageSpec::DelayTrace(DelayTraceSpec {
            points: vec![(0, 20 * MS), (500 * MS, 5 * MS)],
            interpolation: Interpolation::Linear,
            repeat_ns: Some(1_000 * MS),
            reorder: true,
        }),
        StageSpec::Loss(LossSpec {
            model: LossModel::Bernoulli(BernoulliLossSpec { probability: 0.02 }),
            changes: Vec::new(),
        }),
    ];
    let ground = [
        StageSpec::Outage(OutageSpec {
            windows: vec![(100 * MS, 150 * MS)],
            repeat_ns: Some(400 * MS),
            buffer_packets: true,
        }),
        StageSpec::Transmit(TransmitSpec {
            queue: QueueSpec::DropTail(DropTailSpec { limit: Some(QueueLimit::Packets(100)) }),
            service: rate(7_000_000),
        }),
        StageSpec::Jitter(JitterSpec {
            model: JitterModel::Exponential { mean_ns: 2 * MS },
            reorder: true,
        }),
    ];
    let line = |stages: &[_], name| SimplexLink::build(stages, name, seed).unwrap();
    let stack = Transmitter::new(Stack::default(), RateService::new(Rate(20_000_000)));
    vec![
        SimplexLink::from_stages(vec![Box::new(stack)]),
        line(&space, "space.up"),
        line(&ground, "ground.up"),
        line(&[radio()], "mobile.up"),
        line(&[nr()], "ntn.up"),
    ]
}

/// Runs the forwarder. Returns the departures with their due times, and the statistics.
fn run(
    lines: Vec<SimplexLink>,
    arrivals: VecDeque<(Time, Arrival)>,
    lateness: Span,
    seed: u64,
) -> (Vec<(Time, u32, Ecn)>, ForwarderStats) {
    run_of(&[], lines, arrivals, lateness, seed)
}

/// Runs the forwarder with users that have these ports.
fn run_of(
    users: &[(u16, u32)],
    lines: Vec<SimplexLink>,
    arrivals: VecDeque<(Time, Arrival)>,
    lateness: Span,
    seed: u64,
) -> (Vec<(Time, u32, Ecn)>, ForwarderStats) {
    let users = PortUserMap::new(users);
    let (left, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let random = RandomStream::named(seed, "test", "lateness");
    let hand = RefCell::new(Hand { now: Time::ZERO, random, lateness });
    let (frames, sizes) = (Vec::new(), Vec::new());
    let io = Script { arrivals, frames, sizes, hand, left: &left, stop: &stop };
    let (shared, changes) = (Arc::default(), PendingStageUpdates::default());
    Forwarder::new(io, lines, users, Arc::clone(&shared), changes).run(&stop).unwrap();
    let progress = shared.lock().unwrap().clone();
    (left.into_inner().unwrap(), progress)
}

/// Returns the departures of the links alone, at exact times.
fn alone(seed: u64) -> Vec<(Time, u32, Ecn)> {
    alone_of(&[], lines(seed), seed)
}

fn alone_of(users: &[(u16, u32)], lines: Vec<SimplexLink>, seed: u64) -> Vec<(Time, u32, Ecn)> {
    let users = PortUserMap::new(users);
    let mut packets = Vec::new();
    for (arrived_at, arrival) in arrivals(seed) {
        let Arrival::Frames(frames) = arrival else { continue };
        for frame in frames {
            let Some(ecn) = classifier::ecn(&frame) else { continue };
            let handle = u32::from_be_bytes(frame[28..32].try_into().unwrap());
            packets.push((
                arrived_at,
                Packet { handle, ..classifier::classify(&frame, ecn, arrived_at, &users) },
            ));
        }
    }
    for mut line in lines {
        let mut output = LinkOutput::default();
        for (due, packet) in packets {
            line.push(due, packet, &mut output);
        }
        line.poll(Time::MAX, &mut output);
        packets = output.delivered;
    }
    packets.iter().map(|(due, packet)| (*due, packet.handle, packet.ecn)).collect()
}

#[test]
fn a_late_thread_gives_the_same_departures() {
    for seed in 0..12 {
        let (exact, counted) = run(lines(seed), arrivals(seed), Span::ZERO, seed);
        let (late, counted_late) = run(lines(seed), arrivals(seed), Span(30 * MS), seed);
        assert_eq!(exact, late, "seed {seed}");
        assert_eq!(exact, alone(seed), "seed {seed}");
        assert!(exact.iter().any(|(_, _, ecn)| *ecn == Ecn::Ce), "the queues had to mark");
        let counts = |progress: &ForwarderStats| {
            let ForwarderStats { packets_in, packets_out, bytes_out, dropped, .. } = *progress;
            let users = progress.user_stats.clone();
            (
                packets_in,
                packets_out,
                bytes_out,
                dropped,
                progress.non_ip,
                progress.device_rejected,
                users,
            )
        };
        assert_eq!(counts(&counted), counts(&counted_late), "seed {seed}");
        assert!(
            counted.dropped[DropReason::QueueOverflow as usize] > 0 && counted.device_rejected > 0
        );
        assert!(counted.is_idle() && counted_late.is_idle() && counted.non_ip > 0);
        let [user] = &counted.user_stats[..] else { panic!("one user") };
        assert!(user.decoded_after[1] > 0 && user.duplicates > 0 && user.dropped_packets > 0);
        // The two runs differ only in their lateness.
        assert_eq!(counted.lateness.quantile(1.0), Some(Span::ZERO));
        assert!(counted_late.lateness.quantile(0.5) > Some(Span(MS)));
    }
}

/// A scheduler serves users by their channels. Ports identify the users, and a late thread changes no result.
#[test]
fn a_scheduler_distinguishes_users_by_port() {
    let StageSpec::Radio(mut spec) = radio() else { panic!("a radio link") };
    spec.queue = QueueSpec::PerUser(PerUserSpec {
        scheduler: SchedulerSpec::ProportionalFair(ProportionalFairSpec {
            average: AverageSpec { quantity: AveragedQuantity::Channel, window_ns: 100 * MS },
        }),
        limit: Some(QueueLimit::Packets(20)),
        total: None,
        csi_delay_ns: 10 * MS,
    });
    let users = [(1, 5), (2, 7)];
    for seed in 0..6 {
        let lines = || {
            vec![SimplexLink::build(&[StageSpec::Radio(spec.clone())], "mobile.up", seed).unwrap()]
        };
        let (exact, counted) = run_of(&users, lines(), arrivals(seed), Span::ZERO, seed);
        let (late, _) = run_of(&users, lines(), arrivals(seed), Span(30 * MS), seed);
        assert_eq!(exact, late, "seed {seed}");
        assert_eq!(exact, alone_of(&users, lines(), seed), "seed {seed}");
        let served: Vec<_> =
            (0..).zip(&counted.user_stats).filter(|(_, had)| had.attempts > 100).collect();
        assert!(served.iter().map(|(user, _)| *user).eq([0, 5, 7]), "seed {seed}");
        let queues = &counted.user_queues;
        assert!(queues.iter().map(|queue| queue.user).eq([0, 5, 7]), "seed {seed}");
        for queue in queues {
            let departed = queue.sent + queue.dropped_overflow + queue.dropped_late;
            assert_eq!(queue.arrived, departed + queue.queued_packets, "seed {seed}");
        }
        let arrived: u64 = queues.iter().map(|queue| queue.arrived).sum();
        assert_eq!(arrived, counted.packets_in - counted.device_rejected);
        assert_ne!(exact, alone_of(&[], lines(), seed), "one user has one queue");
    }
}

#[test]
fn packets_pass_without_simplex_links() {
    let (left, progress) = run(Vec::new(), arrivals(1), Span(30 * MS), 1);
    let arrived = arrivals(1).into_iter().flat_map(|(arrived_at, arrival)| match arrival {
        Arrival::Frames(frames) => frames.into_iter().map(|frame| (arrived_at, frame)).collect(),
        Arrival::Broken => Vec::new(),
    });
    let ip = arrived.filter(|(_, frame)| classifier::ecn(frame).is_some());
    let number = |frame: &[u8]| u32::from_be_bytes(frame[28..32].try_into().unwrap());
    assert!(left.iter().map(|(due, n, _)| (*due, *n)).eq(ip.map(|(at, f)| (at, number(&f)))));
    assert_eq!(progress.packets_out, left.len() as u64);
}

/// Injected packets share the link with packets of devices. The queue is first-in first-out, a full queue drops, and
/// each outcome has the handle of its packet.
#[test]
fn injected_packets_share_the_link() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let part = crate::EmulatedDirection { link: 3, direction: units::Direction::Down };
    let (mut inlet, guests, _bell) = crate::injection::open(part, sender).unwrap();
    let bits = |ms: u64| 8 * 1_000 * ms;
    let queue = QueueSpec::DropTail(DropTailSpec { limit: Some(QueueLimit::Packets(3)) });
    let service = ServiceSpec::Rate { rate_bit_s: bits(1_000), changes: Vec::new() };
    let stages = [StageSpec::Transmit(TransmitSpec { queue, service })];
    let line = SimplexLink::build(&stages, "a.down", 1).unwrap();
    let mut packets: Vec<Packet> =
        (0..5).map(|handle| Packet { handle, user: 7, ..Packet::of_bytes(1_000) }).collect();
    inlet.inject(&mut packets).unwrap();
    assert!(packets.is_empty());
    let (departed, stop) = (Mutex::default(), AtomicBool::new(false));
    let io = Script {
        arrivals: [
            (Time(MS / 2), Arrival::Frames(vec![datagram(9, 1_000)])),
            (Time(3 * MS / 2), Arrival::Frames(vec![datagram(10, 1_000)])),
        ]
        .into(),
        frames: Vec::new(),
        sizes: Vec::new(),
        hand: RefCell::new(Hand {
            now: Time::ZERO,
            random: RandomStream::named(1, "test", "clock"),
            lateness: Span::ZERO,
        }),
        left: &departed,
        stop: &stop,
    };
    let shared = Arc::<Mutex<ForwarderStats>>::default();
    Forwarder::new(
        io,
        vec![line],
        PortUserMap::default(),
        shared.clone(),
        PendingStageUpdates::default(),
    )
    .with_injection(Some(guests))
    .run(&stop)
    .unwrap();
    let mut arrived = Vec::new();
    let mut dropped = Vec::new();
    for one in receiver.try_iter() {
        match one {
            crate::InjectionResult::Delivered(from, due, packet) => {
                assert_eq!(from, part);
                arrived.push((due.nanos() / MS, packet.handle));
            }
            crate::InjectionResult::Dropped(handle) => dropped.push(handle),
        }
    }
    // One packet on the link and three queued. The first frame finds the queue full, the second does not.
    assert_eq!(arrived, [(1, 0), (2, 1), (3, 2), (4, 3)]);
    assert_eq!(dropped, [4]);
    let frames: Vec<u32> = departed.lock().unwrap().iter().map(|(_, number, _)| *number).collect();
    assert_eq!(frames, [10]);
    let progress = shared.lock().unwrap().clone();
    assert_eq!((progress.packets_in, progress.packets_out), (7, 5));
    assert!(progress.is_idle());
}

use std::cell::RefCell;
use std::collections::VecDeque;

use path::{
    AcknowledgedSpec, AverageSpec, Averaged, Channel, ChannelSpec, CodeSpec, Combining, Cx,
    DecoderSpec, DelayTraceSpec, FeedbackSpec, Interpolation, JitterModel, JitterSpec, Limit,
    LinkLayerSpec, LossModel, LossSpec, Motion, NrSpec, Numbering, OrderSpec, OutageSpec,
    PerUserSpec, Queue, QueueSpec, RadioSpec, RateService, Reference, ReorderingSpec, Repeat,
    RlcSpec, SchedulerSpec, ServiceSpec, StageSpec, TransmitSpec, Transmitter,
};
use units::{Ecn, RandomStream, Rate};

use super::*;
use crate::port::Pieces;

const MS: u64 = 1_000_000;

/// What comes at once: frames out of one read, or one that cannot be cut.
#[derive(Clone)]
enum Arrival {
    Frames(Vec<Vec<u8>>),
    Broken,
}

/// A clock that every act moves on by chance, and a wait too far or not far enough.
struct Hand {
    now: Time,
    random: RandomStream,
    lateness: Span,
}

impl Hand {
    fn spend(&mut self, most: Span) -> Time {
        if self.lateness > Span::ZERO {
            self.now += self.random.span_below(most);
        }
        self.now
    }
}

/// A script of arrivals instead of a device, and a record of what leaves.
struct Script<'a> {
    arrivals: VecDeque<(Time, Arrival)>,
    frames: Vec<Vec<u8>>,
    sizes: Vec<usize>,
    hand: RefCell<Hand>,
    left: &'a Mutex<Vec<(Time, u32, Ecn)>>,
    stop: &'a AtomicBool,
}

impl Io for Script<'_> {
    fn now(&self) -> Time {
        self.hand.borrow_mut().spend(Span(2_000))
    }

    fn headroom(&self) -> usize {
        10
    }

    fn receive(&mut self) -> io::Result<Received<'_>> {
        let now = self.hand.get_mut().now;
        // The thread may lose the processor before it uses what it found.
        self.hand.get_mut().spend(Span(MS));
        if self.arrivals.front().is_none_or(|(came, _)| *came > now) {
            return Ok(Received::Nothing(now));
        }
        let (came, arrival) = self.arrivals.pop_front().unwrap();
        let Arrival::Frames(frames) = arrival else { return Ok(Received::Refused(came)) };
        (self.sizes, self.frames) = (frames.iter().map(Vec::len).collect(), frames);
        Ok(Received::Packets(
            came,
            match &self.frames[..] {
                [frame] => Pieces::One(frame),
                frames => Pieces::Cut(frames, &self.sizes),
            },
        ))
    }

    fn send(&mut self, due: Time, packet: &[u8]) -> io::Result<()> {
        assert!(self.hand.get_mut().spend(Span(20_000)) >= due, "nothing leaves early");
        let (headroom, frame) = packet.split_at(self.headroom());
        assert!(headroom.iter().all(|byte| *byte == 0));
        let number = u32::from_be_bytes(frame[28..32].try_into().unwrap());
        self.left.lock().unwrap().push((due, number, frame::ecn(frame).unwrap()));
        Ok(())
    }

    fn wait(&mut self, due: Time) -> io::Result<()> {
        let come = self.arrivals.front().map_or(Time::MAX, |(came, _)| *came);
        let until = due.min(come);
        if until == Time::MAX {
            self.stop.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let hand = self.hand.get_mut();
        if hand.lateness > Span::ZERO && hand.random.chance(0.2) {
            // As a long step of a sleep, which ends early on purpose.
            hand.now += hand.random.span_below(until.since(hand.now) + Span(1));
        } else {
            hand.now = hand.now.max(until);
            hand.spend(hand.lateness);
        }
        Ok(())
    }
}

/// A UDP datagram over IPv4 with a number, ECN-capable.
fn datagram(number: u32, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; bytes];
    (frame[0], frame[1], frame[9]) = (0x45, Ecn::Ect0 as u8, 17);
    frame[23] = number as u8 % 3;
    frame[28..32].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Single packets, bursts larger than a batch, frames of several packets, broken ones and what is no IP.
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

/// Sends what came last first: whatever is let in too late changes the order.
#[derive(Default)]
struct Stack(Vec<Packet>);

impl Queue for Stack {
    fn enqueue(&mut self, _: Time, packet: Packet, _: &mut Cx) {
        self.0.push(packet);
    }
    fn dequeue(&mut self, _: Time, _: &mut dyn Channel, _: &mut Cx) -> Option<Packet> {
        self.0.pop()
    }
    fn ready_at(&self) -> Time {
        if self.0.is_empty() { Time::MAX } else { Time::ZERO }
    }
    fn backlog(&self) -> (u64, u64) {
        (self.0.len() as u64, 0)
    }
}

/// A radio link in deep fading, whose answers may be lost, with a reordering buffer.
fn radio() -> StageSpec {
    let motion = Motion { seed: None, step_ns: MS / 2, carrier_hz: 2_200_000_000, speed_m_s: 15.0 };
    let link_layer = LinkLayerSpec {
        rate_bit_s: 12_000_000,
        frame_bytes: 400,
        overhead_bits: 64,
        first_overhead_bits: 0,
        code: CodeSpec::Given { coded_bits: vec![4_000] },
        decoder: DecoderSpec::Information { margin: 1.05 },
        combining: Combining::Incremental,
        repeat: Repeat::Selective,
        attempts: Some(3),
        window: Some(60),
        feedback: Some(FeedbackSpec { delay_ns: 7 * MS, loss: 0.1 }),
        time_out_ns: Some(9 * MS),
    };
    let reference = Reference { snr_db: 6.0, error_db: 0.0 };
    StageSpec::Radio(RadioSpec {
        queue: QueueSpec::DropTail { limit: Some(Limit::Packets(100)) },
        channel: Some(ChannelSpec::Rayleigh { reference, motion }),
        link_layer,
        reordering: Some(ReorderingSpec {
            packets: 40,
            time_limit_ns: Some(30 * MS),
            numbering: Numbering::Link,
        }),
    })
}

/// A 5G link whose answers and status reports may be lost.
fn nr() -> StageSpec {
    StageSpec::Nr(Box::new(NrSpec {
        queue: QueueSpec::DropTail { limit: Some(Limit::Packets(100)) },
        channel: None,
        slot_ns: MS / 2,
        block_bytes: 700,
        coded_bits: 11_200,
        decoder: DecoderSpec::BlockErrors { probabilities: vec![0.2, 0.1] },
        combining: Combining::Incremental,
        processes: 16,
        without_feedback: 2,
        repetitions: 1,
        attempts: 3,
        offset_slots: 2,
        feedback: Some(FeedbackSpec { delay_ns: 7 * MS, loss: 0.1 }),
        rlc: RlcSpec::Acknowledged(AcknowledgedSpec {
            poll_pdus: Some(8),
            poll_bytes: None,
            poll_retransmit_ns: 60 * MS,
            reassembly_ns: 20 * MS,
            status_prohibit_ns: 15 * MS,
            most_retransmissions: 8,
        }),
        order: Some(OrderSpec { time_limit_ns: Some(90 * MS) }),
    }))
}

/// Five links with all that depends on when a packet comes.
fn lines(seed: u64) -> Vec<Line> {
    let codel = QueueSpec::FqCodel {
        limit_packets: 200,
        flows: 16,
        quantum_bytes: 1514,
        target_ns: 5 * MS,
        interval_ns: 50 * MS,
        ecn: true,
    };
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
            model: LossModel::Bernoulli { probability: 0.02 },
            changes: Vec::new(),
        }),
    ];
    let ground = [
        StageSpec::Outage(OutageSpec {
            windows: vec![(100 * MS, 150 * MS)],
            repeat_ns: Some(400 * MS),
            hold: true,
        }),
        StageSpec::Transmit(TransmitSpec {
            queue: QueueSpec::DropTail { limit: Some(Limit::Packets(100)) },
            service: rate(7_000_000),
        }),
        StageSpec::Jitter(JitterSpec {
            model: JitterModel::Exponential { mean_ns: 2 * MS },
            reorder: true,
        }),
    ];
    let line = |stages: &[_], name| Line::build(stages, name, seed).unwrap();
    let stack = Transmitter::new(Stack::default(), RateService::new(Rate(20_000_000)));
    vec![
        Line::of(vec![Box::new(stack)]),
        line(&space, "space.up"),
        line(&ground, "ground.up"),
        line(&[radio()], "mobile.up"),
        line(&[nr()], "ntn.up"),
    ]
}

/// What left, with its due times, and what was counted.
fn run(
    lines: Vec<Line>,
    arrivals: VecDeque<(Time, Arrival)>,
    lateness: Span,
    seed: u64,
) -> (Vec<(Time, u32, Ecn)>, Progress) {
    run_of(&[], lines, arrivals, lateness, seed)
}

/// The same, of users who have these ports.
fn run_of(
    users: &[(u16, u32)],
    lines: Vec<Line>,
    arrivals: VecDeque<(Time, Arrival)>,
    lateness: Span,
    seed: u64,
) -> (Vec<(Time, u32, Ecn)>, Progress) {
    let users = Users::new(users);
    let (left, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let random = RandomStream::named(seed, "test", "lateness");
    let hand = RefCell::new(Hand { now: Time::ZERO, random, lateness });
    let (frames, sizes) = (Vec::new(), Vec::new());
    let io = Script { arrivals, frames, sizes, hand, left: &left, stop: &stop };
    let (shared, changes) = (Arc::default(), Changes::default());
    Direction::new(io, lines, users, Arc::clone(&shared), changes).run(&stop).unwrap();
    let progress = shared.lock().unwrap().clone();
    (left.into_inner().unwrap(), progress)
}

/// The lines alone, at the right instants.
fn alone(seed: u64) -> Vec<(Time, u32, Ecn)> {
    alone_of(&[], lines(seed), seed)
}

fn alone_of(users: &[(u16, u32)], lines: Vec<Line>, seed: u64) -> Vec<(Time, u32, Ecn)> {
    let users = Users::new(users);
    let mut packets = Vec::new();
    for (came, arrival) in arrivals(seed) {
        let Arrival::Frames(frames) = arrival else { continue };
        for frame in frames {
            let Some(ecn) = frame::ecn(&frame) else { continue };
            let handle = u32::from_be_bytes(frame[28..32].try_into().unwrap());
            packets.push((came, Packet { handle, ..frame::header(&frame, ecn, came, &users) }));
        }
    }
    for mut line in lines {
        let mut output = Output::default();
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
        let counts = |progress: &Progress| {
            let Progress { packets_in, packets_out, bytes_out, dropped, .. } = *progress;
            let users = progress.users.clone();
            (packets_in, packets_out, bytes_out, dropped, progress.foreign, progress.refused, users)
        };
        assert_eq!(counts(&counted), counts(&counted_late), "seed {seed}");
        assert!(counted.dropped[Cause::Overflow as usize] > 0 && counted.refused > 0);
        assert!(counted.is_idle() && counted_late.is_idle() && counted.foreign > 0);
        let [user] = &counted.users[..] else { panic!("one user") };
        assert!(user.decoded_after[1] > 0 && user.copies > 0 && user.dropped_packets > 0);
        // Only the lateness tells the two apart.
        assert_eq!(counted.lateness.quantile(1.0), Some(Span::ZERO));
        assert!(counted_late.lateness.quantile(0.5) > Some(Span(MS)));
    }
}

/// Users have ports; a scheduler serves them by their channels, and a thread that is late changes nothing.
#[test]
fn a_scheduler_tells_users_apart_by_their_ports() {
    let StageSpec::Radio(mut spec) = radio() else { panic!("a radio link") };
    spec.queue = QueueSpec::PerUser(PerUserSpec {
        scheduler: SchedulerSpec::ProportionalFair {
            average: AverageSpec { of: Averaged::Channel, window_ns: 100 * MS },
        },
        limit: Some(Limit::Packets(20)),
        total: None,
        channel_delay_ns: 10 * MS,
    });
    let users = [(1, 5), (2, 7)];
    for seed in 0..6 {
        let lines =
            || vec![Line::build(&[StageSpec::Radio(spec.clone())], "mobile.up", seed).unwrap()];
        let (exact, counted) = run_of(&users, lines(), arrivals(seed), Span::ZERO, seed);
        let (late, _) = run_of(&users, lines(), arrivals(seed), Span(30 * MS), seed);
        assert_eq!(exact, late, "seed {seed}");
        assert_eq!(exact, alone_of(&users, lines(), seed), "seed {seed}");
        let served: Vec<_> =
            (0..).zip(&counted.users).filter(|(_, had)| had.attempts > 100).collect();
        assert!(served.iter().map(|(user, _)| *user).eq([0, 5, 7]), "seed {seed}");
        let queues = &counted.queues;
        assert!(queues.iter().map(|queue| queue.user).eq([0, 5, 7]), "seed {seed}");
        for queue in queues {
            let gone = queue.sent + queue.dropped_overflow + queue.dropped_late;
            assert_eq!(queue.arrived, gone + queue.queued_packets, "seed {seed}");
        }
        let arrived: u64 = queues.iter().map(|queue| queue.arrived).sum();
        assert_eq!(arrived, counted.packets_in - counted.refused);
        assert_ne!(exact, alone_of(&[], lines(), seed), "one user has one queue");
    }
}

#[test]
fn without_lines_packets_pass() {
    let (left, progress) = run(Vec::new(), arrivals(1), Span(30 * MS), 1);
    let arrived = arrivals(1).into_iter().flat_map(|(came, arrival)| match arrival {
        Arrival::Frames(frames) => frames.into_iter().map(|frame| (came, frame)).collect(),
        Arrival::Broken => Vec::new(),
    });
    let ip = arrived.filter(|(_, frame)| frame::ecn(frame).is_some());
    let number = |frame: &[u8]| u32::from_be_bytes(frame[28..32].try_into().unwrap());
    assert!(left.iter().map(|(due, n, _)| (*due, *n)).eq(ip.map(|(at, f)| (at, number(&f)))));
    assert_eq!(progress.packets_out, left.len() as u64);
}

/// Packets of guests share the line with those of devices: who comes first is served first, who finds no room is dropped, and
/// each comes back under the handle it had.
#[test]
fn guests_share_the_line() {
    let (told, left) = std::sync::mpsc::channel();
    let part = crate::Part { segment: 3, direction: units::Direction::Down };
    let (mut inlet, guests, _bell) = crate::guests::open(part, told).unwrap();
    let bits = |ms: u64| 8 * 1_000 * ms;
    let queue = QueueSpec::DropTail { limit: Some(Limit::Packets(3)) };
    let service = ServiceSpec::Rate { rate_bit_s: bits(1_000), changes: Vec::new() };
    let stages = [StageSpec::Transmit(TransmitSpec { queue, service })];
    let line = Line::build(&stages, "a.down", 1).unwrap();
    let mut own: Vec<Packet> =
        (0..5).map(|handle| Packet { handle, user: 7, ..Packet::of_bytes(1_000) }).collect();
    inlet.enter(&mut own).unwrap();
    assert!(own.is_empty());
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
    let shared = Arc::<Mutex<Progress>>::default();
    Direction::new(io, vec![line], Users::default(), shared.clone(), Changes::default())
        .beside(Some(guests))
        .run(&stop)
        .unwrap();
    let mut arrived = Vec::new();
    let mut dropped = Vec::new();
    for one in left.try_iter() {
        match one {
            crate::Left::Arrived(from, due, packet) => {
                assert_eq!(from, part);
                arrived.push((due.nanos() / MS, packet.handle));
            }
            crate::Left::Dropped(handle) => dropped.push(handle),
        }
    }
    // One on the link and three that wait; the first frame finds no room, the second does.
    assert_eq!(arrived, [(1, 0), (2, 1), (3, 2), (4, 3)]);
    assert_eq!(dropped, [4]);
    let frames: Vec<u32> = departed.lock().unwrap().iter().map(|(_, number, _)| *number).collect();
    assert_eq!(frames, [10]);
    let progress = shared.lock().unwrap().clone();
    assert_eq!((progress.packets_in, progress.packets_out), (7, 5));
    assert!(progress.is_idle());
}

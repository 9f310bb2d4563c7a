//! Second proof: a scheduler of two users over a HARQ-like service with combining and a window of processes, whose
//! answers take time and may be lost, written against the traits only.

use std::collections::VecDeque;

use path::{
    Cause, Channel, Cx, Delay, Fate, Feedback, FeedbackSpec, Job, Line, News, Output, Quality,
    Queue, Service, Told, Transmitter, Wire,
};
use proptest::prelude::*;
use units::{Packet, RandomStream, Span, Time};

use crate::common::packet;

const SLOT: Span = Span(1_000);
const FEEDBACK: Span = Span(1_500);
const TIME_OUT: Span = Span(4_000);

#[derive(Default)]
struct RoundRobin {
    users: [VecDeque<Packet>; 2],
    turn: usize,
}

impl Queue for RoundRobin {
    fn enqueue(&mut self, _due: Time, packet: Packet, _cx: &mut Cx) {
        self.users[packet.flow as usize].push_back(packet);
    }
    fn dequeue(&mut self, _: Time, _: &mut dyn Channel, _: &mut Cx) -> Option<Packet> {
        let user = if self.users[self.turn].is_empty() { 1 - self.turn } else { self.turn };
        self.turn = 1 - user;
        self.users[user].pop_front()
    }
    fn ready_at(&self) -> Time {
        if self.backlog().0 > 0 { Time::ZERO } else { Time::MAX }
    }
    fn backlog(&self) -> (u64, u64) {
        let all = || self.users.iter().flatten();
        (all().count() as u64, all().map(|p| u64::from(p.bytes)).sum())
    }
}

/// User 0 hears every attempt; user 1 needs a second one, and never hears packet 5.
struct TwoUsers;

impl Channel for TwoUsers {
    fn at(&mut self, user: u32, _at: Time) -> Quality {
        Quality::of(if user == 0 { 20.0 } else { 2.0 })
    }
}

/// Attempts add up their signal until it suffices; three at most. Who has no answer in time tries again.
struct Harq {
    processes: usize,
    /// What is not settled: number, and the signal that its receiver has.
    open: Vec<(u64, f64)>,
}

impl Harq {
    fn place(&self, number: u64) -> Option<usize> {
        self.open.iter().position(|(open, _)| *open == number)
    }
}

impl Service for Harq {
    fn begin(&mut self, due: Time, job: &Job, channel: &mut dyn Channel) -> Time {
        let signal = channel.at(job.packet.flow, due).es_n0;
        match self.place(job.number) {
            Some(place) => self.open[place].1 += signal,
            None => self.open.push((job.number, signal)),
        }
        due + SLOT
    }
    fn end(&mut self, due: Time, job: &Job, cx: &mut Cx) -> Fate {
        // None: the answer to an earlier attempt came while this one was on the air.
        let Some(place) = self.place(job.number) else { return Fate::Deliver };
        let decoded = self.open[place].1 >= 4.0 && job.packet.handle != 5;
        let (user, number) = (job.packet.flow, job.number);
        cx.tell(due, Feedback::Attempt { user, number, decoded });
        if job.attempt == 3 {
            self.open.swap_remove(place);
            return if decoded { Fate::Deliver } else { Fate::Drop(Cause::Link) };
        }
        let at = due + TIME_OUT;
        if decoded { Fate::Unconfirmed { at } } else { Fate::Again { at } }
    }
    fn free_at(&self) -> Time {
        if self.open.len() < self.processes { Time::ZERO } else { Time::MAX }
    }
    fn feedback(&mut self, due: Time, feedback: &Feedback) -> Option<(u64, News)> {
        let Feedback::Attempt { number, decoded, .. } = *feedback else { return None };
        let place = self.place(number)?;
        if decoded {
            self.open.swap_remove(place);
            return Some((number, News::Done));
        }
        Some((number, News::Again { at: due }))
    }
}

/// The transmitter and 2 us to the far end; a wire back from its receiver.
fn line(processes: usize, delay: Span, loss: f64, seed: u64) -> Line {
    let harq = Harq { processes, open: Vec::new() };
    let transmitter = Transmitter::over(RoundRobin::default(), harq, TwoUsers);
    let mut line = Line::of(vec![Box::new(transmitter), Box::new(Delay::new(Span(2_000)))]);
    answer(&mut line, delay, loss, seed);
    line
}

fn answer(line: &mut Line, delay: Span, loss: f64, seed: u64) {
    let spec = FeedbackSpec { delay_ns: delay.nanos(), loss };
    line.wire(Wire { from: 0, to: 0, spec }, RandomStream::named(seed, "satellite", "feedback"));
}

/// All `packets` come at once and the line works until nothing is left; what left, and when it was done.
fn run(line: &mut Line, packets: u32, lateness: Span) -> (Output, Time) {
    let (mut out, mut random) = (Output::default(), RandomStream::named(1, "driver", "lateness"));
    for number in 0..packets {
        let packet = Packet { flow: number % 2, ..packet(number, 100) };
        line.push(Time::ZERO, packet, &mut out);
    }
    let mut end = Time::ZERO;
    while line.poll_at() != Time::MAX {
        end = line.poll_at();
        line.poll(end + random.span_below(lateness), &mut out);
        assert!(line.gauge().queued_packets <= line.in_transit().0, "copies do not count");
    }
    assert_eq!((line.in_transit(), line.gauge().queued_packets), ((0, 0), 0));
    (out, end)
}

fn order(out: &Output) -> Vec<(u64, u32)> {
    out.delivered.iter().map(|(due, packet)| (due.nanos(), packet.handle)).collect()
}

#[test]
fn users_take_turns_and_retransmissions_go_first() {
    let mut line = line(8, FEEDBACK, 0.0, 1);
    let (out, _) = run(&mut line, 8, Span(1));
    // Slots from 0 us: 0 1 2 3, 1 again (its answer came at 3.5 us), 4, 3 again, 5 6 7, 5 again, a wait for an
    // answer, 7 again at 11.5 us, 5 for the third time; 2 us later each is there.
    assert_eq!(
        order(&out),
        [(3_000, 0), (5_000, 2), (7_000, 1), (8_000, 4), (9_000, 3), (11_000, 6), (14_500, 7)]
    );
    assert_eq!(out.dropped, [(Time(13_500), Packet { flow: 1, ..packet(5, 100) }, Cause::Link)]);
    assert_eq!(line.told(), Told { sent: 13, lost: 0 });
}

#[test]
fn a_process_is_stop_and_wait() {
    let (out, _) = run(&mut line(1, FEEDBACK, 0.0, 1), 3, Span(1));
    // 0; its answer at 2.5 us frees the process for 1, which needs a second attempt at 5; 2 at 7.5 us.
    assert_eq!(order(&out), [(3_000, 0), (8_000, 1), (10_500, 2)]);
}

#[test]
fn lost_and_late_answers_cost_air_and_nothing_else() {
    // Without an answer every packet has three attempts: the first four processes at 0, 5 and 10 us (4 us after an
    // end), the next four from 14 us. What was decoded before is a copy.
    let nothing_heard = |line: &mut Line| {
        let (out, _) = run(line, 8, Span(1));
        let first = [(3_000, 0), (5_000, 2), (9_000, 1), (11_000, 3)];
        assert_eq!(order(&out), [&first[..], &[(17_000, 4), (19_000, 6), (25_000, 7)]].concat());
        assert_eq!(out.dropped.len(), 1);
        assert_eq!(line.told().sent, 24);
    };
    let mut lost = line(4, FEEDBACK, 1.0, 1);
    nothing_heard(&mut lost);
    assert_eq!(lost.told().lost, 24);
    // An answer that comes after the third attempt is as good as none.
    nothing_heard(&mut line(4, Span(100_000), 0.0, 1));
}

/// Never decodes, and waits for the answer, which is misheard as "decoded" from the second on.
struct Misheard(u32);

impl Service for Misheard {
    fn begin(&mut self, due: Time, _: &Job, _: &mut dyn Channel) -> Time {
        due + SLOT
    }
    fn end(&mut self, due: Time, job: &Job, cx: &mut Cx) -> Fate {
        cx.tell(due, Feedback::Attempt { user: 0, number: job.number, decoded: false });
        Fate::Again { at: Time::MAX }
    }
    fn feedback(&mut self, due: Time, feedback: &Feedback) -> Option<(u64, News)> {
        let Feedback::Attempt { number, .. } = *feedback else { return None };
        self.0 += 1;
        Some((number, if self.0 == 1 { News::Again { at: due + SLOT } } else { News::Done }))
    }
}

#[test]
fn what_the_sender_believes_delivered_is_lost() {
    let transmitter = Transmitter::over(RoundRobin::default(), Misheard(0), TwoUsers);
    let mut line = Line::of(vec![Box::new(transmitter)]);
    answer(&mut line, FEEDBACK, 0.0, 1);
    let (out, _) = run(&mut line, 1, Span(1));
    // Served from 0 us, its answer at 2.5, served again from 3.5, the second answer at 6 us.
    assert_eq!(
        (out.delivered, out.dropped),
        (vec![], vec![(Time(6_000), packet(0, 100), Cause::Link)])
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn each_packet_leaves_once_and_lateness_changes_nothing(
        processes in 1usize..9, delay in 1u64..9_000, loss in 0.0..1.0, packets in 1u32..60, seed: u64,
    ) {
        let [mut exact, mut late] = [0; 2].map(|_| line(processes, Span(delay), loss, seed));
        let (out, end) = run(&mut exact, packets, Span(1));
        let (out_late, _) = run(&mut late, packets, Span(30_000));
        prop_assert_eq!(&out.delivered, &out_late.delivered);
        prop_assert_eq!(&out.dropped, &out_late.dropped);
        prop_assert_eq!(exact.told(), late.told());
        let dropped = out.dropped.iter().map(|(_, packet, _)| packet.handle);
        let mut left: Vec<_> = order(&out).iter().map(|(_, number)| *number).chain(dropped).collect();
        left.sort_unstable();
        prop_assert!(left.into_iter().eq(0..packets), "each packet leaves once");
        // The air holds every attempt, of which user 1's packets need two, and packet 5 all.
        prop_assert!(exact.told().sent >= u64::from(packets + packets / 2 + u32::from(packets > 5)));
        prop_assert!(end >= Time(exact.told().sent * SLOT.nanos()));
    }
}

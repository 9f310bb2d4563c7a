//! Second proof: a scheduler of two users over a HARQ-like service with combining and a window of processes. The
//! feedback is delayed and can be lost. The code uses the traits only.

use std::collections::VecDeque;

use link::{
    Channel, ChannelState, Delay, DropReason, Feedback, FeedbackAction, FeedbackChannel,
    FeedbackSpec, FeedbackStats, LinkOutput, Queue, ServiceOutcome, ServiceProcess, SimplexLink,
    StageOutput, Transmission, Transmitter,
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
    fn enqueue(&mut self, _due: Time, packet: Packet, _out: &mut StageOutput) {
        self.users[packet.flow as usize].push_back(packet);
    }
    fn dequeue(&mut self, _: Time, _: &mut dyn Channel, _: &mut StageOutput) -> Option<Packet> {
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

/// User 0 decodes every attempt. User 1 needs a second one, and never decodes packet 5.
struct TwoUsers;

impl Channel for TwoUsers {
    fn at(&mut self, user: u32, _at: Time) -> ChannelState {
        ChannelState::from_es_n0(if user == 0 { 20.0 } else { 2.0 })
    }
}

/// Attempts accumulate signal until it suffices, up to three. Without feedback in time the service retransmits.
struct Harq {
    processes: usize,
    /// Unsettled packets: id, and the signal at the receiver.
    open: Vec<(u64, f64)>,
}

impl Harq {
    fn index(&self, number: u64) -> Option<usize> {
        self.open.iter().position(|(open, _)| *open == number)
    }
}

impl ServiceProcess for Harq {
    fn begin(&mut self, due: Time, job: &Transmission, channel: &mut dyn Channel) -> Time {
        let signal = channel.at(job.packet.flow, due).es_n0;
        match self.index(job.id) {
            Some(index) => self.open[index].1 += signal,
            None => self.open.push((job.id, signal)),
        }
        due + SLOT
    }
    fn end(&mut self, due: Time, job: &Transmission, out: &mut StageOutput) -> ServiceOutcome {
        // Without an entry, feedback for an earlier attempt arrived during this one.
        let Some(index) = self.index(job.id) else { return ServiceOutcome::Deliver };
        let decoded = self.open[index].1 >= 4.0 && job.packet.handle != 5;
        let (user, number) = (job.packet.flow, job.id);
        out.send_feedback(due, Feedback::AckNack { user, id: number, is_decoded: decoded });
        if job.attempt == 3 {
            self.open.swap_remove(index);
            return if decoded {
                ServiceOutcome::Deliver
            } else {
                ServiceOutcome::Drop(DropReason::LinkLayer)
            };
        }
        let at = due + TIME_OUT;
        if decoded { ServiceOutcome::Unconfirmed { at } } else { ServiceOutcome::Retransmit { at } }
    }
    fn available_at(&self) -> Time {
        if self.open.len() < self.processes { Time::ZERO } else { Time::MAX }
    }
    fn on_feedback(&mut self, due: Time, feedback: &Feedback) -> Option<(u64, FeedbackAction)> {
        let Feedback::AckNack { id: number, is_decoded: decoded, .. } = *feedback else {
            return None;
        };
        let index = self.index(number)?;
        if decoded {
            self.open.swap_remove(index);
            return Some((number, FeedbackAction::Complete));
        }
        Some((number, FeedbackAction::Retransmit { at: due }))
    }
}

/// Returns the transmitter and 2 us of delay, with a feedback channel from the receiver.
fn line(processes: usize, delay: Span, loss: f64, seed: u64) -> SimplexLink {
    let harq = Harq { processes, open: Vec::new() };
    let transmitter = Transmitter::with_channel(RoundRobin::default(), harq, TwoUsers);
    let mut line =
        SimplexLink::from_stages(vec![Box::new(transmitter), Box::new(Delay::new(Span(2_000)))]);
    answer(&mut line, delay, loss, seed);
    line
}

fn answer(line: &mut SimplexLink, delay: Span, loss: f64, seed: u64) {
    let spec = FeedbackSpec { delay_ns: delay.nanos(), loss };
    line.add_feedback(
        FeedbackChannel { from: 0, to: 0, spec },
        RandomStream::named(seed, "satellite", "feedback"),
    );
}

/// Pushes all `packets` at once and runs the link until it is empty. Returns the output and the time of the last work.
fn run(line: &mut SimplexLink, packets: u32, lateness: Span) -> (LinkOutput, Time) {
    let (mut out, mut random) =
        (LinkOutput::default(), RandomStream::named(1, "driver", "lateness"));
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

fn order(out: &LinkOutput) -> Vec<(u64, u32)> {
    out.delivered.iter().map(|(due, packet)| (due.nanos(), packet.handle)).collect()
}

#[test]
fn users_take_turns_and_retransmissions_go_first() {
    let mut line = line(8, FEEDBACK, 0.0, 1);
    let (out, _) = run(&mut line, 8, Span(1));
    // Slots from 0 us: 0 1 2 3, 1 again (feedback at 3.5 us), 4, 3 again, 5 6 7, 5 again. After a wait for feedback, 7
    // follows again at 11.5 us, and 5 for the third time. Each packet arrives 2 us later.
    assert_eq!(
        order(&out),
        [(3_000, 0), (5_000, 2), (7_000, 1), (8_000, 4), (9_000, 3), (11_000, 6), (14_500, 7)]
    );
    assert_eq!(
        out.dropped,
        [(Time(13_500), Packet { flow: 1, ..packet(5, 100) }, DropReason::LinkLayer)]
    );
    assert_eq!(line.feedback_stats(), FeedbackStats { sent: 13, lost: 0 });
}

#[test]
fn a_process_is_stop_and_wait() {
    let (out, _) = run(&mut line(1, FEEDBACK, 0.0, 1), 3, Span(1));
    // 0; its feedback at 2.5 us frees the process for 1, which needs a second attempt at 5; 2 at 7.5 us.
    assert_eq!(order(&out), [(3_000, 0), (8_000, 1), (10_500, 2)]);
}

#[test]
fn lost_and_late_feedback_costs_only_airtime() {
    // Without feedback every packet has three attempts. The first four processes start at 0, 5 and 10 us (4 us after an
    // end), the next four from 14 us. Attempts after decoding are duplicates.
    let check_without_feedback = |line: &mut SimplexLink| {
        let (out, _) = run(line, 8, Span(1));
        let first = [(3_000, 0), (5_000, 2), (9_000, 1), (11_000, 3)];
        assert_eq!(order(&out), [&first[..], &[(17_000, 4), (19_000, 6), (25_000, 7)]].concat());
        assert_eq!(out.dropped.len(), 1);
        assert_eq!(line.feedback_stats().sent, 24);
    };
    let mut lost = line(4, FEEDBACK, 1.0, 1);
    check_without_feedback(&mut lost);
    assert_eq!(lost.feedback_stats().lost, 24);
    // Feedback after the third attempt has no effect.
    check_without_feedback(&mut line(4, Span(100_000), 0.0, 1));
}

/// A service that never decodes and waits for feedback. It interprets feedback from the second on as "decoded".
struct Misheard(u32);

impl ServiceProcess for Misheard {
    fn begin(&mut self, due: Time, _: &Transmission, _: &mut dyn Channel) -> Time {
        due + SLOT
    }
    fn end(&mut self, due: Time, job: &Transmission, out: &mut StageOutput) -> ServiceOutcome {
        out.send_feedback(due, Feedback::AckNack { user: 0, id: job.id, is_decoded: false });
        ServiceOutcome::Retransmit { at: Time::MAX }
    }
    fn on_feedback(&mut self, due: Time, feedback: &Feedback) -> Option<(u64, FeedbackAction)> {
        let Feedback::AckNack { id: number, .. } = *feedback else { return None };
        self.0 += 1;
        Some((
            number,
            if self.0 == 1 {
                FeedbackAction::Retransmit { at: due + SLOT }
            } else {
                FeedbackAction::Complete
            },
        ))
    }
}

#[test]
fn a_false_acknowledgement_loses_the_packet() {
    let transmitter = Transmitter::with_channel(RoundRobin::default(), Misheard(0), TwoUsers);
    let mut line = SimplexLink::from_stages(vec![Box::new(transmitter)]);
    answer(&mut line, FEEDBACK, 0.0, 1);
    let (out, _) = run(&mut line, 1, Span(1));
    // Served from 0 us, feedback at 2.5, served again from 3.5, the second feedback at 6 us.
    assert_eq!(
        (out.delivered, out.dropped),
        (vec![], vec![(Time(6_000), packet(0, 100), DropReason::LinkLayer)])
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn each_packet_departs_once_and_lateness_changes_nothing(
        processes in 1usize..9, delay in 1u64..9_000, loss in 0.0..1.0, packets in 1u32..60, seed: u64,
    ) {
        let [mut exact, mut late] = [0; 2].map(|_| line(processes, Span(delay), loss, seed));
        let (out, end) = run(&mut exact, packets, Span(1));
        let (out_late, _) = run(&mut late, packets, Span(30_000));
        prop_assert_eq!(&out.delivered, &out_late.delivered);
        prop_assert_eq!(&out.dropped, &out_late.dropped);
        prop_assert_eq!(exact.feedback_stats(), late.feedback_stats());
        let dropped = out.dropped.iter().map(|(_, packet, _)| packet.handle);
        let mut left: Vec<_> = order(&out).iter().map(|(_, number)| *number).chain(dropped).collect();
        left.sort_unstable();
        prop_assert!(left.into_iter().eq(0..packets), "each packet leaves once");
        // The airtime includes every attempt. User 1's packets need two, and packet 5 all.
        prop_assert!(exact.feedback_stats().sent >= u64::from(packets + packets / 2 + u32::from(packets > 5)));
        prop_assert!(end >= Time(exact.feedback_stats().sent * SLOT.nanos()));
    }
}

//! Second proof: a queue that takes two users in turn, over a toy HARQ whose retransmissions hold
//! air time and go before new packets; a channel that is good for one user and bad for the other.

use std::collections::VecDeque;

use path::{Cause, Channel, Cx, Fate, Line, Output, Quality, Queue, Service, Transmitter};
use units::{Packet, Span, Time};

use crate::common::packet;

const SLOT: Span = Span(1_000);
const FEEDBACK: Span = Span(1_500);

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
        Quality { snr_db: if user == 0 { 20.0 } else { 2.0 } }
    }
}

/// Attempts add up their signal until it suffices; three at most.
#[derive(Default)]
struct Harq {
    heard: Vec<(u32, u32, f64)>,
}

impl Service for Harq {
    fn begin(&mut self, due: Time, packet: &Packet, channel: &mut dyn Channel) -> Time {
        let snr = channel.at(packet.flow, due).snr_db;
        match self.heard.iter_mut().find(|(handle, _, _)| *handle == packet.handle) {
            Some((_, attempts, sum)) => (*attempts, *sum) = (*attempts + 1, *sum + snr),
            None => self.heard.push((packet.handle, 1, snr)),
        }
        due + SLOT
    }
    fn end(&mut self, due: Time, packet: &Packet) -> Fate {
        let place = self.heard.iter().position(|(handle, _, _)| *handle == packet.handle).unwrap();
        let (_, attempts, sum) = self.heard[place];
        if sum < 4.0 || packet.handle == 5 {
            if attempts < 3 {
                return Fate::Again { at: due + FEEDBACK };
            }
            return Fate::Drop(Cause::Link);
        }
        self.heard.swap_remove(place);
        Fate::Deliver
    }
}

#[test]
fn users_take_turns_and_retransmissions_go_first() {
    let transmitter = Transmitter::over(RoundRobin::default(), Harq::default(), TwoUsers);
    let mut line = Line::of(vec![Box::new(transmitter)]);
    let mut out = Output::default();
    for number in 0..8 {
        line.push(Time::ZERO, Packet { flow: number % 2, ..packet(number, 100) }, &mut out);
    }
    assert_eq!(line.gauge().queued_packets, 7);
    line.poll(Time::MAX, &mut out);
    // Slots from 0 us: 0 1 2 3, 1 again, 4, 3 again, 5 6 7, 5 again, a wait for feedback, 7 again
    // at 11.5 us, 5 for the third time.
    let order: Vec<_> = out.delivered.iter().map(|(due, p)| (due.nanos(), p.handle)).collect();
    assert_eq!(
        order,
        [(1_000, 0), (3_000, 2), (5_000, 1), (6_000, 4), (7_000, 3), (9_000, 6), (12_500, 7)]
    );
    assert_eq!(out.dropped, [(Time(13_500), Packet { flow: 1, ..packet(5, 100) }, Cause::Link)]);
    assert_eq!((line.in_transit(), line.poll_at()), ((0, 0), Time::MAX));
}

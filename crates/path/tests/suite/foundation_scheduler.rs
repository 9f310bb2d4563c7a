//! Sixth proof: a scheduler of two users over every link layer, written against the traits only. It decides on
//! retransmissions as on new packets, and learns what its choices came to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use path::{
    Arq, Channel, Cx, Fate, Job, Line, Output, Quality, Queue, StageSpec, Transmitter, Wire,
};
use proptest::prelude::*;
use units::{Packet, RandomStream, Span, Time};

use crate::common::packet;
use crate::properties::radios;

/// Air that each user had, as the scheduler knows it.
type Air = Arc<Mutex<[Span; 2]>>;

/// Who had less of the air is served first, be it again or for the first time.
struct LeastAir {
    waiting: [VecDeque<Packet>; 2],
    air: Air,
}

impl LeastAir {
    fn first(&self) -> usize {
        let air = self.air.lock().unwrap();
        usize::from(air[1] < air[0])
    }
}

impl Queue for LeastAir {
    fn enqueue(&mut self, _: Time, packet: Packet, _: &mut Cx) {
        self.waiting[packet.user as usize].push_back(packet);
    }
    fn dequeue(&mut self, _: Time, _: &mut dyn Channel, _: &mut Cx) -> Option<Packet> {
        let first = self.first();
        let other = self.waiting[1 - first].front().copied();
        self.waiting[first].pop_front().or_else(|| {
            self.waiting[1 - first].pop_front();
            other
        })
    }
    fn ready_at(&self) -> Time {
        if self.backlog().0 > 0 { Time::ZERO } else { Time::MAX }
    }
    fn backlog(&self) -> (u64, u64) {
        let all = || self.waiting.iter().flatten();
        (all().count() as u64, all().map(|p| u64::from(p.bytes)).sum())
    }
    fn again(
        &mut self,
        _: Time,
        ready: &mut dyn Iterator<Item = &Job>,
        _: &mut dyn Channel,
    ) -> Option<usize> {
        let first = self.first();
        ready.enumerate().find(|(_, job)| job.packet.user as usize == first).map(|(place, _)| place)
    }
    fn served(&mut self, _: Time, job: &Job, air: Span, _: Fate) {
        self.air.lock().unwrap()[job.packet.user as usize] += air;
    }
}

/// One user in front of the satellite, one behind a tree.
struct TwoUsers;

impl Channel for TwoUsers {
    fn at(&mut self, user: u32, at: Time) -> Quality {
        let fade = if (at.nanos() / 10_000_000).is_multiple_of(2) { 0.0 } else { 6.0 };
        Quality::of_db(if user == 0 { 10.0 } else { 4.0 - fade })
    }
}

/// All packets come at once; what left, and the air that the scheduler and the tallies have of each user.
fn run(stage: &StageSpec, packets: u32, lateness: Span, seed: u64) -> (Output, [Span; 2]) {
    let StageSpec::Radio(spec) = stage else { unreachable!("a radio link") };
    let air = Air::default();
    let queue = LeastAir { waiting: Default::default(), air: Arc::clone(&air) };
    let random = |purpose| RandomStream::named(seed, "satellite", purpose);
    let service = Arq::new(&spec.link_layer, None, random("radio"));
    let transmitter = Transmitter::over(queue, service, TwoUsers).tallied();
    let mut line = Line::of(vec![Box::new(transmitter)]);
    if let Some(feedback) = spec.link_layer.feedback {
        line.wire(Wire { from: 0, to: 0, spec: feedback }, random("feedback"));
    }
    let (mut out, mut driver) =
        (Output::default(), RandomStream::named(seed, "driver", "lateness"));
    for number in 0..packets {
        line.push(Time::ZERO, Packet { user: number % 2, ..packet(number, 1_000) }, &mut out);
    }
    while line.poll_at() != Time::MAX {
        line.poll(line.poll_at() + driver.span_below(lateness), &mut out);
    }
    assert_eq!(line.in_transit(), (0, 0));
    let known = *air.lock().unwrap();
    let had = line.users().iter().map(|tally| tally.air);
    assert!(had.eq(known.into_iter().take(packets.min(2) as usize)), "each service is told of");
    (out, known)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn each_packet_leaves_once_and_lateness_changes_nothing(
        stage in radios(), packets in 1u32..80, seed: u64,
    ) {
        let (out, air) = run(&stage, packets, Span(1), seed);
        let (late, late_air) = run(&stage, packets, Span::from_millis(30), seed);
        prop_assert_eq!(&out.delivered, &late.delivered);
        prop_assert_eq!(&out.dropped, &late.dropped);
        prop_assert_eq!(air, late_air);
        let dropped = out.dropped.iter().map(|(_, packet, _)| packet.handle);
        let mut left: Vec<_> =
            out.delivered.iter().map(|(_, packet)| packet.handle).chain(dropped).collect();
        left.sort_unstable();
        prop_assert!(left.into_iter().eq(0..packets));
    }
}

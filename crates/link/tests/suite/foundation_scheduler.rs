//! Sixth proof: a scheduler of two users over every link layer, written against the traits only. It selects
//! retransmissions and new packets, and receives the outcomes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use link::{
    Arq, Channel, ChannelState, FeedbackChannel, LinkOutput, Queue, ServiceOutcome, SimplexLink,
    StageOutput, StageSpec, Transmission, Transmitter,
};
use proptest::prelude::*;
use units::{Packet, RandomStream, Span, Time};

use crate::common::packet;
use crate::properties::radios;

/// The airtime of each user as observed by the scheduler.
type AirtimeByUser = Arc<Mutex<[Span; 2]>>;

/// A scheduler that serves the user with less airtime first, for retransmissions and new packets.
struct LeastAirtime {
    waiting: [VecDeque<Packet>; 2],
    airtime: AirtimeByUser,
}

impl LeastAirtime {
    fn first(&self) -> usize {
        let airtime = self.airtime.lock().unwrap();
        usize::from(airtime[1] < airtime[0])
    }
}

impl Queue for LeastAirtime {
    fn enqueue(&mut self, _: Time, packet: Packet, _: &mut StageOutput) {
        self.waiting[packet.user as usize].push_back(packet);
    }
    fn dequeue(&mut self, _: Time, _: &mut dyn Channel, _: &mut StageOutput) -> Option<Packet> {
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
    fn select_retransmission(
        &mut self,
        _: Time,
        ready: &mut dyn Iterator<Item = &Transmission>,
        _: &mut dyn Channel,
    ) -> Option<usize> {
        let first = self.first();
        ready.enumerate().find(|(_, job)| job.packet.user as usize == first).map(|(index, _)| index)
    }
    fn on_service_end(&mut self, _: Time, job: &Transmission, airtime: Span, _: ServiceOutcome) {
        self.airtime.lock().unwrap()[job.packet.user as usize] += airtime;
    }
}

/// One user in line of sight, one intermittently shadowed.
struct TwoUsers;

impl Channel for TwoUsers {
    fn at(&mut self, user: u32, at: Time) -> ChannelState {
        let fade = if (at.nanos() / 10_000_000).is_multiple_of(2) { 0.0 } else { 6.0 };
        ChannelState::from_db(if user == 0 { 10.0 } else { 4.0 - fade })
    }
}

/// Pushes all packets at once. Returns the output and the airtime of each user, equal in scheduler and statistics.
fn run(stage: &StageSpec, packets: u32, lateness: Span, seed: u64) -> (LinkOutput, [Span; 2]) {
    let StageSpec::Radio(spec) = stage else { unreachable!("a radio link") };
    let airtime = AirtimeByUser::default();
    let queue = LeastAirtime { waiting: Default::default(), airtime: Arc::clone(&airtime) };
    let random = |purpose| RandomStream::named(seed, "satellite", purpose);
    let service = Arq::new(&spec.link_layer, None, random("radio"));
    let transmitter = Transmitter::with_channel(queue, service, TwoUsers).with_user_stats();
    let mut line = SimplexLink::from_stages(vec![Box::new(transmitter)]);
    if let Some(feedback) = spec.link_layer.feedback {
        line.add_feedback(FeedbackChannel { from: 0, to: 0, spec: feedback }, random("feedback"));
    }
    let (mut out, mut driver) =
        (LinkOutput::default(), RandomStream::named(seed, "driver", "lateness"));
    for number in 0..packets {
        line.push(Time::ZERO, Packet { user: number % 2, ..packet(number, 1_000) }, &mut out);
    }
    while line.poll_at() != Time::MAX {
        line.poll(line.poll_at() + driver.span_below(lateness), &mut out);
    }
    assert_eq!(line.in_transit(), (0, 0));
    let known = *airtime.lock().unwrap();
    let had = line.user_stats().iter().map(|tally| tally.airtime);
    assert!(had.eq(known.into_iter().take(packets.min(2) as usize)), "each service is told of");
    (out, known)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn each_packet_departs_once_and_lateness_changes_nothing(
        stage in radios(), packets in 1u32..80, seed: u64,
    ) {
        let (out, airtime) = run(&stage, packets, Span(1), seed);
        let (late, late_air) = run(&stage, packets, Span::from_millis(30), seed);
        prop_assert_eq!(&out.delivered, &late.delivered);
        prop_assert_eq!(&out.dropped, &late.dropped);
        prop_assert_eq!(airtime, late_air);
        let dropped = out.dropped.iter().map(|(_, packet, _)| packet.handle);
        let mut left: Vec<_> =
            out.delivered.iter().map(|(_, packet)| packet.handle).chain(dropped).collect();
        left.sort_unstable();
        prop_assert!(left.into_iter().eq(0..packets));
    }
}

//! An endpoint that has closed a connection responds as the stack does, and retains little state.

use units::{Ecn, Time};

use super::endpoint::closing::{ClosingState, LatePacket};
use super::endpoint_tests::endpoint;
use super::{ConnectionDriver, EndpointDriver};
use crate::perf_load::PerfServer;
use crate::quic::datagram_sink::SimulatedSink;
use crate::quic::quinn::Quinn;
use crate::{FlowCounters, FlowEvent, FlowEventKind, Payload, SenderGauges, Side};

/// Observable state of a client.
#[derive(Debug, PartialEq)]
struct ClientObservation {
    sent: Vec<Vec<u8>>,
    events: Vec<FlowEvent>,
    counters: FlowCounters,
    gauges: SenderGauges,
    ended: Option<Time>,
}

/// A client, its server, and the packets between them.
struct ClosingScenario {
    client: EndpointDriver<Quinn>,
    server: EndpointDriver<Quinn>,
    now: Time,
    up: Vec<Payload>,
    down: Vec<Payload>,
    observations: Vec<ClientObservation>,
}

impl ClosingScenario {
    /// Opens a connection. Later packets of the client are lost unless a test delivers them.
    fn connected(brief: bool) -> ClosingScenario {
        let (mut client, server) = (endpoint(Side::Client), endpoint(Side::Server));
        // This application sends no data on its initiative.
        client.build_app = Box::new(|_| Box::new(PerfServer::default()));
        if brief {
            client.enable_compact_closing();
        }
        let (up, down, seen) = (Vec::new(), Vec::new(), Vec::new());
        let mut story =
            ClosingScenario { client, server, now: Time(1000), up, down, observations: seen };
        story.client.connect(story.now, None, &mut story.up).unwrap();
        for _ in 0..2 {
            story.deliver_to_server();
            story.deliver_to_client();
        }
        assert!(story.client.live_connections().all(|one| one.connected_at().is_some()));
        story
    }

    /// Delivers the client's packets to the server.
    fn deliver_to_server(&mut self) {
        for payload in std::mem::take(&mut self.up) {
            self.server.receive(self.now, payload, &mut self.down);
        }
    }

    /// Delivers the server's packets to the client.
    fn deliver_to_client(&mut self) {
        for payload in std::mem::take(&mut self.down) {
            self.client.receive(self.now, payload, &mut self.up);
        }
    }

    fn close(&mut self) {
        self.client.close(self.now, &mut SimulatedSink::new(&mut self.up, 28));
    }

    /// Expires the server's timer, and delivers its packets.
    fn probe(&mut self) {
        self.now = self.server.poll_at();
        self.server.poll(self.now, &mut self.down);
        assert!(!self.down.is_empty());
        self.deliver_to_client();
    }

    fn record_observation(&mut self) {
        let payloads = self.up.iter().map(|payload| match payload {
            Payload::Datagram(datagram) => datagram.payload().into_owned(),
            _ => unreachable!("QUIC sends datagrams"),
        });
        let mut sent: Vec<Vec<u8>> = payloads.collect();
        for datagram in &mut sent {
            // The spin bit and the fixed bit are random (RFC 9000 section 17.4, RFC 9287).
            datagram[0] &= !0x60;
        }
        self.observations.push(ClientObservation {
            sent,
            events: self.client.take_events(),
            counters: self.client.counters(),
            gauges: self.client.gauges(),
            ended: self.client.ended_at(),
        });
    }

    fn live(&self) -> usize {
        self.client.live_connections().map(ConnectionDriver::number).count()
    }
}

/// Runs a scenario with both kinds of closing, which must be indistinguishable. Returns the observations.
fn both(tell: impl Fn(&mut ClosingScenario)) -> Vec<ClientObservation> {
    let [whole, brief] = [false, true].map(|brief| {
        let mut story = ClosingScenario::connected(brief);
        tell(&mut story);
        story.observations
    });
    assert_eq!(whole, brief);
    brief
}

#[test]
fn late_packets_are_answered_as_the_stack_does() {
    let seen = both(|story| {
        let brief = story.client.compact_closing;
        story.close();
        story.record_observation();
        let until = story.client.poll_at();
        while story.server.poll_at() < until {
            story.up.clear();
            story.probe();
            story.record_observation();
            assert_eq!(story.live(), usize::from(!brief), "nothing is kept but the answer");
        }
        story.up.clear();
        assert!(story.client.poll_at() >= until);
        story.client.poll(until, &mut story.up);
        story.record_observation();
        assert_eq!((story.live(), story.client.poll_at()), (0, Time::MAX));
        assert!(story.client.controller().is_none() && story.up.is_empty());
        // After that the client does not know the connection (RFC 9000 section 10.3).
        story.probe();
        story.record_observation();
    });
    let answers: Vec<_> = seen.iter().map(|seen| seen.sent.len()).collect();
    let [_, late @ .., end, after] = &answers[..] else { panic!("{answers:?}") };
    assert!(late.iter().sum::<usize>() >= 2 && (*end, *after) == (0, 1), "{answers:?}");
}

#[test]
fn a_response_closes_the_peer_too() {
    both(|story| {
        story.close();
        story.up.clear();
        story.probe();
        story.record_observation();
        assert!(!story.up.is_empty());
        story.deliver_to_server();
        let closed = |event: &FlowEvent| event.kind == FlowEventKind::Closed;
        assert!(story.server.take_events().iter().any(closed));
    });
}

#[test]
fn no_response_after_the_peer_has_closed_too() {
    both(|story| {
        let mut late = Vec::new();
        story.server.close(story.now, &mut SimulatedSink::new(&mut late, 28));
        story.close();
        story.up.clear();
        // The side that has closed responds, here to earlier packets.
        story.down.append(&mut late);
        story.deliver_to_client();
        story.record_observation();
        assert!(story.up.is_empty());
        let until = story.client.poll_at();
        story.client.poll(until, &mut story.up);
        story.record_observation();
        assert_eq!((story.live(), story.client.poll_at()), (0, Time::MAX));
    });
}

#[test]
fn a_stateless_reset_ends_the_closing_state() {
    let seen = both(|story| {
        story.close();
        story.record_observation();
        story.server = endpoint(Side::Server);
        story.deliver_to_server();
        assert_eq!(story.down.len(), 1, "a reset");
        story.deliver_to_client();
        story.record_observation();
        assert_eq!((story.live(), story.client.poll_at()), (0, Time::MAX));
    });
    let last = seen.last().unwrap();
    assert!(last.sent.is_empty() && last.events.iter().any(|one| one.kind == FlowEventKind::Lost));
}

/// Builds a short-header packet from the connection id of 8 times 7, with two bytes of packet number.
fn packet(number: u64, frames: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x41];
    packet.extend([7; 8]);
    packet.extend(&number.to_be_bytes()[6..]);
    packet.extend(frames);
    packet.extend([0; 8]);
    packet.extend(number.to_be_bytes());
    packet
}

#[test]
fn packets_older_than_the_dedup_window_are_ignored() {
    let mut frames = closing(0);
    // Number 400 was received; its encoding has 2 bytes.
    frames.splice(1..2, [0x41, 0x90]);
    let first = packet(300, &frames);
    let mut closing_state = ClosingState::read(&first, Time::ZERO, Ecn::NotEct, 0).unwrap();
    let mut receive = |number| {
        let late = packet(number, &[1]);
        closing_state.receive::<Quinn>(Time::ZERO, &late, &mut Vec::new())
    };
    assert_eq!([receive(271), receive(272)], [LatePacket::Ignore, LatePacket::Respond]);
    assert_eq!(
        [receive(410), receive(281), receive(282)],
        [LatePacket::Respond, LatePacket::Ignore, LatePacket::Respond]
    );
}

/// ACK of 0 to 5 with this delay, then CONNECTION_CLOSE (RFC 9000 sections 19.3, 19.19).
fn closing(age: u8) -> Vec<u8> {
    vec![2, 5, age, 0, 5, 0x1d, 0, 0]
}

#[test]
fn packet_number_and_ack_delay_grow_longer() {
    let first = packet(300, &closing(0));
    let mut closing_state = ClosingState::read(&first, Time::ZERO, Ecn::NotEct, 0).unwrap();
    let mut answer = |late: u64, now| {
        let mut out = Vec::new();
        let done = closing_state.receive::<Quinn>(now, &packet(6 + late, &[1]), &mut out);
        assert_eq!(done, LatePacket::Respond);
        out
    };
    // Delays are in units of 8 µs, with 1, 2 or 4 bytes from 0, 64 and 16,384 units on.
    for (late, (nanos, age)) in [
        (8_000 * 64 - 1, vec![63]),
        (8_000 * 64, vec![0x40, 64]),
        (8_000 * 16_384 - 1, vec![0x7f, 0xff]),
        (8_000 * 16_384, vec![0x80, 0, 0x40, 0]),
    ]
    .into_iter()
    .enumerate()
    {
        let mut frames = closing(0);
        frames.splice(2..3, age);
        assert_eq!(answer(late as u64, Time(nanos)), packet(301 + late as u64, &frames));
    }
}

#[test]
fn packet_numbers_have_the_length_of_the_stack() {
    let mut first = packet(100, &closing(0));
    // One byte of packet number: the peer has acknowledged 90.
    first[0] = 0x40;
    first.remove(9);
    let mut closing_state = ClosingState::read(&first, Time::ZERO, Ecn::NotEct, 90).unwrap();
    for late in 0..200 {
        let mut out = Vec::new();
        closing_state.receive::<Quinn>(Time::ZERO, &packet(6 + late, &[1]), &mut out);
        let number = 101 + late;
        assert_eq!(out.len(), first.len() + usize::from(number - 90 >= 128), "number {number}");
        assert_eq!(out.last_chunk(), Some(&number.to_be_bytes()));
    }
}

#[test]
fn unsupported_closing_packets_stay_with_the_stack() {
    let read = |packet: &[u8], acknowledged| {
        ClosingState::read(packet, Time::ZERO, Ecn::NotEct, acknowledged).is_some()
    };
    assert!(read(&packet(300, &closing(0)), 0));
    assert!(!read(&packet(300, &closing(0)), 290), "shorter than the stack wrote it");
    for (number, known) in [(16_375, true), (16_376, false), (16_383, false), (16_384, true)] {
        assert_eq!(read(&packet(number, &closing(0)), 0), known, "{number}");
    }
    assert!(!read(&packet(32_764, &closing(0)), 0), "the next but three is longer");
    assert!(!read(&packet(300, &closing(1)), 0), "of an unknown age");
    assert!(!read(&packet(300, &closing(0)[5..]), 0), "no ACK");
    assert!(!read(&packet(300, &closing(0)[..5]), 0), "no CONNECTION_CLOSE");
    assert!(!read(&packet(300, &[closing(0), vec![0]].concat()), 0), "more behind it");
    assert!(!read(&[&[0x45][..], &packet(300, &closing(0))[1..]].concat(), 0), "updated keys");
    assert!(!read(&[&[0xc3][..], &packet(300, &closing(0))[1..]].concat(), 0), "a long header");
    let whole = packet(300, &closing(0));
    (0..whole.len()).for_each(|length| assert!(!read(&whole[..length], 0), "{length}"));
}

#[test]
fn packets_of_other_connections_get_no_response() {
    let first = packet(300, &closing(0));
    let mut closing_state = ClosingState::read(&first, Time::ZERO, Ecn::NotEct, 0).unwrap();
    let mut receive = |datagram: &[u8]| {
        let mut out = Vec::new();
        (closing_state.receive::<Quinn>(Time::ZERO, datagram, &mut out), out.len())
    };
    let genuine = packet(6, &[1]);
    for length in 0..genuine.len() {
        assert_eq!(receive(&genuine[..length]), (LatePacket::Ignore, 0), "{length}");
    }
    let mut forged = genuine.clone();
    *forged.last_mut().unwrap() = 9;
    assert_eq!(receive(&forged), (LatePacket::Ignore, 0), "another number in its tag");
    assert_eq!(
        receive(&packet(6 + (1 << 16), &[1])),
        (LatePacket::Ignore, 0),
        "it is not read rightly"
    );
    // A Handshake packet before it (RFC 9000 section 17.2.4), with discarded keys.
    let before = [&[0xe0, 0, 0, 0, 1, 2, 7, 7, 1, 8, 3, 0, 0, 0][..], &genuine].concat();
    assert_eq!(receive(&before), (LatePacket::Respond, first.len()));
    assert_eq!(receive(&before[..14]), (LatePacket::Ignore, 0), "it stands alone");
    assert_eq!(receive(&genuine), (LatePacket::Respond, first.len()));
    assert_eq!(receive(&packet(7, &closing(3))), (LatePacket::Ignore, 0), "closed there too");
    assert_eq!(receive(&packet(8, &[1])), (LatePacket::Ignore, 0));
}

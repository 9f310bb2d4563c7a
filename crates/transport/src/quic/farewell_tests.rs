//! Who has closed a connection answers as the stack does, and keeps next to nothing for it.

use units::{Ecn, Time};

use super::endpoint_tests::endpoint;
use super::farewell::{Farewell, Late};
use super::outlet::Packets;
use super::{Connection, Endpoint, config};
use crate::load::PerfServer;
use crate::{Counters, Endpoint as _, Event, EventKind, Gauges, Payload, Side};

/// What can be seen of a client.
#[derive(Debug, PartialEq)]
struct Seen {
    sent: Vec<Vec<u8>>,
    events: Vec<Event>,
    counters: Counters,
    gauges: Gauges,
    ended: Option<Time>,
}

/// A client and what comes to it.
struct Story {
    client: Endpoint,
    server: Endpoint,
    now: Time,
    up: Vec<Payload>,
    down: Vec<Payload>,
    seen: Vec<Seen>,
}

impl Story {
    /// It has a connection, and what it says from now on is lost unless it is said otherwise.
    fn begin(brief: bool) -> Story {
        let (mut client, server) = (endpoint(Side::Client), endpoint(Side::Server));
        // It does nothing by itself.
        client.make_app = Box::new(|_| Box::new(PerfServer::default()));
        if brief {
            client.be_brief();
        }
        let (up, down, seen) = (Vec::new(), Vec::new(), Vec::new());
        let mut story = Story { client, server, now: Time(1000), up, down, seen };
        story.client.connect(story.now, None, &mut story.up).unwrap();
        for _ in 0..2 {
            story.answer_of_server();
            story.deliver();
        }
        assert!(story.client.live().all(|one| one.connected_at().is_some()));
        story
    }

    /// The server hears what the client has said.
    fn answer_of_server(&mut self) {
        for payload in std::mem::take(&mut self.up) {
            self.server.receive(self.now, payload, &mut self.down);
        }
    }

    /// The client hears what the server has said.
    fn deliver(&mut self) {
        for payload in std::mem::take(&mut self.down) {
            self.client.receive(self.now, payload, &mut self.up);
        }
    }

    fn close(&mut self) {
        self.client.close(self.now, &mut Packets::new(&mut self.up, 28));
    }

    /// The server's timer runs off, and what it says comes.
    fn probe(&mut self) {
        self.now = self.server.wake_at();
        self.server.wake(self.now, &mut self.down);
        assert!(!self.down.is_empty());
        self.deliver();
    }

    fn note(&mut self) {
        let payloads = self.up.iter().map(|payload| match payload {
            Payload::Datagram(datagram) => datagram.payload().into_owned(),
            _ => unreachable!("QUIC sends datagrams"),
        });
        let mut sent: Vec<Vec<u8>> = payloads.collect();
        for datagram in &mut sent {
            // The spin bit and the fixed bit are drawn (RFC 9000 section 17.4, RFC 9287).
            datagram[0] &= !0x60;
        }
        self.seen.push(Seen {
            sent,
            events: self.client.take_events(),
            counters: self.client.counters(),
            gauges: self.client.gauges(),
            ended: self.client.ended_at(),
        });
    }

    fn live(&self) -> usize {
        self.client.live().map(Connection::index).count()
    }
}

/// Both ways to be closed, which nobody can tell apart from outside; what was seen.
fn both(tell: impl Fn(&mut Story)) -> Vec<Seen> {
    let [whole, brief] = [false, true].map(|brief| {
        let mut story = Story::begin(brief);
        tell(&mut story);
        story.seen
    });
    assert_eq!(whole, brief);
    brief
}

#[test]
fn late_packets_are_answered_as_the_stack_does() {
    let seen = both(|story| {
        let brief = story.client.brief;
        story.close();
        story.note();
        let until = story.client.wake_at();
        while story.server.wake_at() < until {
            story.up.clear();
            story.probe();
            story.note();
            assert_eq!(story.live(), usize::from(!brief), "nothing is kept but the answer");
        }
        story.up.clear();
        assert!(story.client.wake_at() >= until);
        story.client.wake(until, &mut story.up);
        story.note();
        assert_eq!((story.live(), story.client.wake_at()), (0, Time::MAX));
        assert!(story.client.controller().is_none() && story.up.is_empty());
        // After that it knows nothing of the connection (RFC 9000 section 10.3).
        story.probe();
        story.note();
    });
    let answers: Vec<_> = seen.iter().map(|seen| seen.sent.len()).collect();
    let [_, late @ .., end, after] = &answers[..] else { panic!("{answers:?}") };
    assert!(late.iter().sum::<usize>() >= 2 && (*end, *after) == (0, 1), "{answers:?}");
}

#[test]
fn the_peer_is_told_by_an_answer_too() {
    both(|story| {
        story.close();
        story.up.clear();
        story.probe();
        story.note();
        assert!(!story.up.is_empty());
        story.answer_of_server();
        let closed = |event: &Event| event.kind == EventKind::Closed;
        assert!(story.server.take_events().iter().any(closed));
    });
}

#[test]
fn who_hears_that_the_peer_has_closed_it_too_is_silent() {
    both(|story| {
        let mut late = Vec::new();
        story.server.close(story.now, &mut Packets::new(&mut late, 28));
        story.close();
        story.up.clear();
        // Whoever has closed answers, here what came before.
        story.down.append(&mut late);
        story.deliver();
        story.note();
        assert!(story.up.is_empty());
        let until = story.client.wake_at();
        story.client.wake(until, &mut story.up);
        story.note();
        assert_eq!((story.live(), story.client.wake_at()), (0, Time::MAX));
    });
}

#[test]
fn a_peer_that_knows_nothing_of_the_connection_ends_it() {
    let seen = both(|story| {
        story.close();
        story.note();
        story.server = endpoint(Side::Server);
        story.answer_of_server();
        assert_eq!(story.down.len(), 1, "a reset");
        story.deliver();
        story.note();
        assert_eq!((story.live(), story.client.wake_at()), (0, Time::MAX));
    });
    let last = seen.last().unwrap();
    assert!(last.sent.is_empty() && last.events.iter().any(|one| one.kind == EventKind::Lost));
}

/// A packet with a short header from connection id 8 times 7, with two bytes of its number.
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
fn of_old_packets_nobody_knows_whether_they_had_come() {
    let mut frames = closing(0);
    // Number 400 had come: its length is 2.
    frames.splice(1..2, [0x41, 0x90]);
    let first = packet(300, &frames);
    let mut farewell = Farewell::read(&first, Time::ZERO, Ecn::NotEct, 0).unwrap();
    let mut hear = |number| {
        let late = packet(number, &[1]);
        farewell.receive(Time::ZERO, &late, config::is_reset, &mut Vec::new())
    };
    assert_eq!([hear(271), hear(272)], [Late::Ignored, Late::Answered]);
    assert_eq!([hear(410), hear(281), hear(282)], [Late::Answered, Late::Ignored, Late::Answered]);
}

/// ACK of 0 to 5, of this age; CONNECTION_CLOSE (RFC 9000 sections 19.3, 19.19).
fn closing(age: u8) -> Vec<u8> {
    vec![2, 5, age, 0, 5, 0x1d, 0, 0]
}

#[test]
fn number_and_age_grow_longer() {
    let first = packet(300, &closing(0));
    let mut farewell = Farewell::read(&first, Time::ZERO, Ecn::NotEct, 0).unwrap();
    let mut answer = |late: u64, now| {
        let mut out = Vec::new();
        let done = farewell.receive(now, &packet(6 + late, &[1]), config::is_reset, &mut out);
        assert_eq!(done, Late::Answered);
        out
    };
    // Ages are in units of 8 µs, and written in 1, 2 or 4 bytes from 0, 64 and 16,384 of them on.
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
fn numbers_are_as_long_as_the_stack_writes_them() {
    let mut first = packet(100, &closing(0));
    // One byte of the number: the peer has acknowledged 90.
    first[0] = 0x40;
    first.remove(9);
    let mut farewell = Farewell::read(&first, Time::ZERO, Ecn::NotEct, 90).unwrap();
    for late in 0..200 {
        let mut out = Vec::new();
        farewell.receive(Time::ZERO, &packet(6 + late, &[1]), config::is_reset, &mut out);
        let number = 101 + late;
        assert_eq!(out.len(), first.len() + usize::from(number - 90 >= 128), "number {number}");
        assert_eq!(out.last_chunk(), Some(&number.to_be_bytes()));
    }
}

#[test]
fn what_is_not_known_is_left_to_the_stack() {
    let read = |packet: &[u8], acknowledged| {
        Farewell::read(packet, Time::ZERO, Ecn::NotEct, acknowledged).is_some()
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
fn strangers_are_not_answered() {
    let first = packet(300, &closing(0));
    let mut farewell = Farewell::read(&first, Time::ZERO, Ecn::NotEct, 0).unwrap();
    let mut hear = |datagram: &[u8]| {
        let mut out = Vec::new();
        (farewell.receive(Time::ZERO, datagram, config::is_reset, &mut out), out.len())
    };
    let genuine = packet(6, &[1]);
    for length in 0..genuine.len() {
        assert_eq!(hear(&genuine[..length]), (Late::Ignored, 0), "{length}");
    }
    let mut forged = genuine.clone();
    *forged.last_mut().unwrap() = 9;
    assert_eq!(hear(&forged), (Late::Ignored, 0), "another number in its tag");
    assert_eq!(hear(&packet(6 + (1 << 16), &[1])), (Late::Ignored, 0), "it is not read rightly");
    // A Handshake packet before it (RFC 9000 section 17.2.4), whose keys are gone.
    let before = [&[0xe0, 0, 0, 0, 1, 2, 7, 7, 1, 8, 3, 0, 0, 0][..], &genuine].concat();
    assert_eq!(hear(&before), (Late::Answered, first.len()));
    assert_eq!(hear(&before[..14]), (Late::Ignored, 0), "it stands alone");
    assert_eq!(hear(&genuine), (Late::Answered, first.len()));
    assert_eq!(hear(&packet(7, &closing(3))), (Late::Ignored, 0), "closed there too");
    assert_eq!(hear(&packet(8, &[1])), (Late::Ignored, 0));
}

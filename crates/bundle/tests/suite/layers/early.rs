//! Bundles in early data: what goes with the first flight of a session that resumes, and what the peer does with what comes first.

use std::collections::BTreeMap;

use bundle::layers::{LayerSpec, Memory, QuicclSpec, Streaming};
use bundle::{Role, Said, Service, Session, Told, Transfer};
use bytes::Bytes;
use transport::{AppEvent, ReadEnd, Streams};
use units::Time;

/// Streams in memory, over a connection whose handshake is not over.
#[derive(Default)]
struct Pipes {
    opened: u64,
    early: bool,
    incoming: BTreeMap<u64, Vec<u8>>,
    read: BTreeMap<u64, u64>,
    outgoing: BTreeMap<u64, Vec<u8>>,
}

impl Streams for Pipes {
    fn open(&mut self) -> Option<u64> {
        self.opened += 1;
        Some((self.opened - 1) * 4)
    }
    fn write(&mut self, stream: u64, data: Bytes) -> usize {
        self.outgoing.entry(stream).or_default().extend_from_slice(&data);
        data.len()
    }
    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadEnd {
        let data = self.incoming.remove(&stream).unwrap_or_default();
        let offset = self.read.entry(stream).or_default();
        take(*offset, &data);
        *offset += data.len() as u64;
        ReadEnd::Open
    }
    fn finish(&mut self, _: u64) {}
    fn reset(&mut self, _: u64) {}
    fn stop(&mut self, _: u64) {}
    fn appetite(&self) -> usize {
        1 << 20
    }
    fn is_early(&self) -> bool {
        self.early
    }
    fn close(&mut self) {}
}

struct Side {
    session: Box<dyn Session>,
    pipes: Pipes,
    said: Vec<Said>,
}

impl Side {
    fn new(session: Box<dyn Session>, early: bool) -> Side {
        Side { session, pipes: Pipes { early, ..Pipes::default() }, said: Vec::new() }
    }

    fn on(&mut self, event: AppEvent) {
        self.session.on(Time::ZERO, event, &mut self.pipes, &mut self.said);
        while self.session.has_data() {
            self.session.on(Time::ZERO, AppEvent::WantData, &mut self.pipes, &mut self.said);
        }
    }

    fn tell(&mut self, told: Told) {
        self.session.hear(Time::ZERO, told, &mut self.pipes, &mut self.said);
        while self.session.has_data() {
            self.session.on(Time::ZERO, AppEvent::WantData, &mut self.pipes, &mut self.said);
        }
    }

    fn send(&mut self, bundle: &'static [u8]) {
        let data = vec![Bytes::from_static(bundle)];
        self.tell(Told::Send(Transfer { id: 0, data, service: Service::Reliable, priority: 1 }));
    }

    fn started(&self) -> usize {
        self.said.iter().filter(|said| matches!(said, Said::Started { .. })).count()
    }

    fn received(&self) -> Vec<Vec<u8>> {
        let of = |said: &Said| match said {
            Said::Received { data, .. } => Some(data.concat()),
            _ => None,
        };
        self.said.iter().filter_map(of).collect()
    }

    fn accepted(&self) -> bool {
        self.said.iter().any(|said| matches!(said, Said::Accepted { id: 0, durable: true }))
    }
}

/// What one side has written on these streams comes to the other.
fn carry(from: &mut Side, to: &mut Side, streams: &[u64]) {
    for stream in streams {
        let data = from.pipes.outgoing.remove(stream).unwrap_or_default();
        let known = to.pipes.read.contains_key(stream) || to.pipes.opened > *stream / 4;
        to.pipes.incoming.entry(*stream).or_default().extend(data);
        to.on(if known { AppEvent::Readable(*stream) } else { AppEvent::Opened(*stream) });
    }
}

fn layer() -> LayerSpec {
    LayerSpec::Quiccl(QuicclSpec { streams: Streaming::One, ..QuicclSpec::default() })
}

/// Two sides, the active of which goes by `memory`.
fn pair(memory: &Memory, early: bool) -> [Side; 2] {
    let active = layer().resuming(Role::Active, "ipn:1.0", memory);
    let mut sides =
        [Side::new(active, early), Side::new(layer().session(Role::Passive, "ipn:2.0"), false)];
    sides.iter_mut().for_each(|side| side.on(AppEvent::Ready));
    sides
}

/// What a first session leaves behind.
fn first(early: bool) -> Memory {
    let memory = Memory::default();
    let [mut here, mut there] = pair(&memory, early);
    assert_eq!(here.started(), 0, "nothing is known before the first session");
    here.send(b"\x9fone\xff");
    assert!(here.pipes.outgoing[&16].len() < 4, "a bundle waits for the peer's SESS_INIT");
    carry(&mut here, &mut there, &[0, 16]);
    carry(&mut there, &mut here, &[0]);
    carry(&mut here, &mut there, &[16]);
    assert_eq!(there.received(), [b"\x9fone\xff"]);
    memory
}

#[test]
fn a_session_that_resumes_sends_its_bundle_with_its_first_flight() {
    for early_before in [false, true] {
        let memory = first(early_before);
        let [mut here, mut there] = pair(&memory, true);
        here.send(b"\x9ftwo\xff");
        assert_eq!(here.started(), 1, "by what the peer has said before");
        carry(&mut here, &mut there, &[0, 16]);
        assert_eq!(there.received(), [b"\x9ftwo\xff"]);
        there.tell(Told::Stored(0));
        // Its own SESS_INIT is taken as such, once; then the answer.
        carry(&mut there, &mut here, &[0, 16]);
        assert_eq!(here.started(), 2);
        assert!(here.accepted());
        assert!(here.pipes.outgoing.values().all(Vec::is_empty), "nothing is rejected");
    }
}

#[test]
fn without_early_data_what_was_said_before_does_not_count() {
    let memory = first(false);
    let [mut here, _] = pair(&memory, false);
    here.send(b"\x9ftwo\xff");
    assert_eq!(here.started(), 0);
    assert!(here.pipes.outgoing[&16].len() < 4);
}

#[test]
fn a_bundle_that_overtakes_sess_init_waits_for_it() {
    let memory = first(false);
    let [mut here, mut there] = pair(&memory, true);
    here.send(b"\x9ftwo\xff");
    carry(&mut here, &mut there, &[16]);
    assert!(there.said.is_empty() && there.pipes.outgoing.is_empty(), "neither taken nor rejected");
    carry(&mut here, &mut there, &[0]);
    assert_eq!(there.received(), [b"\x9ftwo\xff"]);
}

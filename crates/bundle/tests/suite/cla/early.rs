//! Bundles in early data: the first flight of a resumed session, and the handling of bundles that precede SESS_INIT.

use std::collections::BTreeMap;

use bundle::cla::{ClaSpec, QuicclSpec, RememberedParameters, StreamMappingSpec};
use bundle::{DeliveryMode, Role, Session, SessionCommand, SessionEvent, Transfer};
use bytes::Bytes;
use transport::{AppEvent, ReadStatus, Streams};
use units::Time;

/// Streams in memory, over a connection with an incomplete handshake.
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
    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadStatus {
        let data = self.incoming.remove(&stream).unwrap_or_default();
        let offset = self.read.entry(stream).or_default();
        take(*offset, &data);
        *offset += data.len() as u64;
        ReadStatus::Open
    }
    fn finish(&mut self, _: u64) {}
    fn reset(&mut self, _: u64) {}
    fn stop(&mut self, _: u64) {}
    fn write_budget(&self) -> usize {
        1 << 20
    }
    fn is_early_data(&self) -> bool {
        self.early
    }
    fn close(&mut self) {}
}

struct Side {
    session: Box<dyn Session>,
    pipes: Pipes,
    events: Vec<SessionEvent>,
}

impl Side {
    fn new(session: Box<dyn Session>, early: bool) -> Side {
        Side { session, pipes: Pipes { early, ..Pipes::default() }, events: Vec::new() }
    }

    fn on(&mut self, event: AppEvent) {
        self.session.on_event(Time::ZERO, event, &mut self.pipes, &mut self.events);
        while self.session.has_data() {
            self.session.on_event(
                Time::ZERO,
                AppEvent::Writable,
                &mut self.pipes,
                &mut self.events,
            );
        }
    }

    fn send_command(&mut self, command: SessionCommand) {
        self.session.on_command(Time::ZERO, command, &mut self.pipes, &mut self.events);
        while self.session.has_data() {
            self.session.on_event(
                Time::ZERO,
                AppEvent::Writable,
                &mut self.pipes,
                &mut self.events,
            );
        }
    }

    fn send(&mut self, bundle: &'static [u8]) {
        let data = vec![Bytes::from_static(bundle)];
        self.send_command(SessionCommand::Send(Transfer {
            id: 0,
            data,
            mode: DeliveryMode::Reliable,
            priority: 1,
        }));
    }

    fn started(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, SessionEvent::Established { .. })).count()
    }

    fn received(&self) -> Vec<Vec<u8>> {
        let of = |event: &SessionEvent| match event {
            SessionEvent::Received { data, .. } => Some(data.concat()),
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }

    fn accepted(&self) -> bool {
        self.events
            .iter()
            .any(|event| matches!(event, SessionEvent::Acknowledged { id: 0, durable: true }))
    }
}

/// Transfers the output of one side on these streams to the other.
fn carry(from: &mut Side, to: &mut Side, streams: &[u64]) {
    for stream in streams {
        let data = from.pipes.outgoing.remove(stream).unwrap_or_default();
        let known = to.pipes.read.contains_key(stream) || to.pipes.opened > *stream / 4;
        to.pipes.incoming.entry(*stream).or_default().extend(data);
        to.on(if known { AppEvent::Readable(*stream) } else { AppEvent::StreamOpened(*stream) });
    }
}

fn layer() -> ClaSpec {
    ClaSpec::Quiccl(QuicclSpec { streams: StreamMappingSpec::One, ..QuicclSpec::default() })
}

/// Builds two sides. The active one uses `remembered`.
fn pair(remembered: &RememberedParameters, early: bool) -> [Side; 2] {
    let active = layer().build_session_with_early_data(Role::Active, "ipn:1.0", remembered);
    let mut sides = [
        Side::new(active, early),
        Side::new(layer().build_session(Role::Passive, "ipn:2.0"), false),
    ];
    sides.iter_mut().for_each(|side| side.on(AppEvent::Ready));
    sides
}

/// Runs a first session and returns its remembered parameters.
fn first(early: bool) -> RememberedParameters {
    let memory = RememberedParameters::default();
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
fn a_resumed_session_sends_its_bundle_in_the_first_flight() {
    for early_before in [false, true] {
        let memory = first(early_before);
        let [mut here, mut there] = pair(&memory, true);
        here.send(b"\x9ftwo\xff");
        assert_eq!(here.started(), 1, "by what the peer has said before");
        carry(&mut here, &mut there, &[0, 16]);
        assert_eq!(there.received(), [b"\x9ftwo\xff"]);
        there.send_command(SessionCommand::ConfirmStored(0));
        // SESS_INIT of the peer is accepted once; then the acknowledgement arrives.
        carry(&mut there, &mut here, &[0, 16]);
        assert_eq!(here.started(), 2);
        assert!(here.accepted());
        assert!(here.pipes.outgoing.values().all(Vec::is_empty), "nothing is rejected");
    }
}

#[test]
fn without_early_data_remembered_parameters_are_not_used() {
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
    assert!(
        there.events.is_empty() && there.pipes.outgoing.is_empty(),
        "neither taken nor rejected"
    );
    carry(&mut here, &mut there, &[0]);
    assert_eq!(there.received(), [b"\x9ftwo\xff"]);
}

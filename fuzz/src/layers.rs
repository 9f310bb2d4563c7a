//! An arbitrary peer of a convergence-layer adapter.

use std::collections::{BTreeMap, BTreeSet};

use bundle::cla::messages::SessInit;
use bundle::cla::{
    ClaSpec, LtpSpec, MtcpSpec, QubicleSpec, QuicclSpec, RememberedParameters, StreamMappingSpec,
    TcpclSpec,
};
use bundle::{
    DeliveryMode, LinkState, RefusalReason, Role, SessionCommand, SessionEvent, Transfer,
};
use bytes::Bytes;
use transport::{AppEvent, ReadStatus, Streams};
use units::{Rate, Span, Time};

/// Unread data of a stream, its offset, and the end of the stream.
#[derive(Default)]
struct Arrived {
    pieces: Vec<(u64, Vec<u8>)>,
    offset: u64,
    end: Option<ReadStatus>,
}

/// Streams and datagrams of the arbitrary peer.
#[derive(Default)]
struct Stranger {
    arrived: BTreeMap<u64, Arrived>,
    datagrams: Vec<Bytes>,
    ended: BTreeSet<u64>,
    opened: [u64; 2],
    own: u64,
    room: usize,
    closed: bool,
    early: bool,
}

impl Stranger {
    fn open_one(&mut self, uni: bool) -> Option<u64> {
        let number = &mut self.opened[usize::from(uni)];
        let id = *number << 2 | u64::from(uni) << 1 | self.own;
        *number += 1;
        (*number < 20).then_some(id)
    }

    fn end(&mut self, stream: u64) {
        self.ended.insert(stream);
    }
}

impl Streams for Stranger {
    fn open(&mut self) -> Option<u64> {
        self.open_one(false)
    }
    fn open_uni(&mut self) -> Option<u64> {
        self.open_one(true)
    }
    fn send_datagram(&mut self, data: Bytes) -> bool {
        assert!(data.len() <= 1200);
        true
    }
    fn take_datagram(&mut self) -> Option<Bytes> {
        self.datagrams.pop()
    }
    fn max_datagram_bytes(&mut self) -> Option<usize> {
        Some(1200)
    }
    fn datagram_budget(&mut self) -> usize {
        1 << 14
    }
    fn write(&mut self, stream: u64, data: Bytes) -> usize {
        assert!(!self.ended.contains(&stream), "written after the end");
        let taken = data.len().min(self.room);
        self.room -= taken;
        taken
    }
    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadStatus {
        let Some(Arrived { pieces, end, .. }) = self.arrived.get_mut(&stream) else {
            return ReadStatus::Reset;
        };
        for (offset, data) in pieces.drain(..) {
            take(offset, &data);
        }
        end.unwrap_or(ReadStatus::Open)
    }
    fn finish(&mut self, stream: u64) {
        self.end(stream);
    }
    fn reset(&mut self, stream: u64) {
        self.end(stream);
    }
    fn stop(&mut self, _: u64) {}
    fn write_budget(&self) -> usize {
        1 << 12
    }
    fn is_early_data(&self) -> bool {
        self.early
    }
    fn close(&mut self) {
        self.closed = true;
    }
}

fn layer(which: u8) -> ClaSpec {
    let small = 1 << 12;
    let quiccl = |streams| {
        ClaSpec::Quiccl(QuicclSpec {
            streams,
            transfer_bytes: small,
            incoming_bytes: small,
            segment_bytes: 256,
            datagram_bytes: Some(1 << 14),
            keepalive_s: 1,
            ..QuicclSpec::default()
        })
    };
    match which {
        0 => ClaSpec::Tcpcl(TcpclSpec {
            transfer_bytes: small,
            incoming_bytes: small,
            segment_bytes: 256,
            keepalive_s: 1,
            ..TcpclSpec::default()
        }),
        1 | 7 => quiccl(StreamMappingSpec::One),
        2 => quiccl(StreamMappingSpec::Each),
        3 => quiccl(StreamMappingSpec::Priorities),
        4 => ClaSpec::Qubicle(QubicleSpec {
            transfer_bytes: small,
            incoming_bytes: small,
            ..QubicleSpec::default()
        }),
        5 => ClaSpec::Mtcp(MtcpSpec { transfer_bytes: small }),
        _ => ClaSpec::Ltp(LtpSpec {
            segment_bytes: 300,
            margin_ns: 50_000_000,
            max_outgoing_sessions: 4,
            max_incoming_sessions: 4,
            transfer_bytes: small,
            incoming_bytes: small,
            ..LtpSpec::default()
        }),
    }
}

fn way(sends: bool, hears: bool) -> LinkState {
    let light = Span::from_millis(20);
    LinkState {
        can_send: sends,
        rate: Some(Rate(1_000_000)),
        can_receive: hears,
        owlt_out: light,
        owlt_in: light,
    }
}

/// Events of a session so far.
#[derive(Default)]
struct SessionLog {
    open: BTreeSet<u64>,
    received: u64,
    bytes: usize,
    over: bool,
}

impl SessionLog {
    fn on_event(&mut self, event: SessionEvent) {
        assert!(!self.over, "{event:?} after the end");
        match event {
            SessionEvent::Acknowledged { id, .. } | SessionEvent::Refused { id, .. } => {
                assert!(self.open.remove(&id), "a second outcome of {id}");
            }
            SessionEvent::Transmitted(id) => assert!(self.open.contains(&id)),
            SessionEvent::Received { id, data, .. } => {
                assert_eq!(id, self.received);
                let bytes: usize = data.iter().map(|part| part.len()).sum();
                assert!(bytes <= 1 << 12, "a bundle of {bytes} bytes");
                self.received += 1;
                self.bytes += bytes;
            }
            SessionEvent::Established { .. } => {}
            SessionEvent::Closed { .. } => self.over = true,
        }
    }
}

/// Runs an adapter, selected by the first octet, against a peer with arbitrary messages.
///
/// The session reports only bundles that arrived, none above the maximum size. Each bundle of this side has one outcome.
/// No event follows the end.
pub fn layers(script: &[u8]) {
    let Some((first, script)) = script.split_first() else { return };
    let role = if first & 8 == 0 { Role::Active } else { Role::Passive };
    let layer = layer(first & 7);
    let quic = layer.quic_requirements().is_some();
    // A session with early data uses the parameters of an earlier session.
    let early = first & 16 != 0;
    let known = SessInit {
        keepalive_s: 1,
        segment_mru: 100,
        datagram_mru: 1000,
        transfer_mru: 1 << 11,
        node_id: "ipn:2.0".to_owned(),
        extension_error: None,
    };
    let memory =
        if early { RememberedParameters::new(known) } else { RememberedParameters::default() };
    let mut session = layer.build_session_with_early_data(role, "ipn:1.0", &memory);
    let mut peer = Stranger { room: 1 << 20, early, ..Stranger::default() };
    peer.own = u64::from(role == Role::Passive);
    let (mut events, mut log, mut came, mut number) = (Vec::new(), SessionLog::default(), 0, 0);
    let mut now = Time::ZERO;
    let mut rest = script;
    session.on_event(now, AppEvent::Ready, &mut peer, &mut events);
    session.on_command(now, SessionCommand::LinkState(way(true, true)), &mut peer, &mut events);
    while let Some((word, behind)) = rest.split_first() {
        rest = behind;
        now = Time(now.0 + 10_000_000);
        let stream = match (quic, word & 7) {
            (true, low @ 0..5) => u64::from(low) * 4,
            (true, low) => u64::from(low),
            _ => 0,
        };
        // The peer knows a stream of this side only once it is open.
        let own = stream & 1 == peer.own && (quic || role == Role::Active);
        if own && stream >> 2 >= peer.opened[usize::from(stream & 2 != 0)] {
            continue;
        }
        let known = own || peer.arrived.contains_key(&stream);
        let mut take = |count: usize| {
            let (data, behind) = rest.split_at(count.min(rest.len()));
            rest = behind;
            data.to_vec()
        };
        match word >> 3 {
            // Bytes in two pieces, sometimes in reverse order, with or without the end of the stream.
            kind @ 0..=7 => {
                let count = take(1).first().map_or(0, |count| usize::from(*count));
                let data = take(count);
                came += data.len();
                let Arrived { pieces, offset, end } = peer.arrived.entry(stream).or_default();
                if end.is_some() {
                    continue;
                }
                let cut = if kind & 1 == 0 { data.len() } else { data.len() / 2 };
                pieces.push((*offset + cut as u64, data[cut..].to_vec()));
                pieces.push((*offset, data[..cut].to_vec()));
                *offset += data.len() as u64;
                *end = match kind {
                    6 => Some(ReadStatus::Finished),
                    7 => Some(ReadStatus::Reset),
                    _ => None,
                };
                let event =
                    if known { AppEvent::Readable(stream) } else { AppEvent::StreamOpened(stream) };
                session.on_event(now, event, &mut peer, &mut events);
            }
            8 | 9 => {
                let count = take(1).first().map_or(0, |count| usize::from(*count));
                let data = take(count);
                came += data.len();
                peer.datagrams.push(data.into());
                session.on_event(now, AppEvent::DatagramsReceived, &mut peer, &mut events);
            }
            10 => session.on_event(now, AppEvent::Stopped(stream), &mut peer, &mut events),
            11 => session.on_event(now, AppEvent::Finished(stream), &mut peer, &mut events),
            12 => session.on_event(now, AppEvent::Readable(stream), &mut peer, &mut events),
            13 | 14 => {
                now = session.poll_at().min(Time(now.0 + 100_000_000_000)).max(now);
                session.on_event(now, AppEvent::Timer, &mut peer, &mut events);
                assert!(session.poll_at() > now || log.over, "it wakes and wakes");
            }
            15..=19 => {
                let services =
                    [DeliveryMode::Reliable, DeliveryMode::Notified, DeliveryMode::Unreliable];
                let data = vec![Bytes::from(vec![0x9f; usize::from(*word) * 9])];
                let service = services[usize::from(word >> 3) % 3];
                log.open.insert(number);
                let transfer = Transfer { id: number, data, mode: service, priority: word % 3 };
                number += 1;
                if !log.over {
                    session.on_command(now, SessionCommand::Send(transfer), &mut peer, &mut events);
                }
            }
            20 => {
                let received = log.received.saturating_sub(u64::from(word & 7));
                session.on_command(
                    now,
                    SessionCommand::ConfirmStored(received),
                    &mut peer,
                    &mut events,
                );
            }
            21 => {
                let received = log.received.saturating_sub(u64::from(word & 7));
                let told = SessionCommand::Refuse(received, RefusalReason::NoResources);
                session.on_command(now, told, &mut peer, &mut events);
            }
            22 => session.on_command(
                now,
                SessionCommand::Cancel(u64::from(word & 7)),
                &mut peer,
                &mut events,
            ),
            23 => session.on_command(now, SessionCommand::Terminate, &mut peer, &mut events),
            24 => peer.room = usize::from(word & 7) * 50,
            27 | 28 => {
                let way = way(word & 1 == 0, word & 2 == 0);
                session.on_command(now, SessionCommand::LinkState(way), &mut peer, &mut events);
            }
            25 => session.on_event(now, AppEvent::Closed, &mut peer, &mut events),
            26 => session.on_event(now, AppEvent::Ready, &mut peer, &mut events),
            _ => {
                peer.room += 1 << 12;
                if session.has_data() {
                    session.on_event(now, AppEvent::Writable, &mut peer, &mut events);
                }
            }
        }
        events.drain(..).for_each(|one| log.on_event(one));
        assert!(log.bytes <= came, "{} bytes of bundles out of {came}", log.bytes);
    }
}

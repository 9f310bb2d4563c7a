//! qubicle (draft-ek-dtn-qubicle-02): a unidirectional stream a bundle, whose end is the bundle's. There is no session and
//! no answer of its own: a bundle has arrived when the peer's QUIC has acknowledged all of it.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use transport::quic::Needs;
use transport::{AppEvent, ReadEnd, Streams};
use units::Time;

use super::assembly::{Assembly, Room};
use super::inflow::Inflow;
use super::messages::byte_string;
use super::{INCOMING_BYTES, TRANSFER_BYTES, Terms};
use crate::{Refusal, Said, Service, Session, Told, Transfer};

/// The protocol's name in the handshake.
pub const ALPN: &str = "qbcl";

/// Error codes of the draft.
pub mod code {
    use crate::Refusal;

    /// None.
    pub const NONE: u64 = 0;
    /// The peer did what it must not.
    pub const PROTOCOL: u64 = 1;
    /// The sender, or the receiver, does not want it any more.
    pub const CANCELLED: u64 = 2;
    /// The bundle is too large.
    pub const TOO_LARGE: u64 = 3;
    /// The receiver's store is full.
    pub const STORAGE: u64 = 4;
    /// The node is shutting down.
    pub const SHUTTING_DOWN: u64 = 5;
    /// The receiver wants the length before the bundle.
    pub const LENGTH_REQUIRED: u64 = 6;
    /// The bundle's version is not known.
    pub const VERSION: u64 = 7;

    /// Of a refusal.
    pub fn of(why: Refusal) -> u64 {
        match why {
            Refusal::TooLarge => TOO_LARGE,
            Refusal::NoResources => STORAGE,
            Refusal::Terminating => SHUTTING_DOWN,
            _ => CANCELLED,
        }
    }

    /// What the peer's code says of a bundle; one that is not known counts as none.
    pub fn why(code: u64) -> Refusal {
        match code {
            PROTOCOL | LENGTH_REQUIRED | VERSION => Refusal::NotAcceptable,
            TOO_LARGE => Refusal::TooLarge,
            STORAGE => Refusal::NoResources,
            SHUTTING_DOWN => Refusal::Terminating,
            _ => Refusal::Unknown,
        }
    }
}

/// First octet of a bundle as it is: an array of unknown length (RFC 9171 section 4.1).
const RAW: u8 = 0x9f;

/// A turn of one of several streams: small against a window, so that they share it.
const TURN: usize = 16 << 10;

/// Options of qubicle.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct QubicleSpec {
    /// How many bundles the peer may have under way at once.
    pub most_streams: u16,
    /// Longest bundle that is taken.
    pub transfer_bytes: u64,
    /// Bytes of bundles on the way in at once.
    pub incoming_bytes: u64,
}

impl Default for QubicleSpec {
    fn default() -> QubicleSpec {
        QubicleSpec {
            most_streams: 256,
            transfer_bytes: TRANSFER_BYTES,
            incoming_bytes: INCOMING_BYTES,
        }
    }
}

impl QubicleSpec {
    pub(super) fn needs(&self) -> Needs {
        Needs { uni_streams: self.most_streams, ..Needs::default() }
    }
}

/// A bundle that leaves.
struct Leaving {
    id: u64,
    /// What is left of it; its end is said with the last.
    parts: VecDeque<Bytes>,
}

/// One that arrives.
#[derive(Default)]
struct Arriving {
    inflow: Inflow,
    head: Vec<u8>,
    assembly: Option<Assembly>,
    refused: Option<u64>,
}

impl Arriving {
    /// Bytes in order; an error is the code that says why no more is wanted.
    fn take(&mut self, mut bytes: &[u8], most: u64, room: &mut Room) -> Result<(), u64> {
        if self.assembly.is_none() {
            while let Some((first, rest)) = bytes.split_first() {
                if self.head.is_empty() && *first == RAW {
                    self.assembly = Some(Assembly::new(None));
                    break;
                }
                self.head.push(*first);
                bytes = rest;
                let found = byte_string::decode(&self.head).map_err(|_| code::PROTOCOL)?;
                if let Some((length, _)) = found {
                    if length > most {
                        return Err(code::TOO_LARGE);
                    }
                    self.assembly = Some(Assembly::new(Some(length)));
                    break;
                }
            }
        }
        let Some(assembly) = &mut self.assembly else { return Ok(()) };
        let after = assembly.len() + bytes.len() as u64;
        match assembly.total() {
            Some(total) if after > total => Err(code::PROTOCOL),
            None if after > most => Err(code::TOO_LARGE),
            _ if !assembly.push(bytes, room) => Err(code::STORAGE),
            _ => Ok(()),
        }
    }
}

/// A connection's side.
pub struct Qubicle {
    most: u64,
    ready: bool,
    over: bool,
    ending: bool,
    waiting: VecDeque<Transfer>,
    /// By their streams.
    leaving: BTreeMap<u64, Leaving>,
    arriving: BTreeMap<u64, Arriving>,
    /// Bundles that have come and the node has not spoken of.
    unanswered: u64,
    room: Room,
    next_received: u64,
    turn: u64,
}

impl Qubicle {
    /// Both sides do the same.
    pub fn new(spec: &QubicleSpec, terms: Terms) -> Qubicle {
        Qubicle {
            most: spec.transfer_bytes,
            ready: false,
            over: false,
            ending: false,
            waiting: VecDeque::new(),
            leaving: BTreeMap::new(),
            arriving: BTreeMap::new(),
            unanswered: 0,
            room: Room::new(spec.incoming_bytes, terms.room),
            next_received: 0,
            turn: 0,
        }
    }

    /// Opens streams for bundles that wait, as far as the peer allows.
    fn place(&mut self, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        while self.ready
            && let Some(next) = self.waiting.front()
        {
            if next.service != Service::Reliable {
                let (id, why) = (next.id, Refusal::NoService);
                self.waiting.pop_front();
                said.push(Said::Refused { id, why });
                continue;
            }
            let Some(stream) = streams.open_uni() else { return };
            streams.set_priority(stream, next.priority.into());
            let Some(bundle) = self.waiting.pop_front() else { return };
            let mut head = Vec::new();
            byte_string::encode(bundle.bytes(), &mut head);
            let parts = std::iter::once(head.into()).chain(bundle.data).collect();
            self.leaving.insert(stream, Leaving { id: bundle.id, parts });
        }
    }

    fn write(&mut self, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        let mut left = streams.appetite().max(1);
        let mut progress = true;
        while left > 0 && progress {
            progress = false;
            let behind = self.leaving.range(self.turn + 1..);
            let order: Vec<u64> = behind
                .chain(self.leaving.range(..=self.turn))
                .filter(|(_, bundle)| !bundle.parts.is_empty())
                .map(|(id, _)| *id)
                .collect();
            for stream in order {
                let Some(bundle) = self.leaving.get_mut(&stream).filter(|_| left > 0) else {
                    break;
                };
                let mut turn = left.min(TURN);
                while let Some(part) = bundle.parts.front_mut().filter(|_| turn > 0) {
                    let wanted = part.len().min(turn);
                    let taken = streams.write(stream, part.slice(..wanted));
                    (turn, left) = (turn - taken, left - taken);
                    progress |= taken > 0;
                    let _ = part.split_to(taken);
                    if !part.is_empty() {
                        break;
                    }
                    bundle.parts.pop_front();
                }
                self.turn = stream;
                if bundle.parts.is_empty() {
                    streams.finish(stream);
                    said.push(Said::Sent(bundle.id));
                }
            }
        }
    }

    fn read(&mut self, stream: u64, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        let Some(one) = self.arriving.get_mut(&stream) else {
            let _ = streams.read(stream, &mut |_, _| {});
            return;
        };
        let mut inflow = std::mem::take(&mut one.inflow);
        let (most, room) = (self.most, &mut self.room);
        let mut wrong = None;
        let end = streams.read(stream, &mut |offset, data| {
            inflow.push(offset, data, &mut |bytes| {
                if wrong.is_none()
                    && one.refused.is_none()
                    && let Err(code) = one.take(bytes, most, room)
                {
                    wrong = Some(code);
                }
            });
        });
        one.inflow = inflow;
        if let Some(code) = wrong {
            // What was not a bundle ends the connection; a bundle that is not wanted its stream.
            if code == code::PROTOCOL {
                return self.violated("a stream carries no bundle", streams, said);
            }
            if end == ReadEnd::Open {
                streams.stop_with(stream, code);
            }
            one.refused = Some(code);
            if let Some(assembly) = one.assembly.take() {
                assembly.leave(&mut self.room);
            }
        }
        if end == ReadEnd::Open {
            return;
        }
        let Some(one) = self.arriving.remove(&stream) else { return };
        let Some(assembly) = one.assembly else {
            if end == ReadEnd::Finished && one.refused.is_none() {
                self.violated("a stream ends before its bundle", streams, said);
            }
            return;
        };
        let cut = assembly.total().is_some_and(|total| total != assembly.len());
        let data = assembly.leave(&mut self.room);
        if end == ReadEnd::Reset {
            return;
        }
        if cut {
            return self.violated("a stream ends within its bundle", streams, said);
        }
        let (id, service) = (self.next_received, Service::Reliable);
        self.next_received += 1;
        self.unanswered += 1;
        said.push(Said::Received { id, data, service });
    }

    fn violated(&mut self, what: &str, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        if !std::mem::replace(&mut self.over, true) {
            streams.close_with(code::PROTOCOL);
            said.push(Said::Ended { error: Some(what.to_owned()) });
        }
    }

    fn end_if_done(&mut self, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        let gives = !self.waiting.is_empty() || !self.leaving.is_empty();
        if self.ending && !gives && self.arriving.is_empty() && !self.over {
            self.over = true;
            streams.close();
            said.push(Said::Ended { error: None });
        }
    }
}

impl Session for Qubicle {
    fn on(&mut self, _: Time, event: AppEvent, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        if self.over {
            return;
        }
        match event {
            AppEvent::Ready => {
                if !std::mem::replace(&mut self.ready, true) {
                    said.push(Said::Started { peer: None, most_bytes: None });
                }
                self.place(streams, said);
            }
            AppEvent::Opened(id) if id & 2 == 0 => {
                return self.violated("the peer has opened a bidirectional stream", streams, said);
            }
            AppEvent::Opened(id) if self.ending => streams.stop_with(id, code::SHUTTING_DOWN),
            AppEvent::Opened(id) => {
                self.arriving.insert(id, Arriving::default());
                self.read(id, streams, said);
            }
            AppEvent::Readable(id) => self.read(id, streams, said),
            AppEvent::WantData => self.write(streams, said),
            AppEvent::Finished(id) => {
                if let Some(bundle) = self.leaving.remove(&id) {
                    said.push(Said::Accepted { id: bundle.id, durable: false });
                }
                self.place(streams, said);
            }
            AppEvent::Stopped(id) => {
                if let Some(bundle) = self.leaving.remove(&id) {
                    let why = streams.stopped_with(id).map_or(Refusal::Unknown, code::why);
                    streams.reset_with(id, code::CANCELLED);
                    said.push(Said::Refused { id: bundle.id, why });
                }
            }
            AppEvent::Closed => {
                self.over = true;
                let gives = !self.waiting.is_empty() || !self.leaving.is_empty();
                let error = gives.then(|| "the connection is over".to_owned());
                said.push(Said::Ended { error });
            }
            AppEvent::Timer | AppEvent::Datagrams => {}
        }
        self.end_if_done(streams, said);
    }

    fn hear(&mut self, _: Time, told: Told, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        if self.over {
            return;
        }
        match told {
            Told::Send(transfer) if self.ending => {
                said.push(Said::Refused { id: transfer.id, why: Refusal::Terminating });
            }
            Told::Send(transfer) => {
                self.waiting.push_back(transfer);
                self.place(streams, said);
            }
            Told::Cancel(id) => {
                let place = self.waiting.iter().position(|transfer| transfer.id == id);
                let waited = place.and_then(|place| self.waiting.remove(place)).is_some();
                let stream = self
                    .leaving
                    .iter()
                    .find(|(_, bundle)| bundle.id == id && !bundle.parts.is_empty())
                    .map(|(stream, _)| *stream);
                if let Some(stream) = stream {
                    self.leaving.remove(&stream);
                    streams.reset_with(stream, code::CANCELLED);
                }
                if stream.is_some() || waited {
                    said.push(Said::Refused { id, why: Refusal::Unknown });
                }
            }
            // The stack has acknowledged it long since.
            Told::Stored(_) | Told::Refuse(..) => {
                self.unanswered = self.unanswered.saturating_sub(1)
            }
            Told::Cue => {
                streams.cue();
            }
            Told::Way(_) => {}
            Told::End => self.ending = true,
            Told::Abort => {
                self.over = true;
                streams.close_with(code::SHUTTING_DOWN);
                said.push(Said::Ended { error: None });
                return;
            }
        }
        self.end_if_done(streams, said);
    }

    fn wake_at(&self) -> Time {
        Time::MAX
    }

    fn has_data(&self) -> bool {
        !self.over && self.leaving.values().any(|bundle| !bundle.parts.is_empty())
    }
}

//! MTCP (draft-ietf-dtn-mtcpcl): a CBOR byte string a bundle over TCP, one way, from who has opened the connection; no
//! session, and no answers.

use std::collections::VecDeque;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use transport::{AppEvent, ReadEnd, Streams};
use units::Time;

use super::assembly::{Assembly, Room};
use super::inflow::Inflow;
use super::messages::byte_string;
use super::{INCOMING_BYTES, TRANSFER_BYTES, Terms};
use crate::{Refusal, Role, Said, Service, Session, Told};

/// The only stream.
const STREAM: u64 = 0;

/// Options of MTCP.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct MtcpSpec {
    /// Longest bundle that is taken. There is no word to refuse it: the connection is closed.
    pub transfer_bytes: u64,
}

impl Default for MtcpSpec {
    fn default() -> MtcpSpec {
        MtcpSpec { transfer_bytes: TRANSFER_BYTES }
    }
}

/// A connection's side.
pub struct Mtcp {
    role: Role,
    most: u64,
    ready: bool,
    over: bool,
    ending: bool,
    /// What is to be written, and of which bundle it is the last, by the node's number.
    parts: VecDeque<(Bytes, Option<u64>)>,
    inflow: Inflow,
    head: Vec<u8>,
    assembly: Option<(u64, Assembly)>,
    room: Room,
    next_received: u64,
}

impl Mtcp {
    /// Who has opened the connection sends.
    pub fn new(spec: &MtcpSpec, role: Role, terms: Terms) -> Mtcp {
        Mtcp {
            role,
            most: spec.transfer_bytes,
            ready: false,
            over: false,
            ending: false,
            parts: VecDeque::new(),
            inflow: Inflow::default(),
            head: Vec::new(),
            assembly: None,
            room: Room::new(INCOMING_BYTES.max(spec.transfer_bytes), terms.room),
            next_received: 0,
        }
    }

    fn start(&mut self, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        if std::mem::replace(&mut self.ready, true) {
            return;
        }
        if self.role == Role::Active {
            streams.open();
        }
        said.push(Said::Started { peer: None, most_bytes: None });
    }

    fn end(&mut self, error: Option<String>, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        if !std::mem::replace(&mut self.over, true) {
            streams.close();
            said.push(Said::Ended { error });
        }
    }

    fn write(&mut self, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        let mut left = streams.appetite().max(1);
        while let Some((part, last)) = self.parts.front_mut() {
            let wanted = part.len().min(left);
            let taken = streams.write(STREAM, part.slice(..wanted));
            let _ = part.split_to(taken);
            left -= taken;
            if !part.is_empty() {
                return;
            }
            if let Some(id) = *last {
                said.push(Said::Sent(id));
                // Nobody will say more of it.
                said.push(Said::Accepted { id, durable: false });
            }
            self.parts.pop_front();
        }
    }

    /// Bytes in order.
    fn take(&mut self, mut bytes: &[u8], said: &mut Vec<Said>) -> Result<(), String> {
        loop {
            let Some((length, assembly)) = &mut self.assembly else {
                let Some((first, rest)) = bytes.split_first() else { return Ok(()) };
                self.head.push(*first);
                bytes = rest;
                if let Some((length, _)) =
                    byte_string::decode(&self.head).map_err(|fault| fault.to_string())?
                {
                    self.head.clear();
                    if length > self.most {
                        return Err(format!("a bundle of {length} bytes: at most {}", self.most));
                    }
                    // An empty one is a sign of life.
                    self.assembly = (length > 0).then(|| (length, Assembly::new(Some(length))));
                }
                continue;
            };
            let left = (*length - assembly.len()).min(bytes.len() as u64) as usize;
            let (part, rest) = bytes.split_at(left);
            bytes = rest;
            if !assembly.push(part, &mut self.room) {
                return Err("no room for a bundle".to_owned());
            }
            if assembly.len() < *length {
                return Ok(());
            }
            if let Some((_, assembly)) = self.assembly.take() {
                let (id, service) = (self.next_received, Service::Reliable);
                self.next_received += 1;
                said.push(Said::Received { id, data: assembly.leave(&mut self.room), service });
            }
        }
    }

    fn read(&mut self, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        let mut inflow = std::mem::take(&mut self.inflow);
        let mut result = Ok(());
        let end = streams.read(STREAM, &mut |offset, data| {
            inflow.push(offset, data, &mut |bytes| {
                if result.is_ok() && !self.over {
                    result = self.take(bytes, said);
                }
            });
        });
        self.inflow = inflow;
        if let Err(error) = result {
            streams.stop(STREAM);
            self.end(Some(error), streams, said);
        } else if end != ReadEnd::Open {
            let cut = self.assembly.is_some() || !self.head.is_empty() || end == ReadEnd::Reset;
            let error = cut.then(|| "the connection ended within a bundle".to_owned());
            self.end(error, streams, said);
        }
    }
}

impl Session for Mtcp {
    fn on(&mut self, _: Time, event: AppEvent, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        if self.over {
            return;
        }
        match event {
            AppEvent::Ready => self.start(streams, said),
            AppEvent::Opened(STREAM) | AppEvent::Readable(STREAM) => {
                self.start(streams, said);
                self.read(streams, said);
            }
            AppEvent::WantData if self.ready => self.write(streams, said),
            AppEvent::Stopped(_) | AppEvent::Closed => {
                let cut = !self.parts.is_empty() || self.assembly.is_some();
                let error = cut.then(|| "the connection is over".to_owned());
                self.end(error, streams, said);
            }
            _ => {}
        }
        if self.ending && self.parts.is_empty() && !self.over {
            streams.finish(STREAM);
            self.end(None, streams, said);
        }
    }

    fn hear(&mut self, _: Time, told: Told, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        if self.over {
            return;
        }
        match told {
            Told::Send(transfer) if self.role == Role::Passive => {
                said.push(Said::Refused { id: transfer.id, why: Refusal::NoService });
            }
            Told::Send(transfer) if self.ending => {
                said.push(Said::Refused { id: transfer.id, why: Refusal::Terminating });
            }
            Told::Send(transfer) if transfer.service != Service::Reliable => {
                said.push(Said::Refused { id: transfer.id, why: Refusal::NoService });
            }
            Told::Send(transfer) => {
                let mut head = Vec::new();
                byte_string::encode(transfer.bytes(), &mut head);
                self.parts.push_back((head.into(), None));
                self.parts.extend(transfer.data.into_iter().map(|part| (part, None)));
                if let Some((_, last)) = self.parts.back_mut() {
                    *last = Some(transfer.id);
                }
            }
            // What is not begun could be taken back; a bundle is one string from its first octet on.
            Told::Cancel(_) | Told::Stored(_) | Told::Refuse(..) | Told::Cue | Told::Way(_) => {}
            Told::End => {
                self.ending = true;
                if self.parts.is_empty() {
                    streams.finish(STREAM);
                    self.end(None, streams, said);
                }
            }
            Told::Abort => self.end(None, streams, said),
        }
    }

    fn wake_at(&self) -> Time {
        Time::MAX
    }

    fn has_data(&self) -> bool {
        self.ready && !self.over && !self.parts.is_empty()
    }
}

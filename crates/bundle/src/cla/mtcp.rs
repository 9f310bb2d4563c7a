//! MTCP (draft-ietf-dtn-mtcpcl): bundles as CBOR byte strings over TCP. Only the active side sends. The protocol has no
//! session and no acknowledgements.

use std::collections::VecDeque;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use transport::{AppEvent, ReadStatus, Streams};
use units::{Descriptor, Time};

use super::messages::{decode_byte_string_head, encode_byte_string_head};
use super::parameters::{INCOMING_BYTES, TRANSFER_BYTES};
use super::reassembly::{BundleReassembly, ByteQuota, InOrderBuffer};
use super::{ClaFactory, ClaSpec, ClaTransport, ConnectionParameters, LinkProperties};
use crate::{DeliveryMode, RefusalReason, Role, Session, SessionCommand, SessionEvent};

/// The only stream.
const STREAM: u64 = 0;

/// Options of MTCP.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct MtcpSpec {
    /// The maximum length of a received bundle. The protocol has no refusal: the connection is closed.
    pub transfer_bytes: u64,
}

impl Default for MtcpSpec {
    fn default() -> MtcpSpec {
        MtcpSpec { transfer_bytes: TRANSFER_BYTES }
    }
}

impl MtcpSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "mtcp",
        spec_kind: "mtcp",
        aliases: &[],
        title: "MTCP: bundles as CBOR byte strings over TCP, in one direction",
        reference: "draft-ietf-dtn-mtcpcl",
        options: &[],
        draws: false,
        live_name: "",
    };
}

impl ClaFactory for MtcpSpec {
    fn build(&self, role: Role, _: &str, parameters: ConnectionParameters) -> Box<dyn Session> {
        Box::new(Mtcp::new(self, role, parameters))
    }

    fn transport(&self) -> ClaTransport {
        ClaTransport::Tcp
    }

    fn adjust(&self, _: &LinkProperties) -> ClaSpec {
        self.clone().into()
    }

    fn is_bidirectional(&self) -> bool {
        false
    }
}

/// One side of a connection.
pub struct Mtcp {
    role: Role,
    max_bundle_bytes: u64,
    ready: bool,
    is_closed: bool,
    is_terminating: bool,
    /// The chunks to write; the last chunk of a bundle has its transfer number.
    pending: VecDeque<(Bytes, Option<u64>)>,
    in_order: InOrderBuffer,
    partial_head: Vec<u8>,
    reassembly: Option<(u64, BundleReassembly)>,
    quota: ByteQuota,
    next_received: u64,
}

impl Mtcp {
    /// Builds one side of a connection. The active side sends.
    pub fn new(spec: &MtcpSpec, role: Role, parameters: ConnectionParameters) -> Mtcp {
        Mtcp {
            role,
            max_bundle_bytes: spec.transfer_bytes,
            ready: false,
            is_closed: false,
            is_terminating: false,
            pending: VecDeque::new(),
            in_order: InOrderBuffer::default(),
            partial_head: Vec::new(),
            reassembly: None,
            quota: ByteQuota::new(INCOMING_BYTES.max(spec.transfer_bytes), parameters.shared_quota),
            next_received: 0,
        }
    }

    fn establish(&mut self, streams: &mut dyn Streams, out: &mut Vec<SessionEvent>) {
        if std::mem::replace(&mut self.ready, true) {
            return;
        }
        if self.role == Role::Active {
            streams.open();
        }
        out.push(SessionEvent::Established { peer: None, max_bundle_bytes: None });
    }

    fn close(
        &mut self,
        error: Option<String>,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        if !std::mem::replace(&mut self.is_closed, true) {
            streams.close();
            out.push(SessionEvent::Closed { error });
        }
    }

    fn write(&mut self, streams: &mut dyn Streams, out: &mut Vec<SessionEvent>) {
        let mut left = streams.write_budget().max(1);
        while let Some((part, last)) = self.pending.front_mut() {
            let wanted = part.len().min(left);
            let taken = streams.write(STREAM, part.slice(..wanted));
            let _ = part.split_to(taken);
            left -= taken;
            if !part.is_empty() {
                return;
            }
            if let Some(id) = *last {
                out.push(SessionEvent::Transmitted(id));
                // The protocol has no acknowledgement.
                out.push(SessionEvent::Acknowledged { id, durable: false });
            }
            self.pending.pop_front();
        }
    }

    /// Parses bytes in stream sequence.
    fn parse_bytes(&mut self, mut bytes: &[u8], out: &mut Vec<SessionEvent>) -> Result<(), String> {
        loop {
            let Some((length, reassembly)) = &mut self.reassembly else {
                let Some((first, rest)) = bytes.split_first() else { return Ok(()) };
                self.partial_head.push(*first);
                bytes = rest;
                if let Some((length, _)) = decode_byte_string_head(&self.partial_head)
                    .map_err(|error| error.to_string())?
                {
                    self.partial_head.clear();
                    if length > self.max_bundle_bytes {
                        return Err(format!(
                            "found a bundle of {length} bytes, expected at most {}",
                            self.max_bundle_bytes
                        ));
                    }
                    // An empty byte string is a keepalive.
                    self.reassembly =
                        (length > 0).then(|| (length, BundleReassembly::new(Some(length))));
                }
                continue;
            };
            let left = (*length - reassembly.len()).min(bytes.len() as u64) as usize;
            let (part, rest) = bytes.split_at(left);
            bytes = rest;
            if !reassembly.push(part, &mut self.quota) {
                return Err("the memory for received bundles is full".to_owned());
            }
            if reassembly.len() < *length {
                return Ok(());
            }
            if let Some((_, reassembly)) = self.reassembly.take() {
                let (id, mode) = (self.next_received, DeliveryMode::Reliable);
                self.next_received += 1;
                out.push(SessionEvent::Received {
                    id,
                    data: reassembly.finish(&mut self.quota),
                    mode,
                });
            }
        }
    }

    fn read(&mut self, streams: &mut dyn Streams, out: &mut Vec<SessionEvent>) {
        let mut in_order = std::mem::take(&mut self.in_order);
        let mut result = Ok(());
        let end = streams.read(STREAM, &mut |offset, data| {
            in_order.push(offset, data, &mut |bytes| {
                if result.is_ok() && !self.is_closed {
                    result = self.parse_bytes(bytes, out);
                }
            });
        });
        self.in_order = in_order;
        if let Err(error) = result {
            streams.stop(STREAM);
            self.close(Some(error), streams, out);
        } else if end != ReadStatus::Open {
            let is_truncated = self.reassembly.is_some()
                || !self.partial_head.is_empty()
                || end == ReadStatus::Reset;
            let error = is_truncated.then(|| "the connection ended within a bundle".to_owned());
            self.close(error, streams, out);
        }
    }
}

impl Session for Mtcp {
    fn on_event(
        &mut self,
        _: Time,
        event: AppEvent,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        if self.is_closed {
            return;
        }
        match event {
            AppEvent::Ready => self.establish(streams, out),
            AppEvent::StreamOpened(STREAM) | AppEvent::Readable(STREAM) => {
                self.establish(streams, out);
                self.read(streams, out);
            }
            AppEvent::Writable if self.ready => self.write(streams, out),
            AppEvent::Stopped(_) | AppEvent::Closed => {
                let is_truncated = !self.pending.is_empty() || self.reassembly.is_some();
                let error = is_truncated.then(|| "the connection has ended".to_owned());
                self.close(error, streams, out);
            }
            _ => {}
        }
        if self.is_terminating && self.pending.is_empty() && !self.is_closed {
            streams.finish(STREAM);
            self.close(None, streams, out);
        }
    }

    fn on_command(
        &mut self,
        _: Time,
        command: SessionCommand,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        if self.is_closed {
            return;
        }
        match command {
            SessionCommand::Send(transfer) if self.role == Role::Passive => {
                out.push(SessionEvent::Refused {
                    id: transfer.id,
                    reason: RefusalReason::UnsupportedMode,
                });
            }
            SessionCommand::Send(transfer) if self.is_terminating => {
                out.push(SessionEvent::Refused {
                    id: transfer.id,
                    reason: RefusalReason::Terminating,
                });
            }
            SessionCommand::Send(transfer) if transfer.mode != DeliveryMode::Reliable => {
                out.push(SessionEvent::Refused {
                    id: transfer.id,
                    reason: RefusalReason::UnsupportedMode,
                });
            }
            SessionCommand::Send(transfer) => {
                let mut head = Vec::new();
                encode_byte_string_head(transfer.bytes(), &mut head);
                self.pending.push_back((head.into(), None));
                self.pending.extend(transfer.data.into_iter().map(|part| (part, None)));
                if let Some((_, last)) = self.pending.back_mut() {
                    *last = Some(transfer.id);
                }
            }
            // A started bundle cannot be cancelled: it is one string from its first octet on.
            SessionCommand::Cancel(_)
            | SessionCommand::ConfirmStored(_)
            | SessionCommand::Refuse(..)
            | SessionCommand::LinkUp
            | SessionCommand::LinkState(_) => {}
            SessionCommand::Terminate => {
                self.is_terminating = true;
                if self.pending.is_empty() {
                    streams.finish(STREAM);
                    self.close(None, streams, out);
                }
            }
            SessionCommand::Abort => self.close(None, streams, out),
        }
    }

    fn poll_at(&self) -> Time {
        Time::MAX
    }

    fn has_data(&self) -> bool {
        self.ready && !self.is_closed && !self.pending.is_empty()
    }
}

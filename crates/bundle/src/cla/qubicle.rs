//! qubicle (draft-ek-dtn-qubicle-02): one unidirectional stream per bundle, which ends with the bundle. The protocol
//! has no session and no acknowledgements: a bundle has arrived when QUIC has acknowledged all of it.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use transport::quic::QuicRequirements;
use transport::{AppEvent, ReadStatus, Streams};
use units::{Descriptor, Time};

use super::messages::{decode_byte_string_head, encode_byte_string_head};
use super::parameters::{INCOMING_BYTES, TRANSFER_BYTES};
use super::reassembly::{BundleReassembly, ByteQuota, InOrderBuffer};
use super::{ClaFactory, ClaSpec, ClaTransport, ConnectionParameters, LinkProperties};
use crate::{DeliveryMode, RefusalReason, Role, Session, SessionCommand, SessionEvent, Transfer};

/// The ALPN protocol name.
pub const ALPN: &str = "qbcl";

/// Error codes of the draft.
pub mod code {
    use crate::RefusalReason;

    /// No error.
    pub const NONE: u64 = 0;
    /// A protocol violation of the peer.
    pub const PROTOCOL: u64 = 1;
    /// The sender or the receiver cancelled the bundle.
    pub const CANCELLED: u64 = 2;
    /// The bundle is too large.
    pub const TOO_LARGE: u64 = 3;
    /// The store of the receiver is full.
    pub const STORAGE: u64 = 4;
    /// The node is shutting down.
    pub const SHUTTING_DOWN: u64 = 5;
    /// The receiver requires the length before the bundle.
    pub const LENGTH_REQUIRED: u64 = 6;
    /// The bundle version is not supported.
    pub const VERSION: u64 = 7;

    /// Returns the code of a refusal.
    pub fn from_reason(reason: RefusalReason) -> u64 {
        match reason {
            RefusalReason::TooLarge => TOO_LARGE,
            RefusalReason::NoResources => STORAGE,
            RefusalReason::Terminating => SHUTTING_DOWN,
            _ => CANCELLED,
        }
    }

    /// Returns the refusal reason of a code from the peer. An unknown code counts as `NONE`.
    pub fn to_reason(code: u64) -> RefusalReason {
        match code {
            PROTOCOL | LENGTH_REQUIRED | VERSION => RefusalReason::NotAcceptable,
            TOO_LARGE => RefusalReason::TooLarge,
            STORAGE => RefusalReason::NoResources,
            SHUTTING_DOWN => RefusalReason::Terminating,
            _ => RefusalReason::Unknown,
        }
    }
}

/// First octet of a bundle without a byte string: an array of indefinite length (RFC 9171 section 4.1).
const RAW_BUNDLE: u8 = 0x9f;

/// The quantum of a stream in round robin: small against a window, so that streams share it.
const QUANTUM_BYTES: usize = 16 << 10;

/// Options of qubicle.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct QubicleSpec {
    /// The maximum number of concurrent bundles of the peer.
    pub max_streams: u16,
    /// The maximum length of a received bundle.
    pub transfer_bytes: u64,
    /// The limit of partially received bundles in bytes.
    pub incoming_bytes: u64,
}

impl Default for QubicleSpec {
    fn default() -> QubicleSpec {
        QubicleSpec {
            max_streams: 256,
            transfer_bytes: TRANSFER_BYTES,
            incoming_bytes: INCOMING_BYTES,
        }
    }
}

impl QubicleSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "qubicle",
        spec_kind: "qubicle",
        aliases: &[],
        title: "QUBICLE: a QUIC stream for each bundle",
        reference: "draft-ek-dtn-qubicle-02",
        options: &[],
        draws: false,
        live_name: "",
    };
}

impl ClaFactory for QubicleSpec {
    fn build(&self, _: Role, _: &str, parameters: ConnectionParameters) -> Box<dyn Session> {
        Box::new(Qubicle::new(self, parameters))
    }

    fn transport(&self) -> ClaTransport {
        ClaTransport::Quic(QuicRequirements {
            max_uni_streams: self.max_streams,
            ..QuicRequirements::default()
        })
    }

    fn adjust(&self, _: &LinkProperties) -> ClaSpec {
        self.clone().into()
    }

    fn alpn(&self) -> Option<&'static str> {
        Some(ALPN)
    }
}

/// A bundle in transmission.
struct OutgoingBundle {
    id: u64,
    /// The remaining chunks. The stream is finished after the last one.
    parts: VecDeque<Bytes>,
}

/// A bundle in reception.
#[derive(Default)]
struct IncomingBundle {
    in_order: InOrderBuffer,
    partial_head: Vec<u8>,
    reassembly: Option<BundleReassembly>,
    refusal_code: Option<u64>,
}

impl IncomingBundle {
    /// Parses bytes in stream sequence. An error is the code for the refusal.
    fn parse_bytes(
        &mut self,
        mut bytes: &[u8],
        max_bundle_bytes: u64,
        quota: &mut ByteQuota,
    ) -> Result<(), u64> {
        if self.reassembly.is_none() {
            while let Some((first, rest)) = bytes.split_first() {
                if self.partial_head.is_empty() && *first == RAW_BUNDLE {
                    self.reassembly = Some(BundleReassembly::new(None));
                    break;
                }
                self.partial_head.push(*first);
                bytes = rest;
                let found =
                    decode_byte_string_head(&self.partial_head).map_err(|_| code::PROTOCOL)?;
                if let Some((length, _)) = found {
                    if length > max_bundle_bytes {
                        return Err(code::TOO_LARGE);
                    }
                    self.reassembly = Some(BundleReassembly::new(Some(length)));
                    break;
                }
            }
        }
        let Some(reassembly) = &mut self.reassembly else { return Ok(()) };
        let after = reassembly.len() + bytes.len() as u64;
        match reassembly.total() {
            Some(total) if after > total => Err(code::PROTOCOL),
            None if after > max_bundle_bytes => Err(code::TOO_LARGE),
            _ if !reassembly.push(bytes, quota) => Err(code::STORAGE),
            _ => Ok(()),
        }
    }
}

/// One side of a connection.
pub struct Qubicle {
    max_bundle_bytes: u64,
    ready: bool,
    is_closed: bool,
    is_terminating: bool,
    waiting: VecDeque<Transfer>,
    /// Outgoing bundles by stream.
    outgoing: BTreeMap<u64, OutgoingBundle>,
    incoming: BTreeMap<u64, IncomingBundle>,
    /// The number of received bundles without an answer of the node.
    unanswered: u64,
    quota: ByteQuota,
    next_received: u64,
    last_served: u64,
}

impl Qubicle {
    /// Builds one side of a connection; both sides are equal.
    pub fn new(spec: &QubicleSpec, parameters: ConnectionParameters) -> Qubicle {
        Qubicle {
            max_bundle_bytes: spec.transfer_bytes,
            ready: false,
            is_closed: false,
            is_terminating: false,
            waiting: VecDeque::new(),
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            unanswered: 0,
            quota: ByteQuota::new(spec.incoming_bytes, parameters.shared_quota),
            next_received: 0,
            last_served: 0,
        }
    }

    /// Opens streams for waiting bundles within the stream limit of the peer.
    fn open_streams(&mut self, streams: &mut dyn Streams, out: &mut Vec<SessionEvent>) {
        while self.ready
            && let Some(next) = self.waiting.front()
        {
            if next.mode != DeliveryMode::Reliable {
                let (id, reason) = (next.id, RefusalReason::UnsupportedMode);
                self.waiting.pop_front();
                out.push(SessionEvent::Refused { id, reason });
                continue;
            }
            let Some(stream) = streams.open_uni() else { return };
            streams.set_priority(stream, next.priority.into());
            let Some(bundle) = self.waiting.pop_front() else { return };
            let mut head = Vec::new();
            encode_byte_string_head(bundle.bytes(), &mut head);
            let parts = std::iter::once(head.into()).chain(bundle.data).collect();
            self.outgoing.insert(stream, OutgoingBundle { id: bundle.id, parts });
        }
    }

    fn write(&mut self, streams: &mut dyn Streams, out: &mut Vec<SessionEvent>) {
        let mut left = streams.write_budget().max(1);
        let mut progress = true;
        while left > 0 && progress {
            progress = false;
            let behind = self.outgoing.range(self.last_served + 1..);
            let order: Vec<u64> = behind
                .chain(self.outgoing.range(..=self.last_served))
                .filter(|(_, bundle)| !bundle.parts.is_empty())
                .map(|(id, _)| *id)
                .collect();
            for stream in order {
                let Some(bundle) = self.outgoing.get_mut(&stream).filter(|_| left > 0) else {
                    break;
                };
                let mut budget = left.min(QUANTUM_BYTES);
                while let Some(part) = bundle.parts.front_mut().filter(|_| budget > 0) {
                    let wanted = part.len().min(budget);
                    let taken = streams.write(stream, part.slice(..wanted));
                    (budget, left) = (budget - taken, left - taken);
                    progress |= taken > 0;
                    let _ = part.split_to(taken);
                    if !part.is_empty() {
                        break;
                    }
                    bundle.parts.pop_front();
                }
                self.last_served = stream;
                if bundle.parts.is_empty() {
                    streams.finish(stream);
                    out.push(SessionEvent::Transmitted(bundle.id));
                }
            }
        }
    }

    fn read(&mut self, stream: u64, streams: &mut dyn Streams, out: &mut Vec<SessionEvent>) {
        let Some(one) = self.incoming.get_mut(&stream) else {
            let _ = streams.read(stream, &mut |_, _| {});
            return;
        };
        let mut in_order = std::mem::take(&mut one.in_order);
        let (max_bundle_bytes, quota) = (self.max_bundle_bytes, &mut self.quota);
        let mut error_code = None;
        let end = streams.read(stream, &mut |offset, data| {
            in_order.push(offset, data, &mut |bytes| {
                if error_code.is_none()
                    && one.refusal_code.is_none()
                    && let Err(code) = one.parse_bytes(bytes, max_bundle_bytes, quota)
                {
                    error_code = Some(code);
                }
            });
        });
        one.in_order = in_order;
        if let Some(code) = error_code {
            // A protocol error closes the connection; a refusal stops only the stream.
            if code == code::PROTOCOL {
                return self.fail("a stream does not carry a bundle", streams, out);
            }
            if end == ReadStatus::Open {
                streams.stop_with_code(stream, code);
            }
            one.refusal_code = Some(code);
            if let Some(reassembly) = one.reassembly.take() {
                reassembly.finish(&mut self.quota);
            }
        }
        if end == ReadStatus::Open {
            return;
        }
        let Some(one) = self.incoming.remove(&stream) else { return };
        let Some(reassembly) = one.reassembly else {
            if end == ReadStatus::Finished && one.refusal_code.is_none() {
                self.fail("a stream ends before its bundle", streams, out);
            }
            return;
        };
        let is_truncated = reassembly.total().is_some_and(|total| total != reassembly.len());
        let data = reassembly.finish(&mut self.quota);
        if end == ReadStatus::Reset {
            return;
        }
        if is_truncated {
            return self.fail("a stream ends within its bundle", streams, out);
        }
        let (id, mode) = (self.next_received, DeliveryMode::Reliable);
        self.next_received += 1;
        self.unanswered += 1;
        out.push(SessionEvent::Received { id, data, mode });
    }

    fn fail(&mut self, what: &str, streams: &mut dyn Streams, out: &mut Vec<SessionEvent>) {
        if !std::mem::replace(&mut self.is_closed, true) {
            streams.close_with_code(code::PROTOCOL);
            out.push(SessionEvent::Closed { error: Some(what.to_owned()) });
        }
    }

    fn close_if_done(&mut self, streams: &mut dyn Streams, out: &mut Vec<SessionEvent>) {
        let has_unacked_transfer = !self.waiting.is_empty() || !self.outgoing.is_empty();
        if self.is_terminating
            && !has_unacked_transfer
            && self.incoming.is_empty()
            && !self.is_closed
        {
            self.is_closed = true;
            streams.close();
            out.push(SessionEvent::Closed { error: None });
        }
    }
}

impl Session for Qubicle {
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
            AppEvent::Ready => {
                if !std::mem::replace(&mut self.ready, true) {
                    out.push(SessionEvent::Established { peer: None, max_bundle_bytes: None });
                }
                self.open_streams(streams, out);
            }
            AppEvent::StreamOpened(id) if id & 2 == 0 => {
                return self.fail("the peer has opened a bidirectional stream", streams, out);
            }
            AppEvent::StreamOpened(id) if self.is_terminating => {
                streams.stop_with_code(id, code::SHUTTING_DOWN)
            }
            AppEvent::StreamOpened(id) => {
                self.incoming.insert(id, IncomingBundle::default());
                self.read(id, streams, out);
            }
            AppEvent::Readable(id) => self.read(id, streams, out),
            AppEvent::Writable => self.write(streams, out),
            AppEvent::Finished(id) => {
                if let Some(bundle) = self.outgoing.remove(&id) {
                    out.push(SessionEvent::Acknowledged { id: bundle.id, durable: false });
                }
                self.open_streams(streams, out);
            }
            AppEvent::Stopped(id) => {
                if let Some(bundle) = self.outgoing.remove(&id) {
                    let reason =
                        streams.peer_stop_code(id).map_or(RefusalReason::Unknown, code::to_reason);
                    streams.reset_with_code(id, code::CANCELLED);
                    out.push(SessionEvent::Refused { id: bundle.id, reason });
                }
            }
            AppEvent::Closed => {
                self.is_closed = true;
                let has_unacked_transfer = !self.waiting.is_empty() || !self.outgoing.is_empty();
                let error = has_unacked_transfer.then(|| "the connection has ended".to_owned());
                out.push(SessionEvent::Closed { error });
            }
            AppEvent::Timer | AppEvent::DatagramsReceived => {}
        }
        self.close_if_done(streams, out);
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
            SessionCommand::Send(transfer) if self.is_terminating => {
                out.push(SessionEvent::Refused {
                    id: transfer.id,
                    reason: RefusalReason::Terminating,
                });
            }
            SessionCommand::Send(transfer) => {
                self.waiting.push_back(transfer);
                self.open_streams(streams, out);
            }
            SessionCommand::Cancel(id) => {
                let index = self.waiting.iter().position(|transfer| transfer.id == id);
                let was_waiting = index.and_then(|index| self.waiting.remove(index)).is_some();
                let stream = self
                    .outgoing
                    .iter()
                    .find(|(_, bundle)| bundle.id == id && !bundle.parts.is_empty())
                    .map(|(stream, _)| *stream);
                if let Some(stream) = stream {
                    self.outgoing.remove(&stream);
                    streams.reset_with_code(stream, code::CANCELLED);
                }
                if stream.is_some() || was_waiting {
                    out.push(SessionEvent::Refused { id, reason: RefusalReason::Unknown });
                }
            }
            // QUIC has already acknowledged the bundle.
            SessionCommand::ConfirmStored(_) | SessionCommand::Refuse(..) => {
                self.unanswered = self.unanswered.saturating_sub(1)
            }
            SessionCommand::LinkUp => {
                streams.on_link_up();
            }
            SessionCommand::LinkState(_) => {}
            SessionCommand::Terminate => self.is_terminating = true,
            SessionCommand::Abort => {
                self.is_closed = true;
                streams.close_with_code(code::SHUTTING_DOWN);
                out.push(SessionEvent::Closed { error: None });
                return;
            }
        }
        self.close_if_done(streams, out);
    }

    fn poll_at(&self) -> Time {
        Time::MAX
    }

    fn has_data(&self) -> bool {
        !self.is_closed && self.outgoing.values().any(|bundle| !bundle.parts.is_empty())
    }
}

//! Handles received messages: contact header, SESS_INIT, transfers, SESS_TERM.

use bytes::Buf as _;
use transport::{ReadStatus, Streams};
use units::Time;

use super::transfer_stream::{ReceiveLimits, TransferStream};
use super::{Rfc9174Session, SIGNAL_STREAM, SessionState, StreamMapping};
use crate::cla::TlsPolicy;
use crate::cla::messages::{
    DecodeError, DecodedItem, ExtensionError, Message, SessInit, contact_header, reject, term,
};
use crate::wire::is_same_node;
use crate::{RefusalReason, Role, SessionEvent};

/// The maximum number of characters of an unverified name in a message.
const MAX_SHOWN_CHARS: usize = 80;

impl Rfc9174Session {
    pub(super) fn read_stream(
        &mut self,
        now: Time,
        id: u64,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        let Some(stream) = self.transfer_streams.get_mut(id) else {
            let _ = streams.read(id, &mut |_, _| {});
            return;
        };
        if stream.peer_finished {
            return;
        }
        if id != SIGNAL_STREAM && matches!(self.state, SessionState::Closed | SessionState::Init) {
            // Early data can overtake a lost SESS_INIT. The bundles wait in the transport.
            return;
        }
        let mut unparsed = std::mem::take(&mut stream.unparsed);
        if self.state == SessionState::Established {
            let left = self.parse_bytes(id, &unparsed, out);
            unparsed.advance(unparsed.len() - left);
        }
        let Some(stream) = self.transfer_streams.get_mut(id) else { return };
        stream.unparsed = unparsed;
        if stream.is_full() {
            return;
        }
        let mut in_order = std::mem::take(&mut stream.in_order);
        let known_end = stream.unparsed_end.take();
        let end = known_end.unwrap_or_else(|| {
            streams.read(id, &mut |offset, data| {
                self.last_received_at = now;
                in_order.push(offset, data, &mut |bytes| {
                    let left = self.parse_bytes(id, bytes, out);
                    if let Some(stream) = self.transfer_streams.get_mut(id).filter(|_| left > 0) {
                        stream.unparsed.extend_from_slice(&bytes[bytes.len() - left..]);
                    }
                });
            })
        });
        let Some(stream) = self.transfer_streams.get_mut(id) else { return };
        stream.in_order = in_order;
        if end == ReadStatus::Open {
            return;
        }
        if !stream.unparsed.is_empty() {
            stream.unparsed_end = Some(end);
            return;
        }
        stream.peer_finished = true;
        if stream.dedicated_by.is_none() {
            let both_terminated = self.term_sent && self.term_received;
            if end == ReadStatus::Reset || !both_terminated {
                self.fail(Some("the peer has closed the connection without SESS_TERM"));
            }
            return;
        }
        let cut = !stream.decoder.is_at_boundary();
        if end == ReadStatus::Reset || cut {
            // The peer aborted the stream; its earlier acknowledgements remain valid.
            streams.reset(id);
            self.abandon_stream(id, RefusalReason::Retransmit, out);
        } else {
            stream.drop_reassembly(&mut self.quota);
            let unacked: Vec<u64> = stream.unacked_ids().collect();
            if !unacked.is_empty() {
                self.abandon_stream(id, RefusalReason::Unknown, out);
            }
        }
    }

    /// Parses bytes in stream sequence. Returns the number of unparsed bytes if the stream is full.
    fn parse_bytes(&mut self, id: u64, mut bytes: &[u8], out: &mut Vec<SessionEvent>) -> usize {
        if self.state == SessionState::Contact && !self.parse_contact_header(&mut bytes) {
            return 0;
        }
        if self.state == SessionState::Secure {
            // Unauthenticated bytes before the handshake must not be interpreted after it.
            if !bytes.is_empty() {
                self.fail(Some(
                    "the peer sent data after its contact header before the TLS handshake",
                ));
            }
            return 0;
        }
        while self.state != SessionState::Ended && self.error.is_none() {
            let Some(stream) = self.transfer_streams.get_mut(id) else { return 0 };
            if stream.is_full() {
                return bytes.len();
            }
            match stream.decoder.next_item(&mut bytes) {
                Ok(Some(DecodedItem::Data { bytes: data, is_last })) => {
                    let next = self.next_received;
                    if let Some(event) = stream.on_data(data, is_last, next, &mut self.quota) {
                        self.next_received += 1;
                        self.stream_by_received.insert(next, id);
                        out.push(event);
                    }
                    if !is_last && bytes.is_empty() {
                        return 0;
                    }
                }
                Ok(Some(DecodedItem::Message(message))) => self.on_message(id, message, out),
                Ok(None) => return 0,
                Err(error) => {
                    if let DecodeError::UnknownType(kind) = error {
                        // Section 5.1.2: "and close the TCP connection".
                        stream.queue_message(&Message::MsgReject { reason: reject::UNKNOWN, kind });
                    } else {
                        self.send_term(term::RESOURCES);
                    }
                    self.fail(Some(&error.to_string()));
                    return 0;
                }
            }
        }
        0
    }

    /// Parses the TCPCLv4 contact header (sections 4.2 and 4.3). Returns whether it is complete and accepted.
    fn parse_contact_header(&mut self, bytes: &mut &[u8]) -> bool {
        let (part, rest) =
            bytes.split_at(bytes.len().min(contact_header::BYTES - self.contact_header.len()));
        self.contact_header.extend_from_slice(part);
        *bytes = rest;
        let active = self.config.role == Role::Active;
        match contact_header::decode(&self.contact_header) {
            Err(error) => {
                self.fail(Some(&error.to_string()));
                false
            }
            Ok(None) => false,
            Ok(Some(header)) => {
                if !active {
                    self.send_contact_header();
                }
                if header.version != contact_header::VERSION {
                    if !active {
                        self.send_term(term::VERSION);
                    }
                    let version = header.version;
                    self.fail(Some(&format!("the peer uses version {version} of TCPCL")));
                    return false;
                }
                // Section 4.3: TLS is used if both sides support it.
                let peer_supports_tls = header.flags & contact_header::CAN_TLS != 0;
                match self.config.tls {
                    TlsPolicy::Allow | TlsPolicy::Require if peer_supports_tls => {
                        self.state = SessionState::Secure;
                        return true;
                    }
                    TlsPolicy::Require => {
                        self.send_term(term::CONTACT);
                        self.fail(Some("the peer does not support TLS, which this node requires"));
                        return false;
                    }
                    TlsPolicy::Allow | TlsPolicy::No => {}
                }
                self.state = SessionState::Init;
                if active {
                    self.send_sess_init();
                }
                true
            }
        }
    }

    fn on_message(&mut self, id: u64, message: Message, out: &mut Vec<SessionEvent>) {
        let kind = message.type_code(self.config.format);
        let established = self.state == SessionState::Established;
        let is_signal = id == SIGNAL_STREAM;
        let limits = ReceiveLimits {
            segment_mru: self.config.init.segment_mru,
            transfer_mru: self.config.init.transfer_mru,
            is_ending: self.is_ending() || !established,
        };
        let carries_bundles = self.config.mapping == StreamMapping::Signal || !is_signal;
        let Some(stream) = self.transfer_streams.get_mut(id) else { return };
        let expected = match message {
            Message::SessInit(init)
                if is_signal
                    && (self.state == SessionState::Init || self.uses_remembered_parameters) =>
            {
                self.on_sess_init(init, out);
                true
            }
            Message::XferSegment(segment) if carries_bundles => {
                // Before SESS_INIT the segment data is skipped too.
                stream.on_segment(segment, &limits, &mut self.quota);
                established
            }
            Message::XferAck(_) | Message::XferRefuse { .. } if !carries_bundles && established => {
                self.unmatched_acks.push(message);
                true
            }
            Message::XferAck(ack) if carries_bundles && established => stream.on_ack(ack, out),
            Message::XferRefuse { reason, transfer } if carries_bundles && established => {
                // Each late segment of a refused bundle is refused again (section 5.2.4).
                stream.on_refuse(reason, transfer, out);
                true
            }
            Message::Keepalive => true,
            Message::SessTerm { is_reply, reason } if is_signal => {
                self.on_term(is_reply, reason, out);
                true
            }
            // A rejected message is not repeated; its bundles get no answer.
            Message::MsgReject { .. } => true,
            _ => false,
        };
        if !expected && let Some(stream) = self.transfer_streams.get_mut(id) {
            stream.queue_message(&Message::MsgReject { reason: reject::UNEXPECTED, kind });
        }
    }

    /// Handles SESS_INIT (sections 4.6 and 4.7).
    fn on_sess_init(&mut self, init: SessInit, out: &mut Vec<SessionEvent>) {
        if self.config.role == Role::Passive {
            self.send_sess_init();
        }
        self.uses_remembered_parameters = false;
        if init.extension_error.is_some() || init.segment_mru == 0 || init.transfer_mru == 0 {
            self.send_term(term::CONTACT);
            let reason = match init.extension_error {
                Some(ExtensionError::UnknownCritical) => "the peer requires an unknown extension",
                Some(ExtensionError::Malformed) => "the peer's extensions are malformed",
                None => "the peer accepts no bundles",
            };
            return self.fail(Some(reason));
        }
        if let Some(expected) = &self.config.parameters.expected_peer
            && !is_same_node(&init.node_id, expected)
        {
            // An unexpected node ID terminates the session (section 4.7).
            let shown: String = init.node_id.chars().take(MAX_SHOWN_CHARS).collect();
            let reason = format!("the peer has the node id {shown:?}, expected {expected}");
            self.send_term(term::CONTACT);
            return self.fail(Some(&reason));
        }
        if let Some(reason) = self.identity_error.take() {
            // An unauthenticated node ID too (section 4.4.4).
            self.send_term(term::CONTACT);
            return self.fail(Some(&reason));
        }
        if let Some(remembered) = &self.remembered {
            remembered.set(&init);
        }
        self.establish(init, out);
    }

    pub(super) fn establish(&mut self, init: SessInit, out: &mut Vec<SessionEvent>) {
        self.state = SessionState::Established;
        out.push(SessionEvent::Established {
            peer: Some(init.node_id.clone()),
            max_bundle_bytes: Some(init.transfer_mru),
        });
        self.peer_init = Some(init);
    }

    pub(super) fn send_term(&mut self, reason: u8) {
        if !std::mem::replace(&mut self.term_sent, true) {
            self.signal_stream().queue_message(&Message::SessTerm { is_reply: false, reason });
        }
    }

    /// Handles SESS_TERM (section 6.1).
    fn on_term(&mut self, is_reply: bool, reason: u8, out: &mut Vec<SessionEvent>) {
        self.term_received = true;
        if !self.term_sent {
            self.term_sent = true;
            self.signal_stream().queue_message(&Message::SessTerm { is_reply: true, reason });
        }
        if !is_reply && reason != term::UNKNOWN {
            let why =
                || format!("the peer ends the session: reason {reason}, {}", term::name(reason));
            self.error.get_or_insert_with(why);
        }
        if self.state != SessionState::Established {
            return self.fail(Some("the peer refuses the session"));
        }
        // No further transfer starts.
        let queued = self.transfer_streams.iter_mut().flat_map(TransferStream::take_queue);
        let waiting = self.waiting.drain(..).map(|transfer| transfer.id);
        let ids: Vec<u64> = queued.chain(waiting).collect();
        out.extend(
            ids.into_iter()
                .map(|id| SessionEvent::Refused { id, reason: RefusalReason::Terminating }),
        );
    }
}

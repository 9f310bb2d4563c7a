//! QUICCL (draft-caini-dtn-quiccl-01): the TCPCLv4 session on streams of a QUIC connection, and bundles in datagrams.
//!
//! Stream 0 carries signalling. Bundles use one stream, three by priority, or one stream each. The draft lacks the last
//! mapping: it is the second mode of the thesis. Acknowledgements use the stream of their bundle. `datagrams`
//! implements the notified and the unreliable mode.

mod datagrams;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use transport::quic::QuicRequirements;
use transport::{AppEvent, Streams};
use units::{Descriptor, Opt, Span, Time};

use self::datagrams::{DatagramEvent, DatagramTransfers};
use super::messages::{SessInit, WireFormat};
use super::parameters::{INCOMING_BYTES, RESPONSE_TIMEOUT_NS, SEGMENT_BYTES, TRANSFER_BYTES};
use super::reassembly::ByteQuota;
use super::rfc9174::{Rfc9174Session, SessionConfig, StreamMapping};
use super::{
    ClaFactory, ClaSpec, ClaTransport, ConnectionParameters, LinkProperties, RememberedParameters,
    TlsPolicy,
};
use crate::{DeliveryMode, RefusalReason, Role, Session, SessionCommand, SessionEvent};

/// The ALPN protocol name.
pub const ALPN: &str = "quicclav1";
/// The UDP port.
pub const PORT: u16 = 4560;

/// The mapping of bundles to streams, equal on both sides.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum StreamMappingSpec {
    /// All on stream 16, "no priority".
    #[default]
    One,
    /// One stream per bundle, which ends after it.
    Each,
    /// Streams 4, 8 and 12 for expedited, normal and bulk bundles.
    Priorities,
}

/// Options of QUICCL.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct QuicclSpec {
    /// The mapping of bundles to streams.
    pub streams: StreamMappingSpec,
    /// With one stream per bundle: the maximum number of concurrent streams of the peer.
    pub max_streams: u32,
    /// The keepalive interval in seconds; 0 disables keepalives.
    pub keepalive_s: u16,
    /// The maximum segment length on a stream, sent and received.
    pub segment_bytes: u64,
    /// The maximum length of a received bundle.
    pub transfer_bytes: u64,
    /// The limit of partially received bundles in bytes, for streams and again for datagrams.
    pub incoming_bytes: u64,
    /// The timeout for SESS_INIT of the peer and for its reply to SESS_TERM.
    pub response_timeout_ns: u64,
    /// The send queue of datagrams in bytes. `None` disables datagrams: only the reliable mode remains.
    pub datagram_bytes: Option<u32>,
    /// The time until an unacknowledged bundle of the notified mode counts as lost. It must exceed a round trip.
    pub ack_timeout_ns: u64,
}

impl Default for QuicclSpec {
    fn default() -> QuicclSpec {
        QuicclSpec {
            streams: StreamMappingSpec::One,
            max_streams: 256,
            keepalive_s: 0,
            segment_bytes: SEGMENT_BYTES,
            transfer_bytes: TRANSFER_BYTES,
            incoming_bytes: INCOMING_BYTES,
            response_timeout_ns: RESPONSE_TIMEOUT_NS,
            datagram_bytes: None,
            ack_timeout_ns: 10_000_000_000,
        }
    }
}

impl QuicclSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "quiccl",
        spec_kind: "quiccl",
        aliases: &["quiccl-each", "quiccl-priorities"],
        title: "QUICCL: sessions as in TCPCLv4, over QUIC",
        reference: "draft-caini-dtn-quiccl-01",
        options: &[Opt::by_name(
            "streams",
            &["one", "each", "priorities"],
            "all bundles on one stream, one stream for each bundle, or streams of priorities",
        )],
        draws: false,
        live_name: "",
    };
}

impl ClaFactory for QuicclSpec {
    fn build(&self, role: Role, node: &str, parameters: ConnectionParameters) -> Box<dyn Session> {
        Box::new(Quiccl::new(self, role, node, parameters))
    }

    fn build_with_early_data(
        &self,
        role: Role,
        node: &str,
        remembered: &RememberedParameters,
    ) -> Box<dyn Session> {
        let session = Quiccl::new(self, role, node, ConnectionParameters::default());
        Box::new(session.with_early_data(remembered))
    }

    fn transport(&self) -> ClaTransport {
        let each = self.streams == StreamMappingSpec::Each;
        ClaTransport::Quic(QuicRequirements {
            datagram_buffer_bytes: self.datagram_bytes,
            max_bidi_streams: each.then_some(self.max_streams.saturating_add(1)),
            ..QuicRequirements::default()
        })
    }

    fn adjust(&self, link: &LinkProperties) -> ClaSpec {
        QuicclSpec {
            response_timeout_ns: self.response_timeout_ns.max(link.min_response_timeout_ns()),
            ack_timeout_ns: self.ack_timeout_ns.max(link.min_ack_timeout_ns()),
            ..self.clone()
        }
        .into()
    }

    fn alpn(&self) -> Option<&'static str> {
        Some(ALPN)
    }

    fn port(&self) -> Option<u16> {
        Some(PORT)
    }

    fn supports_early_data(&self) -> bool {
        true
    }
}

/// A QUICCL session.
pub struct Quiccl {
    session: Rfc9174Session,
    datagrams: Option<DatagramTransfers>,
    /// The node has requested termination.
    terminate_requested: bool,
}

impl Quiccl {
    /// Builds a session of node `node`.
    pub fn new(
        spec: &QuicclSpec,
        role: Role,
        node: &str,
        parameters: ConnectionParameters,
    ) -> Quiccl {
        let (datagrams, shared_quota) =
            (spec.datagram_bytes.is_some(), parameters.shared_quota.clone());
        let session = Rfc9174Session::new(SessionConfig {
            format: WireFormat::Quiccl,
            mapping: match spec.streams {
                StreamMappingSpec::One => StreamMapping::One,
                StreamMappingSpec::Each => StreamMapping::Each,
                StreamMappingSpec::Priorities => StreamMapping::Priorities,
            },
            role,
            init: SessInit {
                keepalive_s: spec.keepalive_s,
                segment_mru: spec.segment_bytes,
                datagram_mru: if datagrams { u16::MAX.into() } else { 0 },
                transfer_mru: spec.transfer_bytes,
                node_id: node.to_owned(),
                extension_error: None,
            },
            segment_bytes: spec.segment_bytes,
            incoming_bytes: spec.incoming_bytes,
            response_timeout: Span(spec.response_timeout_ns),
            tls: TlsPolicy::No,
            parameters,
        });
        let datagrams = datagrams.then(|| {
            DatagramTransfers::new(
                spec.transfer_bytes,
                ByteQuota::new(spec.incoming_bytes, shared_quota),
                Span(spec.ack_timeout_ns),
            )
        });
        Quiccl { session, datagrams, terminate_requested: false }
    }

    /// Enables early data: on a resumed connection bundles use it.
    pub fn with_early_data(mut self, remembered: &RememberedParameters) -> Quiccl {
        self.session.remember_parameters(remembered);
        self
    }

    /// Updates the datagram transfers after each event.
    fn after_event(&mut self, now: Time, streams: &mut dyn Streams, out: &mut Vec<SessionEvent>) {
        let unmatched_acks = self.session.take_unmatched_acks();
        let Some(datagrams) = self.datagrams.as_mut().filter(|_| !self.session.is_over()) else {
            return;
        };
        for message in unmatched_acks {
            datagrams.on_ack(&message, out);
        }
        datagrams.expire(now, out);
        if self.session.is_ending() {
            datagrams.refuse_waiting(RefusalReason::Terminating, out);
        }
        if self.terminate_requested && !datagrams.has_unacked_transfer() {
            self.terminate_requested = false;
            self.session.on_command(now, SessionCommand::Terminate, streams, out);
        }
    }
}

impl Session for Quiccl {
    fn on_event(
        &mut self,
        now: Time,
        event: AppEvent,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        self.session.on_event(now, event, streams, out);
        if let Some(datagrams) = &mut self.datagrams
            && let Some(peer) = self.session.peer_init()
        {
            let peer = (peer.datagram_mru, peer.transfer_mru);
            match event {
                AppEvent::DatagramsReceived => {
                    while let Some(data) = streams.take_datagram() {
                        for datagram_event in datagrams.receive(&data, self.session.is_ending()) {
                            match datagram_event {
                                DatagramEvent::Reply(message) => {
                                    self.session.send_message(&message)
                                }
                                DatagramEvent::Received(transfer, data, mode) => {
                                    let id = self.session.take_received_number();
                                    datagrams.register_received(id, transfer);
                                    out.push(SessionEvent::Received { id, data, mode });
                                }
                            }
                        }
                    }
                }
                AppEvent::Writable => {
                    let session = &mut self.session;
                    datagrams.write(
                        now,
                        peer,
                        &mut || session.take_transfer_number(),
                        streams,
                        out,
                    );
                }
                _ => {}
            }
            self.session.flush(now, streams, out);
        }
        self.after_event(now, streams, out);
    }

    fn on_command(
        &mut self,
        now: Time,
        command: SessionCommand,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        if self.session.is_over() {
            return;
        }
        match (command, &mut self.datagrams) {
            (SessionCommand::Send(transfer), _) if self.terminate_requested => {
                out.push(SessionEvent::Refused {
                    id: transfer.id,
                    reason: RefusalReason::Terminating,
                });
            }
            (SessionCommand::Send(transfer), Some(datagrams))
                if transfer.mode != DeliveryMode::Reliable && !self.session.is_ending() =>
            {
                datagrams.enqueue(transfer);
            }
            (SessionCommand::Cancel(id), Some(datagrams)) => {
                if datagrams.cancel(id) {
                    out.push(SessionEvent::Refused { id, reason: RefusalReason::Unknown });
                } else {
                    self.session.on_command(now, SessionCommand::Cancel(id), streams, out);
                }
            }
            (SessionCommand::ConfirmStored(id), Some(datagrams)) if datagrams.has_received(id) => {
                if let Some(reply) = datagrams.resolve_received(id, None) {
                    self.session.send_message(&reply);
                }
            }
            (SessionCommand::Refuse(id, why), Some(datagrams)) if datagrams.has_received(id) => {
                if let Some(reply) = datagrams.resolve_received(id, Some(why)) {
                    self.session.send_message(&reply);
                }
            }
            (SessionCommand::Terminate, Some(_)) => self.terminate_requested = true,
            (command, _) => self.session.on_command(now, command, streams, out),
        }
        self.session.flush(now, streams, out);
        self.after_event(now, streams, out);
    }

    fn poll_at(&self) -> Time {
        let acks_at = self.datagrams.as_ref().map_or(Time::MAX, DatagramTransfers::poll_at);
        if self.session.is_over() { Time::MAX } else { self.session.poll_at().min(acks_at) }
    }

    fn has_data(&self) -> bool {
        let datagrams = self.datagrams.as_ref().is_some_and(DatagramTransfers::has_data);
        self.session.has_data() || (datagrams && self.session.peer_init().is_some())
    }
}

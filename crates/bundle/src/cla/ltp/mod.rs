//! LTP (RFC 5326) over UDP (RFC 7122): one block per bundle. Red data is retransmitted until the peer has claimed all
//! of it, after its store has the bundle. Green data is sent once. Without congestion control, segments are sent at the
//! contact rate. Timers follow light time and the planned state of the peer.
//!
//! Reading order: `sdnv`, `segment` (encoding), `timers`, `block_tx` and `block_rx` (one block), `engine`, `transmit`.

mod block_rx;
mod block_tx;
mod engine;
mod sdnv;
mod segment;
mod timers;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use transport::{AppEvent, Streams};
use units::Time;

use self::engine::LtpEngine;
use super::{ConnectionParameters, INCOMING_BYTES, TRANSFER_BYTES};
use crate::{RefusalReason, Session, SessionCommand, SessionEvent};

pub use segment::{
    Canceller, Checkpoint, DataSegment, DataSegmentType, LtpSegment, LtpSessionId, ReportSegment,
    SegmentBody, SegmentError, reason,
};

/// The UDP port (RFC 5326 section 10.1).
pub const PORT: u16 = 1113;

/// The client service ID of bundles (RFC 7116 section 3.2).
const BUNDLE_PROTOCOL: u64 = 1;

/// The reliability of blocks.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Colour {
    /// Red blocks: retransmitted until the peer has them.
    #[default]
    Red,
    /// Green blocks: sent once.
    Green,
}

/// Options of LTP.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct LtpSpec {
    /// The reliability of blocks.
    pub colour: Colour,
    /// The maximum length of a sent segment: the link MTU without IP and UDP headers.
    pub segment_bytes: u16,
    /// The length of IP and UDP headers, which the rate includes.
    pub header_bytes: u16,
    /// The rate without a planned contact.
    pub rate_bit_s: Option<u64>,
    /// The minimum one-way light time.
    pub owlt_ns: u64,
    /// The maximum response time of the peer, for its store and for data that it sends before the response.
    pub margin_ns: u64,
    /// The maximum retransmissions of a checkpoint, a report or a cancellation before the session ends.
    #[serde(rename = "most_times")]
    pub max_retransmissions: u32,
    /// The maximum retransmission cycles of a block before the session ends.
    #[serde(rename = "most_cycles")]
    pub max_retransmission_cycles: u32,
    /// The maximum concurrent sessions of this side.
    #[serde(rename = "most_outgoing")]
    pub max_outgoing_sessions: u32,
    /// The maximum concurrent sessions of the peer.
    #[serde(rename = "most_incoming")]
    pub max_incoming_sessions: u32,
    /// The maximum length of a received bundle.
    pub transfer_bytes: u64,
    /// The limit of partially received bundles in bytes.
    pub incoming_bytes: u64,
}

impl Default for LtpSpec {
    fn default() -> LtpSpec {
        LtpSpec {
            colour: Colour::Red,
            segment_bytes: 1452,
            header_bytes: 28,
            rate_bit_s: None,
            owlt_ns: 0,
            margin_ns: 2_000_000_000,
            max_retransmissions: 10,
            max_retransmission_cycles: 30,
            max_outgoing_sessions: 1 << 16,
            max_incoming_sessions: 1 << 16,
            transfer_bytes: TRANSFER_BYTES,
            incoming_bytes: INCOMING_BYTES,
        }
    }
}

/// Returns the engine ID of a node: N for `ipn:N.0`, otherwise 63 bits of the FNV-1a hash of the node ID.
pub fn engine_id(node: &str) -> u64 {
    let number = node.strip_prefix("ipn:").and_then(|rest| rest.split('.').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| {
        let hash = node.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        hash >> 1
    })
}

/// One side of a span.
pub struct Ltp {
    engine: LtpEngine,
    ready: bool,
    is_closed: bool,
    is_terminating: bool,
}

impl Ltp {
    /// Builds the engine of node `node`.
    pub fn new(spec: &LtpSpec, node: &str, parameters: &ConnectionParameters) -> Ltp {
        let engine = LtpEngine::new(spec, engine_id(node), parameters);
        Ltp { engine, ready: false, is_closed: false, is_terminating: false }
    }

    /// Transmits due segments, and closes a terminating session without further work.
    fn transmit_and_close(
        &mut self,
        now: Time,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        if self.ready {
            self.engine.transmit(now, out, &mut |bytes| {
                streams.send_datagram(bytes);
            });
        }
        if self.is_terminating && !self.engine.has_outgoing() && !self.engine.has_incoming() {
            self.close(streams, out);
        }
    }

    fn close(&mut self, streams: &mut dyn Streams, out: &mut Vec<SessionEvent>) {
        if !std::mem::replace(&mut self.is_closed, true) {
            streams.close();
            out.push(SessionEvent::Closed { error: None });
        }
    }
}

impl Session for Ltp {
    fn on_event(
        &mut self,
        now: Time,
        event: AppEvent,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        if self.is_closed {
            return;
        }
        match event {
            AppEvent::Ready if !self.ready => {
                self.ready = true;
                out.push(SessionEvent::Established { peer: None, max_bundle_bytes: None });
            }
            AppEvent::DatagramsReceived => {
                while let Some(datagram) = streams.take_datagram() {
                    // Other datagrams are ignored.
                    if let Ok(segment) = LtpSegment::decode(&datagram) {
                        self.engine.on_segment(now, &segment, out);
                    }
                }
            }
            AppEvent::Timer => self.engine.expire_timers(now, out),
            AppEvent::Closed => {
                self.is_closed = true;
                let error = self.engine.has_outgoing().then(|| "the connection is over".to_owned());
                return out.push(SessionEvent::Closed { error });
            }
            _ => {}
        }
        self.transmit_and_close(now, streams, out);
    }

    fn on_command(
        &mut self,
        now: Time,
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
            SessionCommand::Send(transfer) => self.engine.enqueue(transfer, out),
            SessionCommand::Cancel(id) => self.engine.cancel(now, id, out),
            SessionCommand::ConfirmStored(id) => self.engine.on_stored(id),
            SessionCommand::Refuse(id, why) => self.engine.on_refused(id, why),
            SessionCommand::LinkState(link_state) => self.engine.set_link_state(now, link_state),
            SessionCommand::LinkUp => {}
            SessionCommand::Terminate => {
                self.is_terminating = true;
                self.engine.reject_new_sessions();
            }
            SessionCommand::Abort => return self.close(streams, out),
        }
        self.transmit_and_close(now, streams, out);
    }

    fn poll_at(&self) -> Time {
        if self.is_closed || !self.ready { Time::MAX } else { self.engine.poll_at() }
    }

    fn has_data(&self) -> bool {
        false
    }
}

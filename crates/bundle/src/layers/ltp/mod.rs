//! LTP (RFC 5326) over UDP (RFC 7122): a block a bundle. Red data is sent until the peer has claimed all of it, which it does
//! when its store has the bundle; green data once. There is no connection and no congestion control: segments leave at the
//! rate of the contact, and timers go by light and by what the plan says of the peer.
//!
//! Reading order: `sdnv`, `segment` (bytes), `timers`, `outgoing`, `incoming` (a block from either side), `engine` (all of them; `leaving`: what leaves when).

mod engine;
mod incoming;
mod outgoing;
mod sdnv;
mod segment;
mod timers;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use transport::{AppEvent, Streams};
use units::Time;

use self::engine::Engine;
use super::{INCOMING_BYTES, TRANSFER_BYTES, Terms};
use crate::{Refusal, Said, Session, Told};

pub use segment::{
    Body, Canceller, Checkpoint, Data, Fault, Mark, Report, Segment, SessionNumber, reason,
};

/// Its UDP port (RFC 5326 section 10.1).
pub const PORT: u16 = 1113;

/// The client service: bundles (RFC 7116 section 3.2).
const BUNDLE_PROTOCOL: u64 = 1;

/// Reliable or not.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Colour {
    /// Blocks are red: sent again until the peer has them.
    #[default]
    Red,
    /// Blocks are green: sent once.
    Green,
}

/// Options of LTP.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct LtpSpec {
    /// Reliable or not.
    pub colour: Colour,
    /// Longest segment that is sent: the link's MTU without headers of IP and UDP.
    pub segment_bytes: u16,
    /// IP and UDP headers, which the rate counts.
    pub header_bytes: u16,
    /// Rate where no contact is planned.
    pub rate_bit_s: Option<u64>,
    /// Light one way where the plan has no longer one.
    pub owlt_ns: u64,
    /// How long the peer may take for an answer, with its store and what it sends meanwhile.
    pub margin_ns: u64,
    /// How often a checkpoint, a report or a cancellation leaves again before its session is given up.
    pub most_times: u32,
    /// Rounds of retransmissions of a block before it is given up.
    pub most_cycles: u32,
    /// Sessions that are open at once, of this side and of the peer.
    pub most_outgoing: u32,
    /// See `most_outgoing`.
    pub most_incoming: u32,
    /// Longest bundle that is taken.
    pub transfer_bytes: u64,
    /// Bytes of bundles on the way in at once.
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
            most_times: 10,
            most_cycles: 30,
            most_outgoing: 1 << 16,
            most_incoming: 1 << 16,
            transfer_bytes: TRANSFER_BYTES,
            incoming_bytes: INCOMING_BYTES,
        }
    }
}

/// The number of the engine of a node: of `ipn:N.0` it is N, of another id 63 bits of its FNV-1a hash.
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
    engine: Engine,
    ready: bool,
    over: bool,
    ending: bool,
}

impl Ltp {
    /// Of the node that is called `node`.
    pub fn new(spec: &LtpSpec, node: &str, terms: &Terms) -> Ltp {
        let engine = Engine::new(spec, engine_id(node), terms);
        Ltp { engine, ready: false, over: false, ending: false }
    }

    /// Sends what may leave, and ends if that was all.
    fn go_on(&mut self, now: Time, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        if self.ready {
            self.engine.send(now, said, &mut |bytes| {
                streams.send_datagram(bytes);
            });
        }
        if self.ending && !self.engine.gives() && !self.engine.takes() {
            self.end(streams, said);
        }
    }

    fn end(&mut self, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        if !std::mem::replace(&mut self.over, true) {
            streams.close();
            said.push(Said::Ended { error: None });
        }
    }
}

impl Session for Ltp {
    fn on(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        if self.over {
            return;
        }
        match event {
            AppEvent::Ready if !self.ready => {
                self.ready = true;
                said.push(Said::Started { peer: None, most_bytes: None });
            }
            AppEvent::Datagrams => {
                while let Some(datagram) = streams.take_datagram() {
                    // What is no segment is nobody's.
                    if let Ok(segment) = Segment::decode(&datagram) {
                        self.engine.hear(now, &segment, said);
                    }
                }
            }
            AppEvent::Timer => self.engine.expire(now, said),
            AppEvent::Closed => {
                self.over = true;
                let error = self.engine.gives().then(|| "the connection is over".to_owned());
                return said.push(Said::Ended { error });
            }
            _ => {}
        }
        self.go_on(now, streams, said);
    }

    fn hear(&mut self, now: Time, told: Told, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        if self.over {
            return;
        }
        match told {
            Told::Send(transfer) if self.ending => {
                said.push(Said::Refused { id: transfer.id, why: Refusal::Terminating });
            }
            Told::Send(transfer) => self.engine.give(transfer, said),
            Told::Cancel(id) => self.engine.cancel(now, id, said),
            Told::Stored(id) => self.engine.stored(id),
            Told::Refuse(id, why) => self.engine.refuse(id, why),
            Told::Way(way) => self.engine.set_way(now, way),
            Told::Cue => {}
            Told::End => {
                self.ending = true;
                self.engine.begin_none();
            }
            Told::Abort => return self.end(streams, said),
        }
        self.go_on(now, streams, said);
    }

    fn wake_at(&self) -> Time {
        if self.over || !self.ready { Time::MAX } else { self.engine.wake_at() }
    }

    fn has_data(&self) -> bool {
        false
    }
}

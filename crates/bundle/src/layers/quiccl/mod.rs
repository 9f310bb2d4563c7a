//! QUICCL (draft-caini-dtn-quiccl-01): TCPCLv4's session on the streams of a QUIC connection, and bundles in datagrams.
//!
//! Stream 0 signals. Bundles go on one stream, on three by their priority, or on one each, which the draft does not have:
//! it is the thesis's second mode. Answers go back on the stream of their bundle. `datagrams` has the notified and the
//! unreliable service.

mod datagrams;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use transport::quic::Needs;
use transport::{AppEvent, Streams};
use units::{Span, Time};

use self::datagrams::{Datagrams, Word};
use super::assembly::Room;
use super::exchange::{Exchange, Layout, Setup};
use super::messages::{Dialect, Init};
use super::{INCOMING_BYTES, Memory, PATIENCE_NS, SEGMENT_BYTES, TRANSFER_BYTES, Terms, TlsPolicy};
use crate::{Refusal, Role, Said, Service, Session, Told};

/// The protocol's name in the handshake.
pub const ALPN: &str = "quicclav1";
/// Its UDP port.
pub const PORT: u16 = 4560;

/// How bundles are laid on streams. Both sides have the same.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Streaming {
    /// All on stream 16, "no priority".
    #[default]
    One,
    /// A stream a bundle, which ends after it.
    Each,
    /// Streams 4, 8 and 12 for expedited, normal and bulk ones.
    Priorities,
}

/// Options of QUICCL.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct QuicclSpec {
    /// How bundles are laid on streams.
    pub streams: Streaming,
    /// With a stream a bundle: how many the peer may have open at once.
    pub most_streams: u32,
    /// Seconds after which a side says something at the latest; 0: it need not.
    pub keepalive_s: u16,
    /// Longest segment that is sent on a stream, and that is taken.
    pub segment_bytes: u64,
    /// Longest bundle that is taken.
    pub transfer_bytes: u64,
    /// Bytes of bundles on the way in at once, on streams and as much again in datagrams.
    pub incoming_bytes: u64,
    /// How long the peer may take to say who it is, and to answer the session's end.
    pub patience_ns: u64,
    /// Bytes of datagrams that may wait to leave; none: there are none, and only the reliable service.
    pub datagram_bytes: Option<u32>,
    /// After this long without an answer a bundle of the notified service counts as lost: longer than a round trip.
    pub notice_ns: u64,
}

impl Default for QuicclSpec {
    fn default() -> QuicclSpec {
        QuicclSpec {
            streams: Streaming::One,
            most_streams: 256,
            keepalive_s: 0,
            segment_bytes: SEGMENT_BYTES,
            transfer_bytes: TRANSFER_BYTES,
            incoming_bytes: INCOMING_BYTES,
            patience_ns: PATIENCE_NS,
            datagram_bytes: None,
            notice_ns: 10_000_000_000,
        }
    }
}

impl QuicclSpec {
    pub(super) fn needs(&self) -> Needs {
        let each = self.streams == Streaming::Each;
        Needs {
            datagram_bytes: self.datagram_bytes,
            bidi_streams: each.then_some(self.most_streams.saturating_add(1)),
            ..Needs::default()
        }
    }
}

/// A session.
pub struct Quiccl {
    exchange: Exchange,
    datagrams: Option<Datagrams>,
    /// The node wants the session to end.
    ending: bool,
}

impl Quiccl {
    /// Of the node that is called `node`.
    pub fn new(spec: &QuicclSpec, role: Role, node: &str, terms: Terms) -> Quiccl {
        let (datagrams, shared) = (spec.datagram_bytes.is_some(), terms.room.clone());
        let exchange = Exchange::new(Setup {
            dialect: Dialect::Quiccl,
            layout: match spec.streams {
                Streaming::One => Layout::One,
                Streaming::Each => Layout::Each,
                Streaming::Priorities => Layout::Priorities,
            },
            role,
            init: Init {
                keepalive_s: spec.keepalive_s,
                segment_mru: spec.segment_bytes,
                datagram_mru: if datagrams { u16::MAX.into() } else { 0 },
                transfer_mru: spec.transfer_bytes,
                node: node.to_owned(),
                problem: None,
            },
            segment_bytes: spec.segment_bytes,
            incoming_bytes: spec.incoming_bytes,
            patience: Span(spec.patience_ns),
            tls: TlsPolicy::No,
            terms,
        });
        let datagrams = datagrams.then(|| {
            Datagrams::new(
                spec.transfer_bytes,
                Room::new(spec.incoming_bytes, shared),
                Span(spec.notice_ns),
            )
        });
        Quiccl { exchange, datagrams, ending: false }
    }

    /// One that resumes: where it begins with early data, bundles go with it.
    pub fn resuming(mut self, memory: &Memory) -> Quiccl {
        self.exchange.remember(memory);
        self
    }

    /// After each event: what concerns datagrams.
    fn settle(&mut self, now: Time, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        let strays = self.exchange.take_strays();
        let Some(datagrams) = self.datagrams.as_mut().filter(|_| !self.exchange.is_over()) else {
            return;
        };
        for message in strays {
            datagrams.answered(&message, said);
        }
        datagrams.expire(now, said);
        if self.exchange.is_ending() {
            datagrams.refuse_waiting(Refusal::Terminating, said);
        }
        if self.ending && !datagrams.gives() {
            self.ending = false;
            self.exchange.hear(now, Told::End, streams, said);
        }
    }
}

impl Session for Quiccl {
    fn on(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        self.exchange.on(now, event, streams, said);
        if let Some(datagrams) = &mut self.datagrams
            && let Some(peer) = self.exchange.peer()
        {
            let peer = (peer.datagram_mru, peer.transfer_mru);
            match event {
                AppEvent::Datagrams => {
                    while let Some(data) = streams.take_datagram() {
                        for word in datagrams.receive(&data, self.exchange.is_ending()) {
                            match word {
                                Word::Answer(message) => self.exchange.say(&message),
                                Word::Whole(transfer, data, service) => {
                                    let id = self.exchange.received();
                                    datagrams.wait_for(id, transfer);
                                    said.push(Said::Received { id, data, service });
                                }
                            }
                        }
                    }
                }
                AppEvent::WantData => {
                    let exchange = &mut self.exchange;
                    datagrams.write(now, peer, &mut || exchange.number(), streams, said);
                }
                _ => {}
            }
            self.exchange.flush(now, streams, said);
        }
        self.settle(now, streams, said);
    }

    fn hear(&mut self, now: Time, told: Told, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        if self.exchange.is_over() {
            return;
        }
        match (told, &mut self.datagrams) {
            (Told::Send(transfer), _) if self.ending => {
                said.push(Said::Refused { id: transfer.id, why: Refusal::Terminating });
            }
            (Told::Send(transfer), Some(datagrams))
                if transfer.service != Service::Reliable && !self.exchange.is_ending() =>
            {
                datagrams.give(transfer);
            }
            (Told::Cancel(id), Some(datagrams)) => {
                if datagrams.cancel(id) {
                    said.push(Said::Refused { id, why: Refusal::Unknown });
                } else {
                    self.exchange.hear(now, Told::Cancel(id), streams, said);
                }
            }
            (Told::Stored(id), Some(datagrams)) if datagrams.owns(id) => {
                if let Some(answer) = datagrams.verdict(id, None) {
                    self.exchange.say(&answer);
                }
            }
            (Told::Refuse(id, why), Some(datagrams)) if datagrams.owns(id) => {
                if let Some(answer) = datagrams.verdict(id, Some(why)) {
                    self.exchange.say(&answer);
                }
            }
            (Told::End, Some(_)) => self.ending = true,
            (told, _) => self.exchange.hear(now, told, streams, said),
        }
        self.exchange.flush(now, streams, said);
        self.settle(now, streams, said);
    }

    fn wake_at(&self) -> Time {
        let notice = self.datagrams.as_ref().map_or(Time::MAX, Datagrams::wake_at);
        if self.exchange.is_over() { Time::MAX } else { self.exchange.wake_at().min(notice) }
    }

    fn has_data(&self) -> bool {
        let datagrams = self.datagrams.as_ref().is_some_and(Datagrams::has_data);
        self.exchange.has_data() || (datagrams && self.exchange.peer().is_some())
    }
}

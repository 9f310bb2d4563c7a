//! LTP (RFC 5326) over UDP (RFC 7122): one block per bundle. Red data is retransmitted until the peer has claimed all
//! of it, after its store has the bundle. Green data is sent once. Without congestion control, segments are sent at the
//! contact rate. Timers follow light time and the planned state of the peer.
//!
//! Reading order: `spec`, `sdnv`, `segment` (encoding), `timers`, `block_tx` and `block_rx` (one block), `engine`,
//! with `receive`, `expiry` and `transmit`.

mod block_rx;
mod block_tx;
mod engine;
mod sdnv;
mod segment;
mod spec;
mod timers;

use transport::{AppEvent, Streams};
use units::Time;

use self::engine::LtpEngine;
use super::{ClaFactory, ClaSpec, ClaTransport, ConnectionParameters, LinkProperties};
use crate::{RefusalReason, Role, Session, SessionCommand, SessionEvent};

pub use segment::{
    Canceller, Checkpoint, DataSegment, DataSegmentType, LtpSegment, LtpSessionId, ReportSegment,
    SegmentBody, SegmentError, reason,
};
pub use spec::{Colour, LtpSpec, engine_id};

/// The UDP port (RFC 5326 section 10.1).
pub const PORT: u16 = 1113;

impl ClaFactory for LtpSpec {
    fn build(&self, _: Role, node: &str, parameters: ConnectionParameters) -> Box<dyn Session> {
        Box::new(Ltp::new(self, node, &parameters))
    }

    fn transport(&self) -> ClaTransport {
        ClaTransport::Udp
    }

    fn adjust(&self, _: &LinkProperties) -> ClaSpec {
        self.clone().into()
    }

    fn needs_link_state(&self) -> bool {
        true
    }

    fn port(&self) -> Option<u16> {
        Some(PORT)
    }
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
                let error =
                    self.engine.has_outgoing().then(|| "the connection has ended".to_owned());
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

//! The session of TCPCLv4 and QUICCL: the states of RFC 9174 over one stream or several.
//!
//! `transfer_stream` has one stream with its transfers, `transfer_streams` the streams of the session. `start` sends
//! the contact header and SESS_INIT, `receive` handles messages, `send` assigns streams and writes, `timers` has
//! keepalives. This file has events, commands and the end. Sections are those of RFC 9174, which
//! draft-caini-dtn-quiccl-01 follows.

mod receive;
mod send;
mod start;
mod timers;
mod transfer_stream;
mod transfer_streams;

use std::collections::{BTreeMap, VecDeque};

use transport::{AppEvent, Streams};
use units::{Span, Time};

use self::transfer_stream::{Initiator, TransferStream};
use self::transfer_streams::TransferStreams;
use super::RememberedParameters;
use super::messages::{Message, SessInit, WireFormat, term};
use super::reassembly::ByteQuota;
use super::{ConnectionParameters, TlsPolicy};
use crate::{RefusalReason, Role, SessionCommand, SessionEvent, Transfer};

/// The mapping of bundles to streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamMapping {
    /// All on the signalling stream: TCP has no other.
    Signal,
    /// All on one stream.
    One,
    /// One stream per bundle.
    Each,
    /// One of four streams, by priority.
    Priorities,
}

/// The signalling stream of QUICCL, and its data streams: expedited, normal, bulk, no priority.
pub(super) const SIGNAL_STREAM: u64 = 0;
const DATA_STREAMS: [u64; 4] = [4, 8, 12, 16];

/// The configuration of a session.
#[derive(Clone, Debug)]
pub(super) struct SessionConfig {
    pub format: WireFormat,
    pub mapping: StreamMapping,
    pub role: Role,
    pub init: SessInit,
    /// The maximum length of a sent segment.
    pub segment_bytes: u64,
    /// The limit of partially received bundles in bytes.
    pub incoming_bytes: u64,
    /// The timeout for the next message of the peer when the session waits for it.
    pub response_timeout: Span,
    /// The TLS policy of TCPCLv4.
    pub tls: TlsPolicy,
    pub parameters: ConnectionParameters,
}

/// The quantum of a stream in round robin: small against a window, so that streams share it.
const QUANTUM_BYTES: usize = 16 << 10;

/// The state of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionState {
    /// The transport is not ready.
    Closed,
    /// TCPCLv4: the session waits for the contact header (figures 5 and 6).
    Contact,
    /// Both sides support TLS; its handshake is pending (section 4.4).
    Secure,
    /// The session waits for SESS_INIT (figures 8 and 9).
    Init,
    /// Transfers are possible.
    Established,
    /// The session is over.
    Ended,
}

pub(super) struct Rfc9174Session {
    config: SessionConfig,
    state: SessionState,
    peer_init: Option<SessInit>,
    transfer_streams: TransferStreams,
    /// The received part of the TCPCLv4 contact header.
    contact_header: Vec<u8>,
    /// TLS was requested from the transport.
    tls_requested: bool,
    /// The reason why the certificate does not match the expected peer.
    identity_error: Option<String>,
    /// Transfers without a stream.
    waiting: VecDeque<Transfer>,
    next_transfer: u64,
    next_received: u64,
    /// The streams of received bundles that wait for the node.
    stream_by_received: BTreeMap<u64, u64>,
    quota: ByteQuota,
    /// The node has requested termination.
    terminate_requested: bool,
    term_sent: bool,
    term_received: bool,
    /// The first stream of the last round.
    last_served: u64,
    /// The sequence of streams in the current round.
    write_order: Vec<u64>,
    last_sent_at: Time,
    last_received_at: Time,
    /// The session has failed.
    failed: bool,
    /// The peer receives no further messages.
    is_peer_unreachable: bool,
    error: Option<String>,
    /// The parameters from the previous session, if early data is enabled.
    remembered: Option<RememberedParameters>,
    /// The session uses remembered parameters, because the peer has not sent SESS_INIT yet.
    uses_remembered_parameters: bool,
    /// Acknowledgements on the signalling stream for bundles in datagrams.
    unmatched_acks: Vec<Message>,
}

impl Rfc9174Session {
    pub fn new(config: SessionConfig) -> Rfc9174Session {
        Rfc9174Session {
            state: SessionState::Closed,
            peer_init: None,
            transfer_streams: TransferStreams::default(),
            contact_header: Vec::new(),
            tls_requested: false,
            identity_error: None,
            waiting: VecDeque::new(),
            next_transfer: 0,
            next_received: 0,
            stream_by_received: BTreeMap::new(),
            quota: ByteQuota::new(config.incoming_bytes, config.parameters.shared_quota.clone()),
            terminate_requested: false,
            term_sent: false,
            term_received: false,
            last_served: 0,
            write_order: Vec::new(),
            last_sent_at: Time::ZERO,
            last_received_at: Time::ZERO,
            failed: false,
            is_peer_unreachable: false,
            error: None,
            remembered: None,
            uses_remembered_parameters: false,
            unmatched_acks: Vec::new(),
            config,
        }
    }

    /// Enables remembered parameters for early data, and stores those of the new session.
    pub fn remember_parameters(&mut self, remembered: &RememberedParameters) {
        self.remembered = Some(remembered.clone());
    }

    /// Returns the SESS_INIT of the peer once transfers are possible.
    pub fn peer_init(&self) -> Option<&SessInit> {
        self.peer_init.as_ref().filter(|_| self.state == SessionState::Established)
    }

    pub fn is_over(&self) -> bool {
        self.state == SessionState::Ended
    }

    /// Returns whether new transfers are no longer possible.
    pub fn is_ending(&self) -> bool {
        self.term_sent || self.term_received
    }

    /// Returns a number for an outgoing transfer (section 5.2.1).
    pub fn take_transfer_number(&mut self) -> u64 {
        let number = self.next_transfer;
        self.next_transfer += 1;
        number
    }

    /// Returns a number for a received bundle.
    pub fn take_received_number(&mut self) -> u64 {
        let number = self.next_received;
        self.next_received += 1;
        number
    }

    pub fn has_data(&self) -> bool {
        self.state != SessionState::Ended && self.transfer_streams.has_data()
    }

    /// Returns and removes the acknowledgements for bundles in datagrams.
    pub fn take_unmatched_acks(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.unmatched_acks)
    }

    /// Queues a message on the signalling stream, for transmission with the next event.
    pub fn send_message(&mut self, message: &Message) {
        if self.state == SessionState::Established {
            self.signal_stream().queue_message(message);
        }
    }

    /// Returns whether an outgoing transfer is unanswered.
    fn has_unacked_transfer(&self) -> bool {
        !self.waiting.is_empty()
            || self.transfer_streams.iter().any(TransferStream::has_unacked_transfer)
    }

    fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || self.transfer_streams.iter().any(TransferStream::is_busy)
    }

    // Events.

    pub fn on_event(
        &mut self,
        now: Time,
        event: AppEvent,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        if self.state == SessionState::Ended {
            return;
        }
        let established = self.state == SessionState::Established;
        match event {
            AppEvent::Ready => {
                match self.state {
                    SessionState::Closed => self.start(now, streams, out),
                    SessionState::Secure if self.tls_requested => {
                        // The TLS handshake is complete: the session continues as without TLS (section 4.6).
                        self.state = SessionState::Init;
                        self.identity_error = streams.verify_peer().err();
                        self.last_received_at = now;
                        if self.config.role == Role::Active {
                            self.send_sess_init();
                        }
                    }
                    _ => {}
                }
                self.assign_streams(streams, out);
            }
            AppEvent::StreamOpened(id) => self.on_stream_opened(now, id, streams, out),
            AppEvent::Readable(id) => self.read_stream(now, id, streams, out),
            AppEvent::Writable => self.write(now, streams, out),
            AppEvent::Stopped(id) => self.on_stream_stopped(id, streams, out),
            AppEvent::Timer => self.on_timer(now),
            AppEvent::Closed => {
                let agreed = self.term_sent && self.term_received;
                self.is_peer_unreachable = true;
                self.fail((!agreed).then_some("the connection has ended"));
            }
            AppEvent::Finished(_) | AppEvent::DatagramsReceived => {}
        }
        if !established && self.state == SessionState::Established {
            // Data on other streams that preceded SESS_INIT.
            let other_streams: Vec<u64> =
                self.transfer_streams.ids().filter(|id| *id != SIGNAL_STREAM).collect();
            other_streams.into_iter().for_each(|id| self.read_stream(now, id, streams, out));
        }
        self.after_event(now, streams, out);
    }

    pub fn on_command(
        &mut self,
        now: Time,
        command: SessionCommand,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        if self.state == SessionState::Ended {
            return;
        }
        match command {
            SessionCommand::Send(transfer) => {
                if self.is_ending() || self.terminate_requested {
                    out.push(SessionEvent::Refused {
                        id: transfer.id,
                        reason: RefusalReason::Terminating,
                    });
                } else {
                    self.waiting.push_back(transfer);
                    self.assign_streams(streams, out);
                }
            }
            SessionCommand::Cancel(id) => self.cancel(id, streams, out),
            SessionCommand::ConfirmStored(id) => self.resolve_received(now, id, None, streams, out),
            SessionCommand::Refuse(id, why) => {
                self.resolve_received(now, id, Some(why), streams, out)
            }
            SessionCommand::LinkUp => {
                streams.on_link_up();
            }
            SessionCommand::LinkState(_) => {}
            SessionCommand::Terminate => self.terminate_requested = true,
            SessionCommand::Abort => {
                self.state = SessionState::Ended;
                streams.close_now();
                out.push(SessionEvent::Closed { error: None });
                return;
            }
        }
        self.after_event(now, streams, out);
    }

    fn resolve_received(
        &mut self,
        now: Time,
        received: u64,
        refused: Option<RefusalReason>,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        let Some(stream) = self.stream_by_received.remove(&received) else { return };
        let Some(transfer_stream) = self.transfer_streams.get_mut(stream) else { return };
        let was_full = transfer_stream.is_full();
        transfer_stream.resolve_received(received, refused);
        if was_full && !transfer_stream.is_full() {
            // The stream was not read while it was full.
            self.last_received_at = now;
            self.read_stream(now, stream, streams, out);
        }
    }

    fn cancel(&mut self, id: u64, streams: &mut dyn Streams, out: &mut Vec<SessionEvent>) {
        // Transfers of one batch of cancellations have the sequence of the queue.
        let index = self.waiting.iter().position(|transfer| transfer.id == id);
        let mut is_cancelled = index.and_then(|index| self.waiting.remove(index)).is_some();
        is_cancelled |= self.transfer_streams.iter_mut().any(|stream| stream.cancel(id));
        if !is_cancelled && self.config.mapping == StreamMapping::Each {
            // A dedicated stream can be reset.
            let found = self
                .transfer_streams
                .iter()
                .find(|stream| stream.unacked_ids().any(|one| one == id));
            if let Some(stream) = found.map(|transfer_stream| transfer_stream.stream_id) {
                streams.reset(stream);
                streams.stop(stream);
                self.transfer_streams.remove(stream);
                is_cancelled = true;
            }
        }
        if is_cancelled {
            out.push(SessionEvent::Refused { id, reason: RefusalReason::Unknown });
        }
    }

    // Streams.

    fn transfer_stream(
        &mut self,
        stream: u64,
        dedicated_by: Option<Initiator>,
    ) -> &mut TransferStream {
        let format = self.config.format;
        self.transfer_streams
            .get_or_insert(stream, || TransferStream::new(format, stream, dedicated_by))
    }

    fn signal_stream(&mut self) -> &mut TransferStream {
        self.transfer_stream(SIGNAL_STREAM, None)
    }

    /// Fails the session. Queued messages are still sent before the close.
    fn fail(&mut self, error: Option<&str>) {
        if let Some(error) = error {
            self.error.get_or_insert_with(|| error.to_owned());
        }
        (self.term_sent, self.term_received) = (true, true);
        self.failed = true;
    }

    /// Sends queued messages.
    pub fn flush(&mut self, now: Time, streams: &mut dyn Streams, out: &mut Vec<SessionEvent>) {
        if self.state != SessionState::Ended {
            self.after_event(now, streams, out);
        }
    }

    /// Sends pending output and removes finished streams after each event.
    fn after_event(&mut self, now: Time, streams: &mut dyn Streams, out: &mut Vec<SessionEvent>) {
        if self.state == SessionState::Established {
            self.assign_streams(streams, out);
            if self.terminate_requested && !self.has_unacked_transfer() {
                self.send_term(term::UNKNOWN);
            }
        } else if self.terminate_requested && !self.has_unacked_transfer() {
            // Before SESS_INIT no SESS_TERM is possible.
            self.fail(None);
        }
        let (mut control_overflow, mut wrote) = (false, false);
        self.transfer_streams.update(|stream| {
            wrote |= stream.flush(streams, out) > 0;
            control_overflow |= stream.exceeds_control_limit();
            stream.finish_if_done(streams)
        });
        if wrote {
            self.last_sent_at = now;
        }
        if control_overflow {
            self.fail(Some("the peer does not read the responses"));
        }
        // After the contact header of this side, which is not encrypted.
        let secure = self.state == SessionState::Secure && !self.failed && !self.has_data();
        if secure && !std::mem::replace(&mut self.tls_requested, true) && !streams.start_tls() {
            self.fail(Some("this node has no TLS keys"));
        }
        let done = self.term_sent && self.term_received && !self.is_busy() && !self.has_data();
        if self.failed || (self.state == SessionState::Established && done) {
            self.state = SessionState::Ended;
            for stream in self.transfer_streams.iter_mut() {
                if stream.has_data() && self.config.format == WireFormat::Quiccl {
                    streams.reset(stream.stream_id);
                } else {
                    stream.finish(streams);
                }
            }
            if self.is_peer_unreachable {
                streams.close_now();
            } else {
                streams.close();
            }
            out.push(SessionEvent::Closed { error: self.error.take() });
        }
    }
}

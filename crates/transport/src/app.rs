//! The boundary between an application and a transport. An application is written once and runs over every transport
//! and both clocks. Messages between a node and the applications on its connections are here too; transports forward
//! them unread.

use std::collections::VecDeque;

use bytes::Bytes;
use units::Time;

use crate::media::MediaReport;
use crate::perf_load::{ControllerResponse, RequestedController};

/// Events from a transport to its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppEvent {
    /// New streams are allowed: the handshake is done, early data is allowed, or the peer has raised its limit.
    Ready,
    /// The peer opened a stream.
    StreamOpened(u64),
    /// A stream has data, or has ended.
    Readable(u64),
    /// The transport has sent nearly all its data and asks for more.
    Writable,
    /// The peer has acknowledged everything on a finished stream.
    Finished(u64),
    /// The peer asked this side to stop sending on a stream.
    Stopped(u64),
    /// Datagrams have arrived. The event is not repeated before the application has taken all of them.
    DatagramsReceived,
    /// The deadline of [`App::poll_at`] is due.
    Timer,
    /// The connection has ended.
    Closed,
}

/// State of a stream after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadStatus {
    /// More data may arrive.
    Open,
    /// All bytes and FIN have arrived.
    Finished,
    /// The peer reset the stream, or it is unknown.
    Reset,
}

/// Streams that the peer has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStreams {
    /// Streams that are open.
    pub open: u64,
    /// Limit of the streams that are open at once.
    pub max_open: u64,
}

/// Streams of a transport, as the application uses them. A stream has the id of RFC 9000 section 2.1. The defaults
/// refuse operations that only some transports have.
pub trait Streams {
    /// Opens a bidirectional stream. Returns `None` if the peer allows no more.
    fn open(&mut self) -> Option<u64>;
    /// Opens a unidirectional stream. Returns `None` if the peer allows no more, or the transport has none.
    fn open_uni(&mut self) -> Option<u64> {
        None
    }
    /// Returns the unidirectional streams of the peer, or `None` if the transport has none.
    fn peer_uni_streams(&mut self) -> Option<PeerStreams> {
        None
    }
    /// Sets the number of unidirectional streams that the peer may have open at once (MAX_STREAMS, RFC 9000 section
    /// 4.6). The peer learns it when streams close or when the number grows. Credit granted before stays valid.
    fn set_max_uni_streams(&mut self, _max: u16) {}
    /// Sets the priority of a stream, initially 0. Data of higher priority is sent first, retransmissions included.
    /// Returns whether this has an effect: a single byte stream has a fixed order.
    fn set_priority(&mut self, _stream: u64, _priority: i32) -> bool {
        false
    }
    /// Sends a datagram (RFC 9221) before stream data, as soon as window and pacer allow. It may be lost; a full queue
    /// drops its oldest. Returns whether it was accepted: always up to [`Streams::max_datagram_bytes`].
    fn send_datagram(&mut self, _data: Bytes) -> bool {
        false
    }
    /// Takes the oldest datagram that has arrived.
    fn take_datagram(&mut self) -> Option<Bytes> {
        None
    }
    /// Returns the largest datagram that may be sent now, or `None` if transport, this side or the peer has none.
    fn max_datagram_bytes(&mut self) -> Option<usize> {
        None
    }
    /// Returns the bytes of datagrams, with their queue entries, that fit before the queue drops its oldest.
    fn datagram_budget(&mut self) -> usize {
        0
    }
    /// Gives data to a stream. Returns the number of accepted bytes.
    fn write(&mut self, stream: u64, data: Bytes) -> usize;
    /// Reads everything that has arrived, in order of arrival, as (offset, bytes).
    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadStatus;
    /// Ends a stream after what was written.
    fn finish(&mut self, stream: u64);
    /// Abandons sending on a stream.
    fn reset(&mut self, stream: u64);
    /// Asks the peer to stop sending on a stream.
    fn stop(&mut self, stream: u64);
    /// Performs [`Streams::reset`] with an application error code (RFC 9000 section 20.2), if the transport has codes.
    fn reset_with_code(&mut self, stream: u64, _code: u64) {
        self.reset(stream);
    }
    /// Performs [`Streams::stop`] with an application error code, if the transport has codes.
    fn stop_with_code(&mut self, stream: u64, _code: u64) {
        self.stop(stream);
    }
    /// Returns the peer's application error code for stopping a stream (RFC 9000 section 3.5), if it sent one and the
    /// transport has codes.
    fn peer_stop_code(&mut self, _stream: u64) -> Option<u64> {
        None
    }
    /// Returns the name of this side's controller if the transport reports it, after installing a requested one.
    ///
    /// # Errors
    /// The reason why the request is refused, in words.
    fn request_controller(
        &mut self,
        _requested: Option<&RequestedController>,
    ) -> Result<Option<String>, String> {
        Ok(None)
    }
    /// Switches both directions to TLS, after plaintext messages on a connection of one stream (as in RFC 9174 section
    /// 4.4). The TLS client is the side that opened the connection. No data is accepted before [`AppEvent::Ready`]
    /// comes (again). Returns whether the transport has keys for TLS.
    fn start_tls(&mut self) -> bool {
        false
    }
    /// Checks that the peer has proved the expected identity in the completed handshake.
    ///
    /// # Errors
    /// The identity of the peer, in words.
    fn verify_peer(&self) -> Result<(), String> {
        Ok(())
    }
    /// Returns whether the peer's handshake is still absent, so that writes go as early data (RFC 9001 section 4.6).
    fn is_early_data(&self) -> bool {
        false
    }
    /// Signals that the link to the peer is up again. The transport then probes at once and ignores the backed-off
    /// timer. Returns whether the transport supports this.
    fn on_link_up(&mut self) -> bool {
        false
    }
    /// Sends a notification to the node that manages the connection.
    fn notify(&mut self, _notification: AppNotification) {}
    /// Returns the bytes that a writer should add at [`AppEvent::Writable`].
    fn write_budget(&self) -> usize;
    /// Closes the connection after everything sent has been acknowledged.
    fn close(&mut self);
    /// Closes the connection at once if the transport can (RFC 9000 section 10.2). Data may still be unacknowledged.
    fn close_now(&mut self) {
        self.close();
    }
    /// Performs [`Streams::close_now`] with an application error code, if the transport has codes.
    fn close_with_code(&mut self, _code: u64) {
        self.close_now();
    }
}

/// An application on one side of one connection.
pub trait App: Send {
    /// Handles an event at `now`.
    fn on_event(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams);
    /// Handles a command from the node. The application executes it at the next event, which [`App::poll_at`] requests.
    fn on_command(&mut self, _command: AppCommand) {}
    /// Returns the time of the next [`AppEvent::Timer`].
    fn poll_at(&self) -> Time;
    /// Returns whether the application has data to write.
    fn has_data(&self) -> bool;
    /// Returns the reports of its streams so far.
    fn stream_reports(&self) -> &[crate::perf_load::StreamReport];
    /// Returns the media statistics, if the application is a side of a call.
    fn media_report(&self) -> Option<MediaReport> {
        None
    }
    /// Returns whether a reset by the peer is the regular end of the connection.
    fn expects_reset(&self) -> bool {
        false
    }
    /// Returns the peer's report of its controller, if the protocol has one.
    fn peer_controller(&self) -> Option<&ControllerResponse> {
        None
    }
}

/// Commands from a node to an application; numbers are objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppCommand {
    /// Request an object from the peer.
    Request(u32),
    /// Cancel the queued requests that were not sent.
    CancelQueued,
    /// Cancel the queued requests, and close the connection.
    Close,
    /// Check the mailbox that node and application share: it has new content.
    CheckMailbox,
}

impl AppCommand {
    /// Applies the command to the queue of requests.
    pub(crate) fn update_queue(self, requests: &mut VecDeque<u32>) {
        match self {
            AppCommand::Request(object) => requests.push_back(object),
            AppCommand::CancelQueued | AppCommand::Close => requests.clear(),
            AppCommand::CheckMailbox => {}
        }
    }
}

/// Notifications from an application to its node; numbers are objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppNotification {
    /// Requests are allowed.
    Ready,
    /// The peer has responded, by its handshake or by data.
    PeerResponded,
    /// A session ticket has arrived.
    SessionTicket,
    /// A request was given to the transport.
    RequestSent(u32),
    /// The first byte of a response has arrived.
    ResponseStarted(u32),
    /// Bytes of a response's body have arrived.
    BodyData(u32, u64),
    /// The last byte of a response has arrived.
    ResponseComplete(u32),
    /// The connection has ended.
    Closed,
    /// The mailbox that node and application share has new content.
    CheckMailbox,
}

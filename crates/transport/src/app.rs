//! The boundary between an application and a transport: applications are written once and run over
//! every transport and both clocks.

use bytes::Bytes;
use units::Time;

use crate::calls::CallSide;
use crate::load::{Answer, Wish};
use crate::{Notice, Order};

/// What a transport tells its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppEvent {
    /// Streams may be opened: the handshake is done, early data is allowed, or the peer allows more
    /// streams than before.
    Ready,
    /// The peer opened a stream.
    Opened(u64),
    /// A stream has data, or has ended.
    Readable(u64),
    /// The transport has sent nearly all it was given and asks for more.
    WantData,
    /// The peer has acknowledged everything on a finished stream.
    Finished(u64),
    /// The peer asked to stop sending on a stream.
    Stopped(u64),
    /// Datagrams have come; it is not said again before all of them have been taken.
    Datagrams,
    /// The instant of [`App::wake_at`] has come.
    Timer,
    /// The connection is over.
    Closed,
}

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEnd {
    /// More may come.
    Open,
    /// All bytes and FIN have arrived.
    Finished,
    /// The peer reset the stream, or it is unknown.
    Reset,
}

/// Streams that the peer has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStreams {
    /// How many are open.
    pub open: u64,
    /// How many may be open at once.
    pub most: u64,
}

/// What an application may do with a transport's streams. Streams are known by their id
/// (RFC 9000 section 2.1). What not every transport has is refused by default.
pub trait Streams {
    /// Opens a bidirectional stream; none if the peer allows no more.
    fn open(&mut self) -> Option<u64>;
    /// Opens a unidirectional stream; none if the peer allows no more, or the transport has none.
    fn open_uni(&mut self) -> Option<u64> {
        None
    }
    /// Unidirectional streams of the peer; none where the transport has none.
    fn peer_uni(&mut self) -> Option<PeerStreams> {
        None
    }
    /// How many unidirectional streams the peer may have open at once from now on. It is told as it closes some, or
    /// when there are more (MAX_STREAMS, RFC 9000 section 4.6); what it was allowed before it may still use.
    fn allow_uni(&mut self, _most: u16) {}
    /// What waits on a stream of higher priority leaves first, also what is sent again; a stream begins with 0. Whether
    /// it has a meaning: one stream of bytes has no order but its own.
    fn set_priority(&mut self, _stream: u64, _priority: i32) -> bool {
        false
    }
    /// Sends a datagram (RFC 9221) as soon as window and pacer let it pass, before data of streams. It may be lost, and
    /// where too many wait the oldest go. Whether it was taken: of at most [`Streams::datagram_bytes`] it is.
    fn send_datagram(&mut self, _data: Bytes) -> bool {
        false
    }
    /// The oldest datagram that has come and was not taken.
    fn take_datagram(&mut self) -> Option<Bytes> {
        None
    }
    /// Largest datagram that may be sent now; none where transport, this side or the peer has none.
    fn datagram_bytes(&mut self) -> Option<usize> {
        None
    }
    /// Bytes of datagrams, with their places in the queue, that may be given before the oldest that wait go.
    fn datagram_room(&mut self) -> usize {
        0
    }
    /// Gives data to a stream; returns how many bytes were taken.
    fn write(&mut self, stream: u64, data: Bytes) -> usize;
    /// Reads everything that has arrived, in order of arrival, as (offset, bytes).
    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadEnd;
    /// Ends a stream after what was written.
    fn finish(&mut self, stream: u64);
    /// Abandons sending on a stream.
    fn reset(&mut self, stream: u64);
    /// Asks the peer to stop sending on a stream.
    fn stop(&mut self, stream: u64);
    /// [`Streams::reset`] with an application error code (RFC 9000 section 20.2), where the transport has
    /// codes.
    fn reset_with(&mut self, stream: u64, _code: u64) {
        self.reset(stream);
    }
    /// [`Streams::stop`] with an application error code, where the transport has codes.
    fn stop_with(&mut self, stream: u64, _code: u64) {
        self.stop(stream);
    }
    /// The application error code with which the peer asked to stop sending on a stream (RFC 9000 section 3.5), where it
    /// did and the transport has codes.
    fn stopped_with(&mut self, _stream: u64) -> Option<u64> {
        None
    }
    /// The controller of what this side sends, by name, where the transport tells; with a wish, after that was done.
    ///
    /// # Errors
    /// Why the wish is not done, in words.
    fn controller(&mut self, _wish: Option<&Wish>) -> Result<Option<String>, String> {
        Ok(None)
    }
    /// From here on this side's bytes and the peer's are TLS's, whose client is who has dialled: after words of its own over
    /// a connection of one stream (as RFC 9174 section 4.4 has it). Nothing is taken before [`AppEvent::Ready`] comes
    /// (again). Whether the transport has keys for that.
    fn secure(&mut self) -> bool {
        false
    }
    /// Whether the peer has proven to be who it is to be, in the handshake that is done.
    ///
    /// # Errors
    /// Who it is instead, in words.
    fn proven(&self) -> Result<(), String> {
        Ok(())
    }
    /// Whether nothing has come of the peer's handshake yet, so that what is written goes as early data (RFC 9001 section 4.6).
    fn is_early(&self) -> bool {
        false
    }
    /// The way to the peer is there again after a time without one: what waits for a timeout that has backed off does so no
    /// longer. Whether the transport can.
    fn cue(&mut self) -> bool {
        false
    }
    /// Says something to the node whose connection it is.
    fn say(&mut self, _notice: Notice) {}
    /// Bytes a writer should add at [`AppEvent::WantData`].
    fn appetite(&self) -> usize;
    /// Closes the connection when everything sent has been acknowledged.
    fn close(&mut self);
    /// Closes the connection at once where the transport can (RFC 9000 section 10.2), whatever is
    /// unacknowledged.
    fn close_now(&mut self) {
        self.close();
    }
    /// [`Streams::close_now`] with an application error code, where the transport has codes.
    fn close_with(&mut self, _code: u64) {
        self.close_now();
    }
}

/// An application on one side of one connection.
pub trait App: Send {
    /// Something happened at `now`.
    fn on(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams);
    /// The node whose connection it is says something. [`App::wake_at`] asks for the event at which it is done.
    fn hear(&mut self, _order: Order) {}
    /// When the application wants [`AppEvent::Timer`].
    fn wake_at(&self) -> Time;
    /// Whether it has data that it would write if asked.
    fn has_data(&self) -> bool;
    /// What it has seen of its streams so far.
    fn streams(&self) -> &[crate::load::StreamReport];
    /// What it has said and heard, if it is a side of a call.
    fn call(&self) -> Option<CallSide> {
        None
    }
    /// What the peer has said of its controller, if the protocol has words for that.
    fn told(&self) -> Option<&Answer> {
        None
    }
}

//! The QUIC connection traits of the `h3` crate, implemented on the shared state.

use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{
    BidiStream, Connection, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream,
    StreamErrorIncoming, StreamId, WriteBuf,
};

use super::state::{
    H3_INTERNAL_ERROR, H3_NO_ERROR, H3_REQUEST_CANCELLED, H3ConnectionState, H3StreamState,
    LOW_WATERMARK, SharedH3State,
};

/// The maximum of bytes of a frame that are copied at once.
const PIECE: usize = 1 << 16;

/// A connection, which also opens its streams.
#[derive(Clone)]
pub(super) struct H3Connection(pub(super) SharedH3State);

/// The sending part of a stream.
pub(super) struct H3SendStream {
    shared: SharedH3State,
    id: u64,
}

/// The receiving part of a stream.
pub(super) struct H3RecvStream {
    shared: SharedH3State,
    id: u64,
}

/// Both parts of a bidirectional stream.
pub(super) struct H3BidiStream {
    send: H3SendStream,
    recv: H3RecvStream,
}

impl H3Connection {
    fn send_stream(&self, state: &mut H3ConnectionState, id: u64) -> H3SendStream {
        state.streams.entry(id).or_default().has_writer = true;
        H3SendStream { shared: self.0.clone(), id }
    }

    fn recv_stream(&self, state: &mut H3ConnectionState, id: u64) -> H3RecvStream {
        state.streams.entry(id).or_default().has_reader = true;
        H3RecvStream { shared: self.0.clone(), id }
    }
}

fn connection_closed() -> ConnectionErrorIncoming {
    ConnectionErrorIncoming::ApplicationClose { error_code: H3_NO_ERROR }
}

fn stream_closed() -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: connection_closed() }
}

fn wrong_id() -> StreamId {
    unreachable!("ids come from the stack, which keeps them below 2^62")
}

fn stream_id(id: u64) -> StreamId {
    StreamId::try_from(id).unwrap_or_else(|_| wrong_id())
}

impl Connection<Bytes> for H3Connection {
    type RecvStream = H3RecvStream;
    type OpenStreams = H3Connection;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<H3RecvStream, ConnectionErrorIncoming>> {
        let state = &mut *self.0.lock();
        if state.closed {
            return Poll::Ready(Err(connection_closed()));
        }
        if let Some(id) = state.unidirectional.pop_front() {
            return Poll::Ready(Ok(self.recv_stream(state, id)));
        }
        state.wait_for_streams(cx.waker());
        Poll::Pending
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<H3BidiStream, ConnectionErrorIncoming>> {
        let state = &mut *self.0.lock();
        if state.closed {
            return Poll::Ready(Err(connection_closed()));
        }
        if let Some(id) = state.requests.pop_front() {
            let (sender, receiver) = (self.send_stream(state, id), self.recv_stream(state, id));
            return Poll::Ready(Ok(H3BidiStream { send: sender, recv: receiver }));
        }
        state.wait_for_streams(cx.waker());
        Poll::Pending
    }

    fn opener(&self) -> H3Connection {
        self.clone()
    }
}

impl OpenStreams<Bytes> for H3Connection {
    type BidiStream = H3BidiStream;
    type SendStream = H3SendStream;

    fn poll_open_bidi(
        &mut self,
        _cx: &mut Context<'_>,
    ) -> Poll<Result<H3BidiStream, StreamErrorIncoming>> {
        // A server opens none (RFC 9114 section 6.1).
        Poll::Ready(Err(StreamErrorIncoming::StreamTerminated { error_code: H3_INTERNAL_ERROR }))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<H3SendStream, StreamErrorIncoming>> {
        let state = &mut *self.0.lock();
        if state.closed {
            return Poll::Ready(Err(stream_closed()));
        }
        if let Some(id) = state.local_streams.pop_front() {
            return Poll::Ready(Ok(self.send_stream(state, id)));
        }
        state.wait_for_streams(cx.waker());
        Poll::Pending
    }

    fn close(&mut self, code: Code, _reason: &[u8]) {
        self.0.lock().close.get_or_insert(code.value());
    }
}

impl H3SendStream {
    fn with_stream<T>(&self, act: impl FnOnce(&mut H3StreamState, bool) -> T) -> Option<T> {
        let state = &mut *self.shared.lock();
        let closed = state.closed;
        state.streams.get_mut(&self.id).map(|stream| act(stream, closed))
    }
}

impl SendStream<Bytes> for H3SendStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.with_stream(|stream, closed| {
            if closed {
                return Poll::Ready(Err(stream_closed()));
            }
            if stream.stopped {
                let error_code = H3_REQUEST_CANCELLED;
                return Poll::Ready(Err(StreamErrorIncoming::StreamTerminated { error_code }));
            }
            if stream.queued <= LOW_WATERMARK {
                return Poll::Ready(Ok(()));
            }
            stream.writer = Some(cx.waker().clone());
            Poll::Pending
        })
        .unwrap_or_else(|| Poll::Ready(Err(stream_closed())))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        let mut data = data.into();
        self.with_stream(|stream, _| {
            while data.has_remaining() && !stream.sent {
                stream.push(data.copy_to_bytes(data.remaining().min(PIECE)));
            }
        })
        .ok_or_else(stream_closed)
    }

    fn poll_finish(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.with_stream(|stream, _| stream.finish = true);
        Poll::Ready(Ok(()))
    }

    fn reset(&mut self, reset_code: u64) {
        self.with_stream(|stream, _| {
            if !stream.finish {
                stream.reset.get_or_insert(reset_code);
            }
        });
    }

    fn send_id(&self) -> StreamId {
        stream_id(self.id)
    }
}

impl Drop for H3SendStream {
    fn drop(&mut self) {
        self.with_stream(|stream, _| {
            stream.has_writer = false;
            if !stream.finish {
                stream.reset.get_or_insert(H3_INTERNAL_ERROR);
            }
        });
    }
}

impl RecvStream for H3RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let state = &mut *self.shared.lock();
        let closed = state.closed;
        let Some(stream) = state.streams.get_mut(&self.id) else {
            return Poll::Ready(Err(stream_closed()));
        };
        if let Some(data) = stream.ready.pop_front() {
            return Poll::Ready(Ok(Some(data)));
        }
        if stream.fin {
            return Poll::Ready(Ok(None));
        }
        if closed {
            return Poll::Ready(Err(stream_closed()));
        }
        if stream.is_read_closed {
            let error_code = H3_REQUEST_CANCELLED;
            return Poll::Ready(Err(StreamErrorIncoming::StreamTerminated { error_code }));
        }
        stream.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    fn stop_sending(&mut self, error_code: u64) {
        if let Some(stream) = self.shared.lock().streams.get_mut(&self.id) {
            stream.stop.get_or_insert(error_code);
        }
    }

    fn recv_id(&self) -> StreamId {
        stream_id(self.id)
    }
}

impl Drop for H3RecvStream {
    fn drop(&mut self) {
        if let Some(stream) = self.shared.lock().streams.get_mut(&self.id) {
            stream.has_reader = false;
            stream.stop.get_or_insert(H3_NO_ERROR);
        }
    }
}

impl BidiStream<Bytes> for H3BidiStream {
    type SendStream = H3SendStream;
    type RecvStream = H3RecvStream;

    fn split(self) -> (H3SendStream, H3RecvStream) {
        (self.send, self.recv)
    }
}

impl SendStream<Bytes> for H3BidiStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.send.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

impl RecvStream for H3BidiStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.recv.poll_data(cx)
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.recv.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.recv.recv_id()
    }
}

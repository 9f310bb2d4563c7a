//! The traits by which the `h3` crate knows a QUIC connection, over the shared state.

use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{
    BidiStream, Connection, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream,
    StreamErrorIncoming, StreamId, WriteBuf,
};

use super::state::{
    H3_INTERNAL_ERROR, H3_NO_ERROR, H3_REQUEST_CANCELLED, LOW, Shared, State, Stream,
};

/// Most bytes of a frame that are copied at once.
const PIECE: usize = 1 << 16;

/// A connection, and what opens streams on it.
#[derive(Clone)]
pub(super) struct Quic(pub(super) Shared);

/// The end of a stream that we send on.
pub(super) struct Sender {
    shared: Shared,
    id: u64,
}

/// The end of a stream that we receive on.
pub(super) struct Receiver {
    shared: Shared,
    id: u64,
}

/// Both.
pub(super) struct Both {
    sender: Sender,
    receiver: Receiver,
}

impl Quic {
    fn sender(&self, state: &mut State, id: u64) -> Sender {
        state.streams.entry(id).or_default().has_writer = true;
        Sender { shared: self.0.clone(), id }
    }

    fn receiver(&self, state: &mut State, id: u64) -> Receiver {
        state.streams.entry(id).or_default().has_reader = true;
        Receiver { shared: self.0.clone(), id }
    }
}

fn over() -> ConnectionErrorIncoming {
    ConnectionErrorIncoming::ApplicationClose { error_code: H3_NO_ERROR }
}

fn stream_over() -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: over() }
}

fn wrong_id() -> StreamId {
    unreachable!("ids come from the stack, which keeps them below 2^62")
}

fn stream_id(id: u64) -> StreamId {
    StreamId::try_from(id).unwrap_or_else(|_| wrong_id())
}

impl Connection<Bytes> for Quic {
    type RecvStream = Receiver;
    type OpenStreams = Quic;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Receiver, ConnectionErrorIncoming>> {
        let state = &mut *self.0.lock();
        if state.closed {
            return Poll::Ready(Err(over()));
        }
        if let Some(id) = state.unidirectional.pop_front() {
            return Poll::Ready(Ok(self.receiver(state, id)));
        }
        state.wait_for_streams(cx.waker());
        Poll::Pending
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Both, ConnectionErrorIncoming>> {
        let state = &mut *self.0.lock();
        if state.closed {
            return Poll::Ready(Err(over()));
        }
        if let Some(id) = state.requests.pop_front() {
            let (sender, receiver) = (self.sender(state, id), self.receiver(state, id));
            return Poll::Ready(Ok(Both { sender, receiver }));
        }
        state.wait_for_streams(cx.waker());
        Poll::Pending
    }

    fn opener(&self) -> Quic {
        self.clone()
    }
}

impl OpenStreams<Bytes> for Quic {
    type BidiStream = Both;
    type SendStream = Sender;

    fn poll_open_bidi(&mut self, _cx: &mut Context<'_>) -> Poll<Result<Both, StreamErrorIncoming>> {
        // A server opens none (RFC 9114 section 6.1).
        Poll::Ready(Err(StreamErrorIncoming::StreamTerminated { error_code: H3_INTERNAL_ERROR }))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Sender, StreamErrorIncoming>> {
        let state = &mut *self.0.lock();
        if state.closed {
            return Poll::Ready(Err(stream_over()));
        }
        if let Some(id) = state.own.pop_front() {
            return Poll::Ready(Ok(self.sender(state, id)));
        }
        state.wait_for_streams(cx.waker());
        Poll::Pending
    }

    fn close(&mut self, code: Code, _reason: &[u8]) {
        self.0.lock().close.get_or_insert(code.value());
    }
}

impl Sender {
    fn with<T>(&self, act: impl FnOnce(&mut Stream, bool) -> T) -> Option<T> {
        let state = &mut *self.shared.lock();
        let closed = state.closed;
        state.streams.get_mut(&self.id).map(|stream| act(stream, closed))
    }
}

impl SendStream<Bytes> for Sender {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.with(|stream, closed| {
            if closed {
                return Poll::Ready(Err(stream_over()));
            }
            if stream.stopped {
                let error_code = H3_REQUEST_CANCELLED;
                return Poll::Ready(Err(StreamErrorIncoming::StreamTerminated { error_code }));
            }
            if stream.queued <= LOW {
                return Poll::Ready(Ok(()));
            }
            stream.writer = Some(cx.waker().clone());
            Poll::Pending
        })
        .unwrap_or_else(|| Poll::Ready(Err(stream_over())))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        let mut data = data.into();
        self.with(|stream, _| {
            while data.has_remaining() && !stream.sent {
                stream.push(data.copy_to_bytes(data.remaining().min(PIECE)));
            }
        })
        .ok_or_else(stream_over)
    }

    fn poll_finish(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.with(|stream, _| stream.finish = true);
        Poll::Ready(Ok(()))
    }

    fn reset(&mut self, reset_code: u64) {
        self.with(|stream, _| {
            if !stream.finish {
                stream.reset.get_or_insert(reset_code);
            }
        });
    }

    fn send_id(&self) -> StreamId {
        stream_id(self.id)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.with(|stream, _| {
            stream.has_writer = false;
            if !stream.finish {
                stream.reset.get_or_insert(H3_INTERNAL_ERROR);
            }
        });
    }
}

impl RecvStream for Receiver {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let state = &mut *self.shared.lock();
        let closed = state.closed;
        let Some(stream) = state.streams.get_mut(&self.id) else {
            return Poll::Ready(Err(stream_over()));
        };
        if let Some(data) = stream.ready.pop_front() {
            return Poll::Ready(Ok(Some(data)));
        }
        if stream.fin {
            return Poll::Ready(Ok(None));
        }
        if closed {
            return Poll::Ready(Err(stream_over()));
        }
        if stream.cut {
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

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(stream) = self.shared.lock().streams.get_mut(&self.id) {
            stream.has_reader = false;
            stream.stop.get_or_insert(H3_NO_ERROR);
        }
    }
}

impl BidiStream<Bytes> for Both {
    type SendStream = Sender;
    type RecvStream = Receiver;

    fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
}

impl SendStream<Bytes> for Both {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.sender.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.sender.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.sender.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.sender.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.sender.send_id()
    }
}

impl RecvStream for Both {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.receiver.poll_data(cx)
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.receiver.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.receiver.recv_id()
    }
}

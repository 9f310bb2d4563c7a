//! Streams and datagrams of the stack.

use bytes::Bytes;
use quinn_proto::{Dir, ReadError, SendDatagramError, Side, StreamId, VarInt};

use super::QuinnConnection;
use crate::quic::stack::{DatagramRejection, StackStreams, StreamDirection};
use crate::{PeerStreams, ReadStatus};

fn stream_id(stream: u64) -> StreamId {
    let side = if stream & 1 == 0 { Side::Client } else { Side::Server };
    let dir = if stream & 2 == 0 { Dir::Bi } else { Dir::Uni };
    StreamId::new(side, dir, stream >> 2)
}

fn to_dir(direction: StreamDirection) -> Dir {
    match direction {
        StreamDirection::Bi => Dir::Bi,
        StreamDirection::Uni => Dir::Uni,
    }
}

pub(super) fn from_dir(dir: Dir) -> StreamDirection {
    match dir {
        Dir::Bi => StreamDirection::Bi,
        Dir::Uni => StreamDirection::Uni,
    }
}

pub(super) fn error_code(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

impl StackStreams for QuinnConnection {
    fn open(&mut self, direction: StreamDirection) -> Option<u64> {
        self.inner.streams().open(to_dir(direction)).map(u64::from)
    }

    fn accept(&mut self, direction: StreamDirection) -> Option<u64> {
        self.inner.streams().accept(to_dir(direction)).map(u64::from)
    }

    fn peer_streams(&mut self, direction: StreamDirection) -> PeerStreams {
        let dir = to_dir(direction);
        let max_open = self.inner.max_concurrent_streams(dir);
        PeerStreams { open: self.inner.streams().remote_open_streams(dir), max_open }
    }

    fn set_max_peer_streams(&mut self, direction: StreamDirection, max: u32) {
        self.inner.set_max_concurrent_streams(to_dir(direction), VarInt::from_u32(max));
    }

    #[inline]
    fn has_send_streams(&mut self) -> bool {
        self.inner.streams().send_streams() != 0
    }

    fn set_priority(&mut self, stream: u64, priority: i32) -> bool {
        self.inner.send_stream(stream_id(stream)).set_priority(priority).is_ok()
    }

    #[inline]
    fn write(&mut self, stream: u64, data: Bytes) -> usize {
        let written = self.inner.send_stream(stream_id(stream)).write_chunks(&mut [data]);
        written.map_or(0, |written| written.bytes)
    }

    #[inline]
    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadStatus {
        let mut stream = self.inner.recv_stream(stream_id(stream));
        // Unordered: the stack stops an ordered reader above 1,024 gaps.
        let Ok(mut chunks) = stream.read(false) else { return ReadStatus::Reset };
        let end = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => take(chunk.offset, &chunk.bytes),
                Ok(None) => break ReadStatus::Finished,
                Err(ReadError::Blocked) => break ReadStatus::Open,
                Err(ReadError::Reset(_)) => break ReadStatus::Reset,
            }
        };
        // Transmission is always polled after the application has run.
        let _ = chunks.finalize();
        end
    }

    fn finish(&mut self, stream: u64) {
        // Fails only on a stream that the peer stopped, which needs no FIN.
        let _ = self.inner.send_stream(stream_id(stream)).finish();
    }

    fn reset(&mut self, stream: u64, code: u64) {
        let _ = self.inner.send_stream(stream_id(stream)).reset(error_code(code));
    }

    fn stop(&mut self, stream: u64, code: u64) {
        let _ = self.inner.recv_stream(stream_id(stream)).stop(error_code(code));
    }

    fn peer_stop_code(&mut self, stream: u64) -> Option<u64> {
        self.inner.send_stream(stream_id(stream)).stopped().ok().flatten().map(VarInt::into_inner)
    }

    fn take_datagram(&mut self) -> Option<Bytes> {
        self.inner.datagrams().recv()
    }

    fn max_datagram_bytes(&mut self) -> Option<usize> {
        self.inner.datagrams().max_size()
    }

    fn datagram_space(&mut self) -> usize {
        self.inner.datagrams().send_buffer_space()
    }

    fn send_datagram(&mut self, data: Bytes) -> Result<(), DatagramRejection> {
        self.inner.datagrams().send(data, false).map_err(|error| match error {
            SendDatagramError::Blocked(data) => DatagramRejection::Full(data),
            _ => DatagramRejection::Unsendable,
        })
    }
}

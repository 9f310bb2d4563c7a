//! The stack's streams behind the boundary that applications are written against.

use bytes::Bytes;
use cc::CongestionControl;
use quinn_proto::{Dir, ReadError, Side, StreamId, VarInt};

use super::choice::Choice;
use super::datagrams::Datagrams;
use crate::load::Wish;
use crate::{Counters, Notice, PeerStreams, ReadEnd, Streams};

/// The stack's streams as an application sees them.
pub(super) struct StackStreams<'a> {
    pub(super) inner: &'a mut quinn_proto::Connection,
    pub(super) counters: &'a mut Counters,
    pub(super) closing: &'a mut bool,
    pub(super) at_once: &'a mut bool,
    /// Error code to close with.
    pub(super) code: &'a mut VarInt,
    pub(super) appetite: usize,
    /// What the client has a say in, and the controller it chose just now.
    pub(super) choice: &'a mut Option<Choice>,
    pub(super) chosen: &'a mut Option<Box<dyn CongestionControl>>,
    pub(super) datagrams: Option<&'a mut Datagrams>,
    pub(super) said: &'a mut Vec<Notice>,
    /// The application has said that the way is there again.
    pub(super) cued: &'a mut bool,
    pub(super) mtu: u64,
}

fn id(stream: u64) -> StreamId {
    let side = if stream & 1 == 0 { Side::Client } else { Side::Server };
    let dir = if stream & 2 == 0 { Dir::Bi } else { Dir::Uni };
    StreamId::new(side, dir, stream >> 2)
}

fn error_code(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

impl Streams for StackStreams<'_> {
    fn open(&mut self) -> Option<u64> {
        self.inner.streams().open(Dir::Bi).map(u64::from)
    }

    fn open_uni(&mut self) -> Option<u64> {
        self.inner.streams().open(Dir::Uni).map(u64::from)
    }

    fn peer_uni(&mut self) -> Option<PeerStreams> {
        let most = self.inner.max_concurrent_streams(Dir::Uni);
        Some(PeerStreams { open: self.inner.streams().remote_open_streams(Dir::Uni), most })
    }

    fn allow_uni(&mut self, most: u16) {
        self.inner.set_max_concurrent_streams(Dir::Uni, VarInt::from_u32(most.into()));
    }

    fn set_priority(&mut self, stream: u64, priority: i32) -> bool {
        self.inner.send_stream(id(stream)).set_priority(priority).is_ok()
    }

    fn send_datagram(&mut self, data: Bytes) -> bool {
        let taken = self.datagram_bytes().is_some_and(|most| data.len() <= most);
        if taken && let Some(datagrams) = &mut self.datagrams {
            datagrams.push(data);
        }
        taken
    }

    fn take_datagram(&mut self) -> Option<Bytes> {
        self.datagrams.is_some().then(|| self.inner.datagrams().recv())?
    }

    fn datagram_bytes(&mut self) -> Option<usize> {
        let own = self.datagrams.as_ref()?.largest();
        Some(self.inner.datagrams().max_size()?.min(own))
    }

    fn datagram_room(&mut self) -> usize {
        self.datagrams.as_ref().map_or(0, |datagrams| datagrams.room())
    }

    fn write(&mut self, stream: u64, data: Bytes) -> usize {
        let written = self.inner.send_stream(id(stream)).write_chunks(&mut [data]);
        let bytes = written.map_or(0, |written| written.bytes);
        self.counters.written_bytes += bytes as u64;
        bytes
    }

    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadEnd {
        let mut stream = self.inner.recv_stream(id(stream));
        // Unordered: an ordered reader is cut off by the stack above 1,024 gaps.
        let Ok(mut chunks) = stream.read(false) else { return ReadEnd::Reset };
        let end = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => take(chunk.offset, &chunk.bytes),
                Ok(None) => break ReadEnd::Finished,
                Err(ReadError::Blocked) => break ReadEnd::Open,
                Err(ReadError::Reset(_)) => break ReadEnd::Reset,
            }
        };
        // Transmission is always polled after the application has run.
        let _ = chunks.finalize();
        end
    }

    fn finish(&mut self, stream: u64) {
        // Fails only on a stream that the peer stopped: then there is nothing to finish.
        let _ = self.inner.send_stream(id(stream)).finish();
    }

    fn reset(&mut self, stream: u64) {
        self.reset_with(stream, 0);
    }

    fn stop(&mut self, stream: u64) {
        self.stop_with(stream, 0);
    }

    fn reset_with(&mut self, stream: u64, code: u64) {
        let _ = self.inner.send_stream(id(stream)).reset(error_code(code));
    }

    fn stop_with(&mut self, stream: u64, code: u64) {
        let _ = self.inner.recv_stream(id(stream)).stop(error_code(code));
    }

    fn stopped_with(&mut self, stream: u64) -> Option<u64> {
        self.inner.send_stream(id(stream)).stopped().ok().flatten().map(VarInt::into_inner)
    }

    fn controller(&mut self, wish: Option<&Wish>) -> Result<Option<String>, String> {
        let Some(choice) = self.choice else { return Ok(None) };
        if let Some(wish) = wish
            && let Some(made) = choice.choose(wish, self.mtu)?
        {
            *self.chosen = Some(made);
        }
        Ok(Some(choice.name.clone()))
    }

    fn is_early(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn cue(&mut self) -> bool {
        *self.cued = true;
        true
    }

    fn say(&mut self, notice: Notice) {
        self.said.push(notice);
    }

    fn appetite(&self) -> usize {
        self.appetite
    }

    fn close(&mut self) {
        *self.closing = true;
    }

    fn close_now(&mut self) {
        *self.closing = true;
        *self.at_once = true;
    }

    fn close_with(&mut self, code: u64) {
        *self.code = error_code(code);
        self.close_now();
    }
}

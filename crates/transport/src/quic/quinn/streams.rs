//! The stack's streams behind the boundary to applications.

use bytes::Bytes;
use cc::CongestionControl;
use quinn_proto::{Dir, ReadError, Side, StreamId, VarInt};

use super::datagrams::DatagramQueue;
use super::requested_controller::NegotiatedController;
use crate::perf_load::RequestedController;
use crate::{AppNotification, FlowCounters, PeerStreams, ReadStatus, Streams};

/// The stack's streams as an application uses them.
pub(super) struct StackStreams<'a> {
    pub(super) inner: &'a mut quinn_proto::Connection,
    pub(super) counters: &'a mut FlowCounters,
    pub(super) closing: &'a mut bool,
    pub(super) close_immediately: &'a mut bool,
    /// Error code of a close.
    pub(super) close_code: &'a mut VarInt,
    pub(super) write_budget: usize,
    /// The controller negotiation with the client, and the controller that it has just selected.
    pub(super) negotiated: &'a mut Option<NegotiatedController>,
    pub(super) new_controller: &'a mut Option<Box<dyn CongestionControl>>,
    pub(super) datagrams: Option<&'a mut DatagramQueue>,
    pub(super) notifications: &'a mut Vec<AppNotification>,
    /// The application has signalled that the link is up.
    pub(super) link_up: &'a mut bool,
    pub(super) mtu: u64,
}

fn stream_id(stream: u64) -> StreamId {
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

    fn peer_uni_streams(&mut self) -> Option<PeerStreams> {
        let max_open = self.inner.max_concurrent_streams(Dir::Uni);
        Some(PeerStreams { open: self.inner.streams().remote_open_streams(Dir::Uni), max_open })
    }

    fn set_max_uni_streams(&mut self, max: u16) {
        self.inner.set_max_concurrent_streams(Dir::Uni, VarInt::from_u32(max.into()));
    }

    fn set_priority(&mut self, stream: u64, priority: i32) -> bool {
        self.inner.send_stream(stream_id(stream)).set_priority(priority).is_ok()
    }

    fn send_datagram(&mut self, data: Bytes) -> bool {
        let taken = self.max_datagram_bytes().is_some_and(|max| data.len() <= max);
        if taken && let Some(datagrams) = &mut self.datagrams {
            datagrams.push(data);
        }
        taken
    }

    fn take_datagram(&mut self) -> Option<Bytes> {
        self.datagrams.is_some().then(|| self.inner.datagrams().recv())?
    }

    fn max_datagram_bytes(&mut self) -> Option<usize> {
        let queue_limit = self.datagrams.as_ref()?.max_datagram_bytes();
        Some(self.inner.datagrams().max_size()?.min(queue_limit))
    }

    fn datagram_budget(&mut self) -> usize {
        self.datagrams.as_ref().map_or(0, |datagrams| datagrams.free_bytes())
    }

    fn write(&mut self, stream: u64, data: Bytes) -> usize {
        let written = self.inner.send_stream(stream_id(stream)).write_chunks(&mut [data]);
        let bytes = written.map_or(0, |written| written.bytes);
        self.counters.written_bytes += bytes as u64;
        bytes
    }

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

    fn reset(&mut self, stream: u64) {
        self.reset_with_code(stream, 0);
    }

    fn stop(&mut self, stream: u64) {
        self.stop_with_code(stream, 0);
    }

    fn reset_with_code(&mut self, stream: u64, code: u64) {
        let _ = self.inner.send_stream(stream_id(stream)).reset(error_code(code));
    }

    fn stop_with_code(&mut self, stream: u64, code: u64) {
        let _ = self.inner.recv_stream(stream_id(stream)).stop(error_code(code));
    }

    fn peer_stop_code(&mut self, stream: u64) -> Option<u64> {
        self.inner.send_stream(stream_id(stream)).stopped().ok().flatten().map(VarInt::into_inner)
    }

    fn request_controller(
        &mut self,
        requested: Option<&RequestedController>,
    ) -> Result<Option<String>, String> {
        let Some(negotiated) = self.negotiated else { return Ok(None) };
        if let Some(wish) = requested
            && let Some(controller) = negotiated.build_requested(wish, self.mtu)?
        {
            *self.new_controller = Some(controller);
        }
        Ok(Some(negotiated.name.clone()))
    }

    fn is_early_data(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn on_link_up(&mut self) -> bool {
        *self.link_up = true;
        true
    }

    fn notify(&mut self, notification: AppNotification) {
        self.notifications.push(notification);
    }

    fn write_budget(&self) -> usize {
        self.write_budget
    }

    fn close(&mut self) {
        *self.closing = true;
    }

    fn close_now(&mut self) {
        *self.closing = true;
        *self.close_immediately = true;
    }

    fn close_with_code(&mut self, code: u64) {
        *self.close_code = error_code(code);
        self.close_now();
    }
}

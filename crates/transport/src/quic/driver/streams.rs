//! The stack's streams behind the boundary to applications.

use bytes::Bytes;
use cc::CongestionControl;

use super::datagram_queue::DatagramQueue;
use crate::perf_load::RequestedController;
use crate::quic::requested_controller::NegotiatedController;
use crate::quic::stack::{StackConnection, StreamDirection};
use crate::{AppNotification, FlowCounters, PeerStreams, ReadStatus, Streams};

/// The stack's streams as an application uses them.
pub(super) struct AppStreams<'a, C> {
    pub(super) inner: &'a mut C,
    pub(super) counters: &'a mut FlowCounters,
    pub(super) closing: &'a mut bool,
    pub(super) close_immediately: &'a mut bool,
    /// Error code of a close.
    pub(super) close_code: &'a mut u64,
    pub(super) write_budget: usize,
    /// The controller negotiation with the client, and the controller that it has selected last.
    pub(super) negotiated: &'a mut Option<NegotiatedController>,
    pub(super) new_controller: &'a mut Option<Box<dyn CongestionControl>>,
    pub(super) datagrams: Option<&'a mut DatagramQueue>,
    pub(super) notifications: &'a mut Vec<AppNotification>,
    /// The application has signalled that the link is up.
    pub(super) link_up: &'a mut bool,
    pub(super) mtu: u64,
}

/// Largest variable-length integer (RFC 9000 section 16).
const MAX_CODE: u64 = (1 << 62) - 1;

impl<C: StackConnection> Streams for AppStreams<'_, C> {
    fn open(&mut self) -> Option<u64> {
        self.inner.open(StreamDirection::Bi)
    }

    fn open_uni(&mut self) -> Option<u64> {
        self.inner.open(StreamDirection::Uni)
    }

    fn peer_uni_streams(&mut self) -> Option<PeerStreams> {
        Some(self.inner.peer_streams(StreamDirection::Uni))
    }

    fn set_max_uni_streams(&mut self, max: u16) {
        self.inner.set_max_peer_streams(StreamDirection::Uni, max.into());
    }

    fn set_priority(&mut self, stream: u64, priority: i32) -> bool {
        self.inner.set_priority(stream, priority)
    }

    fn send_datagram(&mut self, data: Bytes) -> bool {
        let taken = self.max_datagram_bytes().is_some_and(|max| data.len() <= max);
        if taken && let Some(datagrams) = &mut self.datagrams {
            datagrams.push(data);
        }
        taken
    }

    fn take_datagram(&mut self) -> Option<Bytes> {
        self.datagrams.is_some().then(|| self.inner.take_datagram())?
    }

    fn max_datagram_bytes(&mut self) -> Option<usize> {
        let queue_limit = self.datagrams.as_ref()?.max_datagram_bytes();
        Some(self.inner.max_datagram_bytes()?.min(queue_limit))
    }

    fn datagram_budget(&mut self) -> usize {
        self.datagrams.as_ref().map_or(0, |datagrams| datagrams.free_bytes())
    }

    fn write(&mut self, stream: u64, data: Bytes) -> usize {
        let bytes = self.inner.write(stream, data);
        self.counters.written_bytes += bytes as u64;
        bytes
    }

    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadStatus {
        self.inner.read(stream, take)
    }

    fn finish(&mut self, stream: u64) {
        self.inner.finish(stream);
    }

    fn reset(&mut self, stream: u64) {
        self.reset_with_code(stream, 0);
    }

    fn stop(&mut self, stream: u64) {
        self.stop_with_code(stream, 0);
    }

    fn reset_with_code(&mut self, stream: u64, code: u64) {
        self.inner.reset(stream, code);
    }

    fn stop_with_code(&mut self, stream: u64, code: u64) {
        self.inner.stop(stream, code);
    }

    fn peer_stop_code(&mut self, stream: u64) -> Option<u64> {
        self.inner.peer_stop_code(stream)
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
        *self.close_code = code.min(MAX_CODE);
        self.close_now();
    }
}

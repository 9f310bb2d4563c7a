//! A connection of the stack.

use std::net::SocketAddr;

use bytes::Bytes;
use quinn_proto::crypto::rustls::HandshakeData;
use quinn_proto::{
    ConnectionError, ConnectionEvent, EndpointEvent, Event, FrameStats, StreamEvent, VarInt,
};
use units::{Span, Time};

use super::streams::{error_code, from_dir};
use super::to_stack_transmit;
use crate::quic::clock::{Clock, span};
use crate::quic::stack::{ConnectionEnd, StackConnection, StackEvent, StackReport, StackTransmit};

/// A connection with its clock.
pub struct QuinnConnection {
    pub(super) inner: quinn_proto::Connection,
    pub(super) clock: Clock,
}

impl StackConnection for QuinnConnection {
    type Input = ConnectionEvent;
    type Output = EndpointEvent;

    fn remote(&self) -> SocketAddr {
        self.inner.remote_address()
    }

    #[inline]
    fn rtt(&self) -> Span {
        span(self.inner.rtt())
    }

    #[inline]
    fn min_rtt(&self) -> Span {
        span(self.inner.min_rtt())
    }

    #[inline]
    fn mtu(&self) -> u64 {
        u64::from(self.inner.current_mtu())
    }

    fn alpn(&self) -> Option<Vec<u8>> {
        let data = self.inner.crypto_session().handshake_data()?;
        data.downcast::<HandshakeData>().ok()?.protocol
    }

    #[inline]
    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    #[inline]
    fn has_early_data(&self) -> bool {
        self.inner.has_0rtt()
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    #[inline]
    fn is_drained(&self) -> bool {
        self.inner.is_drained()
    }

    fn report(&self) -> StackReport {
        let stats = self.inner.stats();
        StackReport {
            received_bytes: stats.udp_rx.bytes,
            is_peer_closed: stats.frame_rx.connection_close > 0,
            lost_packets: stats.path.lost_packets,
            lost_bytes: stats.path.lost_bytes,
            // The frames of every packet declared lost are retransmitted, once.
            retransmitted_bytes: Some(stats.path.lost_bytes),
        }
    }

    #[inline]
    fn ack_eliciting_frames(&self) -> u64 {
        count_ack_eliciting(&self.inner.stats().frame_tx)
    }

    #[inline]
    fn timer_at(&mut self) -> Option<Time> {
        self.inner.poll_timeout().map(|timeout| self.clock.time(timeout))
    }

    fn handle_timeout(&mut self, now: Time) {
        self.inner.handle_timeout(self.clock.instant(now));
    }

    #[inline]
    fn handle_input(&mut self, input: ConnectionEvent) {
        self.inner.handle_event(input);
    }

    #[inline]
    fn poll_event(&mut self) -> Option<StackEvent> {
        loop {
            return Some(match self.inner.poll()? {
                Event::Connected => StackEvent::Connected,
                Event::ConnectionLost { reason } => StackEvent::Ended(to_connection_end(reason)),
                Event::Stream(StreamEvent::Opened { dir }) => {
                    StackEvent::StreamsOpened(from_dir(dir))
                }
                Event::Stream(StreamEvent::Readable { id }) => StackEvent::Readable(id.into()),
                Event::Stream(StreamEvent::Finished { id }) => StackEvent::Finished(id.into()),
                Event::Stream(StreamEvent::Stopped { id, .. }) => StackEvent::Stopped(id.into()),
                Event::Stream(StreamEvent::Available { .. }) => StackEvent::StreamsAvailable,
                Event::DatagramReceived => StackEvent::DatagramsReceived,
                // The driver requests data when window and pacer allow it.
                Event::Stream(StreamEvent::Writable { .. })
                | Event::HandshakeDataReady
                | Event::DatagramsUnblocked => continue,
            });
        }
    }

    #[inline]
    fn poll_output(&mut self) -> Option<EndpointEvent> {
        self.inner.poll_endpoint_events()
    }

    #[inline]
    fn poll_transmit(
        &mut self,
        now: Time,
        max_packets: usize,
        buffer: &mut Vec<u8>,
    ) -> Option<StackTransmit> {
        let transmit = self.inner.poll_transmit(self.clock.instant(now), max_packets, buffer);
        transmit.map(to_stack_transmit)
    }

    fn ping(&mut self) {
        self.inner.ping();
    }

    fn close(&mut self, now: Time, code: u64, reason: Bytes) {
        self.inner.close(self.clock.instant(now), error_code(code), reason);
    }
}

/// Converts the stack's reason for the end of a connection.
fn to_connection_end(reason: ConnectionError) -> ConnectionEnd {
    let text = reason.to_string();
    match reason {
        ConnectionError::LocallyClosed => ConnectionEnd::Local,
        ConnectionError::ApplicationClosed(close) => {
            ConnectionEnd::PeerApplication(VarInt::into_inner(close.error_code), text)
        }
        ConnectionError::ConnectionClosed(_) => ConnectionEnd::PeerTransport(text),
        _ => ConnectionEnd::Lost(text),
    }
}

fn count_ack_eliciting(sent: &FrameStats) -> u64 {
    sent.ack_frequency
        + sent.crypto
        + sent.data_blocked
        + sent.datagram
        + u64::from(sent.handshake_done)
        + sent.immediate_ack
        + sent.max_data
        + sent.max_stream_data
        + sent.max_streams_bidi
        + sent.max_streams_uni
        + sent.new_connection_id
        + sent.new_token
        + sent.path_challenge
        + sent.path_response
        + sent.ping
        + sent.reset_stream
        + sent.retire_connection_id
        + sent.stop_sending
        + sent.stream
        + sent.stream_data_blocked
        + sent.streams_blocked_bidi
        + sent.streams_blocked_uni
}

//! One split TCP connection: two sockets, and a bounded buffer between them for each direction.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use units::Time;

use crate::tcp::{Segment, TcpConnection};
use crate::{Payload, Side};

/// Data that one socket has received and the other has not accepted.
#[derive(Default)]
struct RelayBuffer {
    chunks: VecDeque<Bytes>,
    bytes: u64,
    /// The end of the data, or a reset, was forwarded.
    end_forwarded: bool,
}

impl RelayBuffer {
    fn push(&mut self, chunk: Bytes) {
        self.bytes += chunk.len() as u64;
        self.chunks.push_back(chunk);
    }

    fn clear(&mut self) {
        self.chunks.clear();
        self.bytes = 0;
    }

    /// Writes bytes to `to` until its send buffer is full.
    fn flush(&mut self, to: &mut TcpConnection) {
        while let Some(chunk) = self.chunks.front_mut() {
            let taken = to.write(chunk.clone());
            self.bytes -= taken as u64;
            if taken < chunk.len() {
                chunk.advance(taken);
                return;
            }
            self.chunks.pop_front();
        }
    }

    /// Forwards data, end or reset from `from` to `to`. It reads no data while one more segment could exceed `limit`,
    /// so the advertised window of `from` closes.
    fn relay(&mut self, from: &mut TcpConnection, to: &mut TcpConnection, limit: BufferLimit) {
        if self.end_forwarded {
            return;
        }
        if from.is_aborted() {
            // Waiting data is lost with the connection, as without a proxy.
            self.end_forwarded = true;
            self.clear();
            to.reset();
            return;
        }
        self.flush(to);
        while self.bytes + limit.max_segment <= limit.max_bytes
            && let Some(chunk) = from.read()
        {
            self.push(chunk);
            self.flush(to);
        }
        if self.chunks.is_empty() && from.peer_finished() && from.readable() == 0 {
            self.end_forwarded = true;
            to.finish();
        }
    }
}

/// Limit of a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct BufferLimit {
    /// Maximum, bytes.
    pub max_bytes: u64,
    /// Largest segment, bytes: the most that one read returns.
    pub max_segment: u64,
}

/// A connection between a client and a server, as two TCP connections.
pub(super) struct Splice {
    client: TcpConnection,
    /// `None` until the opening message of a pooled connection has arrived.
    server: Option<TcpConnection>,
    to_client: RelayBuffer,
    to_server: RelayBuffer,
    /// Bytes of the opening message that have not arrived.
    header_left: usize,
    /// The SYN-ACK for the client waits for the onward handshake.
    syn_ack_held: bool,
    limit: BufferLimit,
    poll_at: Time,
}

impl Splice {
    /// Creates a splice from the client's connection, without an onward one. Its first `header_bytes` are for the
    /// proxy.
    pub fn new(
        client: TcpConnection,
        header_bytes: usize,
        syn_ack_held: bool,
        limit: BufferLimit,
    ) -> Splice {
        Splice {
            client,
            server: None,
            to_client: RelayBuffer::default(),
            to_server: RelayBuffer::default(),
            header_left: header_bytes,
            syn_ack_held,
            limit,
            poll_at: Time::ZERO,
        }
    }

    /// Returns the number of the connection in the flow.
    pub fn number(&self) -> u32 {
        self.client.number()
    }

    /// Returns the time of the next [`Splice::poll`].
    pub fn poll_at(&self) -> Time {
        self.poll_at
    }

    /// Passes a segment to the socket towards `side`.
    pub fn receive(&mut self, now: Time, side: Side, segment: Segment) {
        match (side, &mut self.server) {
            (Side::Client, _) => self.client.receive(now, segment),
            (Side::Server, Some(server)) => server.receive(now, segment),
            (Side::Server, None) => {}
        }
    }

    /// Runs the timers that are due.
    pub fn poll(&mut self, now: Time) {
        for socket in [Some(&mut self.client), self.server.as_mut()].into_iter().flatten() {
            if socket.poll_at() <= now {
                socket.poll(now);
            }
        }
    }

    /// Returns whether to open the onward connection now: an expected opening message has arrived.
    pub fn needs_onward(&mut self) -> bool {
        while self.header_left > 0
            && let Some(mut chunk) = self.client.read()
        {
            let header = self.header_left.min(chunk.len());
            self.header_left -= header;
            chunk.advance(header);
            if !chunk.is_empty() {
                self.to_server.push(chunk);
            }
        }
        self.header_left == 0 && self.server.is_none() && !self.client.is_aborted()
    }

    /// Sets the onward connection.
    pub fn set_onward(&mut self, server: TcpConnection) {
        self.server = Some(server);
    }

    /// Forwards data, ends and resets, and sends segments. Returns whether all sockets are closed.
    pub fn relay(&mut self, now: Time, out: &mut [Vec<Payload>; 2]) -> bool {
        let Splice { client, server, to_client, to_server, limit, .. } = self;
        let (mut closed, mut wake_at) = (true, Time::MAX);
        if let Some(server) = server {
            to_server.relay(client, server, *limit);
            to_client.relay(server, client, *limit);
            if self.syn_ack_held && server.is_established() {
                self.syn_ack_held = false;
                client.release_syn_ack();
            }
            server.transmit(now, &mut out[1]);
            server.update_app_limited(to_server.bytes > 0);
            wake_at = server.poll_at();
            closed = server.is_closed();
        }
        client.transmit(now, &mut out[0]);
        client.update_app_limited(to_client.bytes > 0);
        self.poll_at = wake_at.min(client.poll_at());
        closed && client.is_closed()
    }

    /// Returns the socket towards `side`.
    pub fn socket(&self, side: Side) -> Option<&TcpConnection> {
        match side {
            Side::Client => Some(&self.client),
            Side::Server => self.server.as_ref(),
        }
    }

    /// Returns the bytes that wait for the socket towards `side`.
    pub fn waiting_bytes(&self, side: Side) -> u64 {
        match side {
            Side::Client => self.to_client.bytes,
            Side::Server => self.to_server.bytes,
        }
    }
}

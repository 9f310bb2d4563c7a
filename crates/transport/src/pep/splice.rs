//! One TCP connection that is split: two sockets, and between them a bounded buffer for each
//! direction.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use units::Time;

use crate::tcp::{Connection, Segment};
use crate::{Payload, Side};

/// What one socket has received and the other has not taken.
#[derive(Default)]
struct Buffer {
    chunks: VecDeque<Bytes>,
    bytes: u64,
    /// The end of the data, or a reset, has been passed on.
    ended: bool,
}

impl Buffer {
    fn push(&mut self, chunk: Bytes) {
        self.bytes += chunk.len() as u64;
        self.chunks.push_back(chunk);
    }

    fn clear(&mut self) {
        self.chunks.clear();
        self.bytes = 0;
    }

    /// Hands bytes to `to` as far as its send buffer takes them.
    fn flush(&mut self, to: &mut Connection) {
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

    /// Passes on what `from` has received, its end or its reset. Nothing is read while a segment more
    /// could exceed `bound`, so the window that `from` advertises closes.
    fn pass(&mut self, from: &mut Connection, to: &mut Connection, room: Room) {
        if self.ended {
            return;
        }
        if from.is_aborted() {
            // What waits is lost with the connection, as from end to end.
            self.ended = true;
            self.clear();
            to.reset();
            return;
        }
        self.flush(to);
        while self.bytes + room.largest <= room.bound
            && let Some(chunk) = from.read()
        {
            self.push(chunk);
            self.flush(to);
        }
        if self.chunks.is_empty() && from.peer_finished() && from.readable() == 0 {
            self.ended = true;
            to.finish();
        }
    }
}

/// How much a buffer holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Most bytes.
    pub bound: u64,
    /// Largest segment: what one read can bring.
    pub largest: u64,
}

/// A connection between a client and a server, in two pieces.
pub(super) struct Splice {
    client: Connection,
    /// None while the opening message of a connection out of a pool has not come.
    server: Option<Connection>,
    to_client: Buffer,
    to_server: Buffer,
    /// Bytes of the opening message still to come.
    header_left: usize,
    /// The answer to the client's SYN waits for the onward handshake.
    held: bool,
    room: Room,
    wake_at: Time,
}

impl Splice {
    /// A connection from the client's side; nothing leads on yet. Its first `header_bytes` are for the
    /// proxy.
    pub fn new(client: Connection, header_bytes: usize, held: bool, room: Room) -> Splice {
        Splice {
            client,
            server: None,
            to_client: Buffer::default(),
            to_server: Buffer::default(),
            header_left: header_bytes,
            held,
            room,
            wake_at: Time::ZERO,
        }
    }

    /// Which connection of the flow this is.
    pub fn number(&self) -> u32 {
        self.client.number()
    }

    /// When [`Splice::tick`] is due.
    pub fn wake_at(&self) -> Time {
        self.wake_at
    }

    /// A segment came for the socket towards `side`.
    pub fn receive(&mut self, now: Time, side: Side, segment: Segment) {
        match (side, &mut self.server) {
            (Side::Client, _) => self.client.receive(now, segment),
            (Side::Server, Some(server)) => server.receive(now, segment),
            (Side::Server, None) => {}
        }
    }

    /// Lets the timers due run.
    pub fn tick(&mut self, now: Time) {
        for socket in [Some(&mut self.client), self.server.as_mut()].into_iter().flatten() {
            if socket.wake_at() <= now {
                socket.tick(now);
            }
        }
    }

    /// Whether the way on is to be opened now: the opening message, if one is expected, has come.
    pub fn wants_onward(&mut self) -> bool {
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

    /// The way on.
    pub fn go_on(&mut self, server: Connection) {
        self.server = Some(server);
    }

    /// Passes data, ends and resets on and sends what may be sent; whether all sockets are closed.
    pub fn settle(&mut self, now: Time, out: &mut [Vec<Payload>; 2]) -> bool {
        let Splice { client, server, to_client, to_server, room, .. } = self;
        let (mut closed, mut wake_at) = (true, Time::MAX);
        if let Some(server) = server {
            to_server.pass(client, server, *room);
            to_client.pass(server, client, *room);
            if self.held && server.is_established() {
                self.held = false;
                client.answer();
            }
            server.transmit(now, &mut out[1]);
            server.ran_dry(to_server.bytes > 0);
            wake_at = server.wake_at();
            closed = server.is_closed();
        }
        client.transmit(now, &mut out[0]);
        client.ran_dry(to_client.bytes > 0);
        self.wake_at = wake_at.min(client.wake_at());
        closed && client.is_closed()
    }

    /// The socket towards `side`.
    pub fn socket(&self, side: Side) -> Option<&Connection> {
        match side {
            Side::Client => Some(&self.client),
            Side::Server => self.server.as_ref(),
        }
    }

    /// Bytes that wait for the socket towards `side`.
    pub fn waiting_bytes(&self, side: Side) -> u64 {
        match side {
            Side::Client => self.to_client.bytes,
            Side::Server => self.to_server.bytes,
        }
    }
}

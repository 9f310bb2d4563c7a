//! Datagrams (RFC 9221) that wait for window and pacer.
//!
//! They wait here and not in the stack, which sends no pure ACK while it holds data that the window keeps back: two
//! sides that both send more than fits would wait for each other. The stack is given what may leave at once.

use std::collections::VecDeque;

use bytes::Bytes;
use quinn_proto::{SendDatagramError, VarInt};

/// What a place in a queue takes, here and in the stack.
const PLACE: usize = size_of::<Bytes>();

/// Type and length before a datagram, at the most (RFC 9221 section 4).
const HEAD: usize = 1 + VarInt::MAX_SIZE;

/// A queue of bounded size, of which the oldest go.
#[derive(Debug)]
pub(super) struct Datagrams {
    queue: VecDeque<Bytes>,
    /// What the queue takes, and at most.
    used: usize,
    most: usize,
    given: u64,
    /// Room of the stack's queue when it is empty.
    room: Option<usize>,
}

impl Datagrams {
    pub(super) fn new(most: usize) -> Datagrams {
        Datagrams { queue: VecDeque::new(), used: 0, most, given: 0, room: None }
    }

    /// The largest that has a place here.
    pub(super) fn largest(&self) -> usize {
        self.most.saturating_sub(PLACE)
    }

    /// Bytes that still have a place, with what a place takes.
    pub(super) fn room(&self) -> usize {
        self.most.saturating_sub(self.used)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes a datagram that is no larger than [`Datagrams::largest`].
    pub(super) fn push(&mut self, data: Bytes) {
        let size = data.len() + PLACE;
        while self.used + size > self.most && self.pop().is_some() {}
        self.used += size;
        self.queue.push_back(data);
    }

    fn pop(&mut self) -> Option<Bytes> {
        let data = self.queue.pop_front()?;
        self.used -= data.len() + PLACE;
        Some(data)
    }

    /// Gives the stack as many as fill `packets` with room for `bytes` each, if it has none left.
    pub(super) fn give(&mut self, stack: &mut quinn_proto::Connection, packets: u64, bytes: usize) {
        let mut stack = stack.datagrams();
        let space = stack.send_buffer_space();
        if self.queue.is_empty() || space < *self.room.get_or_insert(space) {
            return;
        }
        let (mut begun, mut left) = (0, 0);
        self.given = 0;
        while let Some(size) = self.queue.front().map(|data| data.len() + HEAD) {
            if size > left {
                // One that is larger than that has a packet to itself.
                if begun == packets {
                    break;
                }
                begun += 1;
                left = bytes.max(size);
            }
            left -= size;
            let Some(data) = self.pop() else { break };
            let length = data.len() as u64;
            match stack.send(data, false) {
                Ok(()) => self.given += length,
                Err(SendDatagramError::Blocked(data)) => {
                    self.used += data.len() + PLACE;
                    self.queue.push_front(data);
                    break;
                }
                // Packets have become smaller since: it is lost.
                Err(_) => {}
            }
        }
    }

    /// Bytes that the stack was given and has not sent.
    pub(super) fn given(&self) -> u64 {
        self.given
    }

    /// How many of `bytes` that have left were of datagrams, which leave before data of streams.
    pub(super) fn sent(&mut self, bytes: u64) -> u64 {
        let own = bytes.min(self.given);
        self.given -= own;
        own
    }
}

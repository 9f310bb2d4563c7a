//! Datagrams (RFC 9221) that wait for window and pacer.
//!
//! They wait outside the stack, which sends no pure ACK while the window blocks its data. Two sides that both send more
//! than fits would wait for each other. The stack gets only datagrams that may be sent at once.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::quic::stack::{DatagramRejection, StackStreams};

/// Memory of a queue entry, here and in the stack.
const ENTRY_BYTES: usize = size_of::<Bytes>();

/// Maximum of type and length before a datagram (RFC 9221 section 4).
const MAX_FRAME_HEADER: usize = 1 + 8;

/// A bounded queue that drops its oldest datagrams.
#[derive(Debug)]
pub(super) struct DatagramQueue {
    queue: VecDeque<Bytes>,
    /// Used and maximum bytes of the queue.
    used_bytes: usize,
    max_bytes: usize,
    handed_over: u64,
    /// Free bytes of the stack's queue when it is empty.
    stack_space: Option<usize>,
}

impl DatagramQueue {
    pub(super) fn new(max_bytes: usize) -> DatagramQueue {
        DatagramQueue {
            queue: VecDeque::new(),
            used_bytes: 0,
            max_bytes,
            handed_over: 0,
            stack_space: None,
        }
    }

    /// Returns the largest datagram that fits into the queue.
    pub(super) fn max_datagram_bytes(&self) -> usize {
        self.max_bytes.saturating_sub(ENTRY_BYTES)
    }

    /// Returns the free bytes, of which each entry needs [`ENTRY_BYTES`].
    pub(super) fn free_bytes(&self) -> usize {
        self.max_bytes.saturating_sub(self.used_bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Appends a datagram of at most [`DatagramQueue::max_datagram_bytes`].
    pub(super) fn push(&mut self, data: Bytes) {
        let size = data.len() + ENTRY_BYTES;
        while self.used_bytes + size > self.max_bytes && self.pop().is_some() {}
        self.used_bytes += size;
        self.queue.push_back(data);
    }

    fn pop(&mut self) -> Option<Bytes> {
        let data = self.queue.pop_front()?;
        self.used_bytes -= data.len() + ENTRY_BYTES;
        Some(data)
    }

    /// Gives the stack datagrams for `packets` packets of `bytes` each, if its queue is empty.
    pub(super) fn fill_stack(&mut self, stack: &mut impl StackStreams, packets: u64, bytes: usize) {
        let space = stack.datagram_space();
        if self.queue.is_empty() || space < *self.stack_space.get_or_insert(space) {
            return;
        }
        let (mut begun, mut left) = (0, 0);
        self.handed_over = 0;
        while let Some(size) = self.queue.front().map(|data| data.len() + MAX_FRAME_HEADER) {
            if size > left {
                // A larger datagram gets a separate packet.
                if begun == packets {
                    break;
                }
                begun += 1;
                left = bytes.max(size);
            }
            left -= size;
            let Some(data) = self.pop() else { break };
            let length = data.len() as u64;
            match stack.send_datagram(data) {
                Ok(()) => self.handed_over += length,
                Err(DatagramRejection::Full(data)) => {
                    self.used_bytes += data.len() + ENTRY_BYTES;
                    self.queue.push_front(data);
                    break;
                }
                // The packet size has shrunk since: the datagram is lost.
                Err(DatagramRejection::Unsendable) => {}
            }
        }
    }

    /// Returns the bytes that the stack has and has not sent.
    pub(super) fn handed_over_bytes(&self) -> u64 {
        self.handed_over
    }

    /// Returns the datagram share of `bytes` that were sent: datagrams precede stream data.
    pub(super) fn take_sent(&mut self, bytes: u64) -> u64 {
        let datagram_bytes = bytes.min(self.handed_over);
        self.handed_over -= datagram_bytes;
        datagram_bytes
    }
}

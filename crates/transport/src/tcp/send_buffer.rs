//! Data that was written and is not acknowledged: slices, not copies.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// The send buffer. Offsets count stream bytes from 0.
#[derive(Debug)]
pub(super) struct SendBuffer {
    /// Chunks with the offset of their first byte.
    chunks: VecDeque<(u64, Bytes)>,
    acked: u64,
    written: u64,
    limit: u64,
}

impl SendBuffer {
    pub(super) fn new(limit: u64) -> SendBuffer {
        SendBuffer { chunks: VecDeque::new(), acked: 0, written: 0, limit }
    }

    /// Returns the offset after the last byte written.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Returns the bytes that may still be written.
    pub(super) fn free_bytes(&self) -> u64 {
        self.limit.saturating_sub(self.written - self.acked)
    }

    /// Accepts `data` up to the free bytes. Returns the number of accepted bytes.
    pub(super) fn write(&mut self, mut data: Bytes) -> usize {
        let taken = (data.len() as u64).min(self.free_bytes()) as usize;
        if taken > 0 {
            data.truncate(taken);
            self.chunks.push_back((self.written, data));
            self.written += taken as u64;
        }
        taken
    }

    /// Acknowledges everything before `offset`.
    pub(super) fn acknowledge(&mut self, offset: u64) {
        self.acked = offset.min(self.written);
        while self
            .chunks
            .front()
            .is_some_and(|(start, data)| start + data.len() as u64 <= self.acked)
        {
            self.chunks.pop_front();
        }
    }

    /// Returns `length` bytes from `offset` on, which must be written and not acknowledged. Copies only if two writes
    /// meet.
    pub(super) fn slice(&self, offset: u64, length: usize) -> Bytes {
        if length == 0 {
            return Bytes::new();
        }
        let last = self.chunks.len() - 1;
        let mut index = last;
        if self.chunks[last].0 > offset {
            index = self.chunks.partition_point(|(start, _)| *start <= offset) - 1;
        }
        let (start, data) = &self.chunks[index];
        let from = (offset - start) as usize;
        if from + length <= data.len() {
            return data.slice(from..from + length);
        }
        let mut joined = BytesMut::with_capacity(length);
        joined.extend_from_slice(&data[from..]);
        while joined.len() < length {
            index += 1;
            let data = &self.chunks[index].1;
            joined.extend_from_slice(&data[..data.len().min(length - joined.len())]);
        }
        joined.freeze()
    }
}

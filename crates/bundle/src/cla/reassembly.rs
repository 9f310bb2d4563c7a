//! Received bytes: the sequence of a stream, their buffers, the reassembly of bundles and the quota for them. Each byte
//! is copied once into its final buffer, and zeros are counted without a copy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::{Bytes, BytesMut};

use crate::{ZEROS, zeros};

/// The minimum length of a zero run to be counted: a chunk has an overhead of some 40 bytes.
const MIN_ZERO_RUN: usize = 256;

/// The first and the largest allocation. The operating system maps and clears a large block for each allocation.
const INITIAL_CHUNK_BYTES: usize = 2 << 10;
const MAX_CHUNK_BYTES: usize = 64 << 10;

/// A quota for incoming bundles on all connections of a node, in addition to the quota of each connection.
#[derive(Clone, Debug)]
pub struct SharedByteQuota(Arc<AtomicI64>);

impl SharedByteQuota {
    /// Builds a quota of `bytes`.
    pub fn new(bytes: u64) -> SharedByteQuota {
        SharedByteQuota(Arc::new(AtomicI64::new(bytes as i64)))
    }

    /// Returns the available bytes.
    pub fn available(&self) -> u64 {
        self.0.load(Ordering::Relaxed).max(0) as u64
    }

    fn reserve(&self, bytes: u64) -> bool {
        let less = |left: i64| (left >= bytes as i64).then(|| left - bytes as i64);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn release(&self, bytes: u64) {
        self.0.fetch_add(bytes as i64, Ordering::Relaxed);
    }
}

impl PartialEq for SharedByteQuota {
    fn eq(&self, other: &SharedByteQuota) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedByteQuota {}

/// The quota for incoming bundles of a connection.
#[derive(Debug)]
pub(super) struct ByteQuota {
    used: u64,
    limit: u64,
    shared: Option<SharedByteQuota>,
}

impl ByteQuota {
    pub fn new(limit: u64, shared: Option<SharedByteQuota>) -> ByteQuota {
        ByteQuota { used: 0, limit, shared }
    }

    /// Reserves `bytes` if they are available.
    pub fn reserve(&mut self, bytes: u64) -> bool {
        if self.used + bytes > self.limit
            || !self.shared.as_ref().is_none_or(|all| all.reserve(bytes))
        {
            return false;
        }
        self.used += bytes;
        true
    }

    /// Reserves `bytes` even beyond the limit.
    pub fn force_reserve(&mut self, bytes: u64) {
        self.used += bytes;
        if let Some(all) = &self.shared {
            all.0.fetch_sub(bytes as i64, Ordering::Relaxed);
        }
    }

    pub fn is_exceeded(&self) -> bool {
        let all = self.shared.as_ref().is_some_and(|all| all.0.load(Ordering::Relaxed) < 0);
        self.used > self.limit || all
    }

    pub fn release(&mut self, bytes: u64) {
        self.used -= bytes;
        if let Some(all) = &self.shared {
            all.release(bytes);
        }
    }
}

impl Drop for ByteQuota {
    fn drop(&mut self) {
        self.release(self.used);
    }
}

/// A partially received bundle. Memory use follows the received bytes, independently of the announced length.
#[derive(Debug)]
pub(super) struct BundleReassembly {
    chunks: ByteChunks,
    total: Option<u64>,
}

impl BundleReassembly {
    /// Starts a bundle of `total` bytes, if known.
    pub fn new(total: Option<u64>) -> BundleReassembly {
        BundleReassembly { chunks: ByteChunks::default(), total }
    }

    /// Returns the number of received bytes.
    pub fn len(&self) -> u64 {
        self.chunks.bytes()
    }

    /// Returns the length of the bundle, if known.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Appends received bytes. Returns whether the quota permits it.
    pub fn push(&mut self, data: &[u8], quota: &mut ByteQuota) -> bool {
        if !quota.reserve(data.len() as u64) {
            return false;
        }
        let after = self.len() + data.len() as u64;
        self.chunks.push(data, self.total.map(|total| total.saturating_sub(after)));
        true
    }

    /// Releases the quota and returns the bundle.
    pub fn finish(self, quota: &mut ByteQuota) -> Vec<Bytes> {
        quota.release(self.len());
        self.chunks.into_chunks()
    }
}

/// The receive buffer of a stream, which converts received chunks into bytes in stream sequence. Flow control of the
/// transport limits the buffered bytes after a gap.
#[derive(Debug, Default)]
pub(super) struct InOrderBuffer {
    next_offset: u64,
    /// Chunks after the gap, by offset.
    out_of_order: BTreeMap<u64, Bytes>,
}

impl InOrderBuffer {
    /// Adds a chunk and passes contiguous bytes to `sink`.
    pub fn push(&mut self, offset: u64, data: &[u8], sink: &mut dyn FnMut(&[u8])) {
        if offset > self.next_offset {
            let known = self.out_of_order.get(&offset).map_or(0, Bytes::len);
            if known < data.len() {
                self.out_of_order.insert(offset, copy_chunk(data));
            }
            return;
        }
        self.deliver(offset, data, sink);
        while let Some(piece) = self.out_of_order.first_entry() {
            if *piece.key() > self.next_offset {
                break;
            }
            let (offset, data) = piece.remove_entry();
            self.deliver(offset, &data, sink);
        }
    }

    fn deliver(&mut self, offset: u64, data: &[u8], sink: &mut dyn FnMut(&[u8])) {
        let known = (self.next_offset - offset) as usize;
        if let Some(fresh) = data.get(known..).filter(|fresh| !fresh.is_empty()) {
            self.next_offset += fresh.len() as u64;
            sink(fresh);
        }
    }
}

fn is_zero_run(data: &[u8]) -> bool {
    // The comparison with an array compiles to a memcmp with the widest registers.
    data.len() >= MIN_ZERO_RUN
        && data.chunks(ZEROS.len()).all(|piece| *piece == ZEROS[..piece.len()])
}

/// Copies `data` into a chunk.
pub(crate) fn copy_chunk(data: &[u8]) -> Bytes {
    if data.len() <= ZEROS.len() && is_zero_run(data) {
        return Bytes::from_static(&ZEROS[..data.len()]);
    }
    Bytes::copy_from_slice(data)
}

/// A sequence of chunks. Memory use follows the received bytes.
#[derive(Debug, Default)]
pub(crate) struct ByteChunks {
    chunks: Vec<Bytes>,
    /// The zeros after these chunks.
    pending_zeros: u64,
    /// The bytes after the zeros.
    tail: BytesMut,
    bytes: u64,
    /// The number of copied bytes.
    copied_bytes: usize,
}

impl ByteChunks {
    /// Returns the number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends data. At most `more` bytes follow, if known.
    pub fn push(&mut self, mut data: &[u8], more: Option<u64>) {
        self.bytes += data.len() as u64;
        if is_zero_run(data) {
            self.freeze_tail();
            self.pending_zeros += data.len() as u64;
            return;
        }
        self.chunks.extend(zeros(std::mem::take(&mut self.pending_zeros)));
        self.copied_bytes += data.len();
        while !data.is_empty() {
            if self.tail.len() == self.tail.capacity() {
                self.freeze_tail();
                let needed =
                    more.map_or(usize::MAX, |more| data.len().saturating_add(more as usize));
                self.tail = BytesMut::with_capacity(
                    self.copied_bytes.clamp(INITIAL_CHUNK_BYTES, MAX_CHUNK_BYTES).min(needed),
                );
            }
            let free = self.tail.capacity() - self.tail.len();
            let (now, later) = data.split_at(data.len().min(free));
            self.tail.extend_from_slice(now);
            data = later;
        }
    }

    fn freeze_tail(&mut self) {
        if !self.tail.is_empty() {
            self.chunks.push(self.tail.split().freeze());
        }
    }

    /// Returns all bytes in chunks.
    pub fn into_chunks(mut self) -> Vec<Bytes> {
        self.freeze_tail();
        self.chunks.extend(zeros(self.pending_zeros));
        self.chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_in_any_order_are_delivered_in_order() {
        let all: Vec<u8> = (0..100).collect();
        let mut inflow = InOrderBuffer::default();
        let mut out = Vec::new();
        for (start, end) in
            [(10, 20), (0, 10), (40, 60), (30, 40), (30, 35), (15, 30), (60, 61), (50, 100)]
        {
            inflow.push(start, &all[start as usize..end], &mut |data| out.extend_from_slice(data));
        }
        assert_eq!(out, all);
        assert!(inflow.out_of_order.is_empty());
    }

    #[test]
    fn chunks_return_the_input_and_zeros_use_no_memory() {
        for length in [1, 100, 255, 256, 1_200, 70_000] {
            for gap in [1, 3, 4_000] {
                let mut pieces = ByteChunks::default();
                let mut whole: Vec<u8> = Vec::new();
                for number in 0..300u64 {
                    let mut piece = vec![0; length];
                    if number % gap == 0 {
                        piece[length / 2] = number as u8 | 1;
                    }
                    pieces.push(&piece, None);
                    whole.extend_from_slice(&piece);
                }
                assert_eq!(pieces.bytes(), whole.len() as u64);
                let parts = pieces.into_chunks();
                assert!(parts.iter().all(|part| !part.is_empty()));
                assert_eq!(parts.concat(), whole, "{length} {gap}");
                let zeros = ZEROS.as_ptr_range();
                let nonzero = parts.iter().filter(|part| !zeros.contains(&part.as_ptr()));
                let nonzero_bytes: usize = nonzero.map(Bytes::len).sum();
                if length >= MIN_ZERO_RUN {
                    assert_eq!(
                        nonzero_bytes,
                        length * 300usize.div_ceil(gap as usize),
                        "{length} {gap}"
                    );
                }
            }
        }
    }

    #[test]
    fn allocations_do_not_exceed_the_remaining_length() {
        let mut pieces = ByteChunks::default();
        for _ in 0..100 {
            pieces.push(&[7; 1_000], Some(0));
            assert_eq!(pieces.tail.capacity() - pieces.tail.len(), 0);
        }
        assert_eq!(pieces.into_chunks().concat(), [7; 100_000]);
    }
}

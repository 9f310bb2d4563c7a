//! Buffers of received bytes. Each byte is copied once into its final buffer, and zeros are counted without a copy.

use bytes::{Bytes, BytesMut};

/// The shared source of all zero chunks, which need no further memory. Its size fits the processor cache while a
/// transport copies it into packets.
static ZEROS: [u8; 32 << 10] = [0; 32 << 10];

/// The minimum length of a zero run to be counted: a chunk has an overhead of some 40 bytes.
const MIN_ZERO_RUN: usize = 256;

/// The first and the largest allocation. The operating system maps and clears a large block for each allocation.
const INITIAL_CHUNK_BYTES: usize = 2 << 10;
const MAX_CHUNK_BYTES: usize = 64 << 10;

/// Returns `bytes` zeros in chunks.
pub(crate) fn zeros(bytes: u64) -> impl Iterator<Item = Bytes> {
    let whole = ZEROS.len() as u64;
    let rest = (bytes % whole) as usize;
    let wholes = (0..bytes / whole).map(|_| Bytes::from_static(&ZEROS));
    wholes.chain((rest > 0).then(|| Bytes::from_static(&ZEROS[..rest])))
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
                let own = parts.iter().filter(|part| !zeros.contains(&part.as_ptr()));
                let own: usize = own.map(Bytes::len).sum();
                if length >= MIN_ZERO_RUN {
                    assert_eq!(own, length * 300usize.div_ceil(gap as usize), "{length} {gap}");
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

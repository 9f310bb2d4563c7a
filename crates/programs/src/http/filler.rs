//! Bodies of exact size that browsers accept as their type and that do not compress.

use bytes::Bytes;
use units::RandomStream;

/// The length of the filler text in bytes. The text repeats at a distance beyond the default windows of gzip and
/// brotli.
const PERIOD: usize = 1 << 20;

/// The maximum of bytes per piece of a body.
const PIECE: usize = 1 << 16;

/// An image of one pixel (PNG, third edition): signature and IHDR, IDAT, IEND. A private ancillary chunk between them
/// holds the filler.
const PNG_HEAD: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
const PNG_TAIL: &[u8] =
    b"\0\0\0\rIDATx\xdac0N\x9b\xf9\x1f\0\x044\x022\x84s\x18\xf0\0\0\0\0IEND\xaeB`\x82";

/// Bytes of length, type and CRC of a chunk.
const CHUNK: usize = 12;

/// Private, ancillary, safe to copy (PNG section 5.4).
const CHUNK_TYPE: &[u8; 4] = b"biLl";

/// The maximum length of a chunk in bytes (PNG section 5.3).
const LARGEST_CHUNK: u64 = (1 << 31) - 1;

/// A GIF of one pixel; decoders ignore bytes after its trailer.
const GIF: &[u8] =
    b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";

/// The length of the shortest image in bytes.
pub(super) const MIN_PICTURE_BYTES: u64 = GIF.len() as u64;

/// Random alphanumeric characters for comments and ignored chunks.
#[derive(Clone, Debug)]
pub struct BodyFiller(Bytes);

impl Default for BodyFiller {
    fn default() -> BodyFiller {
        BodyFiller::new()
    }
}

impl BodyFiller {
    /// Creates the filler text.
    pub fn new() -> BodyFiller {
        const ALPHABET: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.";
        let mut text = vec![0; PERIOD];
        RandomStream::named(0, "page server", "filler").fill(&mut text);
        for byte in &mut text {
            *byte = ALPHABET[usize::from(*byte & 63)];
        }
        BodyFiller(text.into())
    }

    /// Returns `length` bytes of filler in pieces.
    pub fn pieces(&self, length: u64) -> impl Iterator<Item = Bytes> {
        let text = self.0.clone();
        let mut done = 0;
        std::iter::from_fn(move || {
            let start = (done % PERIOD as u64) as usize;
            let size = (length - done).min(PIECE as u64) as usize;
            done += size as u64;
            (size > 0).then(|| text.slice(start..start + size))
        })
    }

    /// Returns `head`, filler and `tail`, in total `length` bytes. `None` if `head` and `tail` alone are longer.
    pub(super) fn between(&self, head: &[u8], tail: &[u8], length: u64) -> Option<Vec<Bytes>> {
        let rest = length.checked_sub((head.len() + tail.len()) as u64)?;
        let mut body = vec![Bytes::copy_from_slice(head)];
        body.extend(self.pieces(rest));
        body.push(Bytes::copy_from_slice(tail));
        body.retain(|piece| !piece.is_empty());
        Some(body)
    }

    /// Returns an image of `length` bytes and its type. `None` if no image is that short.
    pub(super) fn picture(&self, length: u64) -> Option<(&'static str, Vec<Bytes>)> {
        let min_bytes = (PNG_HEAD.len() + PNG_TAIL.len()) as u64;
        if length == min_bytes {
            return Some(("image/png", self.between(PNG_HEAD, PNG_TAIL, length)?));
        }
        if length < min_bytes + CHUNK as u64 {
            return Some(("image/gif", self.between(GIF, b"", length)?));
        }
        let mut body = vec![Bytes::from_static(PNG_HEAD)];
        let mut rest = length - min_bytes;
        while rest > 0 {
            // The rest must not be shorter than a chunk.
            let mut size = rest.min(LARGEST_CHUNK);
            if rest - size > 0 && rest - size < CHUNK as u64 {
                size -= CHUNK as u64;
            }
            rest -= size;
            let data = size - CHUNK as u64;
            let mut head = (data as u32).to_be_bytes().to_vec();
            head.extend_from_slice(CHUNK_TYPE);
            let mut crc = crc32fast::Hasher::new();
            crc.update(CHUNK_TYPE);
            body.push(head.into());
            for piece in self.pieces(data) {
                crc.update(&piece);
                body.push(piece);
            }
            body.push(Bytes::copy_from_slice(&crc.finalize().to_be_bytes()));
        }
        body.push(Bytes::from_static(PNG_TAIL));
        Some(("image/png", body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_any_length_is_complete() {
        let filler = BodyFiller::new();
        assert!(filler.picture(MIN_PICTURE_BYTES - 1).is_none());
        for length in (MIN_PICTURE_BYTES..400).chain([5_300_000, 1 << 20]) {
            let (kind, body) = filler.picture(length).unwrap();
            let body: Vec<u8> = body.concat();
            assert_eq!(body.len() as u64, length);
            if kind == "image/gif" {
                assert!(body.starts_with(GIF));
                continue;
            }
            let mut rest = &body[8..];
            let mut kinds = Vec::new();
            while !rest.is_empty() {
                let data = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
                let (chunk, crc) = rest[4..data + CHUNK].split_at(data + 4);
                assert_eq!(crc32fast::hash(chunk).to_be_bytes(), crc);
                kinds.push(chunk[..4].to_vec());
                rest = &rest[data + CHUNK..];
            }
            assert_eq!(kinds.first().unwrap(), b"IHDR");
            assert_eq!(kinds.last().unwrap(), b"IEND");
        }
    }

    #[test]
    fn filler_repeats_only_after_its_period() {
        let body: Vec<u8> = BodyFiller::new().pieces(3 << 20).collect::<Vec<_>>().concat();
        assert_eq!(body.len(), 3 << 20);
        assert_eq!(body[..PERIOD], body[PERIOD..2 * PERIOD]);
        assert!(body.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'*' && *byte != b'-'));
    }
}

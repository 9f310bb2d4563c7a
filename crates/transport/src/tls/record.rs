//! TLS records (RFC 8446 section 5, RFC 5246 section 6.2): a header of 5 bytes, at most 2^14 bytes of content, and the
//! AES-128-GCM bytes. No data is encrypted.

/// Content type of a record: its first byte.
pub(crate) mod content {
    pub const CHANGE_CIPHER_SPEC: u8 = 20;
    pub const ALERT: u8 = 21;
    pub const HANDSHAKE: u8 = 22;
    pub const DATA: u8 = 23;
}

/// Length of a record header.
pub(crate) const HEADER_BYTES: usize = 5;
/// Maximum content of a record (RFC 8446 section 5.1, RFC 5246 section 6.2.1).
const MAX_PLAINTEXT_BYTES: usize = 1 << 14;
/// Authentication tag of AES-GCM (RFC 5116 section 5.1).
const TAG_BYTES: usize = 16;
/// Explicit part of the nonce, TLS 1.2 only (RFC 5288 section 3).
const NONCE_BYTES: usize = 8;

/// The protection of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    None,
    /// TLS 1.2: nonce and tag.
    Tls12,
    /// TLS 1.3: the inner content type and a tag. The outer type is always application data.
    Tls13,
}

/// Returns the bytes that header and protection add to a record.
pub(crate) fn overhead(protection: Protection) -> usize {
    HEADER_BYTES
        + match protection {
            Protection::None => 0,
            Protection::Tls12 => NONCE_BYTES + TAG_BYTES,
            Protection::Tls13 => 1 + TAG_BYTES,
        }
}

/// Appends `plain` in the minimum number of records.
pub(crate) fn seal(out: &mut Vec<u8>, protection: Protection, content: u8, plain: &[u8]) {
    for fragment in plain.chunks(MAX_PLAINTEXT_BYTES) {
        let length = (fragment.len() + overhead(protection) - HEADER_BYTES) as u16;
        let outer = if protection == Protection::Tls13 { content::DATA } else { content };
        // The version on the wire is 1.2, in TLS 1.3 as well (RFC 8446 section 5.1).
        out.extend_from_slice(&[outer, 3, 3]);
        out.extend_from_slice(&length.to_be_bytes());
        match protection {
            Protection::None => out.extend_from_slice(fragment),
            Protection::Tls12 => {
                out.extend_from_slice(&[0; NONCE_BYTES]);
                out.extend_from_slice(fragment);
                out.extend_from_slice(&[0; TAG_BYTES]);
            }
            Protection::Tls13 => {
                out.extend_from_slice(fragment);
                out.push(content);
                out.extend_from_slice(&[0; TAG_BYTES]);
            }
        }
    }
}

/// Returns the length of the record at the start of `bytes`, or `None` until its header is complete.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..HEADER_BYTES)?;
    Some(HEADER_BYTES + usize::from(u16::from_be_bytes([head[3], head[4]])))
}

/// Returns content type and content of one whole record.
pub(crate) fn open(record: &[u8], protection: Protection) -> Option<(u8, &[u8])> {
    let body = &record[HEADER_BYTES..];
    match protection {
        Protection::None => Some((record[0], body)),
        Protection::Tls12 => {
            Some((record[0], body.get(NONCE_BYTES..body.len().checked_sub(TAG_BYTES)?)?))
        }
        Protection::Tls13 => {
            let (content, plain) = body.get(..body.len().checked_sub(TAG_BYTES)?)?.split_last()?;
            Some((*content, plain))
        }
    }
}

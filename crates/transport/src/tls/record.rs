//! TLS records (RFC 8446 section 5, RFC 5246 section 6.2): a head of 5 bytes, at most 2^14 bytes of
//! content, and what the cipher AES-128-GCM adds. Nothing is encrypted.

/// What a record carries; its first byte.
pub(crate) mod content {
    pub const CHANGE_CIPHER_SPEC: u8 = 20;
    pub const ALERT: u8 = 21;
    pub const HANDSHAKE: u8 = 22;
    pub const DATA: u8 = 23;
}

/// Length of a record's head.
pub(crate) const HEAD: usize = 5;
/// Most content of a record (RFC 8446 section 5.1, RFC 5246 section 6.2.1).
const MOST: usize = 1 << 14;
/// Authentication tag of AES-GCM (RFC 5116 section 5.1).
const TAG: usize = 16;
/// Explicit part of the nonce, TLS 1.2 only (RFC 5288 section 3).
const NONCE: usize = 8;

/// How a record is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    None,
    /// TLS 1.2: nonce and tag.
    Tls12,
    /// TLS 1.3: the true content type within, and a tag; the outer type is always application data.
    Tls13,
}

/// Bytes that protection adds to a record.
pub(crate) fn overhead(protection: Protection) -> usize {
    HEAD + match protection {
        Protection::None => 0,
        Protection::Tls12 => NONCE + TAG,
        Protection::Tls13 => 1 + TAG,
    }
}

/// Appends `plain` in as few records as it takes.
pub(crate) fn seal(out: &mut Vec<u8>, protection: Protection, content: u8, plain: &[u8]) {
    for part in plain.chunks(MOST) {
        let length = (part.len() + overhead(protection) - HEAD) as u16;
        let outer = if protection == Protection::Tls13 { content::DATA } else { content };
        // Version 1.2 on the wire, in TLS 1.3 as well (RFC 8446 section 5.1).
        out.extend_from_slice(&[outer, 3, 3]);
        out.extend_from_slice(&length.to_be_bytes());
        match protection {
            Protection::None => out.extend_from_slice(part),
            Protection::Tls12 => {
                out.extend_from_slice(&[0; NONCE]);
                out.extend_from_slice(part);
                out.extend_from_slice(&[0; TAG]);
            }
            Protection::Tls13 => {
                out.extend_from_slice(part);
                out.push(content);
                out.extend_from_slice(&[0; TAG]);
            }
        }
    }
}

/// Length of the record at the start of `bytes`; none until its head is there.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..HEAD)?;
    Some(HEAD + usize::from(u16::from_be_bytes([head[3], head[4]])))
}

/// Content type and content of one whole record.
pub(crate) fn open(record: &[u8], protection: Protection) -> Option<(u8, &[u8])> {
    let body = &record[HEAD..];
    match protection {
        Protection::None => Some((record[0], body)),
        Protection::Tls12 => Some((record[0], body.get(NONCE..body.len().checked_sub(TAG)?)?)),
        Protection::Tls13 => {
            let (content, plain) = body.get(..body.len().checked_sub(TAG)?)?.split_last()?;
            Some((*content, plain))
        }
    }
}

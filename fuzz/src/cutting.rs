//! A simple reference implementation of the segmentation of super-frames, packet by packet and byte by byte.

use std::cell::RefCell;

use emu::GsoSplitter;

/// MTUs of a path: the minimum of IPv6, that of Ethernet, and one of jumbo frames.
const MTUS: [u16; 3] = [1280, 1500, 9000];

/// Maximum number of packets in a frame: 64 kB in segments of 48 bytes, the minimum of Linux.
const MOST: usize = 65_536 / 48 + 1;

/// Length and field values of a virtio header (virtio 1.2 section 5.1.6).
const VIRTIO: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
const ONE: u8 = 0;
const TCP_4: u8 = 1;
const TCP_6: u8 = 4;
const UDP_SEGMENTS: u8 = 5;
const TCP_ECN: u8 = 0x80;

/// Flags of TCP (RFC 9293 section 3.1).
const FIN_PSH: u8 = 0b1001;
const CWR: u8 = 0b1000_0000;

/// Compares the emulator with the reference implementation.
pub fn same(bytes: &[u8]) {
    thread_local! {
        static CUTTERS: RefCell<[GsoSplitter; 3]> = RefCell::new(MTUS.map(GsoSplitter::new));
    }
    let Some((choice, frame)) = bytes.split_first() else { return };
    let choice = usize::from(*choice) % MTUS.len();
    let expected = plain(frame, MTUS[choice]);
    CUTTERS.with_borrow_mut(|cutters| {
        let mut given = frame.to_vec();
        let found = cutters[choice].split(&mut given).map(|pieces| {
            (0..pieces.len()).map(|place| pieces.get(place).to_vec()).collect::<Vec<_>>()
        });
        assert_eq!(found, expected);
    });
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from(bytes[at]) << 8 | u16::from(bytes[at + 1])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at] = (value >> 8) as u8;
    bytes[at + 1] = value as u8;
}

/// Returns the checksum of RFC 1071; the last odd byte is padded.
fn sum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for (place, byte) in bytes.iter().enumerate() {
        sum += if place % 2 == 0 { u32::from(*byte) << 8 } else { u32::from(*byte) };
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The header of a virtio frame, in the byte order of the host (little-endian on x86).
struct VirtioHeader {
    flags: u8,
    kind: u8,
    size: usize,
    start: usize,
    offset: usize,
}

fn plain(frame: &[u8], mtu: u16) -> Option<Vec<Vec<u8>>> {
    if frame.len() < VIRTIO {
        return None;
    }
    let (head, packet) = frame.split_at(VIRTIO);
    let number = |at: usize| usize::from(u16::from_ne_bytes([head[at], head[at + 1]]));
    let header = VirtioHeader {
        flags: head[0],
        kind: head[1],
        size: number(4),
        start: number(6),
        offset: number(8),
    };
    if header.kind != ONE {
        return segments(packet, &header, mtu.into());
    }
    let mut packet = packet.to_vec();
    if header.flags & NEEDS_CHECKSUM != 0 {
        let at = header.start + header.offset;
        if !header.offset.is_multiple_of(2) || at + 2 > packet.len() {
            return None;
        }
        // The field has a partial sum; the written value makes the complete sum 0xffff.
        let whole = !sum(&packet[header.start..]);
        put(&mut packet, at, if whole == 0 { 0xffff } else { whole });
    }
    Some(vec![packet])
}

/// Returns the offset of the transport header, if the packet has the protocol of the frame's kind.
fn transport(packet: &[u8], kind: u8) -> Option<usize> {
    let version = packet.first()? >> 4;
    let (protocol, right) = match kind {
        TCP_4 => (6, version == 4),
        TCP_6 => (6, version == 6),
        UDP_SEGMENTS => (17, version == 4 || version == 6),
        _ => return None,
    };
    if !right || packet.len() < if version == 4 { 20 } else { 40 } {
        return None;
    }
    if version == 4 {
        let length = usize::from(packet[0] % 16) * 4;
        return (length >= 20 && packet[9] == protocol).then_some(length);
    }
    let (mut next, mut at) = (packet[6], 40);
    // Hop-by-hop and destination options.
    while next == 0 || next == 60 {
        next = *packet.get(at)?;
        at += 8 + 8 * usize::from(*packet.get(at + 1)?);
    }
    (next == protocol).then_some(at)
}

fn segments(packet: &[u8], header: &VirtioHeader, mtu: usize) -> Option<Vec<Vec<u8>>> {
    let kind =
        if header.kind & !TCP_ECN == UDP_SEGMENTS { header.kind } else { header.kind & !TCP_ECN };
    let start = transport(packet, kind)?;
    let (udp, six) = (kind == UDP_SEGMENTS, packet[0] >> 4 == 6);
    let field = if udp { 6 } else { 16 };
    if header.start != start || header.offset != field || header.size == 0 {
        return None;
    }
    let own = if udp { 8 } else { usize::from(*packet.get(start + 12)? >> 4) * 4 };
    if own < if udp { 8 } else { 20 } || start + own >= packet.len() {
        return None;
    }
    let (headers, payload) = packet.split_at(start + own);
    let parts: Vec<&[u8]> = payload.chunks(header.size).collect();
    if parts.len() > MOST || headers.len() + parts[0].len() > mtu {
        return None;
    }
    let last = parts.len() - 1;
    let cut = parts.iter().enumerate().map(|(place, part)| {
        let mut one = headers.to_vec();
        one.extend_from_slice(part);
        let (length, below) = (one.len(), (one.len() - start) as u16);
        if six {
            put(&mut one, 4, (length - 40) as u16);
        } else {
            put(&mut one, 2, length as u16);
            let id = word(&one, 4).wrapping_add(place as u16);
            put(&mut one, 4, id);
            put(&mut one, 10, 0);
            let right = !sum(&one[..start]);
            put(&mut one, 10, right);
        }
        if udp {
            put(&mut one, start + 4, below);
        } else {
            let mut number = [0; 4];
            number.copy_from_slice(&one[start + 4..start + 8]);
            let number = u32::from_be_bytes(number).wrapping_add((place * header.size) as u32);
            one[start + 4..start + 8].copy_from_slice(&number.to_be_bytes());
            if place < last {
                one[start + 13] &= !FIN_PSH;
            }
            if place > 0 {
                one[start + 13] &= !CWR;
            }
        }
        put(&mut one, start + field, 0);
        // Pseudo header (RFC 9293 section 3.1, RFC 8200 section 8.1), transport header, payload.
        let mut summed = one[if six { 8..40 } else { 12..20 }].to_vec();
        summed.extend_from_slice(&[0, if udp { 17 } else { 6 }, (below >> 8) as u8, below as u8]);
        summed.extend_from_slice(&one[start..]);
        let right = !sum(&summed);
        // 0 means that there is no checksum (RFC 768).
        put(&mut one, start + field, if udp && right == 0 { 0xffff } else { right });
        one
    });
    Some(cut.collect())
}

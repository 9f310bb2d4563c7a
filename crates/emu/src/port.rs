//! A segment's end: a TUN device, and what comes out of it as the packets that the path carries.
//!
//! A device with offload hands over super-frames, up to 64 kB that the kernel would have cut itself, each
//! behind a virtio header. They are cut here before the path sees them. Packets are written one by one
//! behind an empty header: joining them would hide what the path did to their order and spacing.

use std::io;
use std::sync::Arc;

use tun_rs::{SyncDevice, VIRTIO_NET_HDR_LEN, VirtioNetHdr, checksum, gso_split};

/// From this rate on in both directions, or without one, a segment's devices have offload: what a direction
/// carried at most without (decision 0021). Below the emulator keeps up, and offload brought nothing.
pub(crate) const WORTHWHILE: u64 = 2_500_000_000;

/// Whether devices between these rates have offload, bit/s; none: unlimited.
pub(crate) fn is_worthwhile(rates: [Option<u64>; 2]) -> bool {
    rates.iter().all(|rate| rate.is_none_or(|rate| rate >= WORTHWHILE))
}

/// Largest frame without its virtio header: an IPv6 header and all that its length field can say.
const LARGEST: usize = 40 + 65_535;

/// Most packets of a super-frame: 64 kB in the smallest segments that Linux sends (`net.ipv4.tcp_min_snd_mss`,
/// 48 bytes). UDP stops at 128 (UDP_MAX_SEGMENTS).
const PIECES: usize = 65_536 / 48 + 1;

/// The transport checksum from `csum_start` on is not done yet (virtio 1.2 section 5.1.6).
const NEEDS_CHECKSUM: u8 = 1;

/// Kinds of super-frames (virtio 1.2 section 5.1.6): one packet; UDP segments. All others are TCP's or unknown.
const ONE: u8 = 0;
const UDP_SEGMENTS: u8 = 5;

/// Protocols that the kernel leaves to be cut (IANA protocol numbers).
const TCP: u8 = 6;
const UDP: u8 = 17;

/// IPv6 extension headers that may stand before them (RFC 8200 section 4): hop-by-hop and destination options. Behind
/// a routing header the checksum would be over another destination (section 8.1).
const EXTENSIONS: [u8; 2] = [0, 60];

/// What was read.
pub(crate) enum Read<'a> {
    /// Packets.
    Packets(Pieces<'a>),
    /// A frame that cannot be cut: it is gone.
    Refused,
    /// Nothing is there.
    Nothing,
}

/// Packets that came at once.
#[derive(Debug)]
pub enum Pieces<'a> {
    /// A frame that is one packet.
    One(&'a [u8]),
    /// Buffers, and how much of each is its packet.
    Cut(&'a [Vec<u8>], &'a [usize]),
}

impl<'a> Pieces<'a> {
    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        match self {
            Pieces::One(_) => 1,
            Pieces::Cut(_, sizes) => sizes.len(),
        }
    }

    /// One of them.
    pub fn get(&self, index: usize) -> &'a [u8] {
        match self {
            Pieces::One(packet) => packet,
            Pieces::Cut(buffers, sizes) => &buffers[index][..sizes[index]],
        }
    }
}

/// A device and the largest packet that it carries.
#[derive(Clone)]
pub struct Port {
    pub(crate) device: Arc<SyncDevice>,
    pub(crate) mtu: u16,
}

impl Port {
    /// Whether the device hands over super-frames.
    pub(crate) fn has_offload(&self) -> bool {
        self.device.tcp_gso()
    }

    /// Bytes, all 0, that stand before a packet that the device is to take: a virtio header that asks for nothing.
    pub(crate) fn headroom(&self) -> usize {
        if self.has_offload() { VIRTIO_NET_HDR_LEN } else { 0 }
    }

    /// What reads the device from now on.
    pub(crate) fn reader(&self) -> Reader {
        let cutter = self.has_offload().then(|| Cutter::new(self.mtu));
        Reader {
            device: self.device.clone(),
            buffer: vec![0; VIRTIO_NET_HDR_LEN + LARGEST],
            cutter,
        }
    }
}

/// Reads a device.
pub(crate) struct Reader {
    device: Arc<SyncDevice>,
    buffer: Vec<u8>,
    cutter: Option<Cutter>,
}

impl Reader {
    /// One frame of the device, as packets.
    ///
    /// # Errors
    /// The device is gone.
    pub(crate) fn read(&mut self) -> io::Result<Read<'_>> {
        let length = loop {
            match self.device.recv(&mut self.buffer) {
                Ok(length) => break length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Read::Nothing);
                }
                // The kernel has a frame that no virtio header describes, and drops it.
                Err(error)
                    if self.cutter.is_some() && error.kind() == io::ErrorKind::InvalidInput =>
                {
                    return Ok(Read::Refused);
                }
                Err(error) => return Err(error),
            }
        };
        let frame = &mut self.buffer[..length];
        Ok(match &mut self.cutter {
            None => Read::Packets(Pieces::One(frame)),
            Some(cutter) => cutter.cut(frame).map_or(Read::Refused, Read::Packets),
        })
    }
}

/// Cuts super-frames.
pub struct Cutter {
    pieces: Vec<Vec<u8>>,
    sizes: Vec<usize>,
}

impl Cutter {
    /// Into packets of at most `mtu` bytes.
    pub fn new(mtu: u16) -> Cutter {
        Cutter { pieces: vec![vec![0; mtu.into()]; PIECES], sizes: vec![0; PIECES] }
    }

    /// The packets of a frame behind its virtio header; none if the two contradict each other, a packet would
    /// be empty or larger than the MTU, or there would be more than [`PIECES`].
    pub fn cut<'a>(&'a mut self, frame: &'a mut [u8]) -> Option<Pieces<'a>> {
        let (head, packet) = frame.split_at_mut_checked(VIRTIO_NET_HDR_LEN)?;
        let mut header = VirtioNetHdr::decode(head).ok()?;
        if header.gso_type == ONE {
            if header.flags & NEEDS_CHECKSUM != 0 {
                finish(packet, header.csum_start.into(), header.csum_offset.into())?;
            }
            return Some(Pieces::One(packet));
        }
        let six = packet.first()? >> 4 == 6;
        let protocol = if header.gso_type == UDP_SEGMENTS { UDP } else { TCP };
        if transport_at(packet, protocol)? != usize::from(header.csum_start) {
            return None;
        }
        // `hdr_len` is a hint (virtio 1.2 section 5.1.6.2): the kernel says more when it forwards.
        let start = usize::from(header.csum_start);
        let transport =
            if protocol == UDP { 8 } else { u16::from(*packet.get(start + 12)? >> 4) * 4 };
        header.hdr_len = header.csum_start.checked_add(transport)?;
        let count = gso_split(packet, header, &mut self.pieces, &mut self.sizes, 0, six).ok()?;
        (count > 0).then(|| Pieces::Cut(&self.pieces[..count], &self.sizes[..count]))
    }
}

/// Where the header of `protocol` begins in an IP packet, if that is what it carries.
fn transport_at(packet: &[u8], protocol: u8) -> Option<usize> {
    let (mut next, mut at) = match packet.first()? >> 4 {
        4 => (*packet.get(9)?, usize::from(packet[0] & 15) * 4),
        6 => (*packet.get(6)?, 40),
        _ => return None,
    };
    let six = packet[0] >> 4 == 6;
    while six && EXTENSIONS.contains(&next) {
        next = *packet.get(at)?;
        at += (usize::from(*packet.get(at + 1)?) + 1) * 8;
    }
    (next == protocol).then_some(at)
}

/// Finishes the checksum from `start` on, of which `offset` behind that holds the part over addresses and
/// length. 0 would mean that there is none (RFC 768).
fn finish(packet: &mut [u8], start: usize, offset: usize) -> Option<()> {
    let part: [u8; 2] = packet.get(start + offset..start + offset + 2)?.try_into().ok()?;
    if !offset.is_multiple_of(2) {
        return None; // no word of the sum
    }
    packet[start + offset..start + offset + 2].fill(0);
    let sum = !checksum(&packet[start..], u16::from_be_bytes(part).into());
    let sum = if sum == 0 { u16::MAX } else { sum };
    packet[start + offset..start + offset + 2].copy_from_slice(&sum.to_be_bytes());
    Some(())
}

#[cfg(test)]
#[path = "port_tests.rs"]
mod tests;

//! The end of an emulated link: a TUN device, and the packets that it delivers.
//!
//! A device with offload hands over super-frames of up to 64 kB, which the kernel would have split, each behind a
//! virtio header. This module splits them before the path processes them. Packets are written one by one behind an
//! empty header. Joining them would hide the changes of the path to their order and spacing.

use std::io;
use std::sync::Arc;

use tun_rs::{SyncDevice, VIRTIO_NET_HDR_LEN, VirtioNetHdr, checksum, gso_split};

/// Devices have offload if both directions are unlimited or reach this rate, the maximum of a direction without offload
/// (decision 0021). Below it the emulator keeps up, and offload had no benefit.
pub(crate) const MIN_OFFLOAD_RATE_BIT_S: u64 = 2_500_000_000;

/// Returns whether devices with these rates in bit/s have offload; `None` is unlimited.
pub(crate) fn uses_offload(rates: [Option<u64>; 2]) -> bool {
    rates.iter().all(|rate| rate.is_none_or(|rate| rate >= MIN_OFFLOAD_RATE_BIT_S))
}

/// Largest frame without its virtio header: an IPv6 header and the maximum of its length field.
const MAX_FRAME_BYTES: usize = 40 + 65_535;

/// Maximum number of packets of a super-frame: 64 kB in the smallest segments of Linux (`net.ipv4.tcp_min_snd_mss`, 48
/// bytes). UDP stops at 128 (UDP_MAX_SEGMENTS).
const MAX_SEGMENTS: usize = 65_536 / 48 + 1;

/// The transport checksum from `csum_start` on is incomplete (virtio 1.2 section 5.1.6).
const NEEDS_CHECKSUM: u8 = 1;

/// GSO types (virtio 1.2 section 5.1.6): a single packet, UDP segments. All other types are TCP or unknown.
const GSO_NONE: u8 = 0;
const GSO_UDP_L4: u8 = 5;

/// Protocols of super-frames (IANA protocol numbers).
const TCP: u8 = 6;
const UDP: u8 = 17;

/// IPv6 extension headers that may precede them (RFC 8200 section 4): hop-by-hop and destination options. Behind a
/// routing header the checksum would cover another destination (section 8.1).
const SKIPPED_EXTENSION_HEADERS: [u8; 2] = [0, 60];

/// The result of a read.
pub(crate) enum PortRead<'a> {
    /// Packets.
    Packets(ReceivedFrames<'a>),
    /// A frame that cannot be split. It is lost.
    Unsplittable,
    /// No frame is available.
    Empty,
}

/// The packets of one read.
#[derive(Debug)]
pub enum ReceivedFrames<'a> {
    /// A frame with one packet.
    Single(&'a [u8]),
    /// Buffers, and the size of the packet in each.
    Segments(&'a [Vec<u8>], &'a [usize]),
}

impl<'a> ReceivedFrames<'a> {
    /// Returns the number of packets.
    #[expect(clippy::len_without_is_empty, reason = "the list always has a packet")]
    pub fn len(&self) -> usize {
        match self {
            ReceivedFrames::Single(_) => 1,
            ReceivedFrames::Segments(_, sizes) => sizes.len(),
        }
    }

    /// Returns the packet at `index`.
    pub fn get(&self, index: usize) -> &'a [u8] {
        match self {
            ReceivedFrames::Single(packet) => packet,
            ReceivedFrames::Segments(buffers, sizes) => &buffers[index][..sizes[index]],
        }
    }
}

/// A device and the largest packet that it carries.
#[derive(Clone)]
pub struct TunPort {
    pub(crate) device: Arc<SyncDevice>,
    pub(crate) mtu: u16,
}

impl TunPort {
    /// Returns whether the device hands over super-frames.
    pub(crate) fn has_offload(&self) -> bool {
        self.device.tcp_gso()
    }

    /// Returns the number of zero bytes before a packet to be written: an empty virtio header.
    pub(crate) fn headroom(&self) -> usize {
        if self.has_offload() { VIRTIO_NET_HDR_LEN } else { 0 }
    }

    /// Creates a reader of the device.
    pub(crate) fn reader(&self) -> PortReader {
        let splitter = self.has_offload().then(|| GsoSplitter::new(self.mtu));
        PortReader {
            device: self.device.clone(),
            buffer: vec![0; VIRTIO_NET_HDR_LEN + MAX_FRAME_BYTES],
            splitter,
        }
    }
}

/// A reader of a device.
pub(crate) struct PortReader {
    device: Arc<SyncDevice>,
    buffer: Vec<u8>,
    splitter: Option<GsoSplitter>,
}

impl PortReader {
    /// Reads one frame of the device and splits it into packets.
    ///
    /// # Errors
    /// Returns an error if the device has been removed.
    pub(crate) fn read(&mut self) -> io::Result<PortRead<'_>> {
        let length = loop {
            match self.device.recv(&mut self.buffer) {
                Ok(length) => break length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(PortRead::Empty);
                }
                // The kernel has a frame that no virtio header describes, and drops it.
                Err(error)
                    if self.splitter.is_some() && error.kind() == io::ErrorKind::InvalidInput =>
                {
                    return Ok(PortRead::Unsplittable);
                }
                Err(error) => return Err(error),
            }
        };
        let frame = &mut self.buffer[..length];
        Ok(match &mut self.splitter {
            None => PortRead::Packets(ReceivedFrames::Single(frame)),
            Some(splitter) => {
                splitter.split(frame).map_or(PortRead::Unsplittable, PortRead::Packets)
            }
        })
    }
}

/// A splitter of GSO super-frames.
pub struct GsoSplitter {
    segments: Vec<Vec<u8>>,
    sizes: Vec<usize>,
}

impl GsoSplitter {
    /// Creates a splitter into packets of at most `mtu` bytes.
    pub fn new(mtu: u16) -> GsoSplitter {
        GsoSplitter {
            segments: vec![vec![0; mtu.into()]; MAX_SEGMENTS],
            sizes: vec![0; MAX_SEGMENTS],
        }
    }

    /// Splits a frame with a virtio header into packets. Returns `None` for a header that contradicts the packet, and
    /// for a packet that is empty or exceeds the MTU. More packets than Linux puts into a super-frame give `None` too.
    pub fn split<'a>(&'a mut self, frame: &'a mut [u8]) -> Option<ReceivedFrames<'a>> {
        let (head, packet) = frame.split_at_mut_checked(VIRTIO_NET_HDR_LEN)?;
        let mut header = VirtioNetHdr::decode(head).ok()?;
        if header.gso_type == GSO_NONE {
            if header.flags & NEEDS_CHECKSUM != 0 {
                complete_checksum(packet, header.csum_start.into(), header.csum_offset.into())?;
            }
            return Some(ReceivedFrames::Single(packet));
        }
        let is_ipv6 = packet.first()? >> 4 == 6;
        let protocol = if header.gso_type == GSO_UDP_L4 { UDP } else { TCP };
        if transport_offset(packet, protocol)? != usize::from(header.csum_start) {
            return None;
        }
        // `hdr_len` is a hint (virtio 1.2 section 5.1.6.2): the kernel sets a larger value when it forwards.
        let start = usize::from(header.csum_start);
        let transport =
            if protocol == UDP { 8 } else { u16::from(*packet.get(start + 12)? >> 4) * 4 };
        header.hdr_len = header.csum_start.checked_add(transport)?;
        let count =
            gso_split(packet, header, &mut self.segments, &mut self.sizes, 0, is_ipv6).ok()?;
        (count > 0).then(|| ReceivedFrames::Segments(&self.segments[..count], &self.sizes[..count]))
    }
}

/// Returns the offset of the header of `protocol` in an IP packet, if the packet carries this protocol.
fn transport_offset(packet: &[u8], protocol: u8) -> Option<usize> {
    let (mut next, mut offset) = match packet.first()? >> 4 {
        4 => (*packet.get(9)?, usize::from(packet[0] & 15) * 4),
        6 => (*packet.get(6)?, 40),
        _ => return None,
    };
    let is_ipv6 = packet[0] >> 4 == 6;
    while is_ipv6 && SKIPPED_EXTENSION_HEADERS.contains(&next) {
        next = *packet.get(offset)?;
        offset += (usize::from(*packet.get(offset + 1)?) + 1) * 8;
    }
    (next == protocol).then_some(offset)
}

/// Completes the checksum from `start` on. The field at `offset` after that holds the partial sum over addresses and
/// length. The result is never 0, which would mean no checksum (RFC 768).
fn complete_checksum(packet: &mut [u8], start: usize, offset: usize) -> Option<()> {
    let partial: [u8; 2] = packet.get(start + offset..start + offset + 2)?.try_into().ok()?;
    if !offset.is_multiple_of(2) {
        return None; // not a word of the sum
    }
    packet[start + offset..start + offset + 2].fill(0);
    let sum = !checksum(&packet[start..], u16::from_be_bytes(partial).into());
    let sum = if sum == 0 { u16::MAX } else { sum };
    packet[start + offset..start + offset + 2].copy_from_slice(&sum.to_be_bytes());
    Some(())
}

#[cfg(test)]
#[path = "tun_port_tests.rs"]
mod tests;

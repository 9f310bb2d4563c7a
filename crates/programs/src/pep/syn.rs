//! The start of a connection. A rule drops the first SYN of every connection from either device, and a packet socket
//! captures it. The proxy reinjects it through the loopback device to have it answered: immediately, or after the
//! onward handshake (relayed).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, recvfrom, sendto, socket,
};
use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket};
use socket2::{SockFilter, SockRef};

use super::proxy_header::{AddressPair, is_proxiable};

/// The treatment of a reinjected SYN: the last byte of its source address on the loopback device, which the rules
/// match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SynDisposition {
    /// The client side sockets answer it.
    Near = 1,
    /// The server side sockets answer it.
    Far = 2,
    /// A reset answers it.
    Refused = 3,
}

/// Segment flags (RFC 9293 section 3.1): FIN, SYN, RST and ACK. A first SYN has the second alone.
const FLAGS: u8 = 0x17;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;

/// The maximum length of a captured SYN: an Ethernet frame.
const MAX_PACKET_BYTES: usize = 1514;
/// The receive buffer of captured packets: 4 MiB, several thousand packets.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// A first SYN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SynPacket {
    /// Source and destination of the connection.
    pub addresses: AddressPair,
    /// The sequence number.
    pub sequence: u32,
    /// The IP packet with a correct TCP checksum.
    pub packet: Vec<u8>,
}

/// A reset by the client of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetPacket {
    /// Addresses and ports of the connection.
    pub addresses: AddressPair,
    /// The sequence number.
    pub sequence: u32,
}

impl ResetPacket {
    /// Returns whether the reset aborts the handshake of the SYN with number `syn` in the kernel. In SYN-RECEIVED only
    /// the next number certainly belongs to the client (RFC 9293 section 3.10.7.4, RFC 5961 section 3.2).
    pub fn aborts_handshake(&self, syn: u32) -> bool {
        self.sequence == syn.wrapping_add(1)
    }
}

/// A captured segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CapturedSegment {
    /// The start of a connection.
    Syn(SynPacket),
    /// The reset of a connection.
    Reset(ResetPacket),
}

/// The sockets that capture and reinject SYNs.
#[derive(Debug)]
pub struct SynCapture {
    capture: OwnedFd,
    inject: OwnedFd,
    loopback: LinkAddr,
    devices: [usize; 2],
}

impl AsFd for SynCapture {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.capture.as_fd()
    }
}

impl SynCapture {
    /// Captures on devices `near` and `far` of the calling process's namespace.
    ///
    /// # Errors
    /// A device is missing, or an error of the kernel.
    pub fn new(near: &str, far: &str) -> io::Result<SynCapture> {
        let number = |name: &str| {
            let found = if_nametoindex(name).map(|number| number as usize);
            found.map_err(|_| io::Error::other(format!("this namespace has no device {name}")))
        };
        let devices = [number(near)?, number(far)?];
        // The link-layer address of the loopback device.
        let loopback = getifaddrs()?
            .filter(|one| one.interface_name == "lo")
            .find_map(|one| one.address?.as_link_addr().copied());
        let loopback =
            loopback.ok_or_else(|| io::Error::other("this namespace has no device lo"))?;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let seen = socket(AddressFamily::Packet, SockType::Datagram, flags, SockProtocol::EthAll)?;
        SockRef::from(&seen).attach_filter(&filter(devices.map(|device| device as u32)))?;
        SockRef::from(&seen).set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
        // Without a protocol the socket receives no packets.
        let back = socket(AddressFamily::Packet, SockType::Raw, flags, None)?;
        Ok(SynCapture { capture: seen, inject: back, loopback, devices })
    }

    /// Returns the next first SYN or reset, and whether it came from the server side; `None` if there is no more now.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn next_segment(&self) -> io::Result<Option<(CapturedSegment, bool)>> {
        let mut buffer = [0; MAX_PACKET_BYTES];
        loop {
            let (length, from) = match recvfrom::<LinkAddr>(self.capture.as_raw_fd(), &mut buffer) {
                Ok(got) => got,
                Err(nix::errno::Errno::EAGAIN) => return Ok(None),
                Err(nix::errno::Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let device = from.map_or(0, |link| link.ifindex());
            if !self.devices.contains(&device) {
                continue;
            }
            let packet = &buffer[..length];
            let reset = || parse_reset(packet).map(CapturedSegment::Reset);
            if let Some(seen) = parse_syn(packet).map(CapturedSegment::Syn).or_else(reset) {
                return Ok(Some((seen, device == self.devices[1])));
            }
        }
    }

    /// Reinjects a SYN.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn reinject(&self, packet: &[u8], disposition: SynDisposition) -> io::Result<()> {
        let kind: [u8; 2] = if packet[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
        let mut frame = vec![0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, disposition as u8];
        frame.extend(kind);
        frame.extend(packet);
        sendto(self.inject.as_raw_fd(), &frame, &self.loopback, MsgFlags::empty())?;
        Ok(())
    }
}

/// Builds the kernel filter (classic BPF): complete first SYNs and resets from `devices` over IPv4 or IPv6.
fn filter(devices: [u32; 2]) -> Vec<SockFilter> {
    // Instructions of linux/bpf_common.h; negative offsets of linux/filter.h (SKF_AD_OFF).
    const LOAD_WORD: u16 = 0x20;
    const LOAD_HALF: u16 = 0x28;
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_BYTE_X: u16 = 0x50;
    const HEADER_LENGTH: u16 = 0xb1;
    const AND: u16 = 0x54;
    const EQUAL: u16 = 0x15;
    const ANY_BIT: u16 = 0x45;
    const JUMP: u16 = 0x05;
    const RETURN: u16 = 0x06;
    const ANCILLARY_OFFSET: u32 = -0x1000_i32 as u32;
    const OUTGOING: u32 = 4;
    let op = SockFilter::new;
    vec![
        op(LOAD_WORD, 0, 0, ANCILLARY_OFFSET + 8), // interface
        op(EQUAL, 1, 0, devices[0]),
        op(EQUAL, 0, 20, devices[1]),
        op(LOAD_WORD, 0, 0, ANCILLARY_OFFSET + 4), // packet type
        op(EQUAL, 18, 0, OUTGOING),
        op(LOAD_BYTE, 0, 0, 0),
        op(AND, 0, 0, 0xf0),
        op(EQUAL, 0, 7, 0x40),
        op(LOAD_BYTE, 0, 0, 9),
        op(EQUAL, 0, 13, 6),
        op(LOAD_HALF, 0, 0, 6),
        op(ANY_BIT, 11, 0, 0x3fff), // a fragment
        op(HEADER_LENGTH, 0, 0, 0),
        op(LOAD_BYTE_X, 0, 0, 13),
        op(JUMP, 0, 0, 4),
        op(EQUAL, 0, 7, 0x60),
        op(LOAD_BYTE, 0, 0, 6),
        op(EQUAL, 0, 5, 6),
        op(LOAD_BYTE, 0, 0, 40 + 13),
        op(AND, 0, 0, FLAGS.into()),
        op(EQUAL, 1, 0, SYN.into()),
        op(ANY_BIT, 0, 1, RST.into()),
        op(RETURN, 0, 0, 0xffff),
        op(RETURN, 0, 0, 0),
    ]
}

/// A segment within an IP packet.
struct SegmentView<'a> {
    addresses: AddressPair,
    segment: TcpPacket<&'a [u8]>,
    /// The IP packet, and the offset of the segment in it.
    packet: &'a [u8],
    at: usize,
}

/// Finds the complete TCP segment in an IP packet; `None` if there is none, or if its addresses are not proxiable.
fn parse_segment(packet: &[u8]) -> Option<SegmentView<'_>> {
    let (at, end, from, to): (usize, usize, IpAddr, IpAddr) = match packet.first()? >> 4 {
        4 => {
            let ip = Ipv4Packet::new_checked(packet).ok()?;
            if ip.next_header() != IpProtocol::Tcp || ip.more_frags() || ip.frag_offset() != 0 {
                return None;
            }
            let [at, end] = [ip.header_len().into(), ip.total_len().into()];
            (at, end, ip.src_addr().into(), ip.dst_addr().into())
        }
        6 => {
            let ip = Ipv6Packet::new_checked(packet).ok()?;
            if ip.next_header() != IpProtocol::Tcp {
                return None;
            }
            (ip.header_len(), ip.total_len(), ip.src_addr().into(), ip.dst_addr().into())
        }
        _ => return None,
    };
    let segment = TcpPacket::new_checked(&packet[at..end]).ok()?;
    let addresses = AddressPair {
        client: SocketAddr::new(from, segment.src_port()),
        server: SocketAddr::new(to, segment.dst_port()),
    };
    let can_be_split = is_proxiable(addresses.client) && is_proxiable(addresses.server);
    can_be_split.then_some(SegmentView { addresses, segment, packet: &packet[..end], at })
}

/// Parses a first SYN from an IP packet and computes its checksum again, because a sender can use checksum offload.
/// `None` if the packet is not a proxiable SYN.
pub fn parse_syn(packet: &[u8]) -> Option<SynPacket> {
    let SegmentView { addresses, segment, packet, at } = parse_segment(packet)?;
    if !segment.syn() || segment.ack() || segment.rst() || segment.fin() {
        return None;
    }
    let sequence = segment.seq_number().0 as u32;
    let mut packet = packet.to_vec();
    let [from, to] = [addresses.client, addresses.server].map(|end| end.ip().into());
    TcpPacket::new_unchecked(&mut packet[at..]).fill_checksum(&from, &to);
    Some(SynPacket { addresses, sequence, packet })
}

/// Parses a reset from an IP packet; `None` if the packet is not a reset.
pub fn parse_reset(packet: &[u8]) -> Option<ResetPacket> {
    let SegmentView { addresses, segment, .. } = parse_segment(packet)?;
    let sequence = segment.seq_number().0 as u32;
    segment.rst().then_some(ResetPacket { addresses, sequence })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 10.0.0.1:4000 -> 10.0.0.2:80, SYN, no options.
    fn v4() -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0x0f, 0xa0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 1, 2, 0, 0]);
        packet
    }

    #[test]
    fn a_syn_has_its_addresses_and_a_correct_checksum() {
        let syn = parse_syn(&v4()).unwrap();
        assert_eq!(syn.addresses.client, "10.0.0.1:4000".parse().unwrap());
        assert_eq!(syn.addresses.server, "10.0.0.2:80".parse().unwrap());
        // RFC 1071: the words of pseudo-header and segment without the field add up to 0x7410.
        assert_eq!(syn.packet[36..38], (!0x7410_u16).to_be_bytes());
        let mut padded = v4();
        padded.extend([9; 6]);
        assert_eq!(parse_syn(&padded), Some(syn), "padding of a short frame is no part of it");
    }

    #[test]
    fn a_reset_with_the_next_number_aborts_the_handshake() {
        let mut packet = v4();
        packet[33] = 0x04;
        packet[24..28].copy_from_slice(&[0xff, 0xff, 0xff, 0xff]);
        let reset = parse_reset(&packet).unwrap();
        assert_eq!(reset.addresses, parse_syn(&v4()).unwrap().addresses);
        assert_eq!(parse_syn(&packet), None);
        assert_eq!(parse_reset(&v4()), None);
        assert!(reset.aborts_handshake(0xffff_fffe));
        assert!(!reset.aborts_handshake(0xffff_ffff) && !reset.aborts_handshake(0));
        packet[24..28].copy_from_slice(&[0, 0, 0, 0]);
        assert!(
            parse_reset(&packet).unwrap().aborts_handshake(u32::MAX),
            "numbers run through zero"
        );
        packet[33] = 0x14;
        assert!(parse_reset(&packet).is_some(), "with an acknowledgement");
    }

    #[test]
    fn other_packets_are_ignored() {
        let with = |at: usize, byte: u8| {
            let mut packet = v4();
            packet[at] = byte;
            parse_syn(&packet)
        };
        assert_eq!(with(33, 0x12), None, "a SYN that acknowledges");
        assert_eq!(with(33, 0x10), None);
        assert_eq!(with(9, 17), None, "UDP");
        assert_eq!(with(7, 1), None, "a fragment");
        assert_eq!(with(16, 127), None, "to the machine itself");
        assert_eq!(with(3, 39), None, "shorter than TCP");
        assert_eq!(with(3, 41), None, "cut off");
        assert_eq!(with(32, 0x40), None, "a header of less than five words");
        assert_eq!(with(32, 0x60), None, "a header longer than the segment");
    }

    proptest! {
        #[test]
        fn any_packet_is_parsed_or_ignored(
            first in prop_oneof![Just(0x45u8), Just(0x60), Just(0x4f), any::<u8>()],
            rest in proptest::collection::vec(any::<u8>(), 0..200)
        ) {
            let mut packet = vec![first];
            packet.extend(rest);
            if let Some(syn) = parse_syn(&packet) {
                prop_assert!(syn.packet.len() <= packet.len());
            }
        }
    }
}

//! pcapng captures (draft-ietf-opsawg-pcapng): raw IP packets with UDP or TCP headers, as an interface
//! of the host would see them.

use std::net::IpAddr;

use transport::quic::{self, Crypto};
use transport::tcp::Segment;
use transport::{Datagram, Payload, Side};
use units::{Ecn, Time};

use super::tcp_header::{self, Scaling};
use crate::addresses::{Addresses, PROTOCOL_TCP, PROTOCOL_UDP};
use crate::flow::FlowSide;

/// Of a TCP segment, or a QUIC packet with a short header, no more than this is kept, unless more than
/// zeros and a modelled tag would be cut off: headers and frames are kept, long data are not. What is cut is said to be so, as in any
/// capture of limited length. Encrypted packets are cut whatever follows.
const CUT: usize = 128;
/// Of a QUIC packet (RFC 9001 section 5.3).
const TAG: usize = 16;

const LINKTYPE_RAW: u32 = 101;
const TTL: u8 = 64;

/// The capture of one host.
#[derive(Debug)]
pub struct Capture {
    out: Vec<u8>,
    side: Side,
    /// Nothing is encrypted: the bytes have a meaning.
    plain: bool,
    addresses: Addresses,
    /// Of the TCP connections between the host and its next stop.
    scaling: Scaling,
    packet: Vec<u8>,
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Writes a block: type, length, what `body` writes, length (section 3.1).
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = ((out.len() - start + 4) as u32).to_le_bytes();
    out[start + 4..start + 8].copy_from_slice(&length);
    out.extend_from_slice(&length);
}

/// The Internet checksum's sum (RFC 1071), not yet folded.
fn sum(bytes: &[u8]) -> u64 {
    let mut pairs = bytes.chunks_exact(2);
    let whole: u64 =
        pairs.by_ref().map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    whole + pairs.remainder().first().map_or(0, |last| u64::from(*last) << 8)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

impl Capture {
    /// The capture of one side, whose stack is `quic`, if it has one; its TCP windows have this scaling.
    pub fn new(side: &FlowSide, quic: Option<&quic::Endpoint>, scaling: Scaling) -> Capture {
        let (name, side, addresses) = (&side.flow, side.side, side.addresses);
        let plain = quic.is_none_or(|quic| quic.spec().crypto == Crypto::Modelled);
        let mut out = Vec::new();
        // Section header block (section 4.1): byte order, version 1.0, length unknown.
        block(&mut out, 0x0a0d_0d0a, |out| {
            out.extend_from_slice(&0x1a2b_3c4du32.to_le_bytes());
            out.extend_from_slice(&[1, 0, 0, 0]);
            out.extend_from_slice(&u64::MAX.to_le_bytes());
            option(out, 4, concat!("bentpipe ", env!("CARGO_PKG_VERSION")).as_bytes());
            option(out, 0, &[]);
        });
        // Interface description block (section 4.2): if_name, if_description, if_tsresol.
        block(&mut out, 1, |out| {
            out.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
            out.extend_from_slice(&0u32.to_le_bytes());
            option(out, 2, format!("{name}.{}", side.name()).as_bytes());
            let rule = if plain { "cut where only zeros and a tag follow" } else { "cut" };
            let text = format!(
                "flow {name}, {}, simulated; time 0 is the start of the run; TCP segments and QUIC \
                 packets with short headers are {rule} after {CUT} bytes",
                side.name()
            );
            option(out, 3, text.as_bytes());
            option(out, 9, &[9]);
            option(out, 0, &[]);
        });
        Capture { out, side, plain, addresses, scaling, packet: Vec::new() }
    }

    /// A packet left the host or arrived at it.
    pub fn packet(&mut self, now: Time, outbound: bool, payload: &Payload) {
        let up = outbound == (self.side == Side::Client);
        let sender = if up { Side::Client } else { Side::Server };
        let (whole_header, plain, tag) = match payload {
            Payload::Datagram(datagram) => {
                self.write_datagram(sender, datagram);
                (datagram.first_byte() & 0x80 != 0, self.plain, TAG)
            }
            Payload::Udp(datagram) => {
                self.write_datagram(sender, datagram);
                (false, true, 0)
            }
            // What goes over TCP is modelled.
            Payload::Segment(segment) => {
                self.write_segment(sender, segment);
                (false, true, 0)
            }
        };
        let whole = self.packet.len();
        let kept = match (whole_header, plain) {
            (true, _) => whole,
            (false, false) => whole.min(CUT),
            (false, true) => {
                let body = &self.packet[..whole.saturating_sub(tag)];
                let last = body.iter().rposition(|byte| *byte != 0);
                whole.min(CUT.max(last.map_or(0, |last| last + 1)))
            }
        };
        // Enhanced packet block (section 4.3), with the direction in epb_flags.
        block(&mut self.out, 6, |out| {
            let nanos = now.nanos();
            for field in [0, (nanos >> 32) as u32, nanos as u32, kept as u32, whole as u32] {
                out.extend_from_slice(&field.to_le_bytes());
            }
            out.extend_from_slice(&self.packet[..kept]);
            out.resize(out.len().next_multiple_of(4), 0);
            option(out, 2, &(1 + u32::from(outbound)).to_le_bytes());
            option(out, 0, &[]);
        });
    }

    /// The IP packet with the segment.
    fn write_segment(&mut self, sender: Side, segment: &Segment) {
        let [from, to] = self.addresses.ends(sender.sends(), segment.connection);
        let packet = &mut self.packet;
        packet.clear();
        let addresses = ip_header(packet, from.0, to.0, PROTOCOL_TCP, segment.ecn);
        let tcp = packet.len();
        let place = tcp_header::write(packet, segment, [from.1, to.1], sender, self.scaling);
        packet.extend_from_slice(&segment.data);
        let length = packet.len() - tcp;
        set_length(packet, length as u16);
        let pseudo = sum(&packet[addresses..tcp]) + length as u64 + u64::from(PROTOCOL_TCP);
        let checksum = fold(pseudo + sum(&packet[tcp..]));
        packet[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
    }

    /// The IP packet with the datagram (RFC 768).
    fn write_datagram(&mut self, sender: Side, datagram: &Datagram) {
        let [from, to] = self.addresses.ends(sender.sends(), datagram.connection);
        let length = 8 + datagram.payload_bytes() as u16;
        let packet = &mut self.packet;
        packet.clear();
        let addresses = ip_header(packet, from.0, to.0, PROTOCOL_UDP, datagram.ecn);
        set_length(packet, length);
        let udp = packet.len();
        for field in [from.1, to.1, length, 0] {
            packet.extend_from_slice(&field.to_be_bytes());
        }
        packet.extend_from_slice(&datagram.payload());
        let pseudo = sum(&packet[addresses..udp]) + u64::from(length) + u64::from(PROTOCOL_UDP);
        // Zero would mean that there is none.
        let checksum = match fold(pseudo + sum(&packet[udp..])) {
            0 => 0xffff,
            checksum => checksum,
        };
        packet[udp + 6..udp + 8].copy_from_slice(&checksum.to_be_bytes());
    }

    /// The file.
    pub fn finish(self) -> Vec<u8> {
        self.out
    }
}

/// Writes an IP header without options (RFC 791, RFC 8200); returns where its addresses begin. Length
/// and checksum are missing.
fn ip_header(packet: &mut Vec<u8>, from: IpAddr, to: IpAddr, protocol: u8, ecn: Ecn) -> usize {
    match (from, to) {
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            packet.extend_from_slice(&(6 << 28 | (ecn as u32) << 20).to_be_bytes());
            packet.extend_from_slice(&[0, 0, protocol, TTL]);
            packet.extend_from_slice(&from.octets());
            packet.extend_from_slice(&to.octets());
            8
        }
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            packet.extend_from_slice(&[0x45, ecn as u8, 0, 0]);
            // Don't fragment, so the identification may be zero (RFC 6864 section 4.1).
            packet.extend_from_slice(&[0, 0, 0x40, 0, TTL, protocol, 0, 0]);
            packet.extend_from_slice(&from.octets());
            packet.extend_from_slice(&to.octets());
            12
        }
        _ => unreachable!("both ends of a flow have addresses of one family"),
    }
}

/// Completes an IP header before `payload` bytes.
fn set_length(packet: &mut [u8], payload: u16) {
    if packet[0] >> 4 == 6 {
        packet[4..6].copy_from_slice(&payload.to_be_bytes());
    } else {
        packet[2..4].copy_from_slice(&(20 + payload).to_be_bytes());
        let checksum = fold(sum(&packet[..20]));
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

//! pcapng captures (draft-ietf-opsawg-pcapng): raw IP packets with UDP or TCP headers, as seen at an interface of the
//! host. TCP headers (RFC 9293 section 3.1) have initial sequence number 0.

use std::net::IpAddr;

use transport::quic::{Crypto, QuicEndpoint};
use transport::tcp::{Flags, Segment, TcpSpec};
use transport::{Datagram, Payload, Side};
use units::{Ecn, Time};

use crate::nodes::addresses::{FlowAddresses, PROTOCOL_TCP, PROTOCOL_UDP};
use crate::nodes::flow::FlowEndpoint;

/// The capture length of a TCP segment or of a QUIC packet with a short header. The capture keeps headers and frames,
/// and marks the packet as truncated. A packet stays whole if the tail contains more than zeros and a modelled tag.
/// Encrypted packets are always truncated.
const SNAP_BYTES: usize = 128;
/// The tag length of a QUIC packet (RFC 9001 section 5.3).
const TAG_BYTES: usize = 16;

const LINKTYPE_RAW: u32 = 101;
const TTL: u8 = 64;

/// The capture of one host.
#[derive(Debug)]
pub struct Capture {
    out: Vec<u8>,
    side: Side,
    /// Whether the bytes are unencrypted and so have a meaning.
    is_plain: bool,
    addresses: FlowAddresses,
    /// The window scaling of the TCP connections between the host and its next hop.
    scaling: WindowScaling,
    buffer: Vec<u8>,
}

fn write_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Writes a block: type, length, the output of `body`, length (section 3.1).
fn write_block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = ((out.len() - start + 4) as u32).to_le_bytes();
    out[start + 4..start + 8].copy_from_slice(&length);
    out.extend_from_slice(&length);
}

/// Returns the sum for the Internet checksum (RFC 1071) before folding.
fn sum_words(bytes: &[u8]) -> u64 {
    let mut pairs = bytes.chunks_exact(2);
    let whole: u64 =
        pairs.by_ref().map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    whole + pairs.remainder().first().map_or(0, |last| u64::from(*last) << 8)
}

fn fold_checksum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

impl Capture {
    /// Returns the bytes of the file so far.
    pub fn bytes(&self) -> usize {
        self.out.len()
    }

    /// Creates the capture of one side. `quic` is its QUIC endpoint, if any; its TCP windows use `scaling`.
    pub fn new(
        side: &FlowEndpoint,
        quic: Option<&QuicEndpoint>,
        scaling: WindowScaling,
    ) -> Capture {
        let (name, side, addresses) = (&side.flow, side.side, side.addresses);
        let is_plain = quic.is_none_or(|quic| quic.spec().crypto == Crypto::Modelled);
        let mut out = Vec::new();
        // Section header block (section 4.1): byte order, version 1.0, length unknown.
        write_block(&mut out, 0x0a0d_0d0a, |out| {
            out.extend_from_slice(&0x1a2b_3c4du32.to_le_bytes());
            out.extend_from_slice(&[1, 0, 0, 0]);
            out.extend_from_slice(&u64::MAX.to_le_bytes());
            write_option(out, 4, concat!("bentpipe ", env!("CARGO_PKG_VERSION")).as_bytes());
            write_option(out, 0, &[]);
        });
        // Interface description block (section 4.2): if_name, if_description, if_tsresol.
        write_block(&mut out, 1, |out| {
            out.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
            out.extend_from_slice(&0u32.to_le_bytes());
            write_option(out, 2, format!("{name}.{}", side.name()).as_bytes());
            let cut_rule = if is_plain { "cut where only zeros and a tag follow" } else { "cut" };
            let text = format!(
                "flow {name}, {}, simulated; time 0 is the start of the run; TCP segments and QUIC \
                 packets with short headers are {cut_rule} after {SNAP_BYTES} bytes",
                side.name()
            );
            write_option(out, 3, text.as_bytes());
            write_option(out, 9, &[9]);
            write_option(out, 0, &[]);
        });
        Capture { out, side, is_plain, addresses, scaling, buffer: Vec::new() }
    }

    /// Writes a sent or received packet.
    pub fn write_packet(&mut self, now: Time, outbound: bool, payload: &Payload) {
        let is_upward = outbound == (self.side == Side::Client);
        let sender = if is_upward { Side::Client } else { Side::Server };
        let (keep_whole, is_plain, tag_bytes) = match payload {
            Payload::Datagram(datagram) => {
                self.write_datagram(sender, datagram);
                (datagram.first_byte() & 0x80 != 0, self.is_plain, TAG_BYTES)
            }
            Payload::Udp(datagram) => {
                self.write_datagram(sender, datagram);
                (false, true, 0)
            }
            // TCP payload is always modelled.
            Payload::Segment(segment) => {
                self.write_segment(sender, segment);
                (false, true, 0)
            }
        };
        let packet_bytes = self.buffer.len();
        let captured_bytes = match (keep_whole, is_plain) {
            (true, _) => packet_bytes,
            (false, false) => packet_bytes.min(SNAP_BYTES),
            (false, true) => {
                let body = &self.buffer[..packet_bytes.saturating_sub(tag_bytes)];
                let last = body.iter().rposition(|byte| *byte != 0);
                packet_bytes.min(SNAP_BYTES.max(last.map_or(0, |last| last + 1)))
            }
        };
        // Enhanced packet block (section 4.3), with the direction in epb_flags.
        write_block(&mut self.out, 6, |out| {
            let nanos = now.nanos();
            for field in
                [0, (nanos >> 32) as u32, nanos as u32, captured_bytes as u32, packet_bytes as u32]
            {
                out.extend_from_slice(&field.to_le_bytes());
            }
            out.extend_from_slice(&self.buffer[..captured_bytes]);
            out.resize(out.len().next_multiple_of(4), 0);
            write_option(out, 2, &(1 + u32::from(outbound)).to_le_bytes());
            write_option(out, 0, &[]);
        });
    }

    /// Writes the IP packet with the segment.
    fn write_segment(&mut self, sender: Side, segment: &Segment) {
        let [from, to] =
            self.addresses.socket_addresses(sender.send_direction(), segment.connection);
        let packet = &mut self.buffer;
        packet.clear();
        let addresses = write_ip_header(packet, from.0, to.0, PROTOCOL_TCP, segment.ecn);
        let tcp = packet.len();
        let checksum_at = write_tcp_header(packet, segment, [from.1, to.1], sender, self.scaling);
        packet.extend_from_slice(&segment.data);
        let length = packet.len() - tcp;
        set_length(packet, length as u16);
        let pseudo = sum_words(&packet[addresses..tcp]) + length as u64 + u64::from(PROTOCOL_TCP);
        let checksum = fold_checksum(pseudo + sum_words(&packet[tcp..]));
        packet[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Writes the IP packet with the datagram (RFC 768).
    fn write_datagram(&mut self, sender: Side, datagram: &Datagram) {
        let [from, to] =
            self.addresses.socket_addresses(sender.send_direction(), datagram.connection);
        let length = 8 + datagram.payload_bytes() as u16;
        let packet = &mut self.buffer;
        packet.clear();
        let addresses = write_ip_header(packet, from.0, to.0, PROTOCOL_UDP, datagram.ecn);
        set_length(packet, length);
        let udp = packet.len();
        for field in [from.1, to.1, length, 0] {
            packet.extend_from_slice(&field.to_be_bytes());
        }
        packet.extend_from_slice(&datagram.payload());
        let pseudo =
            sum_words(&packet[addresses..udp]) + u64::from(length) + u64::from(PROTOCOL_UDP);
        // Zero would mean: no checksum.
        let checksum = match fold_checksum(pseudo + sum_words(&packet[udp..])) {
            0 => 0xffff,
            checksum => checksum,
        };
        packet[udp + 6..udp + 8].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Returns the file.
    pub fn finish(self) -> Vec<u8> {
        self.out
    }
}

/// Writes an IP header without options (RFC 791, RFC 8200) and returns the offset of its addresses. Length and checksum
/// remain empty.
fn write_ip_header(
    packet: &mut Vec<u8>,
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    ecn: Ecn,
) -> usize {
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
        let checksum = fold_checksum(sum_words(&packet[..20]));
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
/// The option kind (RFC 7413 section 4.1.1).
const FAST_OPEN: u8 = 34;
/// A cookie with Linux's length of 8 bytes. Its content has no effect.
const COOKIE: [u8; 8] = *b"bentpipe";

/// The window shift counts of the two ends of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowScaling {
    client: u8,
    server: u8,
    /// Whether both ends offer the option.
    is_enabled: bool,
}

/// Returns the smallest shift that can advertise the whole buffer, at most 14 (RFC 7323 section 2.3).
fn smallest_shift(spec: &TcpSpec) -> u8 {
    (0..14).find(|shift| 65_535 << shift >= spec.receive_buffer_bytes).unwrap_or(14)
}

impl WindowScaling {
    /// Derives the scaling of a connection between these two endpoints.
    pub fn new(client: &TcpSpec, server: &TcpSpec) -> WindowScaling {
        let agreed = client.window_scaling && server.window_scaling;
        WindowScaling {
            client: smallest_shift(client),
            server: smallest_shift(server),
            is_enabled: agreed,
        }
    }

    fn window_shift(self, side: Side) -> u8 {
        match side {
            Side::Client => self.client,
            Side::Server => self.server,
        }
    }
}

/// Writes the header of `segment` from `sender` and returns the offset of its checksum.
fn write_tcp_header(
    out: &mut Vec<u8>,
    segment: &Segment,
    ports: [u16; 2],
    sender: Side,
    scaling: WindowScaling,
) -> usize {
    let start = out.len();
    ports.iter().for_each(|port| out.extend_from_slice(&port.to_be_bytes()));
    // Modulo 2^32; both initial sequence numbers are 0.
    out.extend_from_slice(&(segment.sequence as u32).to_be_bytes());
    let has_ack = segment.flags.has(Flags::ACK);
    let acknowledgement = if has_ack { segment.acknowledgement as u32 } else { 0 };
    out.extend_from_slice(&acknowledgement.to_be_bytes());
    out.extend_from_slice(&[0, segment.flags.0]);
    // The window of a SYN is never scaled (RFC 7323 section 2.2).
    let is_scaled = scaling.is_enabled && !segment.flags.has(Flags::SYN);
    let window = segment.window >> if is_scaled { scaling.window_shift(sender) } else { 0 };
    out.extend_from_slice(&(window.min(65_535) as u16).to_be_bytes());
    let checksum = out.len();
    out.extend_from_slice(&[0; 4]);
    write_options(out, segment, scaling.window_shift(sender));
    while !(out.len() - start).is_multiple_of(4) {
        out.push(NOP);
    }
    let words = (out.len() - start) / 4;
    out[start + 12] = (words as u8) << 4;
    checksum
}

fn write_options(out: &mut Vec<u8>, segment: &Segment, shift: u8) {
    if let Some(syn) = &segment.syn {
        out.extend_from_slice(&[MSS, 4]);
        out.extend_from_slice(&syn.mss.to_be_bytes());
        if syn.sack {
            out.extend_from_slice(&[SACK_PERMITTED, 2]);
        }
    }
    if let Some((value, echo)) = segment.timestamps {
        // RFC 7323 appendix A aligns the numbers. In a SYN, SACK permitted replaces the NOPs.
        if !segment.syn.as_ref().is_some_and(|syn| syn.sack) {
            out.extend_from_slice(&[NOP, NOP]);
        }
        out.extend_from_slice(&[TIMESTAMPS, 10]);
        out.extend_from_slice(&value.to_be_bytes());
        out.extend_from_slice(&echo.to_be_bytes());
    }
    if let Some(syn) = &segment.syn {
        if syn.window_scaling {
            out.extend_from_slice(&[NOP, WINDOW_SCALE, 3, shift]);
        }
        if syn.fast_open {
            out.extend_from_slice(&[FAST_OPEN, 2 + COOKIE.len() as u8]);
            out.extend_from_slice(&COOKIE);
        }
    }
    if let Some(sack) = &segment.sack
        && !sack.is_empty()
    {
        let blocks = sack.as_slice();
        out.extend_from_slice(&[NOP, NOP, SACK, 2 + 8 * blocks.len() as u8]);
        for (from, to) in blocks {
            out.extend_from_slice(&(*from as u32).to_be_bytes());
            out.extend_from_slice(&(*to as u32).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use transport::tcp::{SackBlocks, SynOptions};

    fn segment() -> Segment {
        Segment {
            sequence: (1 << 32) + 7,
            acknowledgement: (3 << 32) + 9,
            window: 0x0012_3456,
            flags: Flags::ACK.with(Flags::PSH),
            timestamps: None,
            sack: None,
            syn: None,
            data: Bytes::new(),
            connection: 0,
            header_bytes: 40,
            ecn: units::Ecn::NotEct,
            retransmission: false,
        }
    }

    const SCALING: WindowScaling = WindowScaling { client: 8, server: 2, is_enabled: true };

    fn written(segment: &Segment, scaling: WindowScaling) -> Vec<u8> {
        let mut out = Vec::new();
        assert_eq!(write_tcp_header(&mut out, segment, [1024, 443], Side::Client, scaling), 16);
        out
    }

    #[test]
    fn a_header_without_options() {
        let plain = [4, 0, 1, 0xbb, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, 0x18, 0x12, 0x34, 0, 0, 0, 0];
        assert_eq!(written(&segment(), SCALING), plain);
        let unscaled = written(&segment(), WindowScaling { is_enabled: false, ..SCALING });
        assert_eq!(unscaled[14..16], [0xff, 0xff]);
    }

    #[test]
    fn a_syn_with_every_option() {
        let offer = SynOptions { mss: 1460, sack: true, window_scaling: true, fast_open: true };
        let syn = Segment {
            flags: Flags::SYN,
            syn: Some(Box::new(offer)),
            timestamps: Some((0x0102_0304, 0)),
            ..segment()
        };
        let bytes = written(&syn, SCALING);
        let mut expected = vec![2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 8];
        expected.extend(b"\x22\x0abentpipe\x01\x01");
        assert_eq!(bytes[20..], expected);
        assert_eq!((bytes[12] >> 4) as usize * 4, bytes.len());
        // Without the ACK flag, the acknowledgement is 0. The window is unscaled and limited to 16 bits.
        assert_eq!((&bytes[8..12], &bytes[14..16]), (&[0; 4][..], &[0xff, 0xff][..]));
    }

    #[test]
    fn sack_blocks_follow_timestamps() {
        let mut sack = SackBlocks::default();
        sack.push(0x0a, 0x0b);
        sack.push(1 << 32, (1 << 32) + 1);
        let ack = Segment { sack: Some(Box::new(sack)), timestamps: Some((1, 2)), ..segment() };
        let bytes = written(&ack, SCALING);
        let stamps = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        let blocks = [1, 1, 5, 18, 0, 0, 0, 10, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!((&bytes[20..32], &bytes[32..]), (&stamps[..], &blocks[..]));
    }
}

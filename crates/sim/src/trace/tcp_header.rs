//! TCP headers in wire format (RFC 9293 section 3.1), of segments with initial sequence number 0.

use transport::Side;
use transport::tcp::{Flags, Segment, TcpSpec};

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
pub fn write_tcp_header(
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

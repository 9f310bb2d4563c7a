use super::*;
use crate::classifier;
use units::Ecn;

/// Maximum payload beside an IPv6 header and a TCP header with timestamps.
const MSS: usize = 1428;
const CE: u8 = 0b11;

/// Returns the RFC 1071 sum of `bytes` without the final complement.
fn sum(bytes: &[u8]) -> u32 {
    let mut sum = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// Returns the sum over the pseudo header (RFC 9293 section 3.1, RFC 8200 section 8.1) for a payload of `length`.
fn pseudo(packet: &[u8], protocol: u8, length: usize) -> u32 {
    let addresses = if packet[0] >> 4 == 4 { 12..20 } else { 8..40 };
    let rest = [(length >> 8) as u8, length as u8, 0, protocol];
    sum(&[&packet[addresses], &rest].concat())
}

struct Kind {
    six: bool,
    udp: bool,
}

const KINDS: [Kind; 4] = [
    Kind { six: false, udp: false },
    Kind { six: false, udp: true },
    Kind { six: true, udp: false },
    Kind { six: true, udp: true },
];

impl Kind {
    fn start(&self) -> usize {
        if self.six { 40 } else { 20 }
    }

    /// TCP with timestamps, so its header has 32 bytes.
    fn headers(&self) -> usize {
        self.start() + if self.udp { 8 } else { 32 }
    }

    fn offset(&self) -> usize {
        if self.udp { 6 } else { 16 }
    }

    fn gso_type(&self) -> u8 {
        match (self.udp, self.six) {
            (true, _) => 5,
            (false, false) => 1,
            (false, true) => 4,
        }
    }

    /// Builds a packet with this payload, marked CE, with the partial checksum of the kernel.
    fn packet(&self, payload: &[u8]) -> Vec<u8> {
        let (start, all) = (self.start(), self.headers() + payload.len());
        let mut packet = vec![0; self.headers()];
        let protocol = if self.udp { 17 } else { 6 };
        if self.six {
            packet[0] = 0x60;
            packet[1] = CE << 4;
            packet[4..6].copy_from_slice(&((all - 40) as u16).to_be_bytes());
            packet[6] = protocol;
            packet[7] = 64;
            packet[8..40].copy_from_slice(&[0xfd; 32]);
        } else {
            packet[0] = 0x45;
            packet[1] = CE;
            packet[2..4].copy_from_slice(&(all as u16).to_be_bytes());
            packet[8] = 64;
            packet[9] = protocol;
            packet[12..20].copy_from_slice(&[10, 78, 0, 2, 10, 78, 0, 1]);
            let right = !(sum(&packet[..20]) as u16);
            packet[10..12].copy_from_slice(&right.to_be_bytes());
        }
        packet[start..start + 4].copy_from_slice(&[0x10, 0, 0x20, 0]);
        if !self.udp {
            packet[start + 4..start + 8].copy_from_slice(&7u32.to_be_bytes());
            packet[start + 12] = 0x80;
            packet[start + 13] = 0x18; // PSH and ACK
        }
        let part = pseudo(&packet, protocol, all - start);
        let at = start + self.offset();
        packet[at..at + 2].copy_from_slice(&(part as u16).to_be_bytes());
        packet.extend_from_slice(payload);
        packet
    }

    /// Builds a frame as the device hands it over.
    fn frame(&self, gso_type: u8, gso_size: u16, payload: &[u8]) -> Vec<u8> {
        let packet = self.packet(payload);
        let header = VirtioNetHdr {
            flags: NEEDS_CHECKSUM,
            gso_type,
            // The value of the kernel for forwarded packets.
            hdr_len: packet.len() as u16,
            gso_size,
            csum_start: self.start() as u16,
            csum_offset: self.offset() as u16,
        };
        let mut frame = vec![0; VIRTIO_NET_HDR_LEN];
        header.encode(&mut frame).unwrap();
        frame.extend_from_slice(&packet);
        frame
    }

    fn check(&self, packet: &[u8]) {
        assert_eq!(classifier::ecn(packet), Some(Ecn::Ce));
        let (start, protocol) = (self.start(), if self.udp { 17 } else { 6 });
        let length = packet.len() - start;
        let whole = pseudo(packet, protocol, length) + sum(&packet[start..]);
        assert_eq!(sum(&whole.to_be_bytes()), 0xffff, "checksum");
        let length_field = if self.six { [packet[4], packet[5]] } else { [packet[2], packet[3]] };
        let length_field = usize::from(u16::from_be_bytes(length_field));
        assert_eq!(length_field, if self.six { packet.len() - 40 } else { packet.len() });
        if !self.six {
            assert_eq!(sum(&packet[..20]), 0xffff, "header checksum");
        }
    }
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 % 251) as u8).collect()
}

#[test]
fn super_frames_are_split_as_by_the_kernel() {
    for kind in &KINDS {
        let payload = content(20 * MSS + 5);
        let mut frame = kind.frame(kind.gso_type(), MSS as u16, &payload);
        let mut cutter = GsoSplitter::new(1500);
        let pieces = cutter.split(&mut frame).expect("well formed");
        assert_eq!(pieces.len(), 21);
        let mut found = Vec::new();
        for index in 0..21 {
            let packet = pieces.get(index);
            assert!(packet.len() <= 1500);
            kind.check(packet);
            let start = kind.start();
            if !kind.udp {
                let number = u32::from_be_bytes(packet[start + 4..start + 8].try_into().unwrap());
                assert_eq!(number as usize, 7 + index * MSS);
                assert_eq!(packet[start + 13] & 0x08 != 0, index == 20, "PSH is the last one's");
            }
            found.extend_from_slice(&packet[kind.headers()..]);
        }
        assert_eq!(found, payload);
    }
}

#[test]
fn a_single_packet_gets_its_checksum() {
    for kind in &KINDS {
        for length in [0, 1, 1000] {
            let mut frame = kind.frame(GSO_NONE, 0, &content(length));
            let mut cutter = GsoSplitter::new(1500);
            let pieces = cutter.split(&mut frame).expect("well formed");
            assert_eq!(pieces.len(), 1);
            kind.check(pieces.get(0));
        }
    }
    // A packet with a complete checksum is not changed.
    let packet = KINDS[1].packet(&content(10));
    let mut frame = [vec![0; VIRTIO_NET_HDR_LEN], packet.clone()].concat();
    let mut cutter = GsoSplitter::new(1500);
    assert_eq!(cutter.split(&mut frame).unwrap().get(0), packet);
}

#[test]
fn a_zero_checksum_becomes_all_ones() {
    // Two bytes that bring the sum over a UDP datagram to 0xffff, so that its complement is 0.
    let kind = &KINDS[3];
    let mut packet = kind.packet(&[0, 0]);
    let whole = sum(&packet[40..]);
    packet[48..50].copy_from_slice(&(!(whole as u16)).to_be_bytes());
    complete_checksum(&mut packet, 40, 6).unwrap();
    assert_eq!(packet[46..48], [0xff, 0xff]);
}

#[test]
fn invalid_super_frames_are_rejected() {
    let payload = content(20 * MSS);
    let mut cutter = GsoSplitter::new(1500);
    for kind in &KINDS {
        let right = kind.frame(kind.gso_type(), MSS as u16, &payload);
        assert!(cutter.split(&mut right.clone()).is_some());
        // Another protocol, a packet beyond the MTU, no size, more packets than allowed.
        for (gso_type, size) in [
            (3, 1448),
            (0x7f, 1448),
            (kind.gso_type(), 1501),
            (kind.gso_type(), 0),
            (kind.gso_type(), 1),
        ] {
            let mut wrong = kind.frame(gso_type, size, &payload);
            assert!(cutter.split(&mut wrong).is_none(), "{gso_type} {size}");
        }
        assert!(cutter.split(&mut kind.frame(kind.gso_type(), MSS as u16, &[])).is_none());
        // Shorter than its header fields, down to 0 bytes.
        for length in 0..VIRTIO_NET_HDR_LEN + kind.headers() {
            assert!(cutter.split(&mut right[..length].to_vec()).is_none(), "{length}");
        }
        // Invalid positions of the checksum.
        for (index, byte) in [(6, 0xff), (7, 0xff), (8, 0xff), (9, 0xff)] {
            let mut wrong = right.clone();
            wrong[index] = byte;
            assert!(cutter.split(&mut wrong).is_none(), "{index}");
            let mut single = kind.frame(GSO_NONE, 0, &content(100));
            single[index] = byte;
            let _ = cutter.split(&mut single);
        }
    }
}

#[test]
fn the_smallest_segments_of_the_largest_frame_fit() {
    let kind = &KINDS[0];
    let mut cutter = GsoSplitter::new(1500);
    let payload = content(65_535 - kind.headers());
    let mut frame = kind.frame(kind.gso_type(), 48, &payload);
    assert_eq!(cutter.split(&mut frame).expect("allowed").len(), payload.len().div_ceil(48));
}

#[test]
fn slow_links_have_no_offload() {
    let (slow, fast) = (Some(MIN_OFFLOAD_RATE_BIT_S - 1), Some(MIN_OFFLOAD_RATE_BIT_S));
    for (rates, expected) in [
        ([None, None], true),
        ([fast, None], true),
        ([fast, fast], true),
        ([slow, fast], false),
        ([None, slow], false),
    ] {
        assert_eq!(uses_offload(rates), expected, "{rates:?}");
    }
}

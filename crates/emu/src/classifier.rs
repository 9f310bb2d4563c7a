//! The fields of an IP packet that the stages use: the hash of its 5-tuple, and the ECN field, which they may change.

use std::collections::BTreeMap;
use std::ops::Range;

use units::{Ecn, FlowHash, NodeId, Packet, SequenceNumbers, Time};

/// Returns the ECN field of an IPv4 or IPv6 packet (RFC 3168 section 5); `None` for any other frame.
pub fn ecn(frame: &[u8]) -> Option<Ecn> {
    let bits = match frame.first()? >> 4 {
        4 if frame.len() >= 20 => frame[1] & 0b11,
        6 if frame.len() >= 40 => (frame[1] >> 4) & 0b11,
        _ => return None,
    };
    Some(match bits {
        0b01 => Ecn::Ect1,
        0b10 => Ecn::Ect0,
        0b11 => Ecn::Ce,
        _ => Ecn::NotEct,
    })
}

/// Returns the hash of the 5-tuple, which separates connections in a queue per flow (FQ-CoDel). Fragments use the hash
/// without ports, because only the first fragment has the ports.
pub fn flow_hash(frame: &[u8]) -> FlowHash {
    let Some(PacketEndpoints { protocol, addresses: [source, destination], ports }) =
        endpoints(frame)
    else {
        return FlowHash::default();
    };
    let hash = FlowHash::of(&frame[source], &frame[destination], protocol);
    match ports {
        Some([source, destination]) => hash.ports(source, destination),
        None => hash,
    }
}

/// The protocol, addresses and ports of a packet.
struct PacketEndpoints {
    protocol: u8,
    /// The positions of both addresses.
    addresses: [Range<usize>; 2],
    /// The ports of TCP or UDP, unless the packet is a fragment.
    ports: Option<[u16; 2]>,
}

/// Parses the addresses and ports of an IP packet.
fn endpoints(frame: &[u8]) -> Option<PacketEndpoints> {
    let (protocol, addresses, at) = match frame.first()? >> 4 {
        4 if frame.len() >= 20 => {
            // RFC 791 section 3.1: the header has at least 5 words; a fragment has the flag MF or an offset.
            let header = usize::from(frame[0] & 15) * 4;
            let whole = frame[6] & 0b0011_1111 == 0 && frame[7] == 0;
            (frame[9], [12..16, 16..20], (header >= 20 && whole).then_some(header))
        }
        6 if frame.len() >= 40 => (frame[6], [8..24, 24..40], Some(40)),
        _ => return None,
    };
    let ports = match at.filter(|_| matches!(protocol, 6 | 17)).and_then(|at| frame.get(at..at + 4))
    {
        Some(&[a, b, c, d]) => Some([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]),
        _ => None,
    };
    Some(PacketEndpoints { protocol, addresses, ports })
}

/// The user of the packets from and to a port of TCP or UDP. All other packets belong to user 0.
#[derive(Clone, Debug, Default)]
pub struct PortUserMap(BTreeMap<u16, u32>);

impl PortUserMap {
    /// Creates the map from pairs of port and user.
    pub fn new(ports: &[(u16, u32)]) -> PortUserMap {
        PortUserMap(ports.iter().copied().collect())
    }

    fn user_of(&self, frame: &[u8]) -> u32 {
        if self.0.is_empty() {
            return 0;
        }
        let ports = endpoints(frame).and_then(|ends| ends.ports).unwrap_or_default();
        ports.iter().find_map(|port| self.0.get(port)).copied().unwrap_or(0)
    }
}

/// Returns the sequence numbers of the data of a complete TCP segment; the default for any other frame.
pub fn tcp_sequence(frame: &[u8]) -> SequenceNumbers {
    let segment = match frame.first().map(|first| first >> 4) {
        // RFC 791 section 3.1: protocol 6, no fragment, and no padding of the frame.
        Some(4)
            if frame.len() >= 20
                && frame[9] == 6
                && frame[6] & 0b0011_1111 == 0
                && frame[7] == 0 =>
        {
            let total = usize::from(u16::from_be_bytes([frame[2], frame[3]]));
            frame.get(usize::from(frame[0] & 15) * 4..total)
        }
        Some(6) if frame.len() >= 40 && frame[6] == 6 => {
            let length = usize::from(u16::from_be_bytes([frame[4], frame[5]]));
            frame.get(40..40 + length)
        }
        _ => None,
    };
    // RFC 9293 section 3.1.
    let Some(segment) = segment.filter(|segment| segment.len() >= 20) else {
        return SequenceNumbers::default();
    };
    let first = u32::from_be_bytes([segment[4], segment[5], segment[6], segment[7]]);
    let data = segment.len().saturating_sub(usize::from(segment[12] >> 4) * 4);
    SequenceNumbers { first, next: first.wrapping_add(data as u32) }
}

/// Returns the packet header that the stages use for `frame`, which arrived at `now`. The handle is not set.
pub fn classify(frame: &[u8], ecn: Ecn, now: Time, users: &PortUserMap) -> Packet {
    Packet {
        user: users.user_of(frame),
        tuple: flow_hash(frame),
        sequence: tcp_sequence(frame),
        destination: NodeId(1),
        ecn,
        created_at: now,
        ..Packet::of_bytes(frame.len() as u32)
    }
}

/// Writes the ECN field, and for IPv4 the checksum (RFC 1624 equation 3).
pub fn set_ecn(frame: &mut [u8], ecn: Ecn) {
    match frame.first().map(|first| first >> 4) {
        Some(4) if frame.len() >= 20 => {
            let old = u16::from_be_bytes([frame[0], frame[1]]);
            frame[1] = (frame[1] & !0b11) | ecn as u8;
            let new = u16::from_be_bytes([frame[0], frame[1]]);
            let checksum = u16::from_be_bytes([frame[10], frame[11]]);
            let mut sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
            sum = (sum & 0xffff) + (sum >> 16);
            sum = (sum & 0xffff) + (sum >> 16);
            frame[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
        Some(6) if frame.len() >= 40 => {
            frame[1] = (frame[1] & !0b11_0000) | (ecn as u8) << 4;
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use link::{
        FqCodelSpec, LinkOutput, QueueSpec, ServiceSpec, SimplexLink, StageSpec, TransmitSpec,
    };

    use super::*;

    fn checksum(header: &[u8]) -> u16 {
        let mut sum: u32 =
            header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn flows_differ_by_port_and_direction() {
        let mut header = [0u8; 28];
        header[0] = 0x45;
        header[9] = 17;
        header[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        header[20..24].copy_from_slice(&[0, 1, 0, 2]);
        let one = flow_hash(&header);
        assert_eq!(flow_hash(&header), one);
        header[23] = 3;
        assert_ne!(flow_hash(&header), one);
        assert_eq!(flow_hash(&header[..10]), FlowHash::default());
    }

    #[test]
    fn tcp_segments_have_sequence_numbers() {
        // IPv4 with a header of 20 bytes, then TCP with 12 bytes of options and 7 of data, and a padding byte.
        let mut frame = vec![0u8; 20 + 32 + 7 + 1];
        (frame[0], frame[9], frame[3]) = (0x45, 6, 59);
        frame[24..28].copy_from_slice(&0xffff_fffe_u32.to_be_bytes());
        frame[32] = 8 << 4;
        assert_eq!(tcp_sequence(&frame), SequenceNumbers { first: 0xffff_fffe, next: 5 });
        let mut fragment = frame.clone();
        fragment[7] = 1;
        let mut datagram = frame.clone();
        datagram[9] = 17;
        let mut v6 = vec![0u8; 40];
        (v6[0], v6[6], v6[5]) = (0x60, 6, 39);
        v6.extend_from_slice(&frame[20..59]);
        assert_eq!(tcp_sequence(&v6), tcp_sequence(&frame));
        for other in [&fragment[..], &datagram, &frame[..40], &v6[..60], &[]] {
            assert_eq!(tcp_sequence(other), SequenceNumbers::default());
        }
    }

    /// Builds a UDP datagram of 200 bytes from `from` to `to`.
    fn datagram(from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
        let mut frame = vec![0u8; 200];
        frame[0] = 0x45;
        frame[9] = 17;
        frame[12..16].copy_from_slice(&from.0);
        frame[16..20].copy_from_slice(&to.0);
        frame[20..22].copy_from_slice(&from.1.to_be_bytes());
        frame[22..24].copy_from_slice(&to.1.to_be_bytes());
        frame
    }

    #[test]
    fn a_queue_shares_by_connection_as_in_virtual_time() {
        // One connection, and six of another host, with the addresses and ports of virtual time.
        let ends = |host, port| (([198, 18, 0, host], port), ([198, 19, 0, host], 443));
        let all = (0..7).map(|n| if n == 0 { ends(1, 1024) } else { ends(2, 1023 + n) });
        let frames: Vec<Vec<u8>> = all.map(|(client, server)| datagram(client, server)).collect();
        let expected = FlowHash::of(&[198, 18, 0, 2], &[198, 19, 0, 2], 17).ports(1029, 443);
        assert_eq!(flow_hash(&frames[6]), expected);
        let queue = QueueSpec::FqCodel(FqCodelSpec {
            limit_packets: 10_240,
            flows: 1024,
            quantum_bytes: 1514,
            target_ns: 5_000_000,
            interval_ns: 100_000_000,
            ecn: false,
        });
        let service = ServiceSpec::Rate { rate_bit_s: 1_600_000, changes: Vec::new() };
        let mut line = SimplexLink::build(
            &[StageSpec::Transmit(TransmitSpec { queue, service })],
            "test.up",
            1,
        )
        .unwrap();
        let mut out = LinkOutput::default();
        // Each connection sends at the full rate of the link, 1,000 packets a second.
        for number in 0..10_000u64 {
            let now = Time(number * 1_000_000);
            for (connection, frame) in (0..).zip(&frames) {
                let packet = Packet {
                    handle: connection,
                    ..classify(frame, Ecn::NotEct, now, &PortUserMap::default())
                };
                line.push(now, packet, &mut out);
            }
        }
        line.poll(Time(10_000_000_000), &mut out);
        let mut shares = [0; 7];
        out.delivered.iter().for_each(|(_, packet)| shares[packet.handle as usize] += 1);
        for share in shares {
            assert!((1400..=1457).contains(&share), "{shares:?}");
        }
    }

    #[test]
    fn fragments_of_a_packet_have_one_flow_hash() {
        let whole = datagram(([10, 0, 0, 1], 1), ([10, 0, 0, 2], 2));
        let (mut first, mut second) = (whole.clone(), whole.clone());
        first[6] = 0b0010_0000;
        second[7] = 22;
        second[20..24].copy_from_slice(&[7, 7, 7, 7]); // data
        assert_eq!(flow_hash(&first), flow_hash(&second));
        assert_ne!(flow_hash(&first), flow_hash(&whole));
        // The flag DF does not make a fragment.
        let dont = {
            let mut frame = whole.clone();
            frame[6] = 0b0100_0000;
            frame
        };
        assert_eq!(flow_hash(&dont), flow_hash(&whole));
    }

    #[test]
    fn an_ecn_mark_does_not_change_the_hash_of_an_invalid_header() {
        let mut header = [0u8; 40];
        header[0] = 0x40; // no length
        header[9] = 6;
        let before = flow_hash(&header);
        set_ecn(&mut header, Ecn::Ce);
        assert_eq!(flow_hash(&header), before);
    }

    #[test]
    fn an_ecn_mark_updates_the_checksum() {
        // An IPv4 header without options, protocol UDP, with a correct checksum.
        for tos in [0u8, 0b10, 0b01, 0b1011_1000] {
            let mut header =
                [0x45, tos, 0, 100, 0x12, 0x34, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            let right = checksum(&header);
            header[10..12].copy_from_slice(&right.to_be_bytes());
            set_ecn(&mut header, Ecn::Ce);
            assert_eq!(ecn(&header), Some(Ecn::Ce));
            assert_eq!(header[1] & !0b11, tos & !0b11);
            assert_eq!(checksum(&header), 0, "the sum over a right header is zero");
        }
        let mut six = [0u8; 40];
        six[0] = 0x60;
        six[1] = 0x2f;
        set_ecn(&mut six, Ecn::Ect0);
        assert_eq!((ecn(&six), six[1]), (Some(Ecn::Ect0), 0x2f));
        set_ecn(&mut six, Ecn::NotEct);
        assert_eq!((ecn(&six), six[1]), (Some(Ecn::NotEct), 0x0f));
        assert_eq!(ecn(&[0x00; 64]), None);
        assert_eq!(ecn(&[]), None);
    }
}

//! What the stages need of an IP packet: its length and its ECN field, which they may change.

use units::Ecn;

/// ECN field of an IPv4 or IPv6 packet (RFC 3168 section 5); none for anything else.
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

/// A number for the packet's flow: a hash of addresses, protocol and ports (FNV-1a), so that a queue
/// per flow (FQ-CoDel) tells flows apart.
pub fn flow(frame: &[u8]) -> u32 {
    let (protocol, addresses, ports) = match frame.first().map(|first| first >> 4) {
        Some(4) if frame.len() >= 20 => (frame[9], 12..20, usize::from(frame[0] & 15) * 4),
        Some(6) if frame.len() >= 40 => (frame[6], 8..40, 40),
        _ => return 0,
    };
    // An IPv4 header that claims to be shorter than it is has no ports behind it (RFC 791 section 3.1: at least 5 words).
    let has_ports = matches!(protocol, 6 | 17) && ports >= 20;
    let ports = if has_ports { frame.get(ports..ports + 4) } else { None };
    let bytes = frame[addresses]
        .iter()
        .chain(std::iter::once(&protocol))
        .chain(ports.into_iter().flatten());
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
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
        let one = flow(&header);
        assert_eq!(flow(&header), one);
        header[23] = 3;
        assert_ne!(flow(&header), one);
        assert_eq!(flow(&header[..10]), 0);
    }

    #[test]
    fn a_mark_leaves_the_flow_of_a_broken_header_alone() {
        let mut header = [0u8; 40];
        header[0] = 0x40; // no length
        header[9] = 6;
        let before = flow(&header);
        set_ecn(&mut header, Ecn::Ce);
        assert_eq!(flow(&header), before);
    }

    #[test]
    fn a_mark_keeps_the_checksum_right() {
        // An IPv4 header without options, protocol UDP, with a right checksum.
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

//! The header of a media datagram: the RTP header (RFC 3550 section 5.1), the instant of the full datagram, and the
//! rest of the number.

use units::Time;

/// Length of the RTP header and the fields after it, bytes.
pub const MEDIA_HEADER_BYTES: usize = 22;

/// Frequency of the RTP clock, Hz: that of telephony codecs (RFC 3551 table 4).
const CLOCK_HZ: u128 = 8000;

/// Fields of a datagram's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaHeader {
    /// Its number, from 0.
    pub number: u32,
    /// Instant at which the datagram was full.
    pub due: Time,
    /// The datagram is the first after a silence (RFC 3551 section 4.1).
    pub marker: bool,
}

impl MediaHeader {
    /// Writes the header to the start of `datagram`.
    pub fn write(&self, rtp_type: u8, datagram: &mut [u8]) {
        let due = self.due.nanos();
        let ticks = (u128::from(due) * CLOCK_HZ / 1_000_000_000) as u32;
        let [high, low] = [(self.number >> 16) as u16, self.number as u16].map(u16::to_be_bytes);
        // Version 2; no padding, extension or contributing sources.
        datagram[0] = 0x80;
        datagram[1] = u8::from(self.marker) << 7 | rtp_type & 0x7f;
        datagram[2..4].copy_from_slice(&low);
        datagram[4..8].copy_from_slice(&ticks.to_be_bytes());
        datagram[12..20].copy_from_slice(&due.to_be_bytes());
        datagram[20..22].copy_from_slice(&high);
    }

    /// Reads the header of `datagram`. Returns `None` if it is no media datagram.
    pub fn read(datagram: &[u8]) -> Option<MediaHeader> {
        let head: &[u8; MEDIA_HEADER_BYTES] = datagram.first_chunk()?;
        if head[0] != 0x80 {
            return None;
        }
        let word = |at: usize| u32::from(head[at]) << 8 | u32::from(head[at + 1]);
        let due = u64::from_be_bytes(*head[12..].first_chunk()?);
        // A larger instant would collide with "never", and no clock reaches it.
        (due < Time::MAX.nanos() / 2).then_some(MediaHeader {
            number: word(20) << 16 | word(2),
            due: Time(due),
            marker: head[1] & 0x80 != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_round_trips() {
        for (number, due, first) in [
            (0, 0, true),
            (65_535, 20_000_000, false),
            (65_536, 1 << 60, false),
            (u32::MAX, 1, true),
        ] {
            let head = MediaHeader { number, due: Time(due), marker: first };
            let mut datagram = [0; 172];
            head.write(18, &mut datagram);
            assert_eq!(MediaHeader::read(&datagram), Some(head));
            assert_eq!(datagram[1] & 0x7f, 18);
        }
        assert_eq!(MediaHeader::read(&[0x80; MEDIA_HEADER_BYTES - 1]), None);
        assert_eq!(MediaHeader::read(&[0; MEDIA_HEADER_BYTES]), None);
        assert_eq!(
            MediaHeader::read(&[0x80; MEDIA_HEADER_BYTES]),
            None,
            "an instant that cannot be"
        );
    }
}

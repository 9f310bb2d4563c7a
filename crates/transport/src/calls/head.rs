//! What stands at the beginning of a datagram: RTP's header (RFC 3550 section 5.1), and in what it carries the instant
//! at which it was full and the rest of its number.

use units::Time;

/// Bytes of RTP's header and of what follows it.
pub const HEAD_BYTES: usize = 22;

/// Ticks of RTP's clock in a second: that of the codecs of telephony (RFC 3551 table 4).
const CLOCK_HZ: u128 = 8000;

/// What a datagram says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its number, from 0.
    pub number: u32,
    /// When it was full.
    pub due: Time,
    /// It is the first after a silence (RFC 3551 section 4.1).
    pub first: bool,
}

impl Head {
    /// Writes it to the beginning of `datagram`.
    pub fn write(&self, rtp_type: u8, datagram: &mut [u8]) {
        let due = self.due.nanos();
        let ticks = (u128::from(due) * CLOCK_HZ / 1_000_000_000) as u32;
        let [high, low] = [(self.number >> 16) as u16, self.number as u16].map(u16::to_be_bytes);
        // Version 2, no padding, extension or contributing sources.
        datagram[0] = 0x80;
        datagram[1] = u8::from(self.first) << 7 | rtp_type & 0x7f;
        datagram[2..4].copy_from_slice(&low);
        datagram[4..8].copy_from_slice(&ticks.to_be_bytes());
        datagram[12..20].copy_from_slice(&due.to_be_bytes());
        datagram[20..22].copy_from_slice(&high);
    }

    /// What `datagram` says; none if it is none of these.
    pub fn read(datagram: &[u8]) -> Option<Head> {
        let head: &[u8; HEAD_BYTES] = datagram.first_chunk()?;
        if head[0] != 0x80 {
            return None;
        }
        let word = |at: usize| u32::from(head[at]) << 8 | u32::from(head[at + 1]);
        let due = u64::from_be_bytes(*head[12..].first_chunk()?);
        // An instant that no clock of ours shows would meet "never".
        (due < Time::MAX.nanos() / 2).then_some(Head {
            number: word(20) << 16 | word(2),
            due: Time(due),
            first: head[1] & 0x80 != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_was_written() {
        for (number, due, first) in [
            (0, 0, true),
            (65_535, 20_000_000, false),
            (65_536, 1 << 60, false),
            (u32::MAX, 1, true),
        ] {
            let head = Head { number, due: Time(due), first };
            let mut datagram = [0; 172];
            head.write(18, &mut datagram);
            assert_eq!(Head::read(&datagram), Some(head));
            assert_eq!(datagram[1] & 0x7f, 18);
        }
        assert_eq!(Head::read(&[0x80; HEAD_BYTES - 1]), None);
        assert_eq!(Head::read(&[0; HEAD_BYTES]), None);
        assert_eq!(Head::read(&[0x80; HEAD_BYTES]), None, "an instant that cannot be");
    }
}

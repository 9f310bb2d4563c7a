//! Self-delimiting numeric values (RFC 5326 section 2, RFC 6256): seven bits per octet, most significant first. All
//! octets except the last have their first bit set.

/// The octets of the longest accepted number: 64 bits.
const MAX_OCTETS: usize = 10;

/// Returns the number of octets of `value`.
pub fn length(value: u64) -> usize {
    (64 - value.leading_zeros() as usize).div_ceil(7).max(1)
}

/// Appends `value`.
pub fn encode(value: u64, out: &mut Vec<u8>) {
    for index in (0..length(value)).rev() {
        let more = if index > 0 { 0x80 } else { 0 };
        out.push((value >> (7 * index)) as u8 & 0x7f | more);
    }
}

/// Removes a number from the start of `bytes`; `None` if it is incomplete or longer than 64 bits.
pub fn decode(bytes: &mut &[u8]) -> Option<u64> {
    let mut value: u64 = 0;
    for (index, octet) in bytes.iter().take(MAX_OCTETS).enumerate() {
        if value >> 57 != 0 {
            return None;
        }
        value = value << 7 | u64::from(octet & 0x7f);
        if octet & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_examples_of_rfc_6256_section_2() {
        for (value, octets) in [
            (0xabc, &[0x95, 0x3c][..]),
            (0x1234, &[0xa4, 0x34]),
            (0x4234, &[0x81, 0x84, 0x34]),
            (0x7f, &[0x7f]),
        ] {
            let mut out = Vec::new();
            encode(value, &mut out);
            assert_eq!(out, octets);
        }
    }

    #[test]
    fn incomplete_and_too_long_numbers_are_rejected() {
        for octets in [
            &[][..],
            &[0x80],
            &[0xff; 9],
            &[0xff; 20],
            &[0x83, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ] {
            assert_eq!(decode(&mut &octets[..]), None, "{octets:x?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(bits in 0u32..64, low in any::<u64>(), rest in any::<[u8; 2]>()) {
            let value = (1 << bits) | (low & ((1 << bits) - 1));
            let mut out = Vec::new();
            encode(value, &mut out);
            prop_assert_eq!(out.len(), length(value));
            out.extend(rest);
            let mut left = &out[..];
            prop_assert_eq!(decode(&mut left), Some(value));
            prop_assert_eq!(left, rest);
        }
    }
}

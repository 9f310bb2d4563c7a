//! Bundles whose payload is elsewhere: what is around it is kept by itself, and read without it.

use bytes::Bytes;
use hardy_bpv7::bpsec::no_keys;
use hardy_bpv7::bundle::ParsedBundle;
use units::Span;

use super::fragments::check_extent;
use super::parts::{payload_block, with_empty_payload};
use super::{Bundle, Eid, Wrong};

impl Bundle {
    /// Whether its payload is not in memory: then it cannot be [written](Bundle::encode) or [cut](Bundle::cut).
    pub fn is_away(&self) -> bool {
        self.away > 0
    }

    /// Lets go of its payload, which is elsewhere too.
    pub fn put_away(&mut self) {
        self.away = self.payload_bytes();
        self.payload.clear();
    }

    /// Its payload is here again.
    ///
    /// # Errors
    /// It is not as long.
    pub fn bring(&mut self, payload: Vec<Bytes>) -> Result<(), Wrong> {
        let came: u64 = payload.iter().map(|part| part.len() as u64).sum();
        if came != self.payload_bytes() {
            return Err(Wrong(format!("{came} bytes of {} are there", self.payload_bytes())));
        }
        (self.payload, self.away) = (payload, 0);
        Ok(())
    }

    /// All but its payload, as it is here: what comes before it and what comes after it.
    pub fn around(&self) -> [Bytes; 2] {
        // The block of the previous node is that of whom it came from, not of who passes it on.
        let previous = self.previous.clone().unwrap_or(Eid::Null);
        let mut parts = self.encode(&previous, Span::ZERO).into_iter();
        let first = parts.next().unwrap_or_default();
        [first, parts.next_back().unwrap_or_default()]
    }

    /// The bundle that [`Bundle::around`] has written, its payload away.
    ///
    /// # Errors
    /// It is another one's, or has to be read with its payload.
    pub fn from_around(around: [Bytes; 2], payload_bytes: u64) -> Result<Bundle, Wrong> {
        let [first, mut end] = around;
        let wrong = || Wrong("no bundle around a payload".to_owned());
        let (start, _, at) = payload_block(&first).ok_or_else(wrong)?;
        if end.last() != Some(&0xff) {
            return Err(wrong());
        }
        end.truncate(end.len() - 1);
        let rest = with_empty_payload(&first, start, at);
        let parsed = ParsedBundle::parse(&rest, no_keys);
        let parsed = parsed.map_err(|error| Wrong(error.to_string()))?;
        let mut bundle = Bundle::of(parsed.bundle, &rest)?;
        check_extent(&bundle.id, payload_bytes)?;
        bundle.payload_frame =
            [Bytes::copy_from_slice(&first[start..]), Bytes::copy_from_slice(&end)];
        bundle.payload.clear();
        bundle.away = payload_bytes;
        Ok(bundle)
    }
}

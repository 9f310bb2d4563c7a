//! Bundles with a detached payload: the envelope around the payload is stored and decoded separately.

use bytes::Bytes;
use hardy_bpv7::bpsec::no_keys;
use hardy_bpv7::bundle::ParsedBundle;
use units::Span;

use super::fragments::check_extent;
use super::partial_parse::{find_payload_block, with_empty_payload};
use super::{Bundle, BundleError, Eid};

impl Bundle {
    /// Returns whether the payload is not in memory. Then [`Bundle::encode`] and [`Bundle::fragment`] are not possible.
    pub fn is_payload_detached(&self) -> bool {
        self.detached_bytes > 0
    }

    /// Drops the payload from memory. The caller must have stored it.
    pub fn detach_payload(&mut self) {
        self.detached_bytes = self.payload_bytes();
        self.payload.clear();
    }

    /// Restores the payload.
    ///
    /// # Errors
    /// The length differs.
    pub fn attach_payload(&mut self, payload: Vec<Bytes>) -> Result<(), BundleError> {
        let received: u64 = payload.iter().map(|part| part.len() as u64).sum();
        if received != self.payload_bytes() {
            return Err(BundleError(format!(
                "found a payload of {received} bytes, expected {}",
                self.payload_bytes()
            )));
        }
        (self.payload, self.detached_bytes) = (payload, 0);
        Ok(())
    }

    /// Returns the bundle without its payload: the bytes before and after it.
    pub fn envelope(&self) -> [Bytes; 2] {
        // The previous node is the sender of the received bundle, not this node.
        let previous = self.previous_node.clone().unwrap_or(Eid::Null);
        let mut parts = self.encode(&previous, Span::ZERO).into_iter();
        let first = parts.next().unwrap_or_default();
        [first, parts.next_back().unwrap_or_default()]
    }

    /// Decodes the bytes of [`Bundle::envelope`] as a bundle with a detached payload.
    ///
    /// # Errors
    /// The envelope does not match the payload length, or cannot be decoded without the payload.
    pub fn from_envelope(envelope: [Bytes; 2], payload_bytes: u64) -> Result<Bundle, BundleError> {
        let [first, mut end] = envelope;
        let wrong = || BundleError("the envelope does not match its payload".to_owned());
        let (start, _, at) = find_payload_block(&first).ok_or_else(wrong)?;
        if end.last() != Some(&0xff) {
            return Err(wrong());
        }
        end.truncate(end.len() - 1);
        let rest = with_empty_payload(&first, start, at);
        let parsed = ParsedBundle::parse(&rest, no_keys);
        let parsed = parsed.map_err(|error| BundleError(error.to_string()))?;
        let mut bundle = Bundle::from_parsed(parsed.bundle, &rest)?;
        check_extent(&bundle.id, payload_bytes)?;
        bundle.payload_frame =
            [Bytes::copy_from_slice(&first[start..]), Bytes::copy_from_slice(&end)];
        bundle.payload.clear();
        bundle.detached_bytes = payload_bytes;
        Ok(bundle)
    }
}

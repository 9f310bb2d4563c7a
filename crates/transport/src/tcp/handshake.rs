//! Options of a SYN, their negotiation, and the lengths of headers.

use super::{AckCounting, Flags, LossDetection, Segment, SynOptions, TIMESTAMP_BYTES, TcpSpec};

/// A Fast Open cookie of 8 bytes with kind, length and padding (RFC 7413 section 4.1.1).
const COOKIE_BYTES: u16 = 12;

/// Retransmissions of a SYN or SYN-ACK before the connection fails. Linux: tcp_syn_retries, without the four earlier
/// ones at even intervals since 6.5; its SYN-ACKs have five.
pub(super) const SYN_RETRIES: u32 = 6;

/// Options that both ends have negotiated, and local ones of the sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct NegotiatedOptions {
    pub sack: bool,
    pub dsack: bool,
    pub timestamps: bool,
    pub ecn: bool,
    pub rack: bool,
    pub adapt_reordering: bool,
    pub limited_transmit: bool,
    pub prr: bool,
    pub frto: bool,
    pub restart_after_idle: bool,
    pub ack_counting: AckCounting,
    /// Payload of a full segment.
    pub mss: u64,
    /// The initial threshold of duplicate ACKs.
    pub dup_threshold: u32,
    /// The threshold counts distance (FACK).
    pub fack: bool,
    pub initial_window: u64,
}

impl NegotiatedOptions {
    /// Negotiates the options of one end from both offers.
    fn negotiate(
        spec: &TcpSpec,
        peer: &SynOptions,
        timestamps: bool,
        ecn: bool,
    ) -> NegotiatedOptions {
        let sack = spec.sack && peer.sack;
        let mss = spec.mss_bytes.min(peer.mss);
        let options = if timestamps { TIMESTAMP_BYTES } else { 0 };
        let (rack, threshold, forward) = match spec.loss_detection {
            LossDetection::RackTlp => (sack, 3, false),
            LossDetection::DuplicateAcks { threshold, forward } => (false, threshold, forward),
        };
        NegotiatedOptions {
            sack,
            dsack: spec.dsack,
            timestamps,
            ecn,
            rack,
            adapt_reordering: spec.adapt_reordering,
            limited_transmit: spec.limited_transmit,
            prr: spec.prr,
            frto: spec.frto,
            restart_after_idle: spec.restart_after_idle,
            ack_counting: spec.ack_counting,
            mss: u64::from(mss.saturating_sub(options).max(1)),
            dup_threshold: threshold,
            fack: forward,
            initial_window: spec.initial_window_bytes,
        }
    }
}

/// Returns the options of a SYN of `spec`; `fast_open`: with a cookie.
pub(super) fn syn_options(spec: &TcpSpec, fast_open: bool) -> SynOptions {
    SynOptions {
        mss: spec.mss_bytes,
        sack: spec.sack,
        window_scaling: spec.window_scaling,
        fast_open,
    }
}

/// Returns the bytes of a SYN's options. MSS is 4. SACK permitted and timestamps are 12 together, or 4 and 12 alone.
/// Window scaling is 4 with padding (RFC 9293 section 3.2, RFC 2018, RFC 7323).
pub(super) fn syn_bytes(options: &SynOptions, timestamps: bool) -> u16 {
    let sack = if options.sack && !timestamps { 4 } else { 0 };
    let stamps = if timestamps { TIMESTAMP_BYTES } else { 0 };
    let scaling = if options.window_scaling { 4 } else { 0 };
    let cookie = if options.fast_open { COOKIE_BYTES } else { 0 };
    4 + sack + stamps + scaling + cookie
}

/// Returns the option bytes of any other segment with `blocks` SACK blocks (RFC 2018 section 3, with two bytes of
/// padding).
pub(super) fn option_bytes(timestamps: bool, blocks: usize) -> u16 {
    let stamps = if timestamps { TIMESTAMP_BYTES } else { 0 };
    stamps + if blocks > 0 { 4 + 8 * blocks as u16 } else { 0 }
}

/// Returns the number of SACK blocks that fit: 4, or 3 with timestamps.
pub(super) fn max_sack_blocks(timestamps: bool) -> usize {
    if timestamps { 3 } else { 4 }
}

/// Returns the options of an end before the peer answers, which assume an equal peer.
pub(super) fn assumed_options(spec: &TcpSpec) -> NegotiatedOptions {
    NegotiatedOptions::negotiate(spec, &syn_options(spec, false), spec.timestamps, false)
}

/// Returns the options that both ends negotiate, from the peer's SYN or SYN-ACK.
pub(super) fn negotiated_options(spec: &TcpSpec, peer: &Segment) -> NegotiatedOptions {
    let none = SynOptions { mss: 536, ..SynOptions::default() };
    let options = peer.syn.as_deref().unwrap_or(&none);
    let timestamps = spec.timestamps && peer.timestamps.is_some();
    let ecn = spec.ecn && peer.flags.has(Flags::ECE);
    NegotiatedOptions::negotiate(spec, options, timestamps, ecn)
}

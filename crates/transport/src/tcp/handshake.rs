//! What a SYN offers, what both ends make of it, and how long headers are.

use super::{AckCounting, Flags, LossDetection, Segment, SynOptions, TIMESTAMP_BYTES, TcpSpec};

/// A Fast Open cookie of 8 bytes with kind, length and padding (RFC 7413 section 4.1.1).
const COOKIE_BYTES: u16 = 12;

/// Times a SYN or SYN-ACK is sent again before the connection is given up (tcp_syn_retries of Linux, without the four at
/// even intervals before these since 6.5; its SYN-ACKs are five).
pub(super) const SYN_RETRIES: u32 = 6;

/// Options that both ends have agreed on, and the sender's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub sack: bool,
    pub dsack: bool,
    pub timestamps: bool,
    pub ecn: bool,
    pub rack: bool,
    pub adapt: bool,
    pub limited_transmit: bool,
    pub prr: bool,
    pub frto: bool,
    pub restart_after_idle: bool,
    pub counting: AckCounting,
    /// Payload of a full segment.
    pub mss: u64,
    /// The threshold of duplicate ACKs at the start.
    pub threshold: u32,
    /// It is counted by distance (FACK).
    pub forward: bool,
    pub initial_window: u64,
}

impl Rules {
    /// The rules of one end after both have said what they can.
    fn agreed(spec: &TcpSpec, peer: &SynOptions, timestamps: bool, ecn: bool) -> Rules {
        let sack = spec.sack && peer.sack;
        let mss = spec.mss_bytes.min(peer.mss);
        let options = if timestamps { TIMESTAMP_BYTES } else { 0 };
        let (rack, threshold, forward) = match spec.loss_detection {
            LossDetection::RackTlp => (sack, 3, false),
            LossDetection::DuplicateAcks { threshold, forward } => (false, threshold, forward),
        };
        Rules {
            sack,
            dsack: spec.dsack,
            timestamps,
            ecn,
            rack,
            adapt: spec.adapt_reordering,
            limited_transmit: spec.limited_transmit,
            prr: spec.prr,
            frto: spec.frto,
            restart_after_idle: spec.restart_after_idle,
            counting: spec.ack_counting,
            mss: u64::from(mss.saturating_sub(options).max(1)),
            threshold,
            forward,
            initial_window: spec.initial_window_bytes,
        }
    }
}

/// The options of a SYN of `spec`; `fast_open`: with a cookie.
pub(super) fn offer(spec: &TcpSpec, fast_open: bool) -> SynOptions {
    SynOptions {
        mss: spec.mss_bytes,
        sack: spec.sack,
        window_scaling: spec.window_scaling,
        fast_open,
    }
}

/// Bytes of a SYN's options: MSS 4, SACK permitted and timestamps 12 together or 4 and 12 apart,
/// window scaling 4 with padding (RFC 9293 section 3.2, RFC 2018, RFC 7323).
pub(super) fn syn_bytes(options: &SynOptions, timestamps: bool) -> u16 {
    let sack = if options.sack && !timestamps { 4 } else { 0 };
    let stamps = if timestamps { TIMESTAMP_BYTES } else { 0 };
    let scaling = if options.window_scaling { 4 } else { 0 };
    let cookie = if options.fast_open { COOKIE_BYTES } else { 0 };
    4 + sack + stamps + scaling + cookie
}

/// Bytes of the options of any other segment with `blocks` SACK blocks (RFC 2018 section 3, with
/// two bytes of padding).
pub(super) fn option_bytes(timestamps: bool, blocks: usize) -> u16 {
    let stamps = if timestamps { TIMESTAMP_BYTES } else { 0 };
    stamps + if blocks > 0 { 4 + 8 * blocks as u16 } else { 0 }
}

/// SACK blocks that fit: 4, or 3 beside timestamps.
pub(super) fn most_blocks(timestamps: bool) -> usize {
    if timestamps { 3 } else { 4 }
}

/// What an end may assume before the peer has spoken: a peer like itself.
pub(super) fn assumed(spec: &TcpSpec) -> Rules {
    Rules::agreed(spec, &offer(spec, false), spec.timestamps, false)
}

/// What both ends agree on, from the peer's SYN or SYN-ACK.
pub(super) fn agreed(spec: &TcpSpec, peer: &Segment) -> Rules {
    let none = SynOptions { mss: 536, ..SynOptions::default() };
    let options = peer.syn.as_deref().unwrap_or(&none);
    let timestamps = spec.timestamps && peer.timestamps.is_some();
    let ecn = spec.ecn && peer.flags.has(Flags::ECE);
    Rules::agreed(spec, options, timestamps, ecn)
}

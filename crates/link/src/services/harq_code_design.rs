//! Coded bits of each attempt of Adaptive-HARQ, from the long-term statistics of a channel.

use std::collections::BTreeMap;
use std::sync::Mutex;

use units::Span;

use crate::ChannelSpec;

/// The channel sample for the design: 1,000 s, or at most the number of steps that 1,000 s have at 60 km/h in S band.
/// The sampling rate is four samples per retransmission delay, within these bounds.
const DESIGN_SPAN: Span = Span(1_000_000_000_000);
const MAX_STEPS: u64 = 2_000_000;
const SPACING_BOUNDS: [u64; 2] = [1_000_000, 5_000_000];

/// The requirements of a frame's code.
#[derive(Clone, Copy, Debug)]
pub struct CodedFrame {
    /// Mutual information required for decoding, in bits.
    pub required_bits: f64,
    /// Minimum coded bits of the first attempt: the number of information bits.
    pub min_first_bits: f64,
    /// Maximum coded bits of all attempts together.
    pub max_total_bits: f64,
}

/// Returns the coded bits of each attempt. In the long term, a share `decoded` of packets is decoded after the first,
/// second... attempt, with `delay` between the begins of attempts. The attempt after all these gets the rest of
/// `frame.max_total_bits`.
///
/// The coded bits of an attempt are a quantile of its required bits: `(need - gathered before) / I`. `I` is the mutual
/// information per bit at its instant (Tauran 2018, section 3.3.3; arXiv 1411.3625 and 1501.01471).
pub(crate) fn design_coded_bits(
    channel: &ChannelSpec,
    frame: CodedFrame,
    decoded: &[f64],
    delay: Span,
) -> Vec<u32> {
    static CACHE: Mutex<BTreeMap<String, Vec<u32>>> = Mutex::new(BTreeMap::new());
    let key = format!("{channel:?} {frame:?} {decoded:?} {delay:?}");
    let known = |bits: Option<Vec<u32>>| {
        let mut all = CACHE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match bits {
            Some(bits) => all.insert(key.clone(), bits),
            None => all.get(&key).cloned(),
        }
    };
    known(None).unwrap_or_else(|| {
        let spacing = (delay.nanos() / 4).clamp(SPACING_BOUNDS[0], SPACING_BOUNDS[1]);
        let later = ((delay.nanos() + spacing / 2) / spacing) as usize;
        let bits = design(&sample_information(channel, Span(spacing)), later, frame, decoded);
        known(Some(bits.clone()));
        bits
    })
}

/// Samples the mutual information per bit every `spacing`.
fn sample_information(channel: &ChannelSpec, spacing: Span) -> Vec<f64> {
    let length =
        channel.factory().time_step().map_or(DESIGN_SPAN, |step| DESIGN_SPAN.min(step * MAX_STEPS));
    let count = (length.nanos() / spacing.nanos()).max(1) as usize;
    channel.design_samples(spacing).take(count).map(|quality| quality.information).collect()
}

/// Computes [`design_coded_bits`] from a series of mutual information per bit; the next attempt begins `later` samples
/// after the previous one. The series is treated as circular.
fn design(information: &[f64], later: usize, frame: CodedFrame, decoded: &[f64]) -> Vec<u32> {
    let at =
        |start: usize, attempt: usize| information[(start + attempt * later) % information.len()];
    let mut bits: Vec<f64> = Vec::new();
    for share in decoded {
        let attempt = bits.len();
        let mut needed: Vec<f64> = (0..information.len())
            .map(|start| {
                let gathered: f64 = bits.iter().zip(0..).map(|(n, i)| n * at(start, i)).sum();
                (frame.required_bits - gathered).max(0.0)
                    / at(start, attempt).max(f64::MIN_POSITIVE)
            })
            .collect();
        let rank = ((needed.len() - 1) as f64 * share) as usize;
        let (_, quantile, _) = needed.select_nth_unstable_by(rank, f64::total_cmp);
        let min_bits = if attempt == 0 { frame.min_first_bits } else { 0.0 };
        let remaining = frame.max_total_bits - bits.iter().sum::<f64>();
        bits.push(quantile.max(min_bits).min(remaining).ceil());
    }
    bits.push(frame.max_total_bits - bits.iter().sum::<f64>());
    bits.into_iter().map(|bits| bits as u32).collect()
}

//! Coded bits of each attempt of Adaptive-HARQ, from the long run of a channel.

use std::collections::BTreeMap;
use std::sync::Mutex;

use units::Span;

use crate::ChannelSpec;

/// The channel that the bits are designed on: 1,000 s of it, or as much as a fast one goes through in as many steps as
/// that has at 60 km/h in S band, looked at four times a retransmission delay, within these bounds.
const LENGTH: Span = Span(1_000_000_000_000);
const STEPS: u64 = 2_000_000;
const SPACING: [u64; 2] = [1_000_000, 5_000_000];

/// What a frame's code has to do.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Mutual information that it takes, in bits.
    pub need: f64,
    /// Coded bits of the first attempt at least: as many as information bits.
    pub least: f64,
    /// Coded bits of all attempts together at most.
    pub most: f64,
}

/// Coded bits of each attempt so that after the first, second... a share `decoded` of packets is decoded in the long run
/// of the channel, when the next attempt begins `delay` after the one before. The attempt after all these has
/// what is left of `frame.most`.
///
/// The share decoded by `i` attempts is a quantile of what the attempt must have: `(need - gathered before) / I`, `I`
/// the mutual information a bit at its instant (Tauran 2018, section 3.3.3; arXiv 1411.3625 and 1501.01471).
pub(crate) fn adaptive(
    channel: &ChannelSpec,
    frame: Frame,
    decoded: &[f64],
    delay: Span,
) -> Vec<u32> {
    static KNOWN: Mutex<BTreeMap<String, Vec<u32>>> = Mutex::new(BTreeMap::new());
    let key = format!("{channel:?} {frame:?} {decoded:?} {delay:?}");
    let known = |bits: Option<Vec<u32>>| {
        let mut all = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match bits {
            Some(bits) => all.insert(key.clone(), bits),
            None => all.get(&key).cloned(),
        }
    };
    known(None).unwrap_or_else(|| {
        let spacing = (delay.nanos() / 4).clamp(SPACING[0], SPACING[1]);
        let later = ((delay.nanos() + spacing / 2) / spacing) as usize;
        let bits = design(&information(channel, Span(spacing)), later, frame, decoded);
        known(Some(bits.clone()));
        bits
    })
}

/// Mutual information a bit, every `spacing`.
fn information(channel: &ChannelSpec, spacing: Span) -> Vec<f64> {
    let length = channel.step().map_or(LENGTH, |step| LENGTH.min(step * STEPS));
    let count = (length.nanos() / spacing.nanos()).max(1) as usize;
    channel.long_run(spacing).take(count).map(|quality| quality.information).collect()
}

/// As [`adaptive`], of what a bit tells at instants one after the other; the next attempt begins `later` instants after
/// the one before. The long run is taken for a circle.
fn design(information: &[f64], later: usize, frame: Frame, decoded: &[f64]) -> Vec<u32> {
    let at =
        |start: usize, attempt: usize| information[(start + attempt * later) % information.len()];
    let mut bits: Vec<f64> = Vec::new();
    for share in decoded {
        let attempt = bits.len();
        let mut needed: Vec<f64> = (0..information.len())
            .map(|start| {
                let gathered: f64 = bits.iter().zip(0..).map(|(n, i)| n * at(start, i)).sum();
                (frame.need - gathered).max(0.0) / at(start, attempt).max(f64::MIN_POSITIVE)
            })
            .collect();
        let place = ((needed.len() - 1) as f64 * share) as usize;
        let (_, quantile, _) = needed.select_nth_unstable_by(place, f64::total_cmp);
        let least = if attempt == 0 { frame.least } else { 0.0 };
        let left = frame.most - bits.iter().sum::<f64>();
        bits.push(quantile.max(least).min(left).ceil());
    }
    bits.push(frame.most - bits.iter().sum::<f64>());
    bits.into_iter().map(|bits| bits as u32).collect()
}

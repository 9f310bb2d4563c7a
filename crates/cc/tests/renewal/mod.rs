//! Mean windows by the renewal argument of Padhye, Firoiu, Towsley and Kurose 1998 (section II-A). A mean window is the
//! packets of a cycle, from one cut to the next, divided by its round trips. It includes two effects that the square
//! root law and RFC 9438's tables neglect. One is the round of recovery, once per cycle, without growth or cut (RFC
//! 9002 section 7.3.2). The other is the half packet on average that does not fit a window of whole packets. Timeouts
//! are not modelled, because none occur here.

/// Returns the mean window of NewReno under independent losses of probability `p`. The growth of a cycle follows Ott,
/// Kemperman and Mathis 1996. It has 1 / p packets in V rounds, from a window of V, with `1.31 = 1 / (V sqrt(p))`.
pub fn newreno_independent(p: f64) -> f64 {
    let v = 1.0 / (1.31 * p.sqrt());
    (1.0 / p + v) / (v + 1.0) - 0.5
}

/// Returns the mean window of NewReno with every `n`-th packet lost: from W / 2 to W by one packet per round.
pub fn newreno_periodic(n: f64) -> f64 {
    // n = W / 2 + 3/8 W^2.
    let w = quadratic(0.375, 0.5, n);
    n / (w / 2.0 + 1.0) - 0.5
}

const BETA: f64 = 0.7;
const C: f64 = 0.4;

/// Returns the mean window of CUBIC with every `n`-th packet lost, at an RTT of `rtt` seconds: the larger of both laws.
pub fn cubic_periodic(n: f64, rtt: f64) -> f64 {
    // Reno-friendly: from beta W to W by alpha packets a round (RFC 9438 section 4.3).
    let alpha = 3.0 * (1.0 - BETA) / (1.0 + BETA);
    let w = quadratic((1.0 - BETA * BETA) / (2.0 * alpha), BETA, n);
    let friendly = n / ((1.0 - BETA) * w / alpha + 1.0);
    // Cubic: the plateau of W after K seconds, W - C K^3 / 4 = W (3 + beta) / 4 on average (section 5.1).
    let k = |w: f64| libm::cbrt((1.0 - BETA) * w / C);
    let packets = |w: f64| BETA * w + k(w) / rtt * w * (3.0 + BETA) / 4.0;
    let (mut low, mut high) = (0.0, n);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if packets(middle) > n { high = middle } else { low = middle }
    }
    friendly.max(n / (k(low) / rtt + 1.0)) - 0.5
}

/// Returns the mean window of the paper's Westwood+ under independent losses of probability `p`, without congestion.
///
/// A cycle grows the window by 1 / (p W) packets, one per round: the rounds that 1 / p packets fill. Its loss sets the
/// window to the mean delivery in a round trip. That is below the peak by half the growth, by the lost share `p`, and
/// by the half packet that does not fit. So 1 / x = 2 x + 1 for x = p W, with the root 1/2.
pub fn westwood_paper(p: f64) -> f64 {
    0.5 / p - 0.5
}

/// Returns the mean window of Linux's Westwood+. A cycle has `n = 1 / (p W)` rounds and one more, the round after
/// recovery, which delivers half a window: `n = n / 2 + W / 2 / (n + 1) + p W + 1/2`.
pub fn westwood_linux(p: f64) -> f64 {
    let (mut low, mut high) = (2.0, 0.5 / p);
    for _ in 0..60 {
        let w = (low + high) / 2.0;
        let n = 1.0 / (p * w);
        if n / 2.0 < w / 2.0 / (n + 1.0) + p * w + 0.5 { high = w } else { low = w }
    }
    // One of the n + 1 rounds delivers half a window.
    let n = 1.0 / (p * low);
    low * (n + 0.5) / (n + 1.0) - 0.5
}

/// Returns the positive root of a x^2 + b x = c.
fn quadratic(a: f64, b: f64, c: f64) -> f64 {
    (-b + (b * b + 4.0 * a * c).sqrt()) / (2.0 * a)
}

//! The state of a channel: signal-to-noise ratio and mutual information.

/// The state of a radio channel towards one user at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChannelState {
    /// Es/N0, as a ratio.
    pub es_n0: f64,
    /// Mutual information per coded bit of QPSK, 0 to 1.
    pub information: f64,
}

impl ChannelState {
    /// A channel without noise.
    pub const PERFECT: ChannelState = ChannelState { es_n0: f64::INFINITY, information: 1.0 };

    /// Returns the state of QPSK at Es/N0 `es_n0`, a ratio.
    pub fn from_es_n0(es_n0: f64) -> ChannelState {
        ChannelState { es_n0, information: mutual_information(es_n0) }
    }

    /// Returns the state of QPSK at Es/N0 `snr_db`, in dB.
    pub fn from_db(snr_db: f64) -> ChannelState {
        ChannelState::from_es_n0(libm::exp10(snr_db / 10.0))
    }
}

/// Returns the mutual information per bit of Gray-mapped QPSK over white noise. It is the J function of the
/// log-likelihood ratio's standard deviation `2 sqrt(Es/N0)`. The closed form of Brannstrom, Rasmussen and Grant (IEEE
/// Trans. Inf. Theory 51(9), 2005) is within 6.4e-4 of the integral.
fn mutual_information(es_n0: f64) -> f64 {
    mutual_information_array(&[es_n0])[0]
}

/// Computes several values, function by function: the functions of one value depend on each other, those of several
/// values are independent.
pub(super) fn mutual_information_array<const N: usize>(es_n0: &[f64; N]) -> [f64; N] {
    // Powers by exp and log take half the time of `pow`.
    es_n0
        .map(|one| libm::log(4.0 * one))
        .map(|log| libm::exp(1.787 / 2.0 * log))
        .map(|sigma| -libm::expm1(-0.3073 * std::f64::consts::LN_2 * sigma))
        .map(libm::log)
        .map(|log| libm::exp(1.1064 * log))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Integrates by the trapezoid rule over twelve standard deviations, where it converges geometrically. The integral
    /// is `1 - E[log2(1 + exp(-L))]`, L normal with mean `s^2 / 2` and deviation `s`.
    fn integral(es_n0: f64) -> f64 {
        let sigma = 2.0 * es_n0.sqrt();
        let (steps, reach) = (4_000, 12.0);
        let width = 2.0 * reach / f64::from(steps);
        let sum: f64 = (0..=steps)
            .map(|step| {
                let x = -reach + f64::from(step) * width;
                let ratio = sigma * sigma / 2.0 + sigma * x;
                libm::exp(-x * x / 2.0) * libm::log1p(libm::exp(-ratio))
            })
            .sum();
        1.0 - sum * width / (2.0 * std::f64::consts::PI).sqrt() / std::f64::consts::LN_2
    }

    #[test]
    fn information_is_the_integral() {
        for tenth in -300..200 {
            let es_n0 = libm::exp10(f64::from(tenth) / 100.0);
            let (closed, exact) = (mutual_information(es_n0), integral(es_n0));
            assert!((closed - exact).abs() < 6.5e-4, "{es_n0}: {closed} and {exact}");
        }
        // At rate 1/2, the limit of the binary-input channel is Eb/N0 = 0.187 dB, which equals the Es/N0 of QPSK.
        assert!((mutual_information(libm::exp10(0.0187)) - 0.5).abs() < 1e-3);
    }

    #[test]
    fn limits_of_es_n0() {
        assert_eq!(ChannelState::from_es_n0(0.0).information, 0.0);
        assert_eq!(ChannelState::from_es_n0(f64::INFINITY), ChannelState::PERFECT);
        assert_eq!(ChannelState::from_db(10.0).es_n0, 10.0);
    }
}

//! What a receiver can make of a symbol.

/// The state of a radio channel towards one user at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// Es/N0, as a ratio.
    pub es_n0: f64,
    /// Mutual information per coded bit of QPSK, 0 to 1.
    pub information: f64,
}

impl Quality {
    /// No noise.
    pub const PERFECT: Quality = Quality { es_n0: f64::INFINITY, information: 1.0 };

    /// QPSK at Es/N0 `es_n0`, a ratio.
    pub fn of(es_n0: f64) -> Quality {
        Quality { es_n0, information: information(es_n0) }
    }

    /// QPSK at Es/N0 `snr_db`, in dB.
    pub fn of_db(snr_db: f64) -> Quality {
        Quality::of(libm::exp10(snr_db / 10.0))
    }
}

/// Mutual information per bit of Gray-mapped QPSK over white noise: the J function of the log-likelihood ratio's
/// standard deviation `2 sqrt(Es/N0)` in the closed form of Brannstrom, Rasmussen and Grant (IEEE Trans. Inf. Theory
/// 51(9), 2005), which is within 6.4e-4 of the integral.
fn information(es_n0: f64) -> f64 {
    informations(&[es_n0])[0]
}

/// The same of several at once, function by function: one's next function waits for its last, those of several do not
/// wait for each other.
pub(super) fn informations<const N: usize>(es_n0: &[f64; N]) -> [f64; N] {
    // Powers by exp and log, which take half the time of `pow`.
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

    /// The integral that the closed form stands for, by the trapezoid rule over twelve standard deviations, where
    /// it converges geometrically: `1 - E[log2(1 + exp(-L))]`, L normal with mean `s^2 / 2` and deviation `s`.
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
            let (closed, exact) = (information(es_n0), integral(es_n0));
            assert!((closed - exact).abs() < 6.5e-4, "{es_n0}: {closed} and {exact}");
        }
        // At rate 1/2 the binary-input channel's limit is Eb/N0 = 0.187 dB, which is QPSK's Es/N0 there.
        assert!((information(libm::exp10(0.0187)) - 0.5).abs() < 1e-3);
    }

    #[test]
    fn ends() {
        assert_eq!(Quality::of(0.0).information, 0.0);
        assert_eq!(Quality::of(f64::INFINITY), Quality::PERFECT);
        assert_eq!(Quality::of_db(10.0).es_n0, 10.0);
    }
}

//! Rayleigh fading: echoes without a direct path.

use units::RandomStream;

use super::grid::{Fading, Steps};
use super::jakes::Jakes;

/// The fading of one user, of mean power 1.
pub(super) struct Rayleigh(Jakes);

impl Rayleigh {
    /// Towards a terminal that moves `wavelengths` a step.
    pub fn new(wavelengths: f64, random: &mut RandomStream) -> Rayleigh {
        Rayleigh(Jakes::new(wavelengths, random))
    }
}

impl Fading for Rayleigh {
    fn fill(&mut self, block: u64, gains: &mut Steps) {
        let (re, im) = self.0.block(block);
        for (gain, (re, im)) in gains.iter_mut().zip(re.iter().zip(&im)) {
            *gain = re * re + im * im;
        }
    }
}

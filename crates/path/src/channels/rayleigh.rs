//! Rayleigh fading: multipath without a direct path.

use units::RandomStream;

use super::fading_grid::{BlockSteps, Fading};
use super::jakes::Jakes;

/// The fading of one user, with mean power 1.
pub(super) struct Rayleigh(Jakes);

impl Rayleigh {
    /// Creates the fading of a terminal that moves `wavelengths` per step.
    pub fn new(wavelengths: f64, random: &mut RandomStream) -> Rayleigh {
        Rayleigh(Jakes::new(wavelengths, random))
    }
}

impl Fading for Rayleigh {
    fn fill(&mut self, block: u64, gains: &mut BlockSteps) {
        let (re, im) = self.0.block(block);
        for (gain, (re, im)) in gains.iter_mut().zip(re.iter().zip(&im)) {
            *gain = re * re + im * im;
        }
    }
}

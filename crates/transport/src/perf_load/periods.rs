//! Periods of sending and silence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{RandomStream, Span};

/// Periods of sending and silence that alternate, sending first.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PeriodsSpec {
    /// Mean length of an on period.
    pub on_ns: u64,
    /// Mean length of an off period.
    pub off_ns: u64,
    /// Distribution of the lengths about the means.
    pub distribution: PeriodDistribution,
}

/// Distribution of the length of a period.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PeriodDistribution {
    /// Each length is the mean.
    Fixed,
    /// Exponential.
    Exponential,
    /// Pareto; the shape must exceed 1, since otherwise there is no mean.
    Pareto {
        /// Shape.
        shape: f64,
    },
}

impl PeriodDistribution {
    /// Checks the distribution.
    ///
    /// # Errors
    /// A Pareto distribution without a mean, in words.
    pub fn check(self) -> Result<(), String> {
        match self {
            PeriodDistribution::Pareto { shape } if shape.is_nan() || shape <= 1.0 => {
                Err(format!("a Pareto period of shape {shape} has no mean; expected more than 1"))
            }
            _ => Ok(()),
        }
    }

    /// Returns a random length with this mean, at least 1 ns.
    pub fn length(self, mean: Span, random: &mut RandomStream) -> Span {
        let length = match self {
            PeriodDistribution::Fixed => mean,
            PeriodDistribution::Exponential => {
                Span::from_seconds(random.exponential(mean.seconds()))
            }
            // A Pareto distribution with minimum m has the mean m shape / (shape - 1).
            PeriodDistribution::Pareto { shape } => {
                let min = mean.seconds() * (shape - 1.0) / shape;
                Span::from_seconds(random.pareto(shape, min))
            }
        };
        length.max(Span(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_have_their_mean() {
        let mut random = RandomStream::named(3, "source", "periods");
        let mean = Span::from_millis(500);
        for (draw, deviation) in [
            (PeriodDistribution::Fixed, 1e-12),
            (PeriodDistribution::Exponential, 1.0),
            // Variance of Pareto, divided by the mean squared: 1 / (shape (shape - 2)).
            (PeriodDistribution::Pareto { shape: 3.0 }, (1.0f64 / 3.0).sqrt()),
        ] {
            let n = 100_000;
            let sum: f64 = (0..n).map(|_| draw.length(mean, &mut random).seconds()).sum();
            let found = sum / f64::from(n) / 0.5;
            let tolerance = 5.0 * deviation / f64::from(n).sqrt() + 1e-9;
            assert!((found - 1.0).abs() < tolerance, "{draw:?}: {found}");
        }
    }

    #[test]
    fn pareto_periods_have_their_minimum_and_tail() {
        let mut random = RandomStream::named(4, "source", "periods");
        let (shape, n) = (1.5, 200_000);
        let min = 0.5 * (shape - 1.0) / shape;
        let draw = PeriodDistribution::Pareto { shape };
        let lengths: Vec<f64> =
            (0..n).map(|_| draw.length(Span::from_millis(500), &mut random).seconds()).collect();
        assert!(lengths.iter().all(|length| *length >= min - 1e-9));
        for times in [2.0, 10.0, 50.0] {
            let beyond = lengths.iter().filter(|length| **length > min * times).count() as f64;
            let share = 1.0 / (times * f64::sqrt(times));
            let tolerance = 5.0 * (share / f64::from(n)).sqrt();
            assert!((beyond / f64::from(n) - share).abs() < tolerance, "{times}");
        }
    }

    #[test]
    fn a_shape_without_a_mean_is_refused() {
        assert_eq!(PeriodDistribution::Pareto { shape: 1.001 }.check(), Ok(()));
        let error = PeriodDistribution::Pareto { shape: 1.0 }.check().unwrap_err();
        assert_eq!(error, "a Pareto period of shape 1 has no mean; expected more than 1");
        assert!(PeriodDistribution::Pareto { shape: f64::NAN }.check().is_err());
    }
}

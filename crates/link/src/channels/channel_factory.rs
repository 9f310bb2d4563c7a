//! The boundary of the specification of a channel.

use units::{RandomStream, Span};

use super::ChannelSpec;
use super::terminal::TerminalMotion;
use crate::Channel;
use crate::checks::ValidationResult;

/// The specification of a channel.
pub(crate) trait ChannelFactory {
    /// Validates the specification.
    fn validate(&self) -> ValidationResult;

    /// Builds the channel of simplex link `name` in run `seed`, the key of its random streams, separate per user.
    fn build(&self, name: &str, seed: u64) -> Box<dyn Channel>;

    /// Returns the specification with the estimated Es/N0, at the reference distance.
    fn with_estimate(&self) -> ChannelSpec;

    /// Returns the estimation error of Es/N0 in dB.
    fn estimate_error_db(&self) -> f64 {
        0.0
    }

    /// Returns the step of the time grid; `None` for channels without motion.
    fn time_step(&self) -> Option<Span> {
        None
    }
}

/// Returns the streams of each user of simplex link `name` in run `seed`, by purpose.
pub(super) fn user_streams(
    motion: &TerminalMotion,
    name: &str,
    seed: u64,
) -> impl Fn(u32, &str) -> RandomStream + use<> {
    let (name, seed) = (name.to_owned(), motion.seed.unwrap_or(seed));
    move |user, purpose| RandomStream::named(seed, &name, &format!("channel.{user}.{purpose}"))
}

//! What a radio channel does to a signal, one file each.

mod fixed;
mod quality;
mod spec;

pub use fixed::FixedChannel;
pub use quality::Quality;
pub use spec::ChannelSpec;

use crate::Channel;

/// The channel of the line `name` in run `seed`, the key of its random streams; each user has streams of its own.
pub(crate) fn build(spec: &ChannelSpec, _name: &str, _seed: u64) -> Box<dyn Channel> {
    match spec {
        ChannelSpec::Fixed { snr_db } => Box::new(FixedChannel::new(*snr_db)),
    }
}

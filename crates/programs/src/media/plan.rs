//! Plans of media calls, written by the Python side.

use serde::Deserialize;
use transport::media::DatagramsSpec;

/// The callee.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalleePlan {
    /// Address and port to listen on.
    pub listen: String,
    /// Whether the callee ends after the first call.
    pub once: bool,
    /// Concurrent calls.
    pub calls: usize,
    /// The UDP port of all calls, which are then sequential; `None` for a separate port per call.
    #[serde(default)]
    pub media: Option<u16>,
}

/// The caller.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallerPlan {
    /// Name or address of the callee.
    pub host: String,
    /// Port of the callee.
    pub port: u16,
    /// The number of concurrent calls.
    pub count: u32,
    /// The load in each direction.
    pub load: DatagramsSpec,
    /// The seed of the talk and silence periods.
    pub seed: u64,
    /// The timeout of the callee's answer in ns.
    pub timeout_ns: u64,
    /// The flow of a run, with the random streams of its simulation; `None` for calls by number.
    #[serde(default)]
    pub flow: Option<CallFlow>,
}

/// A call in a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallFlow {
    /// The name, which selects the random stream of the periods.
    pub name: String,
    /// The time since the start of the run in ns; windows count from that start.
    pub since_ns: u64,
}

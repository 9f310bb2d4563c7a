//! What the Python side asks for.

use serde::Deserialize;
use transport::calls::DatagramsSpec;

/// The side that answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerPlan {
    /// Address and port to listen at.
    pub listen: String,
    /// End after the first call.
    pub once: bool,
    /// Calls at once.
    pub calls: usize,
    /// Port of UDP of all calls, one at a time then; none: each has its own.
    #[serde(default)]
    pub media: Option<u16>,
}

/// The side that calls.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallPlan {
    /// Name or address of the side that answers.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How many calls at the same time.
    pub count: u32,
    /// What is sent each way.
    pub load: DatagramsSpec,
    /// Seed of the periods of speech and silence.
    pub seed: u64,
    /// How long the other side may take to answer.
    pub timeout_ns: u64,
    /// As the flow of a run, which draws what its simulation draws; none: calls by their numbers.
    #[serde(default)]
    pub flow: Option<Flow>,
}

/// A call in a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Its name, by which periods are drawn.
    pub name: String,
    /// How long ago the run began: from then windows are counted.
    pub since_ns: u64,
}

//! The specification of an emulated path.

use link::{BernoulliLossSpec, DelaySpec, LossModel, LossSpec, StageSpec, StageUpdate};
use topology::TopologySpec;
use units::Span;

/// The specification of an emulated path.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabSpec {
    /// The topology of the path.
    pub graph: TopologySpec,
    /// The node of the near side.
    pub client: String,
    /// The node of the far side.
    pub server: String,
    /// Further hosts of the lab.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// The seed of the random streams of the path.
    pub seed: u64,
    /// The largest IP packet in bytes.
    pub mtu: u16,
    /// The user of the packets from and to a port. All other packets belong to user 0.
    #[serde(default)]
    pub users: Vec<(u16, u32)>,
}

impl LabSpec {
    /// Adds a delay stage and a loss stage of 0 to each link without one, so that both can change while the lab runs.
    pub fn add_adjustable_stages(&mut self) {
        for link in &mut self.graph.links {
            for stages in [&mut link.up, &mut link.down] {
                let supports = |change| stages.iter().any(|stage| stage.supports(&change));
                let has_delay = supports(StageUpdate::Delay(Span::ZERO))
                    || stages.iter().any(|stage| matches!(stage, StageSpec::DelayTrace(_)));
                let has_loss = supports(StageUpdate::Loss(0.0));
                if !has_delay {
                    stages.push(StageSpec::Delay(DelaySpec { delay_ns: 0, changes: Vec::new() }));
                }
                if !has_loss {
                    let model = LossModel::Bernoulli(BernoulliLossSpec { probability: 0.0 });
                    stages.push(StageSpec::Loss(LossSpec { model, changes: Vec::new() }));
                }
            }
        }
    }
}

//! The settings of a path at one time: the plan with its scheduled changes and the manual changes up to that time.

use link::{BernoulliLossSpec, LossModel, ServiceSpec, StageSpec, StageUpdate};
use serde::Serialize;
use topology::{StageUpdateSpec, TopologySpec};
use units::{Rate, Span, Time};

/// A change made manually while the lab runs.
#[derive(Clone, Copy, Debug)]
pub struct ManualChange {
    /// The time from which it is valid.
    pub at: Time,
    /// The change.
    pub change: StageUpdate,
}

/// The adjustable settings of a simplex link. If several stages have a setting, the first counts, as in manual changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveSettings {
    /// `"<link>.up"` or `"<link>.down"`.
    pub simplex_link: String,
    /// The rate in bit/s; `None` if unlimited or not constant.
    pub rate_bit_s: Option<u64>,
    /// The one-way delay in ns; `None` if it follows a trace.
    pub delay_ns: Option<u64>,
    /// The loss probability of a packet; `None` if a model draws it.
    pub loss: Option<f64>,
    /// The kinds of the other stages, as named in the specification.
    pub other_stages: Vec<&'static str>,
}

/// Returns the settings of all simplex links at `now`. `manual_changes` are sorted by time, each with its simplex link.
pub fn settings_at(
    graph: &TopologySpec,
    manual_changes: &[(String, ManualChange)],
    now: Time,
) -> Vec<LiveSettings> {
    let links = graph.links.iter().flat_map(|link| {
        [("up", &link.up), ("down", &link.down)]
            .map(|(direction, stages)| (&link.name, direction, stages))
    });
    links
        .map(|(link, direction, stages)| {
            settings_of_link(graph, format!("{link}.{direction}"), stages, manual_changes, now)
        })
        .collect()
}

fn settings_of_link(
    graph: &TopologySpec,
    simplex_link: String,
    stages: &[StageSpec],
    manual_changes: &[(String, ManualChange)],
    now: Time,
) -> LiveSettings {
    let latest = |wanted: StageUpdate| {
        let index = stages.iter().position(|stage| stage.supports(&wanted))?;
        let stage = &stages[index];
        let is_meant = |change: &StageUpdate| {
            std::mem::discriminant(change) == std::mem::discriminant(&wanted)
        };
        let of_graph = graph.changes.iter().flat_map(|event| {
            let stages = event
                .stages
                .iter()
                .filter(|one| one.simplex_link == simplex_link && one.stage as usize == index);
            stages.filter_map(|one| Some((Time(event.at_ns), constant_update(&one.update)?)))
        });
        let manual = manual_changes
            .iter()
            .filter(|(at, _)| *at == simplex_link)
            .map(|(_, one)| (one.at, one.change));
        let mut all: Vec<(Time, StageUpdate)> =
            planned_updates(stage).into_iter().chain(of_graph).chain(manual).collect();
        // The sort is stable: of changes at one time the last of this sequence is valid.
        all.sort_by_key(|(at, _)| *at);
        all.into_iter()
            .rfind(|(at, change)| *at <= now && is_meant(change))
            .map(|(_, change)| change)
    };
    let rate_bit_s = match latest(StageUpdate::Rate(Rate(1))) {
        Some(StageUpdate::Rate(rate)) => Some(rate.bits_per_second()),
        _ => None,
    };
    let delay_ns = match latest(StageUpdate::Delay(Span::ZERO)) {
        Some(StageUpdate::Delay(delay)) => Some(delay.nanos()),
        _ => None,
    };
    let loss = match latest(StageUpdate::Loss(0.0)) {
        Some(StageUpdate::Loss(probability)) => Some(probability),
        _ => None,
    };
    LiveSettings {
        simplex_link,
        rate_bit_s,
        delay_ns,
        loss,
        other_stages: stages.iter().filter_map(model_kind).collect(),
    }
}

/// Returns the initial value of each adjustable setting of a stage and its scheduled changes, with their times.
fn planned_updates(stage: &StageSpec) -> Vec<(Time, StageUpdate)> {
    let begin = |change| (Time::ZERO, change);
    match stage {
        StageSpec::Delay(spec) => {
            let later =
                spec.changes.iter().map(|c| (Time(c.at_ns), StageUpdate::Delay(Span(c.delay_ns))));
            [begin(StageUpdate::Delay(Span(spec.delay_ns)))].into_iter().chain(later).collect()
        }
        StageSpec::Transmit(spec) => match &spec.service {
            ServiceSpec::Rate { rate_bit_s, changes } => {
                let later =
                    changes.iter().map(|c| (Time(c.at_ns), StageUpdate::Rate(Rate(c.rate_bit_s))));
                [begin(StageUpdate::Rate(Rate(*rate_bit_s)))].into_iter().chain(later).collect()
            }
            _ => Vec::new(),
        },
        StageSpec::Netem(spec) => vec![
            begin(StageUpdate::Rate(Rate(spec.rate_bit_s))),
            begin(StageUpdate::Delay(Span(spec.delay_ns))),
        ],
        StageSpec::Loss(spec) => {
            let later =
                spec.changes.iter().map(|c| (Time(c.at_ns), StageUpdate::Loss(c.probability)));
            let first = match spec.model {
                LossModel::Bernoulli(BernoulliLossSpec { probability }) => {
                    Some(begin(StageUpdate::Loss(probability)))
                }
                _ => None,
            };
            first.into_iter().chain(later).collect()
        }
        _ => Vec::new(),
    }
}

fn constant_update(change: &StageUpdateSpec) -> Option<StageUpdate> {
    match change {
        StageUpdateSpec::Delay { delay_ns } => Some(StageUpdate::Delay(Span(*delay_ns))),
        StageUpdateSpec::Rate { rate_bit_s } => Some(StageUpdate::Rate(Rate(*rate_bit_s))),
        StageUpdateSpec::Loss { probability } => Some(StageUpdate::Loss(*probability)),
        _ => None,
    }
}

/// Returns the kind of a stage that has no constant setting.
fn model_kind(stage: &StageSpec) -> Option<&'static str> {
    match stage {
        StageSpec::Delay(_) | StageSpec::Netem(_) => None,
        StageSpec::Transmit(spec) => match spec.service {
            ServiceSpec::Rate { .. } => None,
            ServiceSpec::Trace { .. } => Some("rate_trace"),
            ServiceSpec::Reconfiguration { .. } => Some("reconfiguration_rate"),
        },
        StageSpec::DelayTrace(_) => Some("delay_trace"),
        StageSpec::ReconfigurationDelay(_) => Some("reconfiguration_delay"),
        StageSpec::Radio(_) => Some("radio"),
        StageSpec::Nr(_) => Some("nr"),
        StageSpec::Acm(_) => Some("acm"),
        StageSpec::Loss(spec) => match spec.model {
            LossModel::Bernoulli(_) => None,
            ref model => Some(model.descriptor().live_name),
        },
        StageSpec::Jitter(_) => Some("jitter"),
        StageSpec::Reorder(_) => Some("reorder"),
        StageSpec::Outage(_) => Some("outage"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn graph() -> TopologySpec {
        let up = json!([
            {"kind": "transmit", "queue": {"kind": "drop_tail", "limit": null},
             "service": {"kind": "rate", "rate_bit_s": 5_000_000, "changes": [{"at_ns": 100, "rate_bit_s": 7}]}},
            {"kind": "delay", "delay_ns": 20, "changes": []},
            {"kind": "loss", "model": {"kind": "gilbert_elliott", "good_to_bad": 0.1, "bad_to_good": 0.5,
             "loss_good": 0.0, "loss_bad": 1.0}},
        ]);
        let change = json!({"at_ns": 200, "stages": [
            {"simplex_link": "sky.up", "stage": 1, "update": {"kind": "delay", "delay_ns": 30}}]});
        let nodes = json!([{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"}]);
        let link =
            json!({"name": "sky", "client_side": "a", "server_side": "b", "up": up, "down": []});
        serde_json::from_value(json!({"nodes": nodes, "links": [link], "changes": [change]}))
            .unwrap()
    }

    #[test]
    fn the_latest_change_is_valid() {
        let by_hand = [
            (
                "sky.up".to_owned(),
                ManualChange { at: Time(150), change: StageUpdate::Rate(Rate(9)) },
            ),
            ("sky.up".to_owned(), ManualChange { at: Time(400), change: StageUpdate::Loss(0.25) }),
        ];
        let at = |now| {
            let up = settings_at(&graph(), &by_hand, Time(now)).swap_remove(0);
            (up.rate_bit_s, up.delay_ns, up.loss)
        };
        assert_eq!(at(0), (Some(5_000_000), Some(20), None));
        assert_eq!(at(100), (Some(7), Some(20), None), "its schedule's");
        assert_eq!(at(199), (Some(9), Some(20), None), "by hand");
        assert_eq!(at(200), (Some(9), Some(30), None), "the graph's");
        assert_eq!(at(400), (Some(9), Some(30), Some(0.25)), "in the place of its model");
    }

    #[test]
    fn a_link_without_stages_has_no_settings() {
        let lines = settings_at(&graph(), &[], Time::ZERO);
        assert_eq!(lines[0].other_stages, ["gilbert_elliott"]);
        let bare = LiveSettings {
            simplex_link: "sky.down".to_owned(),
            rate_bit_s: None,
            delay_ns: None,
            loss: None,
            other_stages: vec![],
        };
        assert_eq!(lines[1], bare);
    }
}

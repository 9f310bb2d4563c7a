//! A path as it is at an instant: as it was planned, with what has changed of it since, by its schedule and by hand.

use path::{Change, ChangeSpec, GraphSpec, LossModel, ServiceSpec, StageSpec};
use serde::Serialize;
use units::{Rate, Span, Time};

/// A change that was made by hand.
#[derive(Clone, Copy, Debug)]
pub struct ByHand {
    /// Since when it holds.
    pub at: Time,
    /// What has changed.
    pub change: Change,
}

/// What of a line can be changed, as it is. Of several stages that have it, the first, as a change by hand concerns it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Present {
    /// `"<link>.up"` or `"<link>.down"`.
    pub line: String,
    /// None: unlimited, or no number.
    pub rate_bit_s: Option<u64>,
    /// One-way; none where it follows a trace.
    pub delay_ns: Option<u64>,
    /// Of each packet; none where a model draws it.
    pub loss: Option<f64>,
    /// Kinds of its other stages, in the words of the specification.
    pub beside: Vec<&'static str>,
}

/// The lines of a graph at `now`. `by_hand` are changes in order of time, each with its line.
pub fn present(graph: &GraphSpec, by_hand: &[(String, ByHand)], now: Time) -> Vec<Present> {
    let lines = graph.links.iter().flat_map(|link| {
        [("up", &link.up), ("down", &link.down)].map(|(way, stages)| (&link.name, way, stages))
    });
    lines
        .map(|(link, way, stages)| line(graph, format!("{link}.{way}"), stages, by_hand, now))
        .collect()
}

fn line(
    graph: &GraphSpec,
    line: String,
    stages: &[StageSpec],
    by_hand: &[(String, ByHand)],
    now: Time,
) -> Present {
    let first = |wanted: Change| {
        let place = stages.iter().position(|stage| stage.takes(&wanted))?;
        let stage = &stages[place];
        let is_meant =
            |change: &Change| std::mem::discriminant(change) == std::mem::discriminant(&wanted);
        let of_graph = graph.changes.iter().flat_map(|event| {
            let stages =
                event.stages.iter().filter(|one| one.line == line && one.stage as usize == place);
            stages.filter_map(|one| Some((Time(event.at_ns), plain(&one.change)?)))
        });
        let hands =
            by_hand.iter().filter(|(at, _)| *at == line).map(|(_, one)| (one.at, one.change));
        let mut all: Vec<(Time, Change)> =
            planned(stage).into_iter().chain(of_graph).chain(hands).collect();
        // At one instant what stands later here holds.
        all.sort_by_key(|(at, _)| *at);
        all.into_iter()
            .rfind(|(at, change)| *at <= now && is_meant(change))
            .map(|(_, change)| change)
    };
    let rate_bit_s = match first(Change::Rate(Rate(1))) {
        Some(Change::Rate(rate)) => Some(rate.bits_per_second()),
        _ => None,
    };
    let delay_ns = match first(Change::Delay(Span::ZERO)) {
        Some(Change::Delay(delay)) => Some(delay.nanos()),
        _ => None,
    };
    let loss = match first(Change::Loss(0.0)) {
        Some(Change::Loss(probability)) => Some(probability),
        _ => None,
    };
    Present { line, rate_bit_s, delay_ns, loss, beside: stages.iter().filter_map(beside).collect() }
}

/// What can be changed of a stage as it begins, and as its own schedule has it, each with its instant.
fn planned(stage: &StageSpec) -> Vec<(Time, Change)> {
    let begin = |change| (Time::ZERO, change);
    match stage {
        StageSpec::Delay(spec) => {
            let later =
                spec.changes.iter().map(|c| (Time(c.at_ns), Change::Delay(Span(c.delay_ns))));
            [begin(Change::Delay(Span(spec.delay_ns)))].into_iter().chain(later).collect()
        }
        StageSpec::Transmit(spec) => match &spec.service {
            ServiceSpec::Rate { rate_bit_s, changes } => {
                let later =
                    changes.iter().map(|c| (Time(c.at_ns), Change::Rate(Rate(c.rate_bit_s))));
                [begin(Change::Rate(Rate(*rate_bit_s)))].into_iter().chain(later).collect()
            }
            _ => Vec::new(),
        },
        StageSpec::Netem(spec) => vec![
            begin(Change::Rate(Rate(spec.rate_bit_s))),
            begin(Change::Delay(Span(spec.delay_ns))),
        ],
        StageSpec::Loss(spec) => {
            let later = spec.changes.iter().map(|c| (Time(c.at_ns), Change::Loss(c.probability)));
            let first = match spec.model {
                LossModel::Bernoulli { probability } => Some(begin(Change::Loss(probability))),
                _ => None,
            };
            first.into_iter().chain(later).collect()
        }
        _ => Vec::new(),
    }
}

fn plain(change: &ChangeSpec) -> Option<Change> {
    match change {
        ChangeSpec::Delay { delay_ns } => Some(Change::Delay(Span(*delay_ns))),
        ChangeSpec::Rate { rate_bit_s } => Some(Change::Rate(Rate(*rate_bit_s))),
        ChangeSpec::Loss { probability } => Some(Change::Loss(*probability)),
        _ => None,
    }
}

/// What a stage does that is no number here.
fn beside(stage: &StageSpec) -> Option<&'static str> {
    match stage {
        StageSpec::Delay(_) | StageSpec::Netem(_) => None,
        StageSpec::Transmit(spec) => match spec.service {
            ServiceSpec::Rate { .. } => None,
            ServiceSpec::Trace { .. } => Some("rate_trace"),
            ServiceSpec::Slots { .. } => Some("slot_rate"),
        },
        StageSpec::DelayTrace(_) => Some("delay_trace"),
        StageSpec::SlotDelay(_) => Some("slot_delay"),
        StageSpec::Radio(_) => Some("radio"),
        StageSpec::Nr(_) => Some("nr"),
        StageSpec::Acm(_) => Some("acm"),
        StageSpec::Loss(spec) => match spec.model {
            LossModel::Bernoulli { .. } => None,
            LossModel::GilbertElliott { .. } => Some("gilbert_elliott"),
            LossModel::Burst { .. } => Some("burst_loss"),
            LossModel::Trace { .. } => Some("loss_trace"),
            LossModel::Slots(_) => Some("slot_loss"),
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

    fn graph() -> GraphSpec {
        let up = json!([
            {"kind": "transmit", "queue": {"kind": "drop_tail", "limit": null},
             "service": {"kind": "rate", "rate_bit_s": 5_000_000, "changes": [{"at_ns": 100, "rate_bit_s": 7}]}},
            {"kind": "delay", "delay_ns": 20, "changes": []},
            {"kind": "loss", "model": {"kind": "gilbert_elliott", "good_to_bad": 0.1, "bad_to_good": 0.5,
             "loss_good": 0.0, "loss_bad": 1.0}},
        ]);
        let change = json!({"at_ns": 200, "stages": [
            {"line": "sky.up", "stage": 1, "change": {"kind": "delay", "delay_ns": 30}}]});
        let nodes = json!([{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"}]);
        let link =
            json!({"name": "sky", "client_side": "a", "server_side": "b", "up": up, "down": []});
        serde_json::from_value(json!({"nodes": nodes, "links": [link], "changes": [change]}))
            .unwrap()
    }

    #[test]
    fn what_was_said_last_holds() {
        let by_hand = [
            ("sky.up".to_owned(), ByHand { at: Time(150), change: Change::Rate(Rate(9)) }),
            ("sky.up".to_owned(), ByHand { at: Time(400), change: Change::Loss(0.25) }),
        ];
        let at = |now| {
            let up = present(&graph(), &by_hand, Time(now)).swap_remove(0);
            (up.rate_bit_s, up.delay_ns, up.loss)
        };
        assert_eq!(at(0), (Some(5_000_000), Some(20), None));
        assert_eq!(at(100), (Some(7), Some(20), None), "its schedule's");
        assert_eq!(at(199), (Some(9), Some(20), None), "by hand");
        assert_eq!(at(200), (Some(9), Some(30), None), "the graph's");
        assert_eq!(at(400), (Some(9), Some(30), Some(0.25)), "in the place of its model");
    }

    #[test]
    fn a_wire_has_no_numbers() {
        let lines = present(&graph(), &[], Time::ZERO);
        assert_eq!(lines[0].beside, ["gilbert_elliott"]);
        let bare = Present {
            line: "sky.down".to_owned(),
            rate_bit_s: None,
            delay_ns: None,
            loss: None,
            beside: vec![],
        };
        assert_eq!(lines[1], bare);
    }
}

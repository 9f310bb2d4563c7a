//! What is measured together: samples of flows of a group, and of the links that they alone use, become one.

use std::collections::BTreeMap;

use path::Topology;
use transport::{Counters, Gauges, Node};
use units::Span;

use spec::RunSpec;

/// Who is measured together.
#[derive(Default)]
pub struct Groups {
    names: Vec<String>,
    /// Names of the series of links, both directions.
    lines: Vec<[String; 2]>,
    each: Vec<bool>,
    flows: Vec<Option<usize>>,
    links: Vec<Option<usize>>,
}

impl Groups {
    /// The groups of `spec`.
    ///
    /// # Errors
    /// A member that is none, or that is in two groups; a name that is taken.
    pub fn new(spec: &RunSpec, topology: &Topology) -> Result<Groups, String> {
        if spec.groups.is_empty() {
            return Ok(Groups::default());
        }
        let flows = spec.flows.iter().map(|flow| flow.name.as_str());
        let links = spec.graph.links.iter().map(|link| link.name.as_str());
        let [flows, links] = [flows.collect::<Vec<_>>(), links.collect()].map(Members::new);
        let mut groups = Groups::default();
        let [mut of_flow, mut of_link] = [flows, links];
        for (index, group) in spec.groups.iter().enumerate() {
            let error = |text: String| format!("group {}: {text}", group.name);
            let series = format!("{}.access", group.name);
            let taken = of_flow.has(&group.name)
                || of_link.has(&series)
                || groups.names.contains(&group.name);
            if taken {
                return Err(error("the name is taken".to_owned()));
            }
            of_flow.join(&group.flows, index).map_err(|name| error(format!("flow {name}")))?;
            of_link.join(&group.links, index).map_err(|name| error(format!("link {name}")))?;
            groups.names.push(group.name.clone());
            groups.lines.push(["up", "down"].map(|way| format!("{series}.{way}")));
            groups.each.push(group.each);
        }
        debug_assert_eq!(topology.lines.len(), 2 * of_link.groups.len());
        (groups.flows, groups.links) = (of_flow.groups, of_link.groups);
        Ok(groups)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// The group of flow number `flow`.
    pub fn of_flow(&self, flow: usize) -> Option<usize> {
        self.flows.get(flow).copied().flatten()
    }

    /// The group of link number `link`.
    pub fn of_link(&self, link: usize) -> Option<usize> {
        self.links.get(link).copied().flatten()
    }

    /// Whether its members have series of their own too.
    pub fn each(&self, group: usize) -> bool {
        self.each[group]
    }

    /// Name of its series.
    pub fn name(&self, group: usize) -> &str {
        &self.names[group]
    }

    /// Names of its series of links, up and down.
    pub fn lines(&self, group: usize) -> [&str; 2] {
        [&self.lines[group][0], &self.lines[group][1]]
    }
}

/// The group of each, while they are put together.
struct Members<'a> {
    places: BTreeMap<&'a str, usize>,
    groups: Vec<Option<usize>>,
}

impl<'a> Members<'a> {
    fn new(names: Vec<&'a str>) -> Members<'a> {
        let groups = vec![None; names.len()];
        Members { places: names.into_iter().zip(0..).collect(), groups }
    }

    fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// Enters them, or says which cannot be.
    fn join(&mut self, names: &[String], group: usize) -> Result<(), String> {
        for name in names {
            let place = *self.places.get(name.as_str()).ok_or(format!("{name:?} is not there"))?;
            if self.groups[place].replace(group).is_some() {
                return Err(format!("{name:?} is in a group already"));
            }
        }
        Ok(())
    }
}

/// One side of a group at one instant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Together {
    /// Counters of all, added up.
    pub counters: Counters,
    /// Connections of all so far.
    pub opened: u64,
    /// Bytes of all that wait for send buffers.
    pub waiting_bytes: u64,
    /// Sums of the state of those that have a connection, and the least RTT of them.
    state: Gauges,
    /// A sender among them has no slow-start threshold.
    unbounded: bool,
    smoothed: Mean,
    latest: Mean,
}

impl Together {
    /// Adds what `node` measures at `end`. The state of a sender whose connections have all ended, or which has not
    /// begun, is no part of the group's.
    pub fn add(&mut self, node: &dyn Node, end: usize, gauges: &Gauges, counters: &Counters) {
        self.counters.add(counters);
        self.opened += u64::from(node.opened(end));
        self.waiting_bytes += node.waiting_bytes(end);
        if node.opened(end) > node.completed(end) {
            self.add_state(gauges);
        }
    }

    fn add_state(&mut self, gauges: &Gauges) {
        let sum = &mut self.state;
        sum.cwnd += gauges.cwnd;
        sum.in_flight += gauges.in_flight;
        sum.pacing_rate_bit_s += gauges.pacing_rate_bit_s;
        self.unbounded |= gauges.ssthresh.is_none();
        sum.ssthresh =
            gauges.ssthresh.map(|bytes| sum.ssthresh.unwrap_or(0) + bytes).or(sum.ssthresh);
        sum.min_rtt = sum.min_rtt.into_iter().chain(gauges.min_rtt).min();
        self.smoothed.add(gauges.smoothed_rtt);
        self.latest.add(gauges.latest_rtt);
    }

    /// The state of all: windows, bytes in flight and rates added up, means of RTTs over the senders that know
    /// theirs, and the least of the least.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            ssthresh: self.state.ssthresh.filter(|_| !self.unbounded),
            smoothed_rtt: self.smoothed.get(),
            latest_rtt: self.latest.get(),
            ..self.state
        }
    }
}

/// A mean of spans, to the nanosecond.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: u128,
    count: u128,
}

impl Mean {
    fn add(&mut self, span: Option<Span>) {
        if let Some(span) = span {
            self.sum += u128::from(span.0);
            self.count += 1;
        }
    }

    fn get(&self) -> Option<Span> {
        // A mean of spans is a span.
        Some(Span(self.sum.checked_div(self.count)? as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauges(cwnd: u64, ssthresh: Option<u64>, rtt_ms: Option<u64>) -> Gauges {
        let rtt = rtt_ms.map(Span::from_millis);
        Gauges { cwnd, ssthresh, smoothed_rtt: rtt, min_rtt: rtt, ..Gauges::default() }
    }

    fn refused(groups: serde_json::Value) -> String {
        let spec = RunSpec::from_json(
            &serde_json::json!({
                "seed": 1, "duration_ns": 1, "sample_ns": 1, "flows": [], "groups": groups,
                "graph": {
                    "nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"}],
                    "links": [{"name": "x.access", "client_side": "a", "server_side": "b",
                        "up": [], "down": []}]
                },
            })
            .to_string(),
        )
        .unwrap();
        let topology = Topology::build(&spec.graph, spec.seed).unwrap();
        Groups::new(&spec, &topology).err().unwrap()
    }

    #[test]
    fn members_that_cannot_be_are_named() {
        let group = |name: &str, flows: &[&str], links: &[&str]| serde_json::json!({"name": name, "flows": flows, "links": links});
        let one = refused(serde_json::json!([group("g", &["f"], &[])]));
        assert_eq!(one, "group g: flow \"f\" is not there");
        let taken = refused(serde_json::json!([group("x", &[], &["x.access"])]));
        assert_eq!(taken, "group x: the name is taken");
        let both = [group("g", &[], &["x.access"]), group("h", &[], &["x.access"])];
        assert_eq!(refused(both.into()), "group h: link \"x.access\" is in a group already");
    }

    #[test]
    fn windows_are_added_up_and_round_trips_averaged() {
        let mut all = Together::default();
        all.add_state(&gauges(1000, Some(500), Some(20)));
        assert_eq!(all.gauges(), gauges(1000, Some(500), Some(20)), "one alone is as it is");
        all.add_state(&gauges(3000, Some(700), Some(40)));
        let found = all.gauges();
        assert_eq!((found.cwnd, found.ssthresh), (4000, Some(1200)));
        assert_eq!(found.smoothed_rtt, Some(Span::from_millis(30)));
        assert_eq!(found.min_rtt, Some(Span::from_millis(20)));
        all.add_state(&gauges(10, None, None));
        let found = all.gauges();
        assert_eq!((found.cwnd, found.ssthresh), (4010, None), "one has no threshold");
        assert_eq!(
            found.smoothed_rtt,
            Some(Span::from_millis(30)),
            "who knows none does not count"
        );
    }
}

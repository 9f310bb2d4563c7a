//! Measurement groups: one sample for all flows of a group, and one for the links that only these flows use.

use std::collections::BTreeMap;

use topology::Topology;
use transport::{FlowCounters, Probe, SenderGauges};
use units::Span;

use spec::RunSpec;

/// The measurement groups of a run.
#[derive(Default)]
pub struct MeasurementGroups {
    names: Vec<String>,
    /// The series names of the links, both directions.
    link_series: Vec<[String; 2]>,
    has_member_series: Vec<bool>,
    flows: Vec<Option<usize>>,
    links: Vec<Option<usize>>,
}

impl MeasurementGroups {
    /// Builds the groups of `spec`.
    ///
    /// # Errors
    /// An unknown member, a member of two groups, or a name in use.
    pub fn new(spec: &RunSpec, topology: &Topology) -> Result<MeasurementGroups, String> {
        if spec.groups.is_empty() {
            return Ok(MeasurementGroups::default());
        }
        let flows = spec.flows.iter().map(|flow| flow.name.as_str());
        let links = spec.graph.links.iter().map(|link| link.name.as_str());
        let [flows, links] = [flows.collect::<Vec<_>>(), links.collect()].map(GroupMembers::new);
        let mut groups = MeasurementGroups::default();
        let [mut flow_members, mut link_members] = [flows, links];
        for (index, group) in spec.groups.iter().enumerate() {
            let error = |text: String| format!("group {}: {text}", group.name);
            let series = format!("{}.access", group.name);
            let is_taken = flow_members.contains(&group.name)
                || link_members.contains(&series)
                || groups.names.contains(&group.name);
            if is_taken {
                return Err(error("found a duplicate name".to_owned()));
            }
            flow_members
                .assign(&group.flows, index)
                .map_err(|name| error(format!("flow {name}")))?;
            link_members
                .assign(&group.links, index)
                .map_err(|name| error(format!("link {name}")))?;
            groups.names.push(group.name.clone());
            groups
                .link_series
                .push(["up", "down"].map(|direction| format!("{series}.{direction}")));
            groups.has_member_series.push(group.per_flow);
        }
        debug_assert_eq!(topology.simplex_links.len(), 2 * link_members.groups.len());
        (groups.flows, groups.links) = (flow_members.groups, link_members.groups);
        Ok(groups)
    }

    /// Returns the number of groups.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the group of the flow with index `flow`.
    pub fn group_of_flow(&self, flow: usize) -> Option<usize> {
        self.flows.get(flow).copied().flatten()
    }

    /// Returns the group of the link with index `link`.
    pub fn group_of_link(&self, link: usize) -> Option<usize> {
        self.links.get(link).copied().flatten()
    }

    /// Returns whether the members have separate series too.
    pub fn has_member_series(&self, group: usize) -> bool {
        self.has_member_series[group]
    }

    /// Returns the name of the group's series.
    pub fn name(&self, group: usize) -> &str {
        &self.names[group]
    }

    /// Returns the names of the link series, up and down.
    pub fn link_series(&self, group: usize) -> [&str; 2] {
        [&self.link_series[group][0], &self.link_series[group][1]]
    }
}

/// The group of each flow or link while the groups are built.
struct GroupMembers<'a> {
    index_by_name: BTreeMap<&'a str, usize>,
    groups: Vec<Option<usize>>,
}

impl<'a> GroupMembers<'a> {
    fn new(names: Vec<&'a str>) -> GroupMembers<'a> {
        let groups = vec![None; names.len()];
        GroupMembers { index_by_name: names.into_iter().zip(0..).collect(), groups }
    }

    fn contains(&self, name: &str) -> bool {
        self.index_by_name.contains_key(name)
    }

    /// Assigns `names` to `group`. Returns the name that is unknown or already assigned.
    fn assign(&mut self, names: &[String], group: usize) -> Result<(), String> {
        for name in names {
            let index =
                *self.index_by_name.get(name.as_str()).ok_or(format!("{name:?} is unknown"))?;
            if self.groups[index].replace(group).is_some() {
                return Err(format!("{name:?} is already in a group"));
            }
        }
        Ok(())
    }
}

/// One side of a group at one instant.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupSample {
    /// The sums of all counters.
    pub counters: FlowCounters,
    /// Connections opened so far.
    pub opened: u64,
    /// Bytes waiting for send buffers.
    pub waiting_bytes: u64,
    /// The sums of the gauges of senders with a connection, and their minimum RTT.
    gauge_sums: SenderGauges,
    /// Whether a sender of the group has no slow-start threshold.
    has_unset_ssthresh: bool,
    smoothed_rtt: Mean,
    latest_rtt: Mean,
}

impl GroupSample {
    /// Adds the sample of `node` at `interface`. It adds gauges only while the sender has an open connection.
    pub fn add(
        &mut self,
        node: &dyn Probe,
        interface: usize,
        gauges: &SenderGauges,
        counters: &FlowCounters,
    ) {
        self.counters.add(counters);
        self.opened += u64::from(node.opened(interface));
        self.waiting_bytes += node.waiting_bytes(interface);
        if node.opened(interface) > node.completed(interface) {
            self.add_gauges(gauges);
        }
    }

    fn add_gauges(&mut self, gauges: &SenderGauges) {
        let sum = &mut self.gauge_sums;
        sum.cwnd += gauges.cwnd;
        sum.in_flight += gauges.in_flight;
        sum.pacing_rate_bit_s += gauges.pacing_rate_bit_s;
        self.has_unset_ssthresh |= gauges.ssthresh.is_none();
        sum.ssthresh =
            gauges.ssthresh.map(|bytes| sum.ssthresh.unwrap_or(0) + bytes).or(sum.ssthresh);
        sum.min_rtt = sum.min_rtt.into_iter().chain(gauges.min_rtt).min();
        self.smoothed_rtt.add(gauges.smoothed_rtt);
        self.latest_rtt.add(gauges.latest_rtt);
    }

    /// Returns the gauges of the group: sums of windows, bytes in flight and rates, and the minimum RTT. RTTs are means
    /// over the senders with a sample.
    pub fn gauges(&self) -> SenderGauges {
        SenderGauges {
            ssthresh: self.gauge_sums.ssthresh.filter(|_| !self.has_unset_ssthresh),
            smoothed_rtt: self.smoothed_rtt.get(),
            latest_rtt: self.latest_rtt.get(),
            ..self.gauge_sums
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
        // A mean of spans fits into a span.
        Some(Span(self.sum.checked_div(self.count)? as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauges(cwnd: u64, ssthresh: Option<u64>, rtt_ms: Option<u64>) -> SenderGauges {
        let rtt = rtt_ms.map(Span::from_millis);
        SenderGauges { cwnd, ssthresh, smoothed_rtt: rtt, min_rtt: rtt, ..SenderGauges::default() }
    }

    fn refused(groups: serde_json::Value) -> String {
        let spec = RunSpec::from_json(
            &serde_json::json!({
                "seed": 1, "duration_ns": 1, "sample_interval_ns": 1, "flows": [], "groups": groups,
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
        MeasurementGroups::new(&spec, &topology).err().unwrap()
    }

    #[test]
    fn invalid_members_are_named() {
        let group = |name: &str, flows: &[&str], links: &[&str]| serde_json::json!({"name": name, "flows": flows, "links": links});
        let one = refused(serde_json::json!([group("g", &["f"], &[])]));
        assert_eq!(one, "group g: flow \"f\" is unknown");
        let taken = refused(serde_json::json!([group("x", &[], &["x.access"])]));
        assert_eq!(taken, "group x: found a duplicate name");
        let both = [group("g", &[], &["x.access"]), group("h", &[], &["x.access"])];
        assert_eq!(refused(both.into()), "group h: link \"x.access\" is already in a group");
    }

    #[test]
    fn windows_are_added_up_and_round_trips_averaged() {
        let mut all = GroupSample::default();
        all.add_gauges(&gauges(1000, Some(500), Some(20)));
        assert_eq!(all.gauges(), gauges(1000, Some(500), Some(20)), "one alone is as it is");
        all.add_gauges(&gauges(3000, Some(700), Some(40)));
        let found = all.gauges();
        assert_eq!((found.cwnd, found.ssthresh), (4000, Some(1200)));
        assert_eq!(found.smoothed_rtt, Some(Span::from_millis(30)));
        assert_eq!(found.min_rtt, Some(Span::from_millis(20)));
        all.add_gauges(&gauges(10, None, None));
        let found = all.gauges();
        assert_eq!((found.cwnd, found.ssthresh), (4010, None), "one has no threshold");
        assert_eq!(
            found.smoothed_rtt,
            Some(Span::from_millis(30)),
            "who knows none does not count"
        );
    }
}

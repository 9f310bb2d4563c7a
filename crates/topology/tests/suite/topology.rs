//! The topology: routes, names and rejected specifications.

use link::{SpecError, StageSpec};
use topology::{LinkSpec, NodeKind, NodeSpec, Topology, TopologySpec};
use units::{NodeId, Time};

use crate::common::{bernoulli, delay, transmit};

fn node(name: &str) -> NodeSpec {
    // Names in capitals are hosts.
    let host = name.starts_with(char::is_uppercase);
    let kind = if host { NodeKind::Host } else { NodeKind::Router };
    NodeSpec { name: name.into(), kind, store_and_forward_bytes: None }
}

fn link(name: &str, client_side: &str, server_side: &str) -> LinkSpec {
    LinkSpec {
        name: name.into(),
        client_side: client_side.into(),
        server_side: server_side.into(),
        up: vec![delay(1), transmit(1_000_000, None)],
        down: vec![bernoulli(0.5)],
    }
}

fn graph(nodes: &[&str], links: &[(&str, &str, &str)]) -> TopologySpec {
    TopologySpec {
        nodes: nodes.iter().map(|name| node(name)).collect(),
        links: links.iter().map(|(name, a, b)| link(name, a, b)).collect(),
        changes: vec![],
    }
}

fn path(topology: &Topology, a: &str, b: &str) -> Vec<String> {
    let [a, b] = [a, b].map(|name| topology.node_id(name).unwrap());
    let lines = topology.path_between(a, b);
    lines.iter().map(|line| topology.simplex_link_name(*line).to_owned()).collect()
}

#[test]
fn routes_take_the_fewest_links_and_then_the_first() {
    // Two paths of two links and one of three from A to B. C is attached to a router of the longer path.
    let graph = graph(
        &["A", "x", "y", "p", "q", "B", "C"],
        &[
            ("ap", "A", "p"),
            ("pq", "p", "q"),
            ("qb", "q", "B"),
            ("ay", "A", "y"),
            ("yb", "y", "B"),
            ("bx", "B", "x"),
            ("xa", "x", "A"),
            ("cq", "C", "q"),
        ],
    );
    let topology = Topology::build(&graph, 1).unwrap();
    assert_eq!(path(&topology, "A", "B"), ["ay.up", "yb.up"]);
    assert_eq!(path(&topology, "B", "A"), ["yb.down", "ay.down"]);
    assert_eq!(path(&topology, "A", "C"), ["ap.up", "pq.up", "cq.down"]);
    assert!(path(&topology, "A", "A").is_empty());
    assert_eq!(topology.far_end(2), topology.node_id("q").unwrap());
    assert_eq!(topology.near_end(3), topology.node_id("q").unwrap());
    assert_eq!(topology.node_kind(topology.node_id("x").unwrap()), NodeKind::Router);
    assert_eq!((topology.node_count(), topology.node_name(NodeId(6))), (7, "C"));
    assert_eq!(topology.next_hop(NodeId(0), NodeId(99)), None);
    assert_eq!(topology.next_hop(NodeId(99), NodeId(0)), None);
}

#[test]
fn hosts_do_not_forward() {
    // A splitting proxy connects A and B: each side reaches it, not the other.
    let split = [("a", "A", "Proxy"), ("b", "Proxy", "B")];
    let topology = Topology::build(&graph(&["A", "Proxy", "B"], &split), 1).unwrap();
    assert_eq!(path(&topology, "A", "Proxy"), ["a.up"]);
    assert_eq!(path(&topology, "B", "Proxy"), ["b.down"]);
    assert!(path(&topology, "A", "B").is_empty());
    // The proxy is also excluded if the path over routers is longer, or equally long and later in the list.
    let around = [("a", "A", "Proxy"), ("b", "Proxy", "B"), ("c", "A", "r"), ("d", "r", "B")];
    let topology = Topology::build(&graph(&["A", "Proxy", "B", "r"], &around), 1).unwrap();
    assert_eq!(path(&topology, "A", "B"), ["c.up", "d.up"]);
    let far = [around[0], around[1], around[2], ("d", "r", "s"), ("e", "s", "B")];
    let topology = Topology::build(&graph(&["A", "Proxy", "B", "r", "s"], &far), 1).unwrap();
    assert_eq!(path(&topology, "A", "B"), ["c.up", "d.up", "e.up"]);
}

fn refused(graph: TopologySpec) -> String {
    Topology::build(&graph, 1).err().as_ref().map(SpecError::to_string).unwrap()
}

#[test]
fn a_bad_graph_is_refused_by_name() {
    let ab = &[("l", "A", "B")];
    assert_eq!(refused(graph(&["A", "A"], ab)), "node \"A\": another node has this name");
    assert_eq!(refused(graph(&["A"], ab)), "link \"l\": server_side \"B\" is not a node");
    assert_eq!(
        refused(graph(&["A", "B"], &[("l", "A", "B"), ("l", "A", "B")])),
        "link \"l\": another link has this name"
    );
    assert_eq!(
        refused(graph(&["A"], &[("l", "A", "A")])),
        "link \"l\": both sides are the same node"
    );
    assert_eq!(refused(graph(&["A", "B", "C"], ab)), "node \"C\": no link leads to it from \"A\"");
}

#[test]
fn a_bad_stage_is_refused_by_link_and_number() {
    let of = |stage: &str| -> String {
        let mut graph = graph(&["A", "B"], &[("l", "A", "B")]);
        graph.links[0].down.push(serde_json::from_str::<StageSpec>(stage).unwrap());
        refused(graph)
    };
    let transmit = |queue: &str, service: &str| {
        of(&format!(r#"{{"kind":"transmit","queue":{queue},"service":{service}}}"#))
    };
    let rate = r#"{"kind":"rate","rate_bit_s":1}"#;
    let unbounded = r#"{"kind":"drop_tail","limit":null}"#;
    let cases = [
        (
            of(r#"{"kind":"loss","model":{"kind":"bernoulli","probability":-0.1}}"#),
            "l.down stage 1 (loss): probability = -0.1 is not a probability from 0 to 1",
        ),
        (
            transmit(unbounded, r#"{"kind":"rate","rate_bit_s":0}"#),
            "l.down stage 1 (transmit): rate_bit_s is 0",
        ),
        (
            transmit(r#"{"kind":"drop_tail","limit":{"packets":0}}"#, rate),
            "l.down stage 1 (transmit): the queue's limit is 0",
        ),
        (
            transmit(
                unbounded,
                r#"{"kind":"trace","opportunities_ns":[2,1],"opportunity_bytes":1,"repeat_ns":3}"#,
            ),
            "l.down stage 1 (transmit): opportunities_ns are not in order of time",
        ),
        (
            transmit(
                unbounded,
                r#"{"kind":"trace","opportunities_ns":[1,4],"opportunity_bytes":1,"repeat_ns":3}"#,
            ),
            "l.down stage 1 (transmit): opportunities_ns end at 4, after repeat_ns = 3",
        ),
        (
            of(
                r#"{"kind":"outage","windows":[[5,9],[8,10]],"repeat_ns":null,"buffer_packets":false}"#,
            ),
            "l.down stage 1 (outage): window [8, 10] begins before the end of the previous window",
        ),
        (
            of(r#"{"kind":"outage","windows":[[5,5]],"repeat_ns":null,"buffer_packets":false}"#),
            "l.down stage 1 (outage): window [5, 5] does not end after its start",
        ),
        (
            of(
                r#"{"kind":"delay_trace","points":[[0,1],[0,2]],"interpolation":"step","repeat_ns":null,"reorder":false}"#,
            ),
            "l.down stage 1 (delay_trace): points: 0 does not come after 0",
        ),
        (
            of(
                r#"{"kind":"delay","delay_ns":1,"changes":[{"at_ns":5,"delay_ns":1},{"at_ns":4,"delay_ns":1}]}"#,
            ),
            "l.down stage 1 (delay): changes: 4 does not come after 5",
        ),
        (
            of(r#"{"kind":"netem","rate_bit_s":1,"delay_ns":0,"limit_packets":0}"#),
            "l.down stage 1 (netem): limit_packets is 0",
        ),
    ];
    for (got, expected) in cases {
        assert_eq!(got, expected);
    }
}

#[test]
fn a_bad_change_is_refused_by_its_instant() {
    let names = ["A", "B", "r", "s"];
    let links = [("ar", "A", "r"), ("rs", "r", "s"), ("sb", "s", "B"), ("as", "A", "s")];
    let of = |changes: &str| {
        let mut graph = graph(&names, &links);
        graph.changes = serde_json::from_str(changes).unwrap();
        refused(graph)
    };
    let stage = |line: &str, stage: u32, change: &str| {
        of(&format!(
            r#"[{{"at_ns":7,"stages":[{{"simplex_link":"{line}","stage":{stage},"update":{change}}}]}}]"#
        ))
    };
    let route = |node: &str, to: &str, route: &str| {
        of(&format!(
            r#"[{{"at_ns":7,"routes":[{{"node":"{node}","to":"{to}","route":{route}}}]}}]"#
        ))
    };
    let rate = r#"{"kind":"rate","rate_bit_s":0}"#;
    let cases = [
        (
            of(r#"[{"at_ns":7},{"at_ns":7}]"#),
            "changes at 7 ns: found a time that is not after the previous changes",
        ),
        (
            of(r#"[{"at_ns":7,"links":[{"link":"x","enabled":false}]}]"#),
            "changes at 7 ns: unknown link \"x\"",
        ),
        (stage("ar", 0, rate), "changes at 7 ns: unknown simplex link \"ar\""),
        (stage("ar.up", 9, rate), "changes at 7 ns: unknown ar.up stage 9"),
        (
            stage("ar.up", 0, rate),
            "changes at 7 ns: ar.up stage 0 (delay) does not support this change: rate",
        ),
        (stage("ar.up", 1, rate), "changes at 7 ns: ar.up stage 1: rate_bit_s is 0"),
        (
            stage("ar.up", 1, r#"{"kind":"in_flight","policy":"reorder"}"#),
            "changes at 7 ns: ar.up stage 1 (transmit) does not support this change: in_flight",
        ),
        (
            route("r", "s", r#""no_route""#),
            "changes at 7 ns: found the destination \"s\", which is a router, expected a host or proxy",
        ),
        (
            route("B", "B", r#""no_route""#),
            "changes at 7 ns: found a route from \"B\" to itself, expected another destination",
        ),
        (route("z", "B", r#""no_route""#), "changes at 7 ns: unknown node \"z\""),
        (
            route("r", "B", r#"{"link":"sb"}"#),
            "changes at 7 ns: link \"sb\" does not begin at \"r\"",
        ),
        (
            route("r", "B", r#"{"link":"ar"}"#),
            "changes at 7 ns: link \"ar\" leads from \"r\" to \"A\", a host, which forwards no packets",
        ),
        (
            of(r#"[{"at_ns":5,"routes":[{"node":"s","to":"A","route":{"link":"rs"}}]},
                   {"at_ns":7,"links":[{"link":"rs","enabled":false}]}]"#),
            "changes at 7 ns: the route from \"s\" to \"A\" uses rs.down, whose link is disabled",
        ),
        (
            of(r#"[{"at_ns":7,"routes":[{"node":"s","to":"B","route":{"link":"rs"}},
                                      {"node":"r","to":"B","route":{"link":"rs"}}]}]"#),
            "changes at 7 ns: packets from \"r\" to \"B\" are in a routing loop",
        ),
    ];
    for (got, expected) in cases {
        assert_eq!(got, expected);
    }
}

#[test]
fn a_route_override_applies_until_it_is_changed() {
    let names = ["A", "B", "r", "s"];
    let links = [("ar", "A", "r"), ("rb", "r", "B"), ("as", "A", "s"), ("sb", "s", "B")];
    let mut graph = graph(&names, &links);
    let text = serde_json::to_string(&graph).unwrap();
    assert!(!text.contains("changes\":[{\"at_ns"), "as before: {text}");
    graph.changes = serde_json::from_str(
        r#"[{"at_ns":10,"routes":[{"node":"A","to":"B","route":{"link":"as"}}]},
            {"at_ns":20,"links":[{"link":"rb","enabled":false}]},
            {"at_ns":30,"routes":[{"node":"A","to":"B","route":"no_route"}]},
            {"at_ns":40,"routes":[{"node":"A","to":"B","route":"shortest"}]},
            {"at_ns":50,"links":[{"link":"rb","enabled":true},{"link":"sb","enabled":false}]}]"#,
    )
    .unwrap();
    let json = serde_json::to_string(&graph).unwrap();
    assert_eq!(serde_json::from_str::<TopologySpec>(&json).unwrap(), graph);
    let mut topology = Topology::build(&graph, 1).unwrap();
    let [a, b] = ["A", "B"].map(|name| topology.node_id(name).unwrap());
    let first = |topology: &Topology, at: u64| {
        let line = topology.next_hop_at(Time(at), a, b);
        line.map(|line| topology.simplex_link_name(line).to_owned())
    };
    let (ar, by_s) = (Some("ar.up".to_owned()), Some("as.up".to_owned()));
    let wanted = [(0, &ar, 10), (10, &by_s, 20), (25, &by_s, 30), (30, &None, 40), (45, &by_s, 50)];
    for (at, line, next) in wanted.into_iter().chain([(50, &ar, u64::MAX)]) {
        assert_eq!(first(&topology, at), *line, "at {at}");
        topology.apply_routes(Time(at));
        assert_eq!(topology.next_hop(a, b), topology.next_hop_at(Time(at), a, b));
        assert_eq!(topology.next_route_change_at(), Time(next));
    }
    // The reverse path also excludes the links that are not in use.
    let mut topology = Topology::build(&graph, 1).unwrap();
    topology.apply_routes(Time(20));
    assert_eq!(path(&topology, "B", "A"), ["sb.down", "as.down"]);
    topology.apply_routes(Time(50));
    assert_eq!(path(&topology, "B", "A"), ["rb.down", "ar.down"]);
}

#[test]
fn the_first_path_is_the_first_complete_one() {
    let mut graph = graph(&["A", "B", "r"], &[("ar", "A", "r"), ("rb", "r", "B")]);
    graph.changes = serde_json::from_str(
        r#"[{"at_ns":0,"routes":[{"node":"r","to":"B","route":"no_route"}], "links":[{"link":"ar","enabled":false}]},
            {"at_ns":10,"links":[{"link":"ar","enabled":true}]},
            {"at_ns":20,"routes":[{"node":"r","to":"B","route":"shortest"},{"node":"B","to":"A","route":"no_route"}]}]"#,
    )
    .unwrap();
    let mut topology = Topology::build(&graph, 1).unwrap();
    let [a, b] = ["A", "B"].map(|name| topology.node_id(name).unwrap());
    let named = |topology: &Topology, from, to| -> Vec<String> {
        let lines = topology.first_path_between(from, to);
        lines.iter().map(|line| topology.simplex_link_name(*line).to_owned()).collect()
    };
    assert_eq!(named(&topology, a, b), ["ar.up", "rb.up"], "at 20, not the half of it at 10");
    assert_eq!(named(&topology, b, a), ["rb.down", "ar.down"], "at 10");
    topology.apply_routes(Time(20));
    assert!(named(&topology, b, a).is_empty(), "never again");
}

#[test]
fn a_topology_may_move_to_a_thread() {
    fn movable<T: Send>() {}
    movable::<Topology>();
}

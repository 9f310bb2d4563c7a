//! The graph: routes, names and what is refused.

use path::{GraphSpec, LinkSpec, NodeKind, NodeSpec, SpecError, StageSpec, Topology};
use units::NodeId;

use crate::common::{bernoulli, delay, transmit};

fn node(name: &str) -> NodeSpec {
    // Capitals are hosts.
    let host = name.starts_with(char::is_uppercase);
    NodeSpec { name: name.into(), kind: if host { NodeKind::Host } else { NodeKind::Router } }
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

fn graph(nodes: &[&str], links: &[(&str, &str, &str)]) -> GraphSpec {
    GraphSpec {
        nodes: nodes.iter().map(|name| node(name)).collect(),
        links: links.iter().map(|(name, a, b)| link(name, a, b)).collect(),
    }
}

fn path(topology: &Topology, a: &str, b: &str) -> Vec<String> {
    let [a, b] = [a, b].map(|name| topology.node_id(name).unwrap());
    let lines = topology.path_between(a, b);
    lines.iter().map(|line| topology.line_name(*line).to_owned()).collect()
}

#[test]
fn routes_take_the_fewest_links_and_then_the_first() {
    // Two ways of two links and one of three from A to B; C hangs on a router of the long way.
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
    assert_eq!(topology.line_end(2), topology.node_id("q").unwrap());
    assert_eq!(topology.line_start(3), topology.node_id("q").unwrap());
    assert_eq!(topology.node_kind(topology.node_id("x").unwrap()), NodeKind::Router);
    assert_eq!((topology.node_count(), topology.node_name(NodeId(6))), (7, "C"));
    assert_eq!(topology.next_hop(NodeId(0), NodeId(99)), None);
    assert_eq!(topology.next_hop(NodeId(99), NodeId(0)), None);
}

#[test]
fn hosts_pass_nothing_on() {
    // A splitting proxy stands between A and B: each side reaches it, not the other.
    let split = [("a", "A", "Proxy"), ("b", "Proxy", "B")];
    let topology = Topology::build(&graph(&["A", "Proxy", "B"], &split), 1).unwrap();
    assert_eq!(path(&topology, "A", "Proxy"), ["a.up"]);
    assert_eq!(path(&topology, "B", "Proxy"), ["b.down"]);
    assert!(path(&topology, "A", "B").is_empty());
    // Nor when the way over routers is longer, or as long and later in the list.
    let around = [("a", "A", "Proxy"), ("b", "Proxy", "B"), ("c", "A", "r"), ("d", "r", "B")];
    let topology = Topology::build(&graph(&["A", "Proxy", "B", "r"], &around), 1).unwrap();
    assert_eq!(path(&topology, "A", "B"), ["c.up", "d.up"]);
    let far = [around[0], around[1], around[2], ("d", "r", "s"), ("e", "s", "B")];
    let topology = Topology::build(&graph(&["A", "Proxy", "B", "r", "s"], &far), 1).unwrap();
    assert_eq!(path(&topology, "A", "B"), ["c.up", "d.up", "e.up"]);
}

fn refused(graph: GraphSpec) -> String {
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
            "l.down stage 1 (loss): probability = -0.1 is no probability between 0 and 1",
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
                r#"{"kind":"trace","slots_ns":[2,1],"slot_bytes":1,"repeat_ns":3}"#,
            ),
            "l.down stage 1 (transmit): slots_ns run backwards",
        ),
        (
            transmit(
                unbounded,
                r#"{"kind":"trace","slots_ns":[1,4],"slot_bytes":1,"repeat_ns":3}"#,
            ),
            "l.down stage 1 (transmit): slots_ns end at 4, after repeat_ns = 3",
        ),
        (
            of(r#"{"kind":"outage","windows":[[5,9],[8,10]],"repeat_ns":null,"hold":false}"#),
            "l.down stage 1 (outage): window [8, 10] begins before the one before it ends",
        ),
        (
            of(r#"{"kind":"outage","windows":[[5,5]],"repeat_ns":null,"hold":false}"#),
            "l.down stage 1 (outage): window [5, 5] is empty or runs backwards",
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

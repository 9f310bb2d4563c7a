use link::LinkOutput;
use units::Packet;

use super::*;

fn delay(name: &str, a: &str, b: &str) -> String {
    let stages = r#"[{"kind":"delay","delay_ns":5}]"#;
    format!(
        r#"{{"name":"{name}","client_side":"{a}","server_side":"{b}","up":{stages},"down":{stages}}}"#
    )
}

/// Builds a lab of these nodes (`name:kind`), links and changes, between the hosts.
fn spec(nodes: &str, links: &[(&str, &str, &str)], changes: &str, hosts: &[&str]) -> LabSpec {
    let node = |text: &str| {
        let (name, kind) = text.split_once(':').unwrap_or((text, "host"));
        format!(r#"{{"name":"{name}","kind":"{kind}"}}"#)
    };
    let nodes = nodes.split(' ').map(node).collect::<Vec<_>>().join(",");
    let links = links.iter().map(|(name, a, b)| delay(name, a, b)).collect::<Vec<_>>().join(",");
    let (client, server, others) = (hosts[0], hosts[1], &hosts[2..]);
    serde_json::from_str(&format!(
        r#"{{"graph":{{"nodes":[{nodes}],"links":[{links}],"changes":[{changes}]}},
            "client":"{client}","server":"{server}","hosts":{others:?},"seed":1,"mtu":1500}}"#
    ))
    .unwrap()
}

fn in_use(at: u64, link: &str, in_use: bool) -> String {
    format!(r#"{{"at_ns":{at},"links":[{{"link":"{link}","enabled":{in_use}}}]}}"#)
}

fn names(net: &NetworkLayout) -> Vec<&str> {
    net.links.iter().map(|segment| &*segment.name).collect()
}

fn node_names(net: &NetworkLayout) -> Vec<&str> {
    net.nodes.iter().map(|node| &*node.name).collect()
}

/// The names of node and destination, the link and the side of it.
type Named<'a> = (&'a str, &'a str, Option<(&'a str, usize)>);

fn routes(net: &NetworkLayout, version: usize) -> Vec<Named<'_>> {
    let name = |index: usize| &*net.nodes[index].name;
    let of = |route: &HostRoute| {
        let interface =
            route.interface.map(|interface| (&*net.links[interface.link].name, interface.side));
        (name(route.node), name(route.destination), interface)
    };
    net.timed_routes[version].routes.iter().map(of).collect()
}

const TRIANGLE: [(&str, &str, &str); 3] = [("ab", "a", "b"), ("bc", "b", "c"), ("ca", "c", "a")];

#[test]
fn a_linear_path_is_split_only_at_proxies() {
    let links = [("lan", "c", "r"), ("sat", "r", "p"), ("net", "p", "s")];
    let net = NetworkLayout::new(&spec("c r:router p:proxy s", &links, "", &["c", "s"])).unwrap();
    assert!(net.is_linear);
    assert_eq!(node_names(&net), ["c", "p", "s"]);
    assert_eq!(names(&net), ["lan+sat", "net"]);
    assert_eq!(net.links[0].simplex_link_names, [["lan.up", "sat.up"], ["sat.down", "lan.down"]]);
    let between: Vec<_> = net.links.iter().map(|segment| segment.ends).collect();
    assert_eq!(between, [[0, 1], [1, 2]]);
    assert_eq!(net.path_bounds.len(), 1);
    assert_eq!(net.path_bounds[0].propagation, Span(30));
    assert_eq!(net.path_bounds[0].max_propagation, Some(Span(30)));
    // From the far end the sequence is reversed.
    let net = NetworkLayout::new(&spec("c r:router p:proxy s", &links, "", &["s", "c"])).unwrap();
    assert_eq!(node_names(&net), ["s", "p", "c"]);
    assert_eq!(net.links[0].simplex_link_names, [["net.down"], ["net.up"]]);
}

#[test]
fn a_linear_path_supports_link_changes() {
    let links = [("a", "c", "r"), ("b", "c", "r"), ("d", "r", "s")];
    let stays = r#"{"at_ns":7000000000,"links":[{"link":"b","enabled":false}],
        "stages":[{"simplex_link":"a.up","stage":0,"update":{"kind":"in_flight","policy":"drop"}}]}"#;
    let net = |changes: &str| {
        NetworkLayout::new(&spec("c r:router s", &links, changes, &["c", "s"])).unwrap()
    };
    let mut still = net(stays);
    assert!(still.is_linear);
    assert_eq!(names(&still), ["a+d"]);
    let mut out = LinkOutput::default();
    let line = &mut still.links[0].simplex_links[0][0];
    line.push(Time(6_999_999_999), Packet::of_bytes(100), &mut out);
    line.poll(Time(8_000_000_000), &mut out);
    assert_eq!((out.delivered.len(), out.dropped[0].0), (0, Time(7_000_000_000)));
    // A change at the start equals a topology without the link.
    assert_eq!(names(&net(&in_use(0, "a", false))), ["b+d"]);
}

#[test]
fn a_router_with_diverging_paths_has_a_namespace() {
    let links = [("a", "c", "r"), ("b", "c", "r"), ("d", "r", "s")];
    let disabled = in_use(7, "a", false);
    let net = NetworkLayout::new(&spec("c r:router s", &links, &disabled, &["c", "s"])).unwrap();
    assert!(!net.is_linear);
    assert_eq!(node_names(&net), ["c", "s", "r"]);
    assert_eq!(names(&net), ["a", "d", "b"]);
    assert_eq!(net.timed_routes.len(), 2);
    let first = [
        ("c", "s", Some(("a", 0))),
        ("r", "c", Some(("a", 1))),
        ("r", "s", Some(("d", 0))),
        ("s", "c", Some(("d", 1))),
    ];
    assert_eq!(routes(&net, 0).iter().filter(|one| first.contains(one)).count(), 4);
    assert_eq!(net.timed_routes[1].valid_from, Time(7));
    assert_eq!(routes(&net, 1), [("c", "s", Some(("b", 0))), ("r", "c", Some(("b", 1)))]);
    // A router with only two neighbours needs no namespace, for any number of hosts.
    let star = [("a", "x", "r"), ("b", "r", "y"), ("c", "y", "z")];
    let net = NetworkLayout::new(&spec("x r:router y z", &star, "", &["x", "y"])).unwrap();
    assert_eq!((node_names(&net), names(&net)), (vec!["x", "y"], vec!["a+b"]));
    let star = [("a", "x", "r"), ("b", "r", "y"), ("c", "r", "z")];
    let net = NetworkLayout::new(&spec("x r:router y z", &star, "", &["x", "y", "z"])).unwrap();
    assert_eq!((node_names(&net), names(&net)), (vec!["x", "y", "z", "r"], vec!["a", "b", "c"]));
}

#[test]
fn a_triangle_has_three_links() {
    let net = NetworkLayout::new(&spec("a b c", &TRIANGLE, "", &["a", "b", "c"])).unwrap();
    assert_eq!(node_names(&net), ["a", "b", "c"]);
    assert_eq!(names(&net), ["ab", "ca", "bc"]);
    // The name of a link defines which direction is up, for any sequence of hosts.
    assert_eq!(net.links[1].ends, [2, 0]);
    assert_eq!(net.links[1].simplex_link_names, [["ca.up"], ["ca.down"]]);
    let expected = [
        ("a", "b", Some(("ab", 0))),
        ("a", "c", Some(("ca", 1))),
        ("b", "a", Some(("ab", 1))),
        ("b", "c", Some(("bc", 0))),
        ("c", "a", Some(("ca", 0))),
        ("c", "b", Some(("bc", 1))),
    ];
    let found = routes(&net, 0);
    assert!(expected.iter().all(|one| found.contains(one)), "{found:?}");
    assert_eq!(found.len(), 6);
    let pairs: Vec<_> = net.path_bounds.iter().map(|promise| promise.hosts).collect();
    assert_eq!(pairs, [[0, 1], [0, 2], [1, 2]]);
    assert!(net.path_bounds.iter().all(|promise| promise.propagation == Span(10)));
}

#[test]
fn hosts_do_not_forward() {
    // A removed link leaves no route, although a path through a host exists.
    let changes = [in_use(5, "ca", false), in_use(9, "ca", true)].join(",");
    let net = NetworkLayout::new(&spec("a b c", &TRIANGLE, &changes, &["a", "b", "c"])).unwrap();
    assert_eq!(routes(&net, 1), [("a", "c", None), ("c", "a", None)]);
    assert_eq!(routes(&net, 2), [("a", "c", Some(("ca", 1))), ("c", "a", Some(("ca", 0)))]);
    assert_eq!(net.timed_routes[2].valid_from, Time(9));
}

#[test]
fn invalid_topologies_are_rejected() {
    let wrong = |spec: &LabSpec| NetworkLayout::new(spec).err().expect("refused").to_string();
    let hosts = |hosts: &[&str]| wrong(&spec("a b c r:router", &TRIANGLE, "", hosts));
    assert!(hosts(&["a", "x"]).contains("no node \"x\""));
    assert!(hosts(&["a", "b", "a"]).contains("\"a\" is a duplicate"));
    assert!(hosts(&["a", "b", "r"]).contains("\"r\" is not a host"));
    let never = in_use(0, "ab", false);
    let error = wrong(&spec("a b c", &TRIANGLE, &never, &["a", "b"]));
    assert_eq!(error, "the path never has routes from \"a\" to \"b\" and back");
    let mut holds = spec("a b c", &TRIANGLE, &in_use(5, "ca", false), &["a", "b", "c"]);
    holds.graph.nodes[2].store_and_forward_bytes = Some(1000);
    assert!(
        wrong(&holds).contains("\"c\" has store_and_forward, which emulation does not support")
    );
    holds.graph.changes.clear();
    assert!(NetworkLayout::new(&holds).is_ok(), "a way is always there");
    let crowd: Vec<String> = (0..13).map(|number| format!("h{number}")).collect();
    let mesh: Vec<(String, &str, &str)> = (0..13)
        .flat_map(|one| (0..one).map(move |other| (one, other)))
        .map(|(one, other)| (format!("l{one}-{other}"), &*crowd[one], &*crowd[other]))
        .collect();
    let mesh: Vec<(&str, &str, &str)> = mesh.iter().map(|(name, a, b)| (&**name, *a, *b)).collect();
    let hosts: Vec<&str> = crowd.iter().map(|name| &**name).collect();
    let error = wrong(&spec(&crowd.join(" "), &mesh, "", &hosts));
    assert!(error.contains("78 links between nodes of their own, expected at most 64"), "{error}");
}

/// For any topology and changes, the routes of the namespaces lead over the same simplex links as in virtual time, at
/// each time.
#[test]
fn routes_match_virtual_time() {
    let mut state = 7u64;
    let mut below = |bound: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize) % bound
    };
    let (mut made, mut moved) = (0, 0);
    for _ in 0..400 {
        let (hosts, routers) = (2 + below(3), below(5));
        let host = |number: usize| format!("h{number}");
        let names: Vec<String> =
            (0..hosts).map(host).chain((0..routers).map(|number| format!("r{number}"))).collect();
        let kinds: Vec<String> = names
            .iter()
            .map(|name| if name.starts_with('h') { name.clone() } else { format!("{name}:router") })
            .collect();
        let links: Vec<(String, usize, usize)> = (0..hosts + routers + below(4))
            .map(|number| {
                let one = below(names.len());
                (format!("l{number}"), one, (one + 1 + below(names.len() - 1)) % names.len())
            })
            .collect();
        let named: Vec<(&str, &str, &str)> =
            links.iter().map(|(name, a, b)| (&**name, &*names[*a], &*names[*b])).collect();
        let mut used = vec![true; links.len()];
        let changes: Vec<String> = (0..below(4))
            .map(|step| {
                let link = below(links.len());
                used[link] = !used[link];
                in_use(10 * (step as u64 + 1), &links[link].0, used[link])
            })
            .collect();
        let hosts: Vec<&str> = names[..hosts].iter().map(|name| &**name).collect();
        let spec = spec(&kinds.join(" "), &named, &changes.join(","), &hosts);
        let Ok(net) = NetworkLayout::new(&spec) else { continue };
        made += 1;
        let mut topology = Topology::build(&spec.graph, spec.seed).unwrap();
        let mut interfaces = BTreeMap::new();
        let mut versions = net.timed_routes.iter().peekable();
        for at in (0..5).map(|step| Time(10 * step)) {
            topology.apply_routes(at);
            while let Some(version) = versions.next_if(|version| version.valid_from <= at) {
                moved += usize::from(version.valid_from > Time::ZERO);
                interfaces.extend(
                    version
                        .routes
                        .iter()
                        .map(|route| ((route.node, route.destination), route.interface)),
                );
            }
            for (from, to) in hosts.iter().flat_map(|a| hosts.iter().map(move |b| (a, b))) {
                let [a, b] = [from, to].map(|name| topology.node_id(name).unwrap());
                let lines = topology.path_between(a, b);
                let expected: Vec<&str> =
                    lines.iter().map(|line| topology.simplex_link_name(*line)).collect();
                let index_of =
                    |name: &str| net.nodes.iter().position(|one| one.name == name).unwrap();
                let (mut here, end) = (index_of(from), index_of(to));
                let mut met: Vec<&str> = Vec::new();
                while let Some(Some(interface)) = interfaces.get(&(here, end)) {
                    let segment = &net.links[interface.link];
                    assert_eq!(segment.ends[interface.side], here);
                    met.extend(
                        segment.simplex_link_names[interface.side].iter().map(|name| &**name),
                    );
                    here = segment.ends[1 - interface.side];
                }
                assert_eq!(met, expected, "{from} to {to} at {at}");
            }
        }
    }
    assert!(made > 100 && moved > 50, "{made} graphs, {moved} changes");
}

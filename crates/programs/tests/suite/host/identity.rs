//! Authentication of bundle nodes. Authenticated nodes exchange bundles; others are refused with a reason, and bundles
//! for them stay stored.

use std::path::{Path, PathBuf};

use programs::dtn::{BundleHost, CertificatePlan, build_node, issue_certificate};
use runtime::host::Host;
use serde_json::{Value, json};
use transport::quic::QuicSpec;
use units::Span;

const LAYERS: [&str; 3] = ["quiccl", "qubicle", "tcpcl"];

/// Number of bundles from node 1 to node 2.
const BUNDLES: usize = 3;

/// Two labs: `one`, `two` (and `three`) of the first, and `other`, signed by another authority for ipn:1.0.
struct Labs {
    folder: PathBuf,
    pins: [String; 2],
}

/// Valid from 2023 to 2123.
fn asked(name: &str, eid: &str, folder: PathBuf) -> CertificatePlan {
    let (days, now_unix_s) = (36_525, 1_700_000_000);
    CertificatePlan { eid: eid.into(), name: name.into(), folder, days, now_unix_s }
}

impl Labs {
    fn new(test: &str) -> Labs {
        let folder = std::env::temp_dir().join(format!("bentpipe-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let sign = |folder: PathBuf, name: &str, eid: &str| {
            issue_certificate(&asked(name, eid, folder)).unwrap()["pin"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let pins = [("one", "ipn:1.0"), ("two", "ipn:2.0"), ("three", "ipn:3.0")];
        let [one, two, _] = pins.map(|(name, eid)| sign(folder.clone(), name, eid));
        sign(folder.join("other"), "one", "ipn:1.0");
        sign(folder.join("other"), "two", "ipn:2.0");
        Labs { folder, pins: [one, two] }
    }

    fn shows(&self, name: &str) -> Value {
        let file = |kind: &str| self.folder.join(format!("{name}.{kind}"));
        json!({"certificate": file("pem"), "key": file("key")})
    }

    /// Returns the TLS configuration of a node with the certificate `name` that trusts the first authority.
    fn by_authority(&self, name: &str) -> Value {
        let authority = self.folder.join("authority.pem");
        json!({"certificate": self.shows(name), "authority": authority})
    }

    /// Returns the TLS configuration of a node that requires the key `pin`.
    fn by_pin(&self, name: &str, pin: &str) -> Value {
        json!({"certificate": self.shows(name), "pin": pin})
    }
}

impl Drop for Labs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn a_node(layer: &str, name: &str, peer: Option<String>, tls: &Value) -> Host<BundleHost> {
    let other = if name == "1" { "2" } else { "1" };
    let perf = json!({
        "name": "perf", "client": "1", "server": "2", "start_ns": 0,
        "amount": {"kind": "data", "bytes": BUNDLES * 1000}, "pace": {"kind": "window", "bundles": BUNDLES},
        "payload_bytes": 1000, "lifetime_ns": 60_000_000_000_u64, "priority": "normal", "crc": "none", "do_not_fragment": true,
    });
    let to = |name: &str| json!({"to": name, "via": name});
    let mut words = json!({"kind": layer});
    if layer == "tcpcl" {
        words["tls"] = json!("require");
    }
    let plan = json!({
        "name": name,
        "dtn": {
            "epoch_ms": 800_000_000_000_u64, "links": [], "plan": {"contacts": []}, "perf": [perf],
            "nodes": [
                {"name": "1", "eid": "ipn:1.0", "routes": if name == "1" { vec![to("2")] } else { vec![] }},
                {"name": "2", "eid": "ipn:2.0", "routes": if name == "2" { vec![to("1")] } else { vec![] }},
            ],
        },
        "neighbours": [{
            "neighbour": other, "cla": words, "listen": "127.0.0.1:0", "peer": peer,
            "can_send": true, "opens_with_contact": false, "closes_after_contact": false, "quic": QuicSpec { crypto: transport::quic::Crypto::Rustls, ..QuicSpec::default() },
            "congestion": {"name": "cubic"}, "idle_timeout_ns": 10_000_000_000_u64, "tls": tls,
        }],
    });
    build_node(&serde_json::from_value(plan).unwrap()).unwrap()
}

/// Polls the hosts until `done`, for at most 10 s. Returns whether `done` was reached.
fn turn(
    hosts: &mut [Host<BundleHost>],
    mut done: impl FnMut(&mut [Host<BundleHost>]) -> bool,
) -> bool {
    let until = hosts[0].now() + Span::from_secs(10);
    while !done(hosts) {
        for host in hosts.iter_mut() {
            let soon = host.now() + Span::from_millis(1);
            host.poll_once(soon).unwrap();
        }
        if hosts[0].now() >= until {
            return false;
        }
    }
    true
}

fn why(host: &Host<BundleHost>) -> Option<String> {
    let traffic = host.manager().traffic()[0].clone();
    traffic.last_error.filter(|_| traffic.lost > 0)
}

fn count(host: &Host<BundleHost>, event: &str) -> usize {
    let events = host.manager().take_events();
    events.records.iter().filter(|one| one.event.name() == event && one.kind == "data").count()
}

/// Creates nodes 1 and 2 with these keys. Node 1 opens the connection.
fn pair(layer: &str, one: &Value, two: &Value) -> Vec<Host<BundleHost>> {
    let two = a_node(layer, "2", None, two);
    let at = two.local_addr(0).unwrap().to_string();
    vec![a_node(layer, "1", Some(at), one), two]
}

#[test]
fn authenticated_nodes_exchange_bundles() {
    let labs = Labs::new("known");
    let [one, two] = &labs.pins;
    let authority = (labs.by_authority("one"), labs.by_authority("two"));
    let pins = (labs.by_pin("one", two), labs.by_pin("two", one));
    // A pinned key needs no authority.
    let mixed = (labs.by_authority("one"), labs.by_pin("two", one));
    for layer in LAYERS {
        for (near, far) in [&authority, &pins, &mixed] {
            let mut hosts = pair(layer, near, far);
            let mut delivered = 0;
            let done = turn(&mut hosts, |hosts| {
                delivered += count(&hosts[1], "delivered");
                delivered == BUNDLES
            });
            let whys: Vec<_> = hosts.iter().map(why).collect();
            assert!(done, "{layer}: {delivered} delivered; {whys:?}");
            assert_eq!(whys, [None, None], "{layer}");
        }
    }
}

/// Returns the refusing side (0 connects, 1 accepts), the keys of both sides, and the reason.
fn liars(labs: &Labs) -> Vec<(usize, Value, Value, &'static str)> {
    let [one, two] = &labs.pins;
    let (near, far) = (labs.by_authority("one"), labs.by_authority("two"));
    let named = "names ipn:3.0, expected ipn:";
    let anonymous = json!({});
    vec![
        (1, labs.by_authority("three"), far.clone(), named),
        (0, near.clone(), labs.by_authority("three"), named),
        (1, labs.by_authority("other/one"), far.clone(), "UnknownIssuer"),
        (0, near.clone(), labs.by_authority("other/two"), "UnknownIssuer"),
        (1, anonymous.clone(), far.clone(), "peer sent no certificates"),
        (0, near, anonymous, "invalid peer certificate"),
        (1, labs.by_pin("three", two), labs.by_pin("two", one), "found the key"),
        (0, labs.by_pin("one", one), labs.by_pin("two", one), "found the key"),
    ]
}

#[test]
fn an_unauthenticated_node_is_refused_and_gets_no_bundle() {
    let labs = Labs::new("liars");
    for layer in LAYERS {
        for (case_number, (side, near, far, reason)) in liars(&labs).into_iter().enumerate() {
            let mut hosts = pair(layer, &near, &far);
            let mut delivered = 0;
            let done = turn(&mut hosts, |hosts| {
                delivered += count(&hosts[1], "delivered");
                hosts.iter().all(|host| why(host).is_some())
            });
            let found = why(&hosts[side]);
            let case = format!(
                "{layer}, case {case_number}: {found:?}, the other {:?}",
                why(&hosts[1 - side])
            );
            assert!(done, "{case}");
            assert!(found.is_some_and(|found| found.contains(reason)), "{case}");
            assert_eq!(
                (delivered, hosts[0].manager().bpa().stored_bundles().count()),
                (0, BUNDLES),
                "{case}"
            );
            let traffic = hosts[side].manager().traffic()[0].clone();
            assert_eq!(traffic.first_established, None, "{case}");
            if layer == "tcpcl" && reason.starts_with("names") {
                // SESS_TERM, Contact Failure (RFC 9174 section 6.1).
                let peer_reason = why(&hosts[1 - side]).unwrap();
                assert!(peer_reason.contains("reason 4, Contact Failure"), "{case}");
            }
        }
    }
}

/// A node with a false identity does not affect the session of the real neighbour.
#[test]
fn a_refused_node_does_not_affect_a_session() {
    let labs = Labs::new("disturbed");
    for layer in LAYERS {
        let mut hosts = pair(layer, &labs.by_authority("one"), &labs.by_authority("two"));
        let at = hosts[1].local_addr(0).unwrap().to_string();
        assert!(turn(&mut hosts, |hosts| count(&hosts[1], "delivered") > 0), "{layer}");
        hosts.push(a_node(layer, "1", Some(at), &labs.by_authority("three")));
        assert!(turn(&mut hosts, |hosts| why(&hosts[1]).is_some()), "{layer}");
        let traffic = hosts[0].manager().traffic()[0].clone();
        assert_eq!((traffic.opened, traffic.closed, traffic.lost), (1, 0, 0), "{layer}");
        assert!(hosts[1].manager().session_count() > 0, "{layer}");
    }
}

/// Only the owner can read the keys, and existing files are not overwritten.
#[test]
fn keys_are_private_and_files_are_not_overwritten() {
    use std::os::unix::fs::PermissionsExt as _;

    let labs = Labs::new("once");
    let mode = |name: &str| {
        let file = std::fs::metadata(labs.folder.join(name)).unwrap();
        file.permissions().mode() & 0o777
    };
    assert_eq!((mode("authority.key"), mode("one.key")), (0o600, 0o600));
    let again =
        |name: &str, eid: &str, folder: &Path| issue_certificate(&asked(name, eid, folder.into()));
    let error = again("one", "ipn:1.0", &labs.folder).unwrap_err();
    assert!(error.ends_with("one.pem: the file exists"), "{error}");
    let error = again("four", "four", &labs.folder).unwrap_err();
    assert!(error.contains("found \"four\", expected a node id"), "{error}");
    for kind in ["pem", "key"] {
        let path = |name: &str| labs.folder.join(format!("{name}.{kind}"));
        std::fs::copy(path("three"), path("other/authority")).unwrap();
    }
    let error = again("four", "ipn:4.0", &labs.folder.join("other")).unwrap_err();
    assert!(
        error.contains("authority.pem: is not a usable certificate authority: UnknownIssuer"),
        "{error}"
    );
    assert!(!labs.folder.join("other/four.key").exists());
    std::fs::remove_file(labs.folder.join("authority.key")).unwrap();
    let error = again("four", "ipn:4.0", &labs.folder).unwrap_err();
    assert!(error.contains("authority.key"), "{error}");
    assert!(!labs.folder.join("four.pem").exists() && !labs.folder.join("four.key").exists());
}

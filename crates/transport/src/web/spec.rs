//! Specification of a page and its loads, in a resolved run, and its validation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Loads of a page.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct WebSpec {
    /// The page.
    pub page: PageSpec,
    /// Versions of HTTP.
    pub http: HttpVersionPolicy,
    /// TLS over TCP (QUIC has TLS 1.3 in it).
    pub tls: TlsSpec,
    /// Number of loads of the page, one after the other.
    pub loads: u32,
    /// Minimum and maximum pause between the end of a load and the next, uniform.
    pub pause_ns: (u64, u64),
    /// Maximum duration of a load. It is then aborted and counts as not finished.
    pub timeout_ns: u64,
    /// State of the browser between loads.
    pub profile: ProfileReuse,
    /// Connections stay open between loads; otherwise the browser is closed between them.
    pub keep_connections: bool,
    /// The network drops every UDP datagram to port 443.
    pub udp_blocked: bool,
    /// Time without an answer of QUIC after which the browser also tries TCP. This race applies only if QUIC is a
    /// choice, not forced.
    pub quic_head_start_ns: u64,
    /// Maximum number of connections to one host over HTTP/1.1 (6 in today's browsers).
    pub connections_per_host: u32,
    /// Time from the last byte of an object to the requests of the objects that depend on it (parsing).
    pub parse_ns: u64,
}

/// Versions of HTTP that a browser uses.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum HttpVersionPolicy {
    /// HTTP/1.1 over TCP (RFC 9112), without pipelining.
    #[serde(rename = "1.1")]
    Http1,
    /// HTTP/2 over TCP (RFC 9113).
    #[serde(rename = "2")]
    Http2,
    /// HTTP/3 over QUIC (RFC 9114), known in advance.
    #[serde(rename = "3")]
    Http3,
    /// HTTP/2 until a response advertises HTTP/3 by Alt-Svc (RFC 7838). From the next load on HTTP/3, as long as the
    /// profile is reused.
    #[serde(rename = "alt-svc")]
    AltSvc,
}

/// TLS over TCP. Resumption applies to hosts with a ticket in the profile.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct TlsSpec {
    /// Version and variant.
    pub version: TlsVersion,
    /// Sessions are resumed if there is a ticket.
    pub resumption: bool,
    /// Early data if there is a ticket (TLS 1.3; also QUIC's 0-RTT).
    pub early_data: bool,
    /// Bytes of the certificate chain, as in the Certificate message.
    pub certificate_bytes: u32,
    /// Bytes of the ClientHello message.
    pub client_hello_bytes: u32,
}

/// Version of TLS over TCP.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246): two round trips, one when resumed (RFC 5077).
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.2 with False Start (RFC 7918): the client's data follows its Finished; one round trip.
    #[serde(rename = "1.2-false-start")]
    Tls12FalseStart,
    /// TLS 1.3 (RFC 8446): one round trip.
    #[serde(rename = "1.3")]
    Tls13,
}

/// State of the browser between loads.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ProfileReuse {
    /// A fresh profile for every load.
    Fresh,
    /// One profile for all loads of the run: Alt-Svc and tickets persist.
    Reused,
}

/// A page: a list of objects. The first is the main document, or redirects to it. There is no cache.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PageSpec {
    /// Name, for results.
    pub name: String,
    /// Hosts, all at the flow's server.
    pub hosts: Vec<HostSpec>,
    /// Objects; no cycles.
    pub objects: Vec<ObjectSpec>,
}

impl PageSpec {
    /// Returns the first object and the targets of its redirects; the last of them is the document.
    pub fn redirect_chain(&self) -> Vec<u32> {
        let next = |index: &u32| self.objects.get(*index as usize).and_then(|one| one.redirect);
        // Limits cycles in a page that was not checked.
        std::iter::successors(Some(0), next).take(self.objects.len()).collect()
    }

    /// Returns, per object, the first redirect that leads to it, or the object itself without redirects.
    pub fn redirect_origins(&self) -> Vec<u32> {
        let mut before: Vec<Option<u32>> = vec![None; self.objects.len()];
        for (index, object) in self.objects.iter().enumerate() {
            if let Some(led) = object.redirect.and_then(|to| before.get_mut(to as usize)) {
                *led = Some(index as u32);
            }
        }
        let first = |index: u32| {
            let predecessors = std::iter::successors(Some(index), |one| before[*one as usize]);
            predecessors.take(before.len()).last().unwrap_or(index)
        };
        (0..before.len() as u32).map(first).collect()
    }
}

/// A host of a page.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Name.
    pub name: String,
    /// A connection to it is open before a load begins (other traffic of the browser).
    pub open: bool,
    /// Whether its connections use TLS. Without TLS they carry HTTP/1.1 over TCP (`http` URLs), regardless of the
    /// version policy.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub tls: bool,
}

fn yes() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

/// An object of a page.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ObjectSpec {
    /// Unique name.
    pub name: String,
    /// Index of its host.
    pub host: u32,
    /// Bytes of the request's header block.
    pub request_bytes: u32,
    /// Bytes of the response's header block.
    pub response_header_bytes: u32,
    /// Bytes of the response's body.
    pub body_bytes: u64,
    /// Objects (by index) that must arrive completely before this one is requested.
    pub after: Vec<u32>,
    /// Object (by index) to which the answer redirects; it must depend on this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<u32>,
    /// Time of the server before it answers.
    pub think_ns: u64,
}

/// Checks `spec`.
///
/// # Errors
/// The invalid setting, in words, with its key.
pub(super) fn check(spec: &WebSpec) -> Result<(), String> {
    let page = &spec.page;
    let fail = |error: String| Err(format!("page {:?}: {error}", page.name));
    if page.objects.is_empty() {
        return fail("it has no objects; the first one is the main document".to_owned());
    }
    for object in &page.objects {
        let name = &object.name;
        if object.host as usize >= page.hosts.len() {
            let (host, count) = (object.host, page.hosts.len());
            return fail(format!("object {name:?}: found host {host}, expected less than {count}"));
        }
        if let Some(after) =
            object.after.iter().find(|after| **after as usize >= page.objects.len())
        {
            let count = page.objects.len();
            return fail(format!(
                "object {name:?}: found after {after}, expected less than {count}"
            ));
        }
        // One frame of HTTP/2 carries a header block (RFC 9113 section 4.2).
        if object.request_bytes.max(object.response_header_bytes) > 16_000 {
            return fail(format!(
                "object {name:?}: found a header block of more than 16,000 bytes, expected at most 16,000"
            ));
        }
    }
    let mut led = vec![false; page.objects.len()];
    for (index, object) in page.objects.iter().enumerate() {
        let Some(to) = object.redirect else { continue };
        let Some(target) = page.objects.get(to as usize) else {
            let (name, count) = (&object.name, page.objects.len());
            return fail(format!(
                "object {name:?}: found redirect {to}, expected less than {count}"
            ));
        };
        if !target.after.contains(&(index as u32)) {
            return fail(format!("object {:?} does not wait for its redirect", target.name));
        }
        if std::mem::replace(&mut led[to as usize], true) {
            return fail(format!("object {:?}: two objects redirect to it", target.name));
        }
    }
    let mut come = vec![false; page.objects.len()];
    // Each round finds at least one more object, or the rest is a cycle.
    while let Some(next) = (0..come.len()).find(|index| {
        !come[*index] && page.objects[*index].after.iter().all(|after| come[*after as usize])
    }) {
        come[next] = true;
    }
    if let Some(stuck) = come.iter().position(|come| !come) {
        return fail(format!("object {:?} waits for itself", page.objects[stuck].name));
    }
    if !page.objects[0].after.is_empty() {
        return fail(
            "the first object is the main document and must not wait for others".to_owned(),
        );
    }
    if spec.loads == 0 {
        return fail("loads: found 0, expected at least 1".to_owned());
    }
    if spec.pause_ns.0 > spec.pause_ns.1 {
        return fail("the minimum pause is longer than the maximum".to_owned());
    }
    if spec.connections_per_host == 0 {
        return fail(
            "connections_per_host: found 0, expected at least 1 (6 in browsers)".to_owned(),
        );
    }
    if spec.tls.early_data && !spec.tls.resumption {
        return fail(
            "early_data needs resumption, because only resumed sessions send early data".to_owned(),
        );
    }
    // At least the version and the random bytes (RFC 8446 section 4.1.2).
    if spec.tls.client_hello_bytes < 100 {
        let bytes = spec.tls.client_hello_bytes;
        return fail(format!("client_hello_bytes: found {bytes}, expected at least 100"));
    }
    Ok(())
}

//! A page and how it is loaded, in a resolved run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Loads of a page.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct WebSpec {
    /// The page.
    pub page: PageSpec,
    /// Versions of HTTP.
    pub http: Http,
    /// TLS over TCP (QUIC has TLS 1.3 in it).
    pub tls: Tls,
    /// How many times the page is loaded, one after the other.
    pub loads: u32,
    /// Least and largest pause between the end of a load and the next, uniform.
    pub pause_ns: (u64, u64),
    /// Longest load: then it is given up and counts as not finished.
    pub timeout_ns: u64,
    /// What the browser remembers from load to load.
    pub profile: Profile,
    /// Connections stay open from load to load; otherwise the browser is closed in between.
    pub keep_connections: bool,
    /// The network drops every UDP datagram to port 443.
    pub udp_blocked: bool,
    /// How long a QUIC attempt may stay without an answer before TCP is tried beside it (the
    /// browser's race; it only matters where QUIC is a choice, not forced).
    pub quic_head_start_ns: u64,
    /// Most connections to one host over HTTP/1.1 (6 in today's browsers).
    pub connections_per_host: u32,
    /// After the last byte of an object has come, objects that depend on it are asked for after this
    /// long (parsing).
    pub parse_ns: u64,
}

/// Versions of HTTP that a browser uses.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum Http {
    /// HTTP/1.1 over TCP (RFC 9112), without pipelining.
    #[serde(rename = "1.1")]
    Http1,
    /// HTTP/2 over TCP (RFC 9113).
    #[serde(rename = "2")]
    Http2,
    /// HTTP/3 over QUIC (RFC 9114), known beforehand.
    #[serde(rename = "3")]
    Http3,
    /// HTTP/2 until a response advertises HTTP/3 by Alt-Svc (RFC 7838); HTTP/3 from the next load
    /// on, as long as the profile is kept.
    #[serde(rename = "alt-svc")]
    AltSvc,
}

/// TLS over TCP. Resumption applies to hosts of which the profile holds a ticket.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Version and variant.
    pub version: TlsVersion,
    /// Sessions are resumed when a ticket is there.
    pub resumption: bool,
    /// Early data when a ticket is there (TLS 1.3; also QUIC's 0-RTT).
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
    /// TLS 1.2 with False Start (RFC 7918): the client's data follows its Finished: one round trip.
    #[serde(rename = "1.2-false-start")]
    Tls12FalseStart,
    /// TLS 1.3 (RFC 8446): one round trip.
    #[serde(rename = "1.3")]
    Tls13,
}

/// What the browser remembers from load to load.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// A fresh profile for every load.
    Fresh,
    /// One profile for all loads of the run: Alt-Svc and tickets are kept.
    Kept,
}

/// A page: a list of objects, the first of which is the main document, or redirects to it. Nothing is cached.
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
    /// The first object, what it redirects to, and so on; the last of them is the document.
    pub fn chain(&self) -> Vec<u32> {
        let next = |index: &u32| self.objects.get(*index as usize).and_then(|one| one.redirect);
        // Ends circles of a page that was not checked.
        std::iter::successors(Some(0), next).take(self.objects.len()).collect()
    }

    /// Of each object the first of the redirects that lead to it; itself without any.
    pub fn firsts(&self) -> Vec<u32> {
        let mut before: Vec<Option<u32>> = vec![None; self.objects.len()];
        for (index, object) in self.objects.iter().enumerate() {
            if let Some(led) = object.redirect.and_then(|to| before.get_mut(to as usize)) {
                *led = Some(index as u32);
            }
        }
        let first = |index: u32| {
            let way = std::iter::successors(Some(index), |one| before[*one as usize]);
            way.take(before.len()).last().unwrap_or(index)
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
    /// A connection to it is already open when a load begins (the browser's own traffic).
    pub open: bool,
    /// Whether its connections have TLS. Without, they carry HTTP/1.1 over TCP (`http` URLs), whatever
    /// versions others have.
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
    /// Objects (by index) that must have come whole before this one is asked for.
    pub after: Vec<u32>,
    /// Object (by index) to which the answer redirects, and which waits for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<u32>,
    /// Time the server takes before it answers.
    pub think_ns: u64,
}

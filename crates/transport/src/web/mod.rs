//! Web pages: a browser and its servers over HTTP/1.1, HTTP/2 and HTTP/3, with TLS of true size.
//!
//! Reading order: `spec` (the page and how it is loaded), `report`, `browser` with `profile` and `dial`
//! (`words` has what it and its connections tell each other); `speaker`, `tls`, `http1`, `http2`, `http3`
//! (what goes over the wire); `pair`, `client`, `server` (the two sides).

mod browser;
mod check;
mod client;
mod dial;
mod http1;
mod http2;
mod http3;
mod pair;
mod profile;
mod report;
mod server;
mod speaker;
mod spec;
mod tls;

use check::check;
pub use client::Client;
pub use report::{LoadReport, RequestReport};
pub use server::Server;
pub use spec::{HostSpec, Http, ObjectSpec, PageSpec, Profile, Tls, TlsVersion, WebSpec};

use crate::{Endpoint, MakeApp, quic};

/// Builds a QUIC endpoint around what makes its applications.
pub type MakeQuic<'a> = &'a mut dyn FnMut(MakeApp) -> Result<quic::Endpoint, String>;
/// Builds a TCP endpoint around what makes its applications; its connections have one stream, 0.
pub type MakeTcp<'a> = &'a mut dyn FnMut(MakeApp) -> Result<Box<dyn Endpoint>, String>;

impl WebSpec {
    /// Whether QUIC is ever used.
    pub fn uses_quic(&self) -> bool {
        matches!(self.http, Http::Http3 | Http::AltSvc)
    }

    /// Whether TCP is ever used.
    pub fn uses_tcp(&self) -> bool {
        self.http != Http::Http3 || self.page.hosts.iter().any(|host| !host.tls)
    }
}

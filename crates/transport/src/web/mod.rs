//! Web pages: a browser and its servers over HTTP/1.1, HTTP/2 and HTTP/3, with TLS of true size.
//!
//! Reading order: `spec` (the page and how it is loaded), `report`.

mod report;
mod spec;

pub use report::{LoadReport, RequestReport};
pub use spec::{HostSpec, Http, ObjectSpec, PageSpec, Profile, Tls, TlsVersion, WebSpec};

//! The state of a browser about its hosts.

/// State of one host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostProfile {
    /// A TLS ticket for connections over TCP.
    pub ticket: bool,
    /// The host advertised HTTP/3 (RFC 7838).
    pub http3: bool,
    /// HTTP/3 was tried and did not answer, while TCP did. It is not used again (RFC 7838 section 2.4; Chromium for 5
    /// min, then longer: beyond the loads of a run).
    pub http3_broken: bool,
}

/// A browser's profile.
#[derive(Clone, Debug)]
pub(super) struct BrowserProfile {
    /// Number of the profile in the run.
    pub number: u32,
    pub hosts: Vec<HostProfile>,
}

impl BrowserProfile {
    pub fn new(hosts: usize) -> BrowserProfile {
        BrowserProfile { number: 0, hosts: vec![HostProfile::default(); hosts] }
    }

    /// Replaces the profile by a new one.
    pub fn reset(&mut self) {
        *self = BrowserProfile { number: self.number + 1, ..BrowserProfile::new(self.hosts.len()) };
    }
}

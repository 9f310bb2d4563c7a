//! What a browser remembers of its hosts.

/// What it knows of one host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// A TLS ticket for connections over TCP.
    pub ticket: bool,
    /// The host advertised HTTP/3 (RFC 7838).
    pub http3: bool,
    /// HTTP/3 was tried and did not answer, while TCP did; it is left alone (RFC 7838 section 2.4;
    /// Chromium for 5 min, then longer: beyond the loads of a run).
    pub broken: bool,
}

/// A browser's profile.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// Which profile of the run it is.
    pub number: u32,
    pub hosts: Vec<Known>,
}

impl Memory {
    pub fn new(hosts: usize) -> Memory {
        Memory { number: 0, hosts: vec![Known::default(); hosts] }
    }

    /// Begins anew.
    pub fn forget(&mut self) {
        *self = Memory { number: self.number + 1, ..Memory::new(self.hosts.len()) };
    }
}

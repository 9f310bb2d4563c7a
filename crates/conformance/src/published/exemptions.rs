//! The published cases that a built-in controller may fail.

use crate::check_result::CasePart;

/// A case, or parts of it, that a controller may fail.
pub struct PublishedExemption {
    /// The name of the check.
    pub check: &'static str,
    /// The labels of the parts; empty means all.
    pub labels: &'static [&'static str],
    /// The reason.
    pub reason: &'static str,
}

impl PublishedExemption {
    /// Returns whether the exemption is for `part` of `check`.
    pub fn applies_to(&self, check: &str, part: &CasePart) -> bool {
        self.check == check && (self.labels.is_empty() || self.labels.contains(&part.label))
    }
}

/// The exemptions of BBRv3.
const BBR3: &[PublishedExemption] = &[
    PublishedExemption {
        check: "bbr-case-14",
        labels: &["600 ms"],
        reason: "a BDP below a packet needs less than 16 kb/s at 600 ms, while the draft begins at 64 kb/s; a round \
                 of the initial window lasts seconds there, and ProbeRTT, due every 5 s, interrupts Startup",
    },
    PublishedExemption {
        check: "bbr-case-15",
        labels: &["600 ms"],
        reason: "ProbeRTT is due every 5 s and leaves a probe few rounds of 600 ms to double its step; without \
                 ProbeRTT the case holds",
    },
    PublishedExemption {
        check: "bbr-case-16",
        labels: &["600 ms"],
        reason: "rounds last 3 s behind the queue, so that ProbeRTT, due every 5 s, interrupts each cycle before its \
                 end; by the draft's pseudocode only a whole cycle in ProbeBW lowers max_bw (section 5.3.3.9)",
    },
];

/// Returns the exemptions of the controller `name`, which is no alias.
pub fn published_exemptions(name: &str) -> &'static [PublishedExemption] {
    match name {
        "bbr3" => BBR3,
        _ => &[],
    }
}

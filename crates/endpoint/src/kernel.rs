//! The kernel's TCP: options of its sockets, and controllers of the catalogue by its names for them.

use nix::libc;
use nix::setsockopt_impl;
use nix::sockopt_impl;
use serde_json::Value;

sockopt_impl!(
    /// Largest segment asked for (tcp(7)).
    MaxSegment, SetOnly, libc::IPPROTO_TCP, libc::TCP_MAXSEG, u32
);

/// Linux's name of a controller: its twin of one of the catalogue, else the kernel's own of that name.
///
/// # Errors
/// A name that is another controller's in the catalogue.
pub fn kernel_name(name: &str) -> Result<&str, String> {
    let Some(entry) = cc::entry(name) else { return Ok(name) };
    if let Some(kernel) = entry.kernel {
        return Ok(kernel.name);
    }
    let twin = [Some(entry.name), entry.alias].into_iter().flatten().find_map(cc::of_kernel);
    match twin.map(|twin| (twin.name, twin.kernel)) {
        Some((twin, Some(kernel))) => Err(format!(
            "found \"{name}\", which is {}; the kernel's is {}, expected \"{twin}\"",
            entry.title, kernel.title
        )),
        _ => Ok(entry.name),
    }
}

/// Whether options are the kernel's own: what a simulated TCP is told so that it is Linux's changes nothing here.
pub fn is_kernels(name: &str, options: &Value) -> bool {
    let kernel = cc::entry(name).and_then(|entry| entry.kernel);
    kernel.is_some_and(|kernel| kernel.has(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_the_same_controller_everywhere() {
        for (ours, theirs) in [
            ("newreno", "reno"),
            ("reno", "reno"),
            ("cubic", "cubic"),
            ("bbr1", "bbr"),
            ("westwood+", "westwood"),
        ] {
            assert_eq!(kernel_name(ours), Ok(theirs));
        }
        assert_eq!(kernel_name("vegas"), Ok("vegas"));
        for other in ["bbr", "bbr3"] {
            assert!(kernel_name(other).unwrap_err().ends_with("expected \"bbr1\""));
        }
    }
}

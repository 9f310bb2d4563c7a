//! Kernel TCP: socket options, connection options as sysctls of a namespace, and the kernel's names of the catalogue's
//! controllers.

use nix::libc;
use nix::setsockopt_impl;
use nix::sockopt_impl;
use serde_json::Value;
use transport::tcp::{LossDetection, TcpSpec};

sockopt_impl!(
    /// The requested maximum segment size (tcp(7)).
    MaxSegment, SetOnly, libc::IPPROTO_TCP, libc::TCP_MAXSEG, u32
);

/// The maximum of the initial send buffer in bytes, unless the program wants the full size.
pub const MAX_INITIAL_SEND_BUFFER: u64 = 1 << 20;

/// Returns the options that apply to all sockets of a namespace (ip-sysctl of Linux), by their names below `net/ipv4`.
/// `send_begins` limits the initial send buffer, the specification its maximum.
pub fn sysctls(tcp: &TcpSpec, send_begins: u64) -> Vec<(&'static str, String)> {
    let flag = |on: bool| u8::from(on).to_string();
    let threshold = match tcp.loss_detection {
        LossDetection::RackTlp => 3,
        LossDetection::DuplicateAcks { threshold, .. } => threshold,
    };
    let rack = tcp.loss_detection == LossDetection::RackTlp;
    // Linux counts data and overhead in one number, and initially uses half of it as the window
    // (TCP_DEFAULT_SCALING_RATIO).
    let buffer_sysctl = |bytes: u64| bytes.saturating_mul(2).clamp(8192, i32::MAX as u64);
    let (receive, send) =
        (buffer_sysctl(tcp.receive_buffer_bytes), buffer_sysctl(tcp.send_buffer_bytes));
    vec![
        ("tcp_sack", flag(tcp.sack)),
        ("tcp_dsack", flag(tcp.dsack)),
        ("tcp_timestamps", flag(tcp.timestamps)),
        ("tcp_window_scaling", flag(tcp.window_scaling)),
        ("tcp_ecn", flag(tcp.ecn)),
        ("tcp_frto", if tcp.frto { "2" } else { "0" }.to_owned()),
        ("tcp_slow_start_after_idle", flag(tcp.restart_after_idle)),
        // The second bit makes the RACK window static.
        (
            "tcp_recovery",
            if rack { if tcp.adapt_reordering { "1" } else { "3" } } else { "0" }.to_owned(),
        ),
        // Tail loss probes; RFC 8985 combines them with RACK.
        ("tcp_early_retrans", if rack { "3" } else { "0" }.to_owned()),
        ("tcp_reordering", threshold.to_string()),
        ("tcp_max_reordering", if tcp.adapt_reordering { 300 } else { threshold }.to_string()),
        ("tcp_fastopen", "0".to_owned()),
        // A connection starts with its options, not with cached metrics of an earlier one.
        ("tcp_no_metrics_save", "1".to_owned()),
        // A window that starts at 64 kB and grows with the sender would be another limit than the requested one.
        ("tcp_rmem", format!("4096 {receive} {receive}")),
        ("tcp_wmem", format!("4096 {} {send}", send.min(send_begins))),
    ]
}

/// Returns the initial window in segments: Linux counts segments regardless of their options.
pub fn initial_segments(tcp: &TcpSpec) -> u32 {
    let mss = u64::from(tcp.mss_bytes.max(1));
    u32::try_from(((tcp.initial_window_bytes + mss / 2) / mss).max(1)).unwrap_or(u32::MAX)
}

/// Returns Linux's name of a controller: the kernel twin of a catalogue entry. Other names are unchanged.
///
/// # Errors
/// The catalogue entry has no kernel twin. A kernel controller of the same name is a different controller.
pub fn kernel_controller_name(name: &str) -> Result<&str, String> {
    let Some(entry) = cc::find_entry(name) else { return Ok(name) };
    if let Some(kernel) = entry.kernel {
        return Ok(kernel.name);
    }
    let twin = entry.descriptor.names().find_map(cc::find_kernel_twin);
    Err(match twin.map(|twin| (twin.name(), twin.kernel)) {
        Some((twin, Some(kernel))) => format!(
            "found \"{name}\" ({}), expected \"{twin}\", which the kernel has as {}",
            entry.descriptor.title, kernel.title
        ),
        _ => {
            let twins = cc::ENTRIES.iter().filter(|entry| entry.kernel.is_some());
            let twins: Vec<&str> = twins.map(|entry| entry.name()).collect();
            format!(
                "found \"{name}\" ({}), which the kernel does not have for TCP, expected one of {}",
                entry.descriptor.title,
                twins.join(", ")
            )
        }
    })
}

/// Returns whether the options only make a simulated TCP equal to Linux, so that they change nothing here.
pub fn is_kernel_equivalent(name: &str, options: &Value) -> bool {
    let kernel = cc::find_entry(name).and_then(|entry| entry.kernel);
    kernel.is_some_and(|kernel| kernel.matches_options(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_settings_of_a_namespace() {
        let tcp = TcpSpec {
            ecn: true,
            sack: false,
            loss_detection: LossDetection::DuplicateAcks { threshold: 5, forward: false },
            receive_buffer_bytes: 3_000_000,
            send_buffer_bytes: 1 << 40,
            initial_window_bytes: 4 * 1000,
            mss_bytes: 1000,
            ..TcpSpec::default()
        };
        let found = sysctls(&tcp, MAX_INITIAL_SEND_BUFFER);
        let value = |name: &str| found.iter().find(|one| one.0 == name).map(|one| one.1.as_str());
        for (name, expected) in [
            ("tcp_ecn", "1"),
            ("tcp_sack", "0"),
            ("tcp_timestamps", "1"),
            ("tcp_recovery", "0"),
            ("tcp_early_retrans", "0"),
            ("tcp_reordering", "5"),
            ("tcp_max_reordering", "300"),
            ("tcp_rmem", "4096 6000000 6000000"),
            ("tcp_wmem", "4096 1048576 2147483647"),
        ] {
            assert_eq!(value(name), Some(expected), "{name}");
        }
        for (adapt_reordering, expected) in [(true, "1"), (false, "3")] {
            let rack = TcpSpec { adapt_reordering, ..TcpSpec::default() };
            let found = sysctls(&rack, MAX_INITIAL_SEND_BUFFER);
            assert!(found.contains(&("tcp_recovery", expected.to_owned())), "{found:?}");
        }
        assert_eq!(initial_segments(&tcp), 4);
        assert_eq!(initial_segments(&TcpSpec { initial_window_bytes: 1, ..tcp }), 1);
    }

    #[test]
    fn a_name_means_the_same_controller_everywhere() {
        for (name, kernel_name) in [
            ("newreno", "reno"),
            ("reno", "reno"),
            ("cubic", "cubic"),
            ("bbr1", "bbr"),
            ("westwood+", "westwood"),
        ] {
            assert_eq!(kernel_controller_name(name), Ok(kernel_name));
        }
        assert_eq!(kernel_controller_name("vegas"), Ok("vegas"));
        for other in ["bbr", "bbr3"] {
            assert!(
                kernel_controller_name(other).unwrap_err().contains("expected \"bbr1\", which")
            );
        }
        // Linux's tcp_hybla is another Hybla (crates/cc/src/hybla.rs).
        for none in cc::ENTRIES
            .iter()
            .filter(|entry| entry.kernel.is_none() && entry.descriptor.aliases.is_empty())
        {
            let error = kernel_controller_name(none.name()).unwrap_err();
            assert!(
                error.ends_with("for TCP, expected one of newreno, cubic, westwood, bbr1"),
                "{error}"
            );
        }
    }
}

//! Maps the options of one side of a proxy to the kernel: socket options, route options and sysctls of the namespace.
//! Unsupported options are refused by name.

use runtime::tcp::kernel::{
    initial_segments, is_kernel_equivalent, kernel_controller_name, sysctls,
};
use serde_json::Value;
use transport::pep::{ProxySpec, SocketSpec};
use transport::tcp::{AckCounting, DelayedAck, LossDetection, RtoEstimate, TcpSpec};

/// Kernel options for the sockets of one side.
#[derive(Clone, Debug, PartialEq)]
pub struct SideSocketOptions {
    /// The kernel's name of the controller.
    pub congestion: String,
    /// The initial window in segments (`initcwnd`).
    pub initial_window: u64,
    /// The initial receive window in segments (`initrwnd`).
    pub initial_receive_window: u64,
    /// The minimum retransmission timeout in ms (`rto_min`).
    pub rto_min_ms: u64,
    /// Whether every segment is acknowledged immediately (`quickack`).
    pub quickack: bool,
    /// The maximum segment size (TCP_MAXSEG).
    pub mss: u32,
    /// The send buffer in bytes of data.
    pub send_buffer_bytes: u64,
    /// The receive buffer in bytes of data.
    pub receive_buffer_bytes: u64,
    /// SO_MAX_PACING_RATE in bytes/s; `UNLIMITED_PACING`: pacing at the controller's rate.
    pub max_pacing_rate: Option<u64>,
}

/// A rate above every link: pacing is on without a limit (all ones would disable it).
pub const UNLIMITED_PACING: u64 = 1 << 60;

/// Bytes of the timestamps option per segment (RFC 7323 appendix A).
const TIMESTAMPS_BYTES: u64 = 12;

/// Linux: TCP_TIMEOUT_INIT, TCP_RTO_MAX, and the model of its delayed acknowledgements.
const INITIAL_RTO_NS: u64 = 1_000_000_000;
const MAX_RTO_NS: u64 = 120_000_000_000;
const DELAYED_ACK: DelayedAck =
    DelayedAck { timeout_ns: 40_000_000, segments_per_ack: 2, quick_acks: 16 };

impl SideSocketOptions {
    /// Converts `spec`; error messages name it by `key`.
    ///
    /// # Errors
    /// The option that the kernel does not support.
    pub fn new(key: &str, spec: &SocketSpec) -> Result<SideSocketOptions, String> {
        let tcp = &spec.tcp;
        let no = |name: &str, found: &dyn std::fmt::Display, expected: &str| {
            Err(format!("proxy.{key}.{name}: found {found}, expected {expected}"))
        };
        let kernel = "the value of Linux";
        if tcp.initial_rto_ns != INITIAL_RTO_NS {
            let found = format!("{} ns", tcp.initial_rto_ns);
            return no("tcp.initial_rto_ns", &found, &format!("1 s, {kernel}"));
        }
        if tcp.max_rto_ns != MAX_RTO_NS {
            let found = format!("{} ns", tcp.max_rto_ns);
            return no("tcp.max_rto_ns", &found, &format!("120 s, {kernel}"));
        }
        if !tcp.min_rto_ns.is_multiple_of(1_000_000) || tcp.min_rto_ns == 0 {
            let found = format!("{} ns", tcp.min_rto_ns);
            return no("tcp.min_rto_ns", &found, "whole milliseconds, the unit of a route");
        }
        if tcp.rto_estimate != RtoEstimate::Linux {
            return no("tcp.rto_estimate", &"\"rfc6298\"", &format!("\"linux\", {kernel}"));
        }
        if let LossDetection::DuplicateAcks { forward: true, .. } = tcp.loss_detection {
            let expected = "false: Linux no longer uses a packet threshold";
            return no("tcp.loss_detection.forward", &true, expected);
        }
        if !tcp.limited_transmit {
            return no("tcp.limited_transmit", &false, &format!("true, {kernel}"));
        }
        if !tcp.prr {
            return no("tcp.prr", &false, &format!("true, {kernel}"));
        }
        if tcp.ack_counting != AckCounting::Unlimited {
            return no("tcp.ack_counting", &"a limit", &format!("\"unlimited\", {kernel}"));
        }
        if tcp.fast_open {
            return no("tcp.fast_open", &true, "false: the proxy splits after the SYN");
        }
        let quickack = match tcp.delayed_ack {
            None => true,
            Some(found) if found == DELAYED_ACK => false,
            Some(_) => {
                let expected = "40 ms, 2 packets and 16 quick ACKs, the values of Linux, or none";
                return no("tcp.delayed_ack", &"other values", expected);
            }
        };
        let options = if tcp.timestamps { TIMESTAMPS_BYTES } else { 0 };
        let payload = u64::from(tcp.mss_bytes).saturating_sub(options).max(1);
        let mut settings = SideSocketOptions {
            congestion: String::new(),
            initial_window: initial_segments(tcp).into(),
            initial_receive_window: (tcp.receive_buffer_bytes / payload).clamp(1, u32::MAX.into()),
            rto_min_ms: tcp.min_rto_ns / 1_000_000,
            quickack,
            mss: tcp.mss_bytes.into(),
            send_buffer_bytes: tcp.send_buffer_bytes,
            receive_buffer_bytes: tcp.receive_buffer_bytes,
            max_pacing_rate: tcp.pacing.then_some(UNLIMITED_PACING),
        };
        let none = spec.options.as_object().is_none_or(serde_json::Map::is_empty);
        let name = match spec.congestion.as_str() {
            "fixed" => {
                let number = |name: &str| spec.options.get(name).and_then(Value::as_u64);
                let (Some(rate), Some(window)) = (number("rate_bit_s"), number("window_bytes"))
                else {
                    let expected = "rate_bit_s and window_bytes as whole numbers";
                    return no("options", &spec.options, expected);
                };
                settings.initial_window = (window / payload).max(1);
                settings.max_pacing_rate = Some((rate / 8).max(1));
                "cubic"
            }
            name => match kernel_controller_name(name) {
                Err(why) => return Err(format!("proxy.{key}.congestion: {why}")),
                Ok(_) if !none && !is_kernel_equivalent(name, &spec.options) => {
                    let expected =
                        "none, or the defaults of Linux: controllers of the kernel take no options";
                    return no("options", &spec.options, expected);
                }
                Ok(found) => found,
            },
        };
        let listed = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        let listed = listed.unwrap_or_default();
        if !listed.split_whitespace().any(|known| known == name) {
            let has = listed.split_whitespace().collect::<Vec<_>>().join(", ");
            let expected = format!("one of the controllers of the kernel: {has}");
            return no("congestion", &format!("\"{}\"", spec.congestion), &expected);
        }
        settings.congestion = name.to_owned();
        Ok(settings)
    }

    /// Returns the options at the end of a route.
    pub fn route_options(&self) -> Vec<String> {
        let mut words: Vec<String> =
            ["initcwnd", "", "initrwnd", "", "rto_min", "", "quickack", ""]
                .map(str::to_owned)
                .into();
        words[1] = self.initial_window.to_string();
        words[3] = self.initial_receive_window.to_string();
        words[5] = format!("{}ms", self.rto_min_ms);
        words[7] = u8::from(self.quickack).to_string();
        words
    }
}

/// Returns sysctls of the namespace (names below `net/ipv4`), which both sides share.
///
/// # Errors
/// The sides differ in one of them.
pub fn namespace_sysctls(spec: &ProxySpec) -> Result<Vec<(&'static str, String)>, String> {
    let sides = [&spec.client_side.tcp, &spec.server_side.tcp];
    let both = |key: &str, same: bool| {
        if same {
            return Ok(());
        }
        Err(format!(
            "proxy: client_side.tcp.{key} and server_side.tcp.{key} differ, expected one value: Linux \
             has one value for all sockets of a namespace"
        ))
    };
    let [client, server] = sides;
    both("sack", client.sack == server.sack)?;
    both("dsack", client.dsack == server.dsack)?;
    both("timestamps", client.timestamps == server.timestamps)?;
    both("window_scaling", client.window_scaling == server.window_scaling)?;
    both("ecn", client.ecn == server.ecn)?;
    both("frto", client.frto == server.frto)?;
    both("restart_after_idle", client.restart_after_idle == server.restart_after_idle)?;
    both("loss_detection", client.loss_detection == server.loss_detection)?;
    both("adapt_reordering", client.adapt_reordering == server.adapt_reordering)?;
    let buffers = TcpSpec {
        receive_buffer_bytes: client.receive_buffer_bytes.max(server.receive_buffer_bytes),
        send_buffer_bytes: client.send_buffer_bytes.max(server.send_buffer_bytes),
        ..client.clone()
    };
    Ok(sysctls(&buffers, u64::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn side() -> SocketSpec {
        SocketSpec {
            tcp: TcpSpec {
                receive_buffer_bytes: 1_448_000,
                send_buffer_bytes: 1_000_000,
                ..TcpSpec::default()
            },
            congestion: "newreno".to_owned(),
            options: json!({}),
        }
    }

    #[test]
    fn options_map_to_the_kernel() {
        let options = SideSocketOptions::new("client_side", &side()).unwrap();
        assert_eq!((options.congestion.as_str(), options.initial_window), ("reno", 10));
        assert_eq!(
            (options.initial_receive_window, options.rto_min_ms, options.max_pacing_rate),
            (1000, 200, None)
        );
        let words = "initcwnd 10 initrwnd 1000 rto_min 200ms quickack 0";
        assert_eq!(options.route_options().join(" "), words);
    }

    #[test]
    fn a_fixed_rate_becomes_a_window_and_a_pacing_rate() {
        let mut known = side();
        known.congestion = "fixed".to_owned();
        known.options = json!({"rate_bit_s": 8_000_000, "window_bytes": 1_448_000});
        let options = SideSocketOptions::new("client_side", &known).unwrap();
        assert_eq!((options.congestion.as_str(), options.initial_window), ("cubic", 1000));
        assert_eq!(options.max_pacing_rate, Some(1_000_000));
        known.options = json!({"window_bytes": 1_448_000});
        assert!(
            SideSocketOptions::new("client_side", &known)
                .unwrap_err()
                .contains("client_side.options")
        );
    }

    #[test]
    fn unsupported_options_are_refused_by_name() {
        let refused = |change: &dyn Fn(&mut SocketSpec)| {
            let mut changed = side();
            change(&mut changed);
            SideSocketOptions::new("server_side", &changed).unwrap_err()
        };
        assert!(refused(&|side| side.tcp.fast_open = true).contains("server_side.tcp.fast_open"));
        assert!(refused(&|side| side.tcp.max_rto_ns = 1).contains("max_rto_ns"));
        assert!(
            refused(&|side| side.tcp.rto_estimate = RtoEstimate::Rfc6298).contains("rto_estimate")
        );
        let forward = LossDetection::DuplicateAcks { threshold: 3, forward: true };
        assert!(
            refused(&|side| side.tcp.loss_detection = forward).contains("loss_detection.forward")
        );
        assert!(
            refused(&|side| side.congestion = "hybla".to_owned())
                .contains("server_side.congestion: found \"hybla\" (Hybla)")
        );
        assert!(refused(&|side| side.options = json!({"beta": 0.4})).contains("options"));
        let hystart = json!({"slow_start_exit": "hystart++"});
        let cubic = |side: &mut SocketSpec| side.congestion = "cubic".to_owned();
        let other = refused(&|side| {
            cubic(side);
            side.options = hystart.clone();
        });
        assert!(other.contains("server_side.options"), "{other}");
        let mut settings = side();
        cubic(&mut settings);
        settings.options = json!({"slow_start_exit": "classic", "avoidance": "linux"});
        assert_eq!(SideSocketOptions::new("server_side", &settings).unwrap().congestion, "cubic");
        assert!(refused(&|side| side.congestion = "bbr".to_owned()).contains("expected \"bbr1\""));
    }
}

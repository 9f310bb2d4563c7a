//! What the kernels of a session's hosts are told of its TCP.

use std::collections::BTreeMap;

use endpoint::kernel::{SEND_BEGINS, initial_segments, sysctls};
use transport::tcp::TcpSpec;

use super::plan::Plan;

/// What one host's kernel is told.
pub struct Kernel {
    /// Settings, as sysctl(8) names them.
    pub settings: Vec<(String, String)>,
    /// Initial window of its TCP, in segments; none: the kernel's.
    pub initial_window: Option<u32>,
}

impl Plan {
    /// What the kernels of all hosts are told: the client's, the server's, and the others' in the plan's order.
    pub fn kernels(&self) -> Vec<Kernel> {
        let of =
            |tcp: &Option<TcpSpec>, settings: &BTreeMap<String, String>, window: Option<u32>| {
                let options = tcp.iter().flat_map(|tcp| sysctls(tcp, SEND_BEGINS));
                let named = options.map(|(name, value)| (format!("net.ipv4.{name}"), value));
                let others = settings.iter().map(|(name, value)| (name.clone(), value.clone()));
                Kernel {
                    settings: named.chain(others).collect(),
                    initial_window: window.or(tcp.as_ref().map(initial_segments)),
                }
            };
        let (tcp, settings, windows) = (&self.tcp, &self.settings, &self.initial_windows);
        let none = BTreeMap::new();
        let other = |name: &String| {
            let tcp = tcp.hosts.get(name).unwrap_or(&None);
            let settings = settings.hosts.get(name).unwrap_or(&none);
            of(tcp, settings, windows.hosts.get(name).copied().flatten())
        };
        let ends =
            [of(&tcp.near, &settings.near, windows.near), of(&tcp.far, &settings.far, windows.far)];
        ends.into_iter().chain(self.lab.hosts.iter().map(other)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_said_by_name_is_said_last() {
        let tcp = TcpSpec { ecn: true, initial_window_bytes: 20 * 1460, ..TcpSpec::default() };
        let plan: Plan = serde_json::from_value(json!({
            "lab": {"graph": {"nodes": [], "links": []}, "client": "a", "server": "b", "hosts": ["c"],
                "seed": 1, "mtu": 1500},
            "near": [],
            "tcp": {"near": tcp},
            "settings": {"near": {"net.ipv4.tcp_ecn": "2"}, "far": {"net.ipv4.tcp_sack": "0"}},
            "initial_windows": {"far": 4, "hosts": {"c": 7}},
        }))
        .unwrap();
        let [near, far, third] = &plan.kernels()[..] else { panic!("three hosts") };
        let ecn: Vec<_> = near.settings.iter().filter(|one| one.0 == "net.ipv4.tcp_ecn").collect();
        assert_eq!(ecn.iter().map(|one| one.1.as_str()).collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((near.initial_window, far.initial_window), (Some(20), Some(4)));
        assert_eq!(far.settings, [("net.ipv4.tcp_sack".to_owned(), "0".to_owned())]);
        assert_eq!((third.settings.len(), third.initial_window), (0, Some(7)));
    }
}

//! The TCP settings of the kernels of the hosts of a session.

use std::collections::BTreeMap;

use runtime::tcp::kernel::{MAX_INITIAL_SEND_BUFFER, initial_segments, sysctls};
use transport::tcp::TcpSpec;

use super::plan::LabPlan;

/// The kernel settings of one host.
pub struct KernelTcpSettings {
    /// The settings with their sysctl(8) names.
    pub settings: Vec<(String, String)>,
    /// The initial TCP window in segments; `None` for the default of the kernel.
    pub initial_window: Option<u32>,
}

impl LabPlan {
    /// Returns the kernel settings of all hosts: client, server, and the others in the sequence of the plan.
    pub fn kernel_settings(&self) -> Vec<KernelTcpSettings> {
        let settings_of =
            |tcp: &Option<TcpSpec>, settings: &BTreeMap<String, String>, window: Option<u32>| {
                let options = tcp.iter().flat_map(|tcp| sysctls(tcp, MAX_INITIAL_SEND_BUFFER));
                let named = options.map(|(name, value)| (format!("net.ipv4.{name}"), value));
                let extra = settings.iter().map(|(name, value)| (name.clone(), value.clone()));
                KernelTcpSettings {
                    settings: named.chain(extra).collect(),
                    initial_window: window.or(tcp.as_ref().map(initial_segments)),
                }
            };
        let (tcp, settings, windows) = (&self.tcp, &self.settings, &self.initial_windows);
        let none = BTreeMap::new();
        let settings_of_host = |name: &String| {
            let tcp = tcp.hosts.get(name).unwrap_or(&None);
            let settings = settings.hosts.get(name).unwrap_or(&none);
            settings_of(tcp, settings, windows.hosts.get(name).copied().flatten())
        };
        let ends = [
            settings_of(&tcp.client, &settings.client, windows.client),
            settings_of(&tcp.server, &settings.server, windows.server),
        ];
        ends.into_iter().chain(self.lab.hosts.iter().map(settings_of_host)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn named_settings_take_precedence() {
        let tcp = TcpSpec { ecn: true, initial_window_bytes: 20 * 1460, ..TcpSpec::default() };
        let plan: LabPlan = serde_json::from_value(json!({
            "lab": {"graph": {"nodes": [], "links": []}, "client": "a", "server": "b", "hosts": ["c"],
                "seed": 1, "mtu": 1500},
            "commands": [],
            "tcp": {"client": tcp},
            "settings": {"client": {"net.ipv4.tcp_ecn": "2"}, "server": {"net.ipv4.tcp_sack": "0"}},
            "initial_windows": {"server": 4, "hosts": {"c": 7}},
        }))
        .unwrap();
        let [near, far, third] = &plan.kernel_settings()[..] else { panic!("three hosts") };
        let ecn: Vec<_> = near.settings.iter().filter(|one| one.0 == "net.ipv4.tcp_ecn").collect();
        assert_eq!(ecn.iter().map(|one| one.1.as_str()).collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((near.initial_window, far.initial_window), (Some(20), Some(4)));
        assert_eq!(far.settings, [("net.ipv4.tcp_sack".to_owned(), "0".to_owned())]);
        assert_eq!((third.settings.len(), third.initial_window), (0, Some(7)));
    }
}

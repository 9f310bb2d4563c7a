//! Redirection of packets to a proxy: nftables rules and policy routing.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::syn::SynDisposition;
use super::{ProxyPlan, SideSocketOptions};

/// The mark of packets for the proxy's sockets, and the table that routes them to this machine.
const MARK: &str = "0x70";
const TABLE: &str = "112";

/// Ports of the listeners that receive redirected packets.
#[derive(Clone, Copy, Debug)]
pub struct ListenerPorts {
    /// Client side and server side, IPv4.
    pub v4: [u16; 2],
    /// IPv6, if there is any.
    pub v6: Option<[u16; 2]>,
}

/// Active rules. They are removed on drop, and also if this process ends in another manner.
#[derive(Debug)]
pub struct NftRules {
    child: Child,
    v6: bool,
}

impl Drop for NftRules {
    fn drop(&mut self) {
        // Closing its standard input ends `nft`, which owns the table, so the kernel removes the table.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        for family in families(self.v6) {
            let _ = run_ip(&[family, "rule", "del", "fwmark", MARK, "lookup", TABLE]);
        }
    }
}

fn families(v6: bool) -> &'static [&'static str] {
    if v6 { &["-4", "-6"] } else { &["-4"] }
}

/// Builds the table of rules. Connections to addresses of the namespace are not split.
fn build_ruleset(plan: &ProxyPlan, ports: ListenerPorts, local_addresses: &[IpAddr]) -> String {
    let mut text = String::new();
    let mut rule = |words: &str| {
        let _ = writeln!(text, "add rule inet bentpipe_pep pre {words}");
    };
    let put_back = |disposition: SynDisposition| {
        format!("iifname \"lo\" @ll,48,48 0x02000000000{}", disposition as u8)
    };
    rule(&format!("{} meta l4proto tcp reject with tcp reset", put_back(SynDisposition::Refused)));
    for (side, disposition) in [SynDisposition::Near, SynDisposition::Far].into_iter().enumerate() {
        let from = put_back(disposition);
        let mark = format!("meta mark set {MARK} accept");
        let v4 = ports.v4[side];
        rule(&format!(
            "{from} meta nfproto ipv4 meta l4proto tcp tproxy ip to 127.0.0.1:{v4} {mark}"
        ));
        if let Some(v6) = ports.v6 {
            let v6 = v6[side];
            rule(&format!(
                "{from} meta nfproto ipv6 meta l4proto tcp tproxy ip6 to [::1]:{v6} {mark}"
            ));
        }
    }
    let word = |address: &IpAddr| if address.is_ipv4() { "ip" } else { "ip6" };
    if let Some(pool) = plan.from_pool {
        let (ip, port) = (pool.listen.ip(), pool.listen.port());
        let to = format!("{} daddr {ip} tcp dport {port}", word(&ip));
        let from =
            format!("iifname \"{}\" {} saddr {}", plan.client_device, word(&pool.peer), pool.peer);
        rule(&format!("{from} {to} accept"));
        rule(&format!("{to} drop"));
    }
    for address in local_addresses {
        rule(&format!("{} daddr {address} accept", word(address)));
    }
    let devices = format!("iifname {{ \"{}\", \"{}\" }}", plan.client_device, plan.server_device);
    rule(&format!("{devices} tcp flags & (fin|syn|rst|ack) == syn drop"));
    rule(&format!("{devices} meta l4proto tcp socket transparent 1 meta mark set {MARK} accept"));
    format!(
        "add table inet bentpipe_pep {{ flags owner; }}\n\
         add chain inet bentpipe_pep pre {{ type filter hook prerouting priority mangle; policy accept; }}\n\
         {text}"
    )
}

impl NftRules {
    /// Redirects the connections of both devices to the listeners at `ports`.
    ///
    /// # Errors
    /// `nft` or `ip` is missing, or the kernel refuses.
    pub fn new(
        plan: &ProxyPlan,
        ports: ListenerPorts,
        local_addresses: &[IpAddr],
    ) -> io::Result<NftRules> {
        let table = build_ruleset(plan, ports, local_addresses);
        check_ruleset(&table)?;
        for family in families(ports.v6.is_some()) {
            run_ip(&[family, "rule", "add", "fwmark", MARK, "lookup", TABLE])?;
            run_ip(&[family, "route", "replace", "local", "default", "dev", "lo", "table", TABLE])?;
        }
        let mut child = nft(&["-i"])?
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(absent)?;
        if let Some(input) = &mut child.stdin {
            input.write_all(table.as_bytes())?;
            input.flush()?;
        }
        let rules = NftRules { child, v6: ports.v6.is_some() };
        // The last rule is active when all are.
        for _ in 0..1000 {
            let listed =
                nft(&["list", "table", "inet", "bentpipe_pep"])?.output().map_err(absent)?;
            if String::from_utf8_lossy(&listed.stdout).contains("socket transparent") {
                return Ok(rules);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(io::Error::other("nft: the rules were not active after 5 s"))
    }
}

fn absent(error: io::Error) -> io::Error {
    io::Error::other(format!("nft: {error} (Debian: nftables)"))
}

/// Creates a command of the system that can be outside the search path of an ordinary user: Debian installs `nft` in
/// /usr/sbin.
fn system_command(name: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(name);
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

fn nft(words: &[&str]) -> io::Result<Command> {
    let mut command = system_command("nft");
    command.args(words);
    Ok(command)
}

/// Lets the kernel check the rules without applying them, to get its message.
fn check_ruleset(table: &str) -> io::Result<()> {
    let mut child = nft(&["-c", "-f", "-"])?
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(absent)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(table.as_bytes())?;
    }
    let done = child.wait_with_output()?;
    if done.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&done.stderr);
    let first = stderr.lines().next().unwrap_or("no reason").trim();
    Err(io::Error::other(format!("nft: {first} (a proxy needs nftables with tproxy and socket)")))
}

/// Runs `ip` and returns its output.
///
/// # Errors
/// `ip` is missing, or fails with a message.
pub fn run_ip(words: &[&str]) -> io::Result<String> {
    let done = system_command("ip")
        .args(words)
        .output()
        .map_err(|error| io::Error::other(format!("ip: {error} (Debian: iproute2)")))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&done.stderr);
    Err(io::Error::other(format!("ip {}: {}", words.join(" "), stderr.trim())))
}

/// Sets the initial windows and timers of one side on every route of `device`. Returns the number of routes.
///
/// # Errors
/// An error of `ip`.
pub fn set_routes(device: &str, options: &SideSocketOptions, v6: bool) -> io::Result<usize> {
    let mut routes = 0;
    for family in families(v6) {
        for line in run_ip(&[family, "route", "show", "dev", device])?.lines() {
            let words = parse_route(line);
            let Some(to) = words.first() else { continue };
            if to.starts_with("fe80:") || to.starts_with("ff00:") || to == "multicast" {
                continue;
            }
            let route_options = options.route_options();
            let mut all = vec![*family, "route", "replace"];
            all.extend(words.iter().map(String::as_str));
            all.extend(["dev", device]);
            all.extend(route_options.iter().map(String::as_str));
            run_ip(&all)?;
            routes += 1;
        }
    }
    Ok(routes)
}

/// Parses a route in the format of `ip route show`, without device state and without options that are set again.
fn parse_route(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.split_ascii_whitespace();
    while let Some(word) = rest.next() {
        match word {
            "linkdown" | "dead" | "offload" | "trap" | "rt_trap" | "rt_offload" => {}
            "initcwnd" | "initrwnd" | "rto_min" | "quickack" | "error" => {
                if rest.next() == Some("lock") {
                    rest.next();
                }
            }
            word => words.push(word.to_owned()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_repeated_without_its_state() {
        let line = "10.0.0.0/30 proto kernel scope link src 10.0.0.1 linkdown initcwnd 10 rto_min lock \
                    200ms quickack 1";
        assert_eq!(parse_route(line).join(" "), "10.0.0.0/30 proto kernel scope link src 10.0.0.1");
    }
}

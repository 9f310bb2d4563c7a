//! Construction of a proxy: sysctls, routes, listeners, rules.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nix::ifaddrs::getifaddrs;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use runtime::Clock;
use runtime::tcp::TcpInfoLayout;
use units::Time;

use super::Proxy;
use super::half_open::HalfOpenConnections;
use crate::ProgramError;
use crate::pep::counters::CounterLine;
use crate::pep::rules::{ListenerPorts, NftRules, run_ip, set_routes};
use crate::pep::socket::{bounds_send_buffers, open_listener};
use crate::pep::syn::SynCapture;
use crate::pep::{ProxyPlan, SideSocketOptions};

/// Tokens: listeners by index, then these, then two per connection.
pub(super) const POOL_LISTENER_TOKEN: u64 = 4;
pub(super) const SYN_TOKEN: u64 = 5;
pub(super) const FIRST_ENTRY_TOKEN: u64 = 8;
/// The buffer of one read in bytes.
const SCRATCH_BYTES: usize = 256 << 10;

/// File descriptors that are not for connections.
const SPARE_FILES: u64 = 64;

/// Raises the limit of open files to its maximum. Returns the number of requested connections that it permits.
pub(super) fn raise_file_limit(
    plan: &ProxyPlan,
    notes: &mut Vec<String>,
) -> Result<usize, ProgramError> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(io::Error::from)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(io::Error::from)?;
    let stock = plan.to_pool.map_or(0, |pool| pool.ready as u64);
    let allowed = hard.saturating_sub(SPARE_FILES + stock) / 2;
    if allowed == 0 {
        return Err(ProgramError::Input(format!(
            "a limit of {hard} open files is too low (ulimit -Hn)"
        )));
    }
    if allowed < plan.connections as u64 {
        notes.push(format!(
            "the limit of {hard} open files (ulimit -Hn) allows {allowed} connections, not {}",
            plan.connections
        ));
    }
    Ok(plan.connections.min(allowed as usize))
}

/// Writes a sysctl of the namespace below `net/`.
fn write_sysctl(name: &str, value: &str) -> io::Result<()> {
    let path = format!("/proc/sys/net/{name}");
    std::fs::write(&path, value)
        .map_err(|error| io::Error::other(format!("{path} = {value}: {error}")))
}

impl<'a> Proxy<'a> {
    /// Builds a proxy and activates its rules.
    pub(super) fn build(
        plan: &'a ProxyPlan,
        side_options: [SideSocketOptions; 2],
        settings: &[(&str, String)],
        max_flows: usize,
        notes: &mut Vec<String>,
    ) -> io::Result<(Proxy<'a>, NftRules)> {
        let devices = [plan.client_device.as_str(), plan.server_device.as_str()];
        let watch = SynCapture::new(devices[0], devices[1])?;
        run_ip(&["link", "set", "lo", "up"])?;
        for (name, value) in settings {
            write_sysctl(&format!("ipv4/{name}"), value)?;
        }
        for device in ["all", "lo", devices[0], devices[1]] {
            write_sysctl(&format!("ipv4/conf/{device}/rp_filter"), "0")?;
        }
        if side_options[0].send_buffer_bytes != side_options[1].send_buffer_bytes
            && !bounds_send_buffers()?
        {
            notes.push(format!(
                "the send buffers of both sides hold {} bytes: separate limits require root",
                side_options[0].send_buffer_bytes.max(side_options[1].send_buffer_bytes)
            ));
        }
        let v6 = std::fs::exists("/proc/net/if_inet6")?;
        if !v6 {
            notes.push("this kernel has no IPv6".to_owned());
        }
        for (device, options) in devices.iter().zip(&side_options) {
            if set_routes(device, options, v6)? == 0 {
                return Err(io::Error::other(format!("{device} has no route")));
            }
        }
        let local_addresses = getifaddrs()?.filter_map(|one| {
            let address = one.address?;
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::from(v4.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::from(v6.ip())))
        });
        let local_addresses: Vec<IpAddr> = local_addresses.collect();
        let mut listeners = Vec::new();
        let homes = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        for home in &homes[..1 + usize::from(v6)] {
            for options in &side_options {
                listeners.push(open_listener(SocketAddr::new(*home, 0), options, true)?);
            }
        }
        let port = |index: usize| Ok::<u16, io::Error>(listeners[index].local_addr()?.port());
        let v6 = if v6 { Some([port(2)?, port(3)?]) } else { None };
        let ports = ListenerPorts { v4: [port(0)?, port(1)?], v6 };
        let pool_listener = match plan.from_pool {
            None => None,
            Some(pool) => {
                Some(open_listener(pool.listen, &side_options[0], false).map_err(|error| {
                    io::Error::other(format!("from_pool.listen {}: {error}", pool.listen))
                })?)
            }
        };
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let level = |token: u64| EpollEvent::new(EpollFlags::EPOLLIN, token);
        for (index, one) in listeners.iter().enumerate() {
            epoll.add(one, level(index as u64))?;
        }
        if let Some(one) = &pool_listener {
            epoll.add(one, level(POOL_LISTENER_TOKEN))?;
        }
        epoll.add(&watch, level(SYN_TOKEN))?;
        let rules = NftRules::new(plan, ports, &local_addresses)?;
        let proxy = Proxy {
            plan,
            side_options,
            devices,
            epoll,
            clock: Clock::start(),
            info_layout: TcpInfoLayout::detect().map_err(io::Error::other)?,
            syn_capture: watch,
            local_addresses,
            listeners,
            pool_listener,
            entries: Vec::new(),
            free_indices: Vec::new(),
            just_freed: Vec::new(),
            by_addresses: BTreeMap::new(),
            started_flows: 0,
            open_flows: 0,
            max_flows,
            pool: VecDeque::new(),
            pool_connecting: 0,
            retry_at: Time::ZERO,
            next_expiry_at: Time::ZERO,
            waiting_for_pool: BTreeMap::new(),
            half_open: HalfOpenConnections::default(),
            ready_flows: VecDeque::new(),
            lingering: VecDeque::new(),
            counters: CounterLine::default(),
            scratch: vec![0; SCRATCH_BYTES],
        };
        Ok((proxy, rules))
    }
}

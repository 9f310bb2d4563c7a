//! How a proxy comes into being: settings, routes, listeners, rules.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nix::ifaddrs::getifaddrs;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use units::Time;

use super::half_open::HalfOpen;
use super::{POOL_LISTENER, Proxy, SCRATCH, SYNS};
use crate::Clock;
use crate::pep::counters::Line;
use crate::pep::rules::{Ports, Rules, ip, set_routes};
use crate::pep::socket::{bounds_send_buffers, listener};
use crate::pep::syn::Watch;
use crate::pep::{Leg, Plan};
use crate::perf::Failure;
use crate::tcp_info::Kernel;

/// File descriptors beside those of connections.
const SPARE_FILES: u64 = 64;

/// Raises the limit of open files as far as it goes; how many connections it allows of those wanted.
pub(super) fn files(plan: &Plan, notes: &mut Vec<String>) -> Result<usize, Failure> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(io::Error::from)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(io::Error::from)?;
    let stock = plan.to_pool.map_or(0, |pool| pool.ready as u64);
    let allowed = hard.saturating_sub(SPARE_FILES + stock) / 2;
    if allowed == 0 {
        return Err(Failure::Input(format!("{hard} open files are too few (ulimit -Hn)")));
    }
    if allowed < plan.connections as u64 {
        notes.push(format!(
            "{allowed} connections at a time, not {}: {hard} open files are allowed (ulimit -Hn)",
            plan.connections
        ));
    }
    Ok(plan.connections.min(allowed as usize))
}

/// Writes `net/...` settings of the namespace.
fn set(name: &str, value: &str) -> io::Result<()> {
    let place = format!("/proc/sys/net/{name}");
    std::fs::write(&place, value)
        .map_err(|error| io::Error::other(format!("{place} = {value}: {error}")))
}

impl<'a> Proxy<'a> {
    /// A proxy that works, and its rules.
    pub(super) fn start(
        plan: &'a Plan,
        legs: [Leg; 2],
        settings: &[(&str, String)],
        most: usize,
        notes: &mut Vec<String>,
    ) -> io::Result<(Proxy<'a>, Rules)> {
        let devices = [plan.near_device.as_str(), plan.far_device.as_str()];
        let watch = Watch::new(devices[0], devices[1])?;
        ip(&["link", "set", "lo", "up"])?;
        for (name, value) in settings {
            set(&format!("ipv4/{name}"), value)?;
        }
        for device in ["all", "lo", devices[0], devices[1]] {
            set(&format!("ipv4/conf/{device}/rp_filter"), "0")?;
        }
        if legs[0].send_bytes != legs[1].send_bytes && !bounds_send_buffers()? {
            notes.push(format!(
                "the send buffers of both sides hold {} bytes: only root bounds each",
                legs[0].send_bytes.max(legs[1].send_bytes)
            ));
        }
        let v6 = std::fs::exists("/proc/net/if_inet6")?;
        if !v6 {
            notes.push("this kernel has no IPv6".to_owned());
        }
        for (device, leg) in devices.iter().zip(&legs) {
            if set_routes(device, leg, v6)? == 0 {
                return Err(io::Error::other(format!("no route leads over {device}")));
            }
        }
        let own = getifaddrs()?.filter_map(|one| {
            let address = one.address?;
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::from(v4.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::from(v6.ip())))
        });
        let own: Vec<IpAddr> = own.collect();
        let mut listeners = Vec::new();
        let homes = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        for home in &homes[..1 + usize::from(v6)] {
            for leg in &legs {
                listeners.push(listener(SocketAddr::new(*home, 0), leg, true)?);
            }
        }
        let port = |place: usize| Ok::<u16, io::Error>(listeners[place].local_addr()?.port());
        let v6 = if v6 { Some([port(2)?, port(3)?]) } else { None };
        let ports = Ports { v4: [port(0)?, port(1)?], v6 };
        let pool_listener = match plan.from_pool {
            None => None,
            Some(pool) => Some(listener(pool.listen, &legs[0], false).map_err(|error| {
                io::Error::other(format!("from_pool.listen {}: {error}", pool.listen))
            })?),
        };
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let level = |token: u64| EpollEvent::new(EpollFlags::EPOLLIN, token);
        for (place, one) in listeners.iter().enumerate() {
            epoll.add(one, level(place as u64))?;
        }
        if let Some(one) = &pool_listener {
            epoll.add(one, level(POOL_LISTENER))?;
        }
        epoll.add(&watch, level(SYNS))?;
        let rules = Rules::new(plan, ports, &own)?;
        let proxy = Proxy {
            plan,
            legs,
            devices,
            epoll,
            clock: Clock::start(),
            kernel: Kernel::running().map_err(io::Error::other)?,
            watch,
            own,
            listeners,
            pool_listener,
            slots: Vec::new(),
            free: Vec::new(),
            freed: Vec::new(),
            known: BTreeMap::new(),
            begun: 0,
            flows: 0,
            most,
            stock: VecDeque::new(),
            opening: 0,
            retry_at: Time::ZERO,
            look_at: Time::ZERO,
            in_want: BTreeMap::new(),
            half_open: HalfOpen::default(),
            turn: VecDeque::new(),
            leaving: VecDeque::new(),
            line: Line::default(),
            scratch: vec![0; SCRATCH],
        };
        Ok((proxy, rules))
    }
}

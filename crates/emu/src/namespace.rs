//! Network namespaces that end with the process that created them.
//!
//! A namespace is anonymous: it has no name in the file system and no process outside its PID namespace. The executable
//! starts a *supervisor* process, which creates the namespaces. The supervisor starts an *init* process, PID 1 of the
//! new PID namespace. Each process sets a parent-death signal, so all of them end with the first that ends. The kernel
//! removes a namespace with its last process and its last open device.

use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::Signal;
use nix::unistd::{AccessFlags, access};
use tun_rs::{DeviceBuilder, SyncDevice};

/// Sets the signal that this process receives when its parent process ends, or the parent's thread that started it.
///
/// # Errors
/// Returns the error of the kernel, or an error if the parent has ended already.
pub fn set_parent_death_signal(parent: u32, signal: Signal) -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(signal)?;
    if nix::unistd::getppid().as_raw() as u32 != parent {
        return Err(io::Error::other("the parent process has ended"));
    }
    Ok(())
}

/// Becomes root of a new user namespace with an empty network namespace. An ordinary user needs this to create devices.
///
/// # Errors
/// Returns the error of the kernel: user namespaces may be forbidden (`kernel.unprivileged_userns_clone`, AppArmor).
pub fn become_root() -> io::Result<()> {
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)
        .map_err(|error| {
            io::Error::other(format!(
                "no user namespace ({error}): required without root; see `bentpipe doctor`"
            ))
        })?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {user} 1\n"))?;
    std::fs::write("/proc/self/gid_map", format!("0 {group} 1\n"))?;
    run_ip_batch(LOOPBACK_UP)
}

/// The first `ip` command in each network namespace.
pub const LOOPBACK_UP: &str = "link set lo up\n";

/// Opens the network namespace of a process.
///
/// # Errors
/// Returns an error if the process has ended.
pub fn open_process_network(process: u32) -> io::Result<File> {
    File::open(format!("/proc/{process}/ns/net"))
}

/// Runs `work` in a network namespace, on a separate thread, and returns its result.
///
/// # Errors
/// Returns the error of entering the namespace, or the error of `work`.
pub fn run_in<T: Send>(
    namespace: &File,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    std::thread::scope(|scope| {
        let inside = scope.spawn(move || {
            setns(namespace.as_fd(), CloneFlags::CLONE_NEWNET)?;
            work()
        });
        inside.join().unwrap_or_else(|_| Err(io::Error::other("a thread in a namespace panicked")))
    })
}

/// Transmit queue in packets between two reads of the emulator. It takes the largest burst that a socket can send at
/// once: an initial window of the bandwidth-delay product of a geostationary path.
const TX_QUEUE_PACKETS: &str = "5000";

/// The name and the addresses of a TUN device.
#[derive(Clone, Debug)]
pub struct DeviceAddress {
    /// The name of the device.
    pub device: String,
    /// The IPv4 address of the device.
    pub v4: Ipv4Addr,
    /// The IPv4 address of the peer.
    pub peer_v4: Ipv4Addr,
    /// The IPv6 address of the device.
    pub v6: Ipv6Addr,
    /// The IPv6 address of the peer.
    pub peer_v6: Ipv6Addr,
}

impl DeviceAddress {
    /// Returns both ends of the path with the private network `10.78.NETWORK.0/30` (RFC 1918) and
    /// `fdbe:0:0:NETWORK::/126` (RFC 4193), near end first.
    pub fn for_network(network: u8) -> [DeviceAddress; 2] {
        let device_address = |device: String, local: u8, peer: u8| DeviceAddress {
            device,
            v4: Ipv4Addr::new(10, 78, network, local),
            peer_v4: Ipv4Addr::new(10, 78, network, peer),
            v6: Ipv6Addr::new(0xfdbe, 0, 0, u16::from(network), 0, 0, 0, u16::from(local)),
            peer_v6: Ipv6Addr::new(0xfdbe, 0, 0, u16::from(network), 0, 0, 0, u16::from(peer)),
        };
        [
            device_address("bentpipe".to_owned(), 2, 1),
            device_address(format!("bentpipe{network}"), 1, 2),
        ]
    }

    /// Returns both ends of each link of a path, from network `first` on. The peer address of the near end is always
    /// the address of the far end. The nodes in between, which split or forward, have other addresses.
    pub fn for_linear_path(first: u8, links: usize) -> Vec<[DeviceAddress; 2]> {
        let mut ends: Vec<[DeviceAddress; 2]> =
            (0..links).map(|link| DeviceAddress::for_network(first + link as u8)).collect();
        if let [[_, between], .., [before_far, far]] = &mut ends[..] {
            std::mem::swap(&mut between.v4, &mut far.v4);
            std::mem::swap(&mut between.v6, &mut far.v6);
            (before_far.peer_v4, before_far.peer_v6) = (far.v4, far.v6);
        }
        ends
    }
}

impl DeviceAddress {
    /// Returns the addresses of host `number`, from 0: `10.78.FIRST.(NUMBER + 1)`, `fdbe:0:0:FIRST::(NUMBER + 1)`.
    pub fn for_host(first: u8, number: usize) -> (Ipv4Addr, Ipv6Addr) {
        let local = number as u8 + 1;
        let v6 = Ipv6Addr::new(0xfdbe, 0, 0, u16::from(first), 0, 0, 0, u16::from(local));
        (Ipv4Addr::new(10, 78, first, local), v6)
    }

    /// Returns both ends of link `number`, from 0, of a topology: `10.78.(FIRST + 1).(4 NUMBER + 1)` and the next
    /// address. Both devices are `bentpipeFIRST-NUMBER`.
    pub fn for_link(first: u8, number: usize) -> [DeviceAddress; 2] {
        let (network, base) = (first + 1, 4 * number as u8);
        let v4 = |local: u8| Ipv4Addr::new(10, 78, network, base + local);
        let v6 = |local: u8| {
            Ipv6Addr::new(0xfdbe, 0, 0, u16::from(network), 0, 0, 0, u16::from(base + local))
        };
        let device_address = |local: u8, peer: u8| DeviceAddress {
            device: format!("bentpipe{first}-{number}"),
            v4: v4(local),
            peer_v4: v4(peer),
            v6: v6(local),
            peer_v6: v6(peer),
        };
        [device_address(1, 2), device_address(2, 1)]
    }
}

/// Number of networks that a lab claims together. It limits the number of links of a linear path.
pub const NETWORKS_PER_LAB: u8 = 8;

/// Networks that a lab reserves for the lifetime of this value.
#[derive(Debug)]
pub struct NetworkClaim {
    /// The first of [`NETWORKS_PER_LAB`] numbers for [`DeviceAddress::for_network`].
    pub first: u8,
    _socket: UnixListener,
}

impl NetworkClaim {
    /// Claims networks that no device and no route in the namespace of the calling thread uses, and that no other lab
    /// has claimed. A claim is an abstract socket (unix(7)). Its name belongs to the network namespace, one process can
    /// bind it, and it ends with that process.
    ///
    /// # Errors
    /// Returns an error if `ip` is missing, or if all networks are taken.
    pub fn claim() -> io::Result<NetworkClaim> {
        for first in (0..=255 / NETWORKS_PER_LAB).map(|block| block * NETWORKS_PER_LAB) {
            let name = SocketAddr::from_abstract_name(format!("bentpipe-networks-{first}"))?;
            let socket = match UnixListener::bind_addr(&name) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => continue,
                other => other?,
            };
            // Listed after the claim, because the previous owner may still be removing its devices.
            let listed = list_networks()?;
            let is_free = |network: u8| {
                !listed.contains(&format!("10.78.{network}."))
                    && !listed
                        .contains(&format!(" {}: ", DeviceAddress::for_network(network)[1].device))
            };
            if (first..=first + (NETWORKS_PER_LAB - 1)).all(is_free) {
                return Ok(NetworkClaim { first, _socket: socket });
            }
        }
        Err(io::Error::other("all networks 10.78.0.0 to 10.78.255.0 are taken"))
    }
}

/// Returns the devices, addresses and routes in the namespace of the calling thread.
fn list_networks() -> io::Result<String> {
    run_ip(&["-o", "-4"], "link\naddr\nroute\n")
}

/// Returns a system command, searched also outside the search path of an ordinary user: on Debian `nft` is in
/// /usr/sbin.
pub fn system_command(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("PATH", search_path());
    command
}

/// Returns whether [`system_command`] would find the tool. The check does not start the tool.
pub fn has_tool(name: &str) -> bool {
    let is_executable = |file: &Path| file.is_file() && access(file, AccessFlags::X_OK).is_ok();
    search_path().split(':').any(|folder| is_executable(&Path::new(folder).join(name)))
}

fn search_path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

fn ip_error(error: io::Error) -> io::Error {
    io::Error::other(format!("ip: {error} (Debian: iproute2)"))
}

/// Returns the reason why a TUN device could not be created, with a hint for the user.
fn tun_error(error: io::Error) -> io::Error {
    let help = match error.kind() {
        io::ErrorKind::NotFound => {
            "the kernel has no TUN devices here (modprobe tun; in a container --device /dev/net/tun)"
        }
        io::ErrorKind::PermissionDenied => {
            "`chmod 0666 /dev/net/tun` as root lets ordinary users open it"
        }
        _ => "see `bentpipe doctor`",
    };
    io::Error::other(format!("/dev/net/tun: {error}; {help}"))
}

/// Creates a TUN device with both addresses in the namespace of the calling thread and sets it up. With `offload` the
/// kernel hands over GSO super-frames of TCP and, from Linux 6.2 on, of UDP.
///
/// # Errors
/// Returns an error if `/dev/net/tun` cannot be opened, or the error of the kernel.
pub fn create_tun(address: &DeviceAddress, mtu: u16, offload: bool) -> io::Result<Arc<SyncDevice>> {
    // Opened first, because the error message of the builder does not name the missing file.
    std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").map_err(tun_error)?;
    let builder = DeviceBuilder::new().name(&address.device).mtu(mtu).offload(offload);
    let device = builder.build_sync().map_err(tun_error)?;
    let DeviceAddress { device: name, v4, peer_v4, v6, peer_v6 } = address;
    run_ip_batch(&format!(
        "link set {name} txqueuelen {TX_QUEUE_PACKETS}\n\
         addr add {v4} peer {peer_v4} dev {name}\n\
         addr add {v6} peer {peer_v6} dev {name} nodad\n\
         link set {name} up\n"
    ))?;
    Ok(Arc::new(device))
}

/// Creates a device that accepts each packet and drops it. Packets without a route end here, and their senders receive
/// no error.
///
/// # Errors
/// Returns the errors of [`create_tun`].
pub fn create_blackhole(name: &str, mtu: u16) -> io::Result<Arc<SyncDevice>> {
    std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").map_err(tun_error)?;
    let device =
        Arc::new(DeviceBuilder::new().name(name).mtu(mtu).build_sync().map_err(tun_error)?);
    run_ip_batch(&format!("link set {name} up\n"))?;
    let reader = device.clone();
    std::thread::Builder::new().name("nowhere".to_owned()).spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while reader.recv(&mut buffer).is_ok() {}
    })?;
    Ok(device)
}

/// Runs `lines` as `ip` commands in the namespace of the calling thread, up to the first that fails.
///
/// # Errors
/// Returns an error if `ip` is missing, or the error message of `ip`.
pub fn run_ip_batch(lines: &str) -> io::Result<()> {
    run_ip(&[], lines).map(drop)
}

/// Runs `lines` like `run_ip_batch`, with `options` of `ip`, and returns its output.
fn run_ip(options: &[&str], lines: &str) -> io::Result<String> {
    let mut command = system_command("ip");
    command.args(options).args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(ip_error)?;
    // The output is short, so the pipe can hold it while the lines are written.
    let written = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(lines.as_bytes()));
    let done = child.wait_with_output()?;
    if done.status.success() {
        return written.map(|()| String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&done.stderr);
    Err(io::Error::other(format!("ip: {}", stderr.trim().replace('\n', "; "))))
}

/// Starts an `ip` process in the namespace of the calling thread. It runs commands line by line until its input ends.
///
/// # Errors
/// Returns an error if `ip` is missing.
pub fn spawn_ip_batch() -> io::Result<Child> {
    let mut command = system_command("ip");
    // A separate process group, because Ctrl-C is for the command that runs in the lab.
    command.args(["-force", "-batch", "-"]).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().map_err(ip_error)
}

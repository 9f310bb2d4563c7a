//! Network namespaces that end with the process that made them.
//!
//! A namespace is anonymous: it has no name in the file system and no process outside its own PID
//! namespace. The executable starts itself as a *keeper* (which makes the namespaces), the keeper
//! starts itself as an *init* (process 1 of the new PID namespace), and every one of them asks the
//! kernel to be ended when its parent dies. Whatever ends the first, all end, and with the last
//! process and the last open device the kernel takes the namespace away.

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

/// Asks for this signal when the parent dies, or the thread of it that started this process; fails if it is dead
/// already.
///
/// # Errors
/// The kernel's; or that the parent is gone.
pub fn end_with(parent: u32, signal: Signal) -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(signal)?;
    if nix::unistd::getppid().as_raw() as u32 != parent {
        return Err(io::Error::other("the process that started this one is gone"));
    }
    Ok(())
}

/// Becomes root of a user namespace of its own, with an empty network: what an ordinary user needs.
///
/// # Errors
/// The kernel's: user namespaces may be forbidden (`kernel.unprivileged_userns_clone`, AppArmor).
pub fn become_root() -> io::Result<()> {
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).map_err(
        |error| {
            io::Error::other(format!(
                "no user namespace ({error}): an ordinary user needs one; `bentpipe doctor` says how"
            ))
        },
    )?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {user} 1\n"))?;
    std::fs::write("/proc/self/gid_map", format!("0 {group} 1\n"))?;
    ip_lines(LOOPBACK)
}

/// What `ip` is told first in every network.
pub const LOOPBACK: &str = "link set lo up\n";

/// The network namespace of a process.
///
/// # Errors
/// It is gone.
pub fn of_process(process: u32) -> io::Result<File> {
    File::open(format!("/proc/{process}/ns/net"))
}

/// Runs `work` in a network namespace, on a thread of its own, and returns what it returns.
///
/// # Errors
/// Entering it, or `work`'s.
pub fn within<T: Send>(
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

/// Packets that may wait for the emulator's next look: the largest burst that a socket can send at once,
/// an initial window of a geostationary path's bandwidth-delay product.
const WAITING: &str = "5000";

/// Where a TUN device lives and what it is called.
#[derive(Clone, Debug)]
pub struct Address {
    /// Name of the device.
    pub device: String,
    /// Its IPv4 address.
    pub v4: Ipv4Addr,
    /// The peer's.
    pub peer_v4: Ipv4Addr,
    /// Its IPv6 address.
    pub v6: Ipv6Addr,
    /// The peer's.
    pub peer_v6: Ipv6Addr,
}

impl Address {
    /// Both ends of the path with the private network `10.78.NETWORK.0/30` (RFC 1918) and
    /// `fdbe:0:0:NETWORK::/126` (RFC 4193): near, then far.
    pub fn pair(network: u8) -> [Address; 2] {
        let end = |device: String, own: u8, peer: u8| Address {
            device,
            v4: Ipv4Addr::new(10, 78, network, own),
            peer_v4: Ipv4Addr::new(10, 78, network, peer),
            v6: Ipv6Addr::new(0xfdbe, 0, 0, u16::from(network), 0, 0, 0, u16::from(own)),
            peer_v6: Ipv6Addr::new(0xfdbe, 0, 0, u16::from(network), 0, 0, 0, u16::from(peer)),
        };
        [end("bentpipe".to_owned(), 2, 1), end(format!("bentpipe{network}"), 1, 2)]
    }

    /// Both ends of every segment of a path, from the networks `first` on. Whatever stands between, the address
    /// beside the near end's is the far end's: nodes that split or forward have others.
    pub fn path(first: u8, segments: usize) -> Vec<[Address; 2]> {
        let mut ends: Vec<[Address; 2]> =
            (0..segments).map(|place| Address::pair(first + place as u8)).collect();
        if let [[_, between], .., [before_far, far]] = &mut ends[..] {
            std::mem::swap(&mut between.v4, &mut far.v4);
            std::mem::swap(&mut between.v6, &mut far.v6);
            (before_far.peer_v4, before_far.peer_v6) = (far.v4, far.v6);
        }
        ends
    }
}

impl Address {
    /// The one address of host `number`, from 0: `10.78.FIRST.(NUMBER + 1)` and `fdbe:0:0:FIRST::(NUMBER + 1)`.
    pub fn host(first: u8, number: usize) -> (Ipv4Addr, Ipv6Addr) {
        let own = number as u8 + 1;
        let v6 = Ipv6Addr::new(0xfdbe, 0, 0, u16::from(first), 0, 0, 0, u16::from(own));
        (Ipv4Addr::new(10, 78, first, own), v6)
    }

    /// Both ends of segment `number`, from 0, of a graph: `10.78.(FIRST + 1).(4 NUMBER + 1)` and the next address. Both
    /// devices are `bentpipeFIRST-NUMBER`.
    pub fn segment(first: u8, number: usize) -> [Address; 2] {
        let (network, base) = (first + 1, 4 * number as u8);
        let v4 = |own: u8| Ipv4Addr::new(10, 78, network, base + own);
        let v6 = |own: u8| {
            Ipv6Addr::new(0xfdbe, 0, 0, u16::from(network), 0, 0, 0, u16::from(base + own))
        };
        let end = |own: u8, peer: u8| Address {
            device: format!("bentpipe{first}-{number}"),
            v4: v4(own),
            peer_v4: v4(peer),
            v6: v6(own),
            peer_v6: v6(peer),
        };
        [end(1, 2), end(2, 1)]
    }
}

/// Networks that a lab takes at once: a chain has at most so many segments.
pub const BLOCK: u8 = 8;

/// Networks that are a lab's own for as long as this lives.
#[derive(Debug)]
pub struct Networks {
    /// The first of [`BLOCK`] for [`Address::pair`].
    pub first: u8,
    _claim: UnixListener,
}

impl Networks {
    /// Networks of which no device of the calling thread's namespace has one, no route leads to one, and that no other
    /// lab has claimed. A claim is an abstract socket (unix(7)): its name is the namespace's, only one process has it,
    /// and it ends with that process.
    ///
    /// # Errors
    /// `ip` is not there, or all are taken.
    pub fn claim() -> io::Result<Networks> {
        for first in (0..=255 / BLOCK).map(|block| block * BLOCK) {
            let name = SocketAddr::from_abstract_name(format!("bentpipe-networks-{first}"))?;
            let claim = match UnixListener::bind_addr(&name) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => continue,
                other => other?,
            };
            // With the claim in hand: whoever had it before may still be taking its devices away.
            let listed = networks()?;
            let is_free = |network: u8| {
                !listed.contains(&format!("10.78.{network}."))
                    && !listed.contains(&format!(" {}: ", Address::pair(network)[1].device))
            };
            if (first..=first + (BLOCK - 1)).all(is_free) {
                return Ok(Networks { first, _claim: claim });
            }
        }
        Err(io::Error::other("all networks 10.78.0.0 to 10.78.255.0 are taken"))
    }
}

/// Devices, addresses and routes of the calling thread's namespace.
fn networks() -> io::Result<String> {
    ip_says(&["-o", "-4"], "link\naddr\nroute\n")
}

/// A command of the system's, which may lie where an ordinary user's search path does not lead: on Debian `nft` is in
/// /usr/sbin.
pub fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("PATH", search_path());
    command
}

/// Whether [`tool`] would find it: asked without starting it.
pub fn has_tool(name: &str) -> bool {
    let runs = |file: &Path| file.is_file() && access(file, AccessFlags::X_OK).is_ok();
    search_path().split(':').any(|folder| runs(&Path::new(folder).join(name)))
}

fn search_path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

fn no_ip(error: io::Error) -> io::Error {
    io::Error::other(format!("ip: {error} (Debian: iproute2)"))
}

/// What kept a TUN device from being made, and what helps.
fn no_tun(error: io::Error) -> io::Error {
    let help = match error.kind() {
        io::ErrorKind::NotFound => {
            "the kernel has no TUN devices here (modprobe tun; in a container --device /dev/net/tun)"
        }
        io::ErrorKind::PermissionDenied => {
            "`chmod 0666 /dev/net/tun` as root lets ordinary users open it"
        }
        _ => "`bentpipe doctor` says what is missing",
    };
    io::Error::other(format!("/dev/net/tun: {error}; {help}"))
}

/// Makes a TUN device in the calling thread's namespace, with both addresses, up. With `offload` the kernel
/// hands over super-frames of TCP and, from Linux 6.2 on, of UDP.
///
/// # Errors
/// `/dev/net/tun` cannot be opened, or the kernel refuses.
pub fn tun(address: &Address, mtu: u16, offload: bool) -> io::Result<Arc<SyncDevice>> {
    // Opened first: the builder's message does not say what was missing.
    std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").map_err(no_tun)?;
    let builder = DeviceBuilder::new().name(&address.device).mtu(mtu).offload(offload);
    let device = builder.build_sync().map_err(no_tun)?;
    let Address { device: name, v4, peer_v4, v6, peer_v6 } = address;
    ip_lines(&format!(
        "link set {name} txqueuelen {WAITING}\n\
         addr add {v4} peer {peer_v4} dev {name}\n\
         addr add {v6} peer {peer_v6} dev {name} nodad\n\
         link set {name} up\n"
    ))?;
    Ok(Arc::new(device))
}

/// A device that takes every packet, and from which none leaves: where packets without a way end, of which their senders
/// hear nothing.
///
/// # Errors
/// As [`tun`].
pub fn nowhere(name: &str, mtu: u16) -> io::Result<Arc<SyncDevice>> {
    std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").map_err(no_tun)?;
    let device = Arc::new(DeviceBuilder::new().name(name).mtu(mtu).build_sync().map_err(no_tun)?);
    ip_lines(&format!("link set {name} up\n"))?;
    let taker = device.clone();
    std::thread::Builder::new().name("nowhere".to_owned()).spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while taker.recv(&mut buffer).is_ok() {}
    })?;
    Ok(device)
}

/// Does what `lines` say to `ip`, in the calling thread's namespace, up to the first that it refuses.
///
/// # Errors
/// It is not there, or says no: then its words.
pub fn ip_lines(lines: &str) -> io::Result<()> {
    ip_says(&[], lines).map(drop)
}

/// The same, with `options` of `ip`; what it answers.
fn ip_says(options: &[&str], lines: &str) -> io::Result<String> {
    let mut command = tool("ip");
    command.args(options).args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(no_ip)?;
    // What it says is short: the pipe takes it while lines are written.
    let written = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(lines.as_bytes()));
    let done = child.wait_with_output()?;
    if done.status.success() {
        return written.map(|()| String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(io::Error::other(format!("ip: {}", said.trim().replace('\n', "; "))))
}

/// An `ip` in the calling thread's namespace that does what it is told, line by line, until its input ends.
///
/// # Errors
/// It is not there.
pub fn listening_ip() -> io::Result<Child> {
    let mut command = tool("ip");
    // Ctrl-C is a command's.
    command.args(["-force", "-batch", "-"]).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().map_err(no_ip)
}

//! Opens many short connections to a server: `many_connections PROTOCOL ADDRESS:PORT COUNT [AT_ONCE [SERVER_PID]]`.
//! PROTOCOL is one of quic, tcp, tls (`bentpipe perf server`), http1, http2, http3 (`bentpipe serve`). Prints a line of
//! JSON: the number of answered connections, and the memory of the server after a tenth of them and at the end.

mod load;

use std::net::ToSocketAddrs;

use runtime::Clock;

/// Returns the resident memory of a process in bytes (proc(5)).
fn resident(pid: Option<&String>) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", pid?)).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()?? as u64)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [protocol, address, count, rest @ ..] = words.as_slice() else {
        return Err(
            "usage: many_connections PROTOCOL ADDRESS:PORT COUNT [AT_ONCE [SERVER_PID]]".into()
        );
    };
    let speaks = load::ALL.iter().find(|(name, _)| name == protocol).map(|(_, speaks)| *speaks);
    let speaks = speaks.ok_or("PROTOCOL: expected one of quic, tcp, tls, http1, http2, http3")?;
    let server = address.to_socket_addrs()?.next().ok_or("no such address")?;
    let count: u64 = count.parse()?;
    let at_once = rest.first().map_or(Ok(1), |word| word.parse())?;
    let pid = rest.get(1);
    let clock = Clock::start();
    let first = load::run(server, speaks, count / 10, at_once)?;
    let early = resident(pid);
    let others = load::run(server, speaks, count - count / 10, at_once)?;
    println!(
        "{}",
        serde_json::json!({
            "answered": first.answered + others.answered,
            "failed": first.failed + others.failed,
            "wall_s": clock.now().0 as f64 / 1e9,
            "server_bytes_after_a_tenth": early,
            "server_bytes_at_the_end": resident(pid),
        })
    );
    Ok(())
}

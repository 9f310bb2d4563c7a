//! One application over both transports and on both clocks.

mod apps;
mod bundle_nodes;
mod bundles;
mod hostile;
mod identity;
mod test_manager;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use transport::quic::{QuicEndpoint, QuicSpec};
use transport::tcp::{TcpEndpoint, TcpSpec};
use transport::{App, Endpoint, Payload, Side};
use units::{Span, Time};

use apps::{EchoClient, EchoServer, Log};
use test_manager::{Kind, TestManager, controller, host, run_hosts};

/// Number of bytes in each direction.
const BYTES: u64 = 3_000_000;

/// Returns the events of both sides of a connection in virtual time, over a path of 5 ms.
fn in_virtual_time(kind: Kind) -> [Vec<String>; 2] {
    let logs = [Log::default(), Log::default()];
    let [asks, echoes] = logs.clone();
    let spec = QuicSpec { unpaced_burst_packets: 10, ..QuicSpec::default() };
    let mut sides = [Side::Client, Side::Server].map(|side| -> Box<dyn Endpoint> {
        let (asks, echoes) = (asks.clone(), echoes.clone());
        let make = Box::new(move |_| -> Box<dyn App> {
            match side {
                Side::Client => Box::new(EchoClient::new(BYTES, asks.clone())),
                Side::Server => Box::new(EchoServer::new(echoes.clone())),
            }
        });
        match kind {
            Kind::Quic => {
                let made = QuicEndpoint::new(side, &spec, 1, side.name(), make, controller());
                Box::new(made.unwrap())
            }
            Kind::Tcp => Box::new(TcpEndpoint::new(side, &TcpSpec::default(), make, controller())),
        }
    });
    let mut flying: VecDeque<(Time, usize, Payload)> = VecDeque::new();
    let (mut now, mut out) = (Time::ZERO, Vec::new());
    sides[0].connect(now, None, &mut out).unwrap();
    let mut from = 0;
    for _ in 0..1_000_000 {
        let to = 1 - from;
        flying.extend(out.drain(..).map(|payload| (now + Span::from_millis(5), to, payload)));
        let arrives = flying.front().map_or(Time::MAX, |next| next.0);
        let wakes = [sides[0].poll_at(), sides[1].poll_at()];
        now = now.max(arrives.min(wakes[0]).min(wakes[1]));
        if now >= Time::ZERO + Span::from_secs(120) {
            break;
        }
        if arrives <= now {
            let (_, to, payload) = flying.pop_front().unwrap();
            sides[to].receive(now, payload, &mut out);
            from = to;
        } else {
            from = usize::from(wakes[1] < wakes[0]);
            sides[from].poll(now, &mut out);
        }
    }
    logs.map(|log| log.take())
}

/// Returns the events of both sides over real sockets on loopback.
fn in_real_time(kind: Kind) -> [Vec<String>; 2] {
    let logs = [Log::default(), Log::default()];
    let echoes = logs[1].clone();
    let mut server = host(kind, 4, move || Box::new(EchoServer::new(echoes.clone())));
    let mut client = host(kind, 4, || panic!("nobody calls a client"));
    let to = server.local_addr(0).unwrap().to_string();
    let handle = {
        let mut agent = client.manager();
        agent.queue_connect(0, &to, Box::new(EchoClient::new(BYTES, logs[0].clone())))
    };
    run_hosts(&mut [&mut client, &mut server], 20.0, |hosts| {
        hosts.iter().all(|host| host.manager().closed_count == 1)
    });
    assert_eq!(client.manager().handles, [handle]);
    logs.map(|log| log.take())
}

/// The first events of each kind have the same sequence on both clocks, and all bytes return. The ACK of the last sent
/// byte and the last returned byte race, so their sequence is not checked.
#[test]
fn an_application_gets_the_same_events_on_both_clocks() {
    for kind in [Kind::Quic, Kind::Tcp] {
        let (virtual_time, real_time) = (in_virtual_time(kind), in_real_time(kind));
        let messages_of = |logs: &[Vec<String>; 2]| {
            logs.each_ref().map(|log| {
                let (acknowledged, others): (Vec<_>, Vec<_>) =
                    log.iter().cloned().partition(|event| event == "Finished");
                (acknowledged.len(), others)
            })
        };
        assert_eq!(messages_of(&virtual_time), messages_of(&real_time), "{kind:?}");
        let [client, server] = real_time;
        assert_eq!(client[0], "Ready", "{kind:?}");
        assert!(client.contains(&format!("{BYTES} bytes came back")), "{kind:?}: {client:?}");
        assert!(server.contains(&"StreamOpened".to_owned()), "{kind:?}: {server:?}");
        assert!(server.contains(&"Finished".to_owned()), "{kind:?}: {server:?}");
    }
}

/// A manager has connections of both transports and roles in one loop, and gets notifications of its applications.
#[test]
fn one_manager_supports_both_transports_and_both_roles() {
    let logs: Vec<Log> = (0..8).map(|_| Log::default()).collect();
    let echo = || -> Box<dyn App> { Box::new(EchoServer::new(Log::default())) };
    let mut hosts = [0, 1].map(|_| {
        test_manager::host_of(
            vec![test_manager::quic_socket(16), test_manager::tcp_socket(16, None)],
            Box::new(echo),
        )
    });
    for (index, log) in logs.iter().enumerate() {
        let (from, end) = (index % 2, index / 2 % 2);
        let to = hosts[1 - from].local_addr(end).unwrap().to_string();
        hosts[from].manager().queue_connect(
            end,
            &to,
            Box::new(EchoClient::new(100_000, log.clone())),
        );
    }
    let [first, second] = &mut hosts;
    run_hosts(&mut [first, second], 20.0, |hosts| {
        hosts.iter().all(|host| host.manager().closed_count == 8)
    });
    for log in logs {
        let messages = log.take();
        assert!(messages.contains(&"100000 bytes came back".to_owned()), "{messages:?}");
    }
    for host in &hosts {
        // Each client application notifies when it has finished.
        assert_eq!(host.manager().notification_count, 4);
        assert_eq!((host.open_connections(0), host.open_connections(1)), (0, 0));
    }
}

/// An application that does not read stops its peer, needs no polls in the meantime, and continues after a command.
#[test]
fn an_application_that_does_not_read_stops_its_peer() {
    for kind in [Kind::Quic, Kind::Tcp] {
        let (log, gate) = (Log::default(), Arc::new(Mutex::new(false)));
        let (at_gate, echo_log) = (gate.clone(), Log::default());
        let mut server =
            host(kind, 4, move || Box::new(EchoServer::behind(echo_log.clone(), at_gate.clone())));
        let mut client = host(kind, 4, || panic!("nobody calls a client"));
        let to = server.local_addr(0).unwrap().to_string();
        // More than all buffers between the two can hold.
        let bytes = 64 << 20;
        client.manager().queue_connect(0, &to, Box::new(EchoClient::new(bytes, log.clone())));
        let mut written = 0;
        run_hosts(&mut [&mut client, &mut server], 10.0, |_| {
            let before = std::mem::replace(&mut written, log.written());
            written > 0 && written == before
        });
        let mut turns = 0;
        let until = client.now() + Span::from_millis(300);
        while client.now() < until {
            for it in [&mut client, &mut server] {
                let soon = it.now() + Span::from_millis(10);
                it.poll_once(soon).unwrap();
                turns += 1;
            }
        }
        assert!(turns < 300, "{kind:?}: {turns} turns, with nothing to do");
        assert!(log.written() < bytes / 2, "{kind:?}: {} bytes were taken", log.written());
        *gate.lock().unwrap() = true;
        {
            let mut agent: std::sync::MutexGuard<'_, TestManager> = server.manager();
            agent.poke_all();
        }
        run_hosts(&mut [&mut client, &mut server], 30.0, |hosts| {
            hosts[0].manager().closed_count == 1
        });
        assert!(log.take().contains(&format!("{bytes} bytes came back")), "{kind:?}");
    }
}

/// TLS starts after plain bytes of the application, as in TCPCLv4 (RFC 9174 section 4.4).
#[test]
fn tls_begins_within_a_connection() {
    let (log, echo_log) = (Log::default(), Log::default());
    let keys = test_manager::keys();
    let server_log = echo_log.clone();
    let answers =
        Box::new(move || -> Box<dyn App> { Box::new(EchoServer::securing(server_log.clone())) });
    let mut server =
        test_manager::host_of(vec![test_manager::tcp_socket(4, Some(keys.clone()))], answers);
    let nobody = Box::new(|| -> Box<dyn App> { panic!("nobody calls a client") });
    let mut client = test_manager::host_of(vec![test_manager::tcp_socket(4, Some(keys))], nobody);
    let to = server.local_addr(0).unwrap().to_string();
    client.manager().queue_connect(0, &to, Box::new(EchoClient::securing(BYTES, log.clone())));
    run_hosts(&mut [&mut client, &mut server], 20.0, |hosts| hosts[0].manager().closed_count == 1);
    let messages = log.take();
    assert!(messages.contains(&format!("{BYTES} bytes came back")), "{messages:?}");
    assert!(
        messages.contains(&"secured".to_owned()) && echo_log.take().contains(&"secured".to_owned())
    );
}

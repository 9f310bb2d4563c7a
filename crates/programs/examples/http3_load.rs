//! A load generator for HTTP/3 servers: `http3_load ADDRESS:PORT PATH REQUESTS [AT_ONCE]`. Prints a line of JSON:
//! requests and bytes, wall-clock and processor time of the client.

use std::net::ToSocketAddrs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use nix::sys::resource::{UsageWho, getrusage};
use runtime::{BatchedUdpSocket, QuicDriver, tls};
use transport::perf_load::StreamReport;
use transport::quic::{Crypto, NetworkConfig, QuicEndpoint, QuicSpec, TlsConfig};
use transport::{App, AppEvent, ReadStatus, Streams};
use units::Time;

/// State shared by the application and `main`.
#[derive(Default)]
struct Count {
    bytes: AtomicU64,
    answers: AtomicU64,
    over: AtomicBool,
    began: OnceLock<Time>,
}

/// Requests one path repeatedly.
struct Asking {
    request: Bytes,
    left: u64,
    at_once: u64,
    in_progress: u64,
    count: Arc<Count>,
}

impl Asking {
    fn ask(&mut self, streams: &mut dyn Streams) {
        while self.left > 0 && self.in_progress < self.at_once {
            let Some(id) = streams.open() else { return };
            streams.write(id, self.request.clone());
            streams.finish(id);
            self.left -= 1;
            self.in_progress += 1;
        }
    }
}

impl App for Asking {
    fn on_event(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        match event {
            AppEvent::Ready => {
                if self.count.began.set(now).is_ok()
                    && let Some(id) = streams.open_uni()
                {
                    // Control stream, empty SETTINGS.
                    streams.write(id, Bytes::from_static(&[0, 4, 0]));
                }
                self.ask(streams);
            }
            AppEvent::StreamOpened(id) | AppEvent::Readable(id) => {
                let end = streams.read(id, &mut |_, data| {
                    self.count.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                });
                if end == ReadStatus::Finished && id & 3 == 0 {
                    self.count.answers.fetch_add(1, Ordering::Relaxed);
                    self.in_progress -= 1;
                    self.ask(streams);
                    if self.left == 0 && self.in_progress == 0 {
                        streams.close();
                    }
                }
            }
            AppEvent::Closed => self.count.over.store(true, Ordering::Relaxed),
            _ => {}
        }
        if self.left == 0 && self.in_progress == 0 {
            self.count.over.store(true, Ordering::Relaxed);
        }
    }

    fn poll_at(&self) -> Time {
        Time::MAX
    }

    fn has_data(&self) -> bool {
        false
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &[]
    }
}

/// Builds a HEADERS frame of a GET request without Huffman coding. It has static table entries 17 and 23 (RFC 9204
/// appendix A), and literals with the names of entries 1 and 0.
fn request(path: &str) -> Bytes {
    let mut block = BytesMut::from(&[0, 0, 0xd1, 0xd7, 0x51][..]);
    block.put_u8(path.len() as u8);
    block.put(path.as_bytes());
    block.put(&b"\x50\x0eorigin.example"[..]);
    let mut frame = BytesMut::from(&[1, block.len() as u8][..]);
    frame.put(block);
    frame.freeze()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, path, requests, rest @ ..] = words.as_slice() else {
        return Err("usage: http3_load ADDRESS:PORT PATH REQUESTS [AT_ONCE]".into());
    };
    if path.len() > 32 {
        return Err("a path of at most 32 letters".into());
    }
    let remote = address.to_socket_addrs()?.next().ok_or("no such address")?;
    let at_once = rest.first().map_or(Ok(1), |word| word.parse())?;
    let (tls, _) = tls::client_config("h3", tls::ServerVerification::AcceptAny)?;
    let spec = QuicSpec {
        crypto: Crypto::Rustls,
        initial_window_bytes: 14_720,
        unpaced_burst_packets: 10,
        receive_window_bytes: 64 << 20,
        stream_receive_window_bytes: 64 << 20,
        send_window_bytes: 1 << 20,
        idle_timeout_ns: Some(10_000_000_000),
        ..QuicSpec::default()
    };
    let count = Arc::new(Count::default());
    let (shared, left, asked) = (count.clone(), requests.parse()?, request(path));
    let config = cc::ControllerConfig {
        mss: u64::from(spec.mtu_bytes),
        initial_window: spec.initial_window_bytes,
        initial_rtt: units::Span(spec.initial_rtt_ns),
        seed: 1,
        is_paced: true,
    };
    let endpoint = QuicEndpoint::with_network(
        &NetworkConfig {
            tls: TlsConfig::Client(Arc::new(tls)),
            max_connections: 1,
            handshakes_before_retry: 1,
        },
        &spec,
        Box::new(move |_| {
            let (request, count) = (asked.clone(), shared.clone());
            Box::new(Asking { request, left, at_once, in_progress: 0, count })
        }),
        Box::new(move || {
            cc::build_controller("cubic", &serde_json::json!({}), &config).expect("it is known")
        }),
    )?;
    let local = if remote.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    let mut driver =
        QuicDriver::new(endpoint, BatchedUdpSocket::bind(local.parse()?, Some(remote))?)?;
    driver.endpoint.connect_address(driver.clock.now(), remote, "localhost", &mut driver.socket)?;
    while !count.over.load(Ordering::Relaxed) {
        driver.poll_once(Time::MAX)?;
    }
    let now = driver.clock.now();
    driver.endpoint.close(now, &mut driver.socket);
    let wall = now.since(count.began.get().copied().unwrap_or(now)).0 as f64 / 1e9;
    let (answers, bytes) =
        (count.answers.load(Ordering::Relaxed), count.bytes.load(Ordering::Relaxed));
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let cpu = [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
        .sum::<f64>();
    println!(
        "{}",
        serde_json::json!({
            "answers": answers,
            "bytes": bytes,
            "wall_s": wall,
            "requests_per_s": answers as f64 / wall,
            "mbit_s": bytes as f64 * 8e-6 / wall,
            "cpu_s": cpu,
        })
    );
    Ok(())
}

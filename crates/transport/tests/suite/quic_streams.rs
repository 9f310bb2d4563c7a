//! Features of QUIC beyond bidirectional streams: datagrams, priorities, and a limited number of unidirectional
//! streams. The answers of TCP to these are tested too.

use bytes::Bytes;
use transport::quic::QuicRequirements;
use transport::tcp::TcpEndpoint as Tcp;
use transport::{App, AppEvent, Endpoint, PeerStreams, ReadStatus, Side, Streams};
use units::{Span, Time};

use crate::quic_pair::{ONE_WAY, Part, Script, Shared, WINDOW, run, shared};
use crate::tcp_paths::linux;

const END: Time = Time(20_000_000_000);

fn with_datagrams(bytes: u32) -> QuicRequirements {
    QuicRequirements { datagram_buffer_bytes: Some(bytes), ..QuicRequirements::default() }
}

/// Builds a datagram of 1,000 bytes with a number.
fn numbered(number: u32) -> Bytes {
    let mut data = vec![0; 1000];
    data[..4].copy_from_slice(&number.to_be_bytes());
    data.into()
}

fn send(count: u32, streams: &mut dyn Streams) {
    for number in 0..count {
        assert!(streams.send_datagram(numbered(number)));
    }
}

/// Builds a part that sends `count` datagrams at once, after the handshake is complete and acknowledged.
fn sends(needs: QuicRequirements, count: u32) -> Part {
    let does = move |_, event, streams: &mut dyn Streams| {
        if event == AppEvent::Timer {
            send(count, streams);
        }
    };
    Part { timer: Time(1_000_000_000), ..Part::new(needs, does) }
}

fn take(into: &Shared<Vec<u32>>, streams: &mut dyn Streams) {
    while let Some(data) = streams.take_datagram() {
        assert_eq!(data.len(), 1000);
        into.lock().unwrap().push(u32::from_be_bytes(data[..4].try_into().unwrap()));
    }
}

/// Builds a part that takes every datagram on arrival.
fn takes(needs: QuicRequirements, into: &Shared<Vec<u32>>) -> Part {
    let into = into.clone();
    Part::new(needs, move |_, event, streams| {
        if event == AppEvent::DatagramsReceived {
            take(&into, streams);
        }
    })
}

/// Returns whether a packet carries one datagram of 1,000 bytes.
fn is_full(bytes: u32) -> bool {
    (1028..1252).contains(&bytes)
}

#[test]
fn datagrams_that_are_lost_stay_lost() {
    let datagrams = shared();
    let needs = with_datagrams(1 << 20);
    let (mut full, mut lost) = (0, Vec::new());
    let ([client, _], _) = run(
        [sends(needs, 400), takes(needs, &datagrams)],
        Time(60_000_000_000),
        |(_, from, bytes)| {
            let counts = *from == 0 && is_full(*bytes);
            full += u32::from(counts);
            let loses = counts && full % 20 == 11;
            if loses {
                lost.push(full - 1);
            }
            loses
        },
    );
    assert_eq!(full, 400, "each leaves once, in a packet of its own");
    let expected: Vec<u32> = (0..400).filter(|number| !lost.contains(number)).collect();
    assert_eq!(*datagrams.lock().unwrap(), expected);
    let counters = client.counters();
    assert_eq!((lost.len(), counters.lost_packets), (20, 20));
    assert!(counters.congestion_events > Some(0), "their loss is the controller's affair too");
}

#[test]
fn datagrams_obey_window_and_pacer() {
    let datagrams = shared();
    let needs = with_datagrams(1 << 20);
    let (_, sent) = run([sends(needs, 400), takes(needs, &datagrams)], END, |_| false);
    let full = |sent: &&(Time, usize, u32)| sent.1 == 0 && is_full(sent.2);
    let first = sent.iter().find(full).unwrap().0;
    let round = sent.iter().filter(full).filter(|sent| sent.0 < first + ONE_WAY * 2);
    let bytes: u64 = round.map(|sent| u64::from(sent.2) - 28).sum();
    assert!((WINDOW - 2 * 1252..=WINDOW).contains(&bytes), "{bytes} bytes in the first round trip");
    assert_eq!(datagrams.lock().unwrap().len(), 400);
}

#[test]
fn a_full_send_queue_drops_the_oldest_datagrams() {
    let datagrams = shared();
    // An entry costs 32 bytes: 19 of them fit.
    let needs = with_datagrams(19 * 1032 + 1031);
    run([sends(needs, 100), takes(needs, &datagrams)], END, |_| false);
    assert_eq!(*datagrams.lock().unwrap(), (81..100).collect::<Vec<u32>>());
}

#[test]
fn a_full_receive_queue_drops_the_oldest_datagrams() {
    let datagrams: Shared<Vec<u32>> = shared();
    let (into, needs) = (datagrams.clone(), with_datagrams(1 << 20));
    // It reads too late. 64 KiB are stored although it requested less.
    let mut late = Part::new(with_datagrams(1200), move |_, event, streams| {
        if event == AppEvent::Timer {
            take(&into, streams);
        }
    });
    late.timer = Time(10_000_000_000);
    run([sends(needs, 100), late], END, |_| false);
    assert_eq!(*datagrams.lock().unwrap(), (100 - 65_535 / 1032..100).collect::<Vec<u32>>());
}

#[test]
fn two_sides_above_their_windows_do_not_block_each_other() {
    let needs = with_datagrams(1 << 20);
    let datagrams = [shared(), shared()];
    // Both send at the same instant: the data that fills the windows crosses.
    let part = |into: &Shared<Vec<u32>>| {
        let into = into.clone();
        let does = move |_, event, streams: &mut dyn Streams| match event {
            AppEvent::Timer => send(500, streams),
            AppEvent::DatagramsReceived => take(&into, streams),
            _ => {}
        };
        Part { timer: Time(1_000_000_000), ..Part::new(needs, does) }
    };
    let (ends, _) = run([part(&datagrams[0]), part(&datagrams[1])], END, |_| false);
    for (end, datagrams) in ends.iter().zip(&datagrams) {
        assert_eq!(*datagrams.lock().unwrap(), (0..500).collect::<Vec<u32>>());
        assert_eq!(end.counters().ptos, Some(0), "ACKs did not wait");
    }
}

#[test]
fn small_datagrams_share_packets_and_large_ones_are_refused() {
    let largest = shared();
    let (largest_seen, needs) = (largest.clone(), with_datagrams(1 << 20));
    let client = Part::new(needs, move |_, event, streams| {
        if event == AppEvent::Ready {
            let max_bytes = streams.max_datagram_bytes().unwrap();
            *largest_seen.lock().unwrap() = Some(max_bytes);
            assert!(!streams.send_datagram(vec![0; max_bytes + 1].into()));
            assert!(streams.send_datagram(vec![0; max_bytes].into()));
            for _ in 0..300 {
                assert!(streams.send_datagram(vec![0; 30].into()));
            }
        }
    });
    let datagrams = shared();
    let sizes = datagrams.clone();
    let server = Part::new(needs, move |_, event, streams| {
        while event == AppEvent::DatagramsReceived
            && let Some(data) = streams.take_datagram()
        {
            Vec::push(&mut sizes.lock().unwrap(), data.len());
        }
    });
    let (_, sent) = run([client, server], END, |_| false);
    // First byte, connection id, packet number, type and length, tag (RFC 9000 section 17.3, RFC 9221 section 4).
    let largest = largest.lock().unwrap().unwrap();
    assert!(
        (1252 - 1 - 8 - 4 - 9 - 16..=1252 - 1 - 8 - 1 - 3 - 16).contains(&largest),
        "{largest}"
    );
    let mut expected = vec![30; 301];
    expected[0] = largest;
    assert_eq!(*datagrams.lock().unwrap(), expected);
    let full = sent.iter().filter(|sent| sent.1 == 0 && sent.2 > 1100).count();
    assert!(full <= 2 + 300 * 32 / 1100 + 1, "{full} packets");
}

#[test]
fn datagrams_precede_stream_data() {
    const BYTES: usize = 400_000;
    let datagrams: Shared<Vec<u32>> = shared();
    let (into, needs) = (datagrams.clone(), with_datagrams(1 << 20));
    let whole: Shared<Option<usize>> = shared();
    let end = whole.clone();
    let client = Part::new(needs, |_, event, streams| {
        if event == AppEvent::Ready {
            let id = streams.open().unwrap();
            assert_eq!(streams.write(id, vec![0; BYTES].into()), BYTES);
            streams.finish(id);
            send(50, streams);
        }
    });
    let mut received = 0;
    let server = Part::new(needs, move |_, event, streams| match event {
        AppEvent::StreamOpened(id) | AppEvent::Readable(id) => {
            let state = streams.read(id, &mut |_, data| received += data.len());
            if state == ReadStatus::Finished {
                *end.lock().unwrap() = Some(received);
            }
            // Before the last datagram, only the rest of their packets and of the last packet carries stream data.
            assert!(received < 50 * 250 + 1252 || into.lock().unwrap().len() == 50, "{received}");
        }
        AppEvent::DatagramsReceived => take(&into, streams),
        _ => {}
    });
    run([client, server], END, |_| false);
    assert_eq!(*whole.lock().unwrap(), Some(BYTES));
}

#[test]
fn datagrams_are_disabled_by_default() {
    let asked = shared();
    let checked = asked.clone();
    let client = Part::new(QuicRequirements::default(), move |_, event, streams| {
        if event == AppEvent::Ready {
            assert!(!streams.send_datagram(Bytes::from_static(b"x")));
            assert_eq!((streams.max_datagram_bytes(), streams.take_datagram()), (None, None));
            *checked.lock().unwrap() = true;
        }
    });
    run([client, Part::new(QuicRequirements::default(), |_, _, _| {})], END, |_| false);
    assert!(*asked.lock().unwrap());
}

/// Returns the received bytes of a stream of 300 kB when a later stream of 100 kB with this priority is complete. Every
/// 20th full packet is lost.
fn before(priority: i32) -> usize {
    let client = Part::new(QuicRequirements::default(), move |_, event, streams| {
        if event == AppEvent::Ready {
            for (bytes, priority) in [(300_000, 0), (100_000, priority)] {
                let id = streams.open_uni().unwrap();
                assert!(streams.set_priority(id, priority));
                assert_eq!(streams.write(id, vec![0; bytes].into()), bytes);
                streams.finish(id);
            }
        }
    });
    let before: Shared<Option<usize>> = shared();
    let result = before.clone();
    let mut received = [0, 0];
    let server = Part::new(QuicRequirements::default(), move |_, event, streams| {
        if let AppEvent::StreamOpened(id) | AppEvent::Readable(id) = event {
            let which = usize::from(id > 2);
            streams.read(id, &mut |_, data| received[which] += data.len());
            if received[1] == 100_000 {
                result.lock().unwrap().get_or_insert(received[0]);
            }
        }
    });
    let mut full = 0;
    run([client, server], END, |(_, from, bytes)| {
        let counts = *from == 0 && *bytes > 1200;
        full += u32::from(counts);
        counts && full % 20 == 10
    });
    let before = *before.lock().unwrap();
    before.expect("it came whole")
}

#[test]
fn a_stream_of_higher_priority_overtakes() {
    let (ahead, beside, behind) = (before(1), before(0), before(-1));
    println!("{ahead} bytes before it when urgent, {beside} in turn, {behind} when it can wait");
    // One window may be in transit while the last urgent data is retransmitted.
    assert!(ahead < 60_000, "{ahead}");
    assert!((70_000..200_000).contains(&beside), "{beside}");
    assert!(behind > 290_000, "{behind}");
}

#[test]
fn the_peer_obeys_the_limit_of_unidirectional_streams() {
    const TOTAL: usize = 40;
    // Times of the attempts, and the number of streams then.
    let opened: Shared<Vec<(Time, usize)>> = shared();
    let into = opened.clone();
    let mut count = 0;
    let client = Part::new(QuicRequirements::default(), move |now, event, streams| {
        if event == AppEvent::Ready {
            while count < TOTAL
                && let Some(id) = streams.open_uni()
            {
                count += 1;
                streams.write(id, vec![0; 100].into());
                streams.finish(id);
            }
            into.lock().unwrap().push((now, count));
        }
    });
    let seen: Shared<Vec<PeerStreams>> = shared();
    let (into, mut ended) = (seen.clone(), 0);
    let server = Part::new(
        QuicRequirements { max_uni_streams: 3, ..QuicRequirements::default() },
        move |_, event, streams| {
            if let AppEvent::StreamOpened(id) | AppEvent::Readable(id) = event {
                into.lock().unwrap().extend(streams.peer_uni_streams());
                if streams.read(id, &mut |_, _| {}) == ReadStatus::Finished {
                    ended += 1;
                    if ended == 9 {
                        streams.set_max_uni_streams(8);
                    }
                }
            }
        },
    );
    run([client, server], END, |_| false);
    let opened = opened.lock().unwrap();
    assert_eq!(opened[0].1, 3, "{opened:?}");
    assert_eq!(opened.last().unwrap().1, TOTAL, "{opened:?}");
    // Further streams wait for credit: a round trip adds at most the streams that may be open at once.
    for (earlier, later) in opened.iter().zip(&opened[1..]) {
        let gap = later.0.since(earlier.0);
        let max_growth = if later.1 <= 9 { 3 } else { 8 };
        assert!(later.1 - earlier.1 <= max_growth, "{opened:?}");
        assert!(gap >= Span::ZERO);
    }
    assert!(opened.iter().any(|(_, count)| *count > 9 + 3), "{opened:?}");
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|uni| uni.open <= uni.max_open), "{seen:?}");
    assert_eq!(seen[0].max_open, 3);
    assert_eq!(seen.last().unwrap().max_open, 8);
    assert!(seen.iter().any(|uni| uni.open == 8), "{seen:?}");
}

#[test]
fn tcp_has_one_stream() {
    let asked: Shared<bool> = shared();
    let end = |side| {
        let checked = asked.clone();
        let app = move |_| -> Box<dyn App> {
            let checked = checked.clone();
            let does = move |_, event, streams: &mut dyn Streams| {
                if event == AppEvent::Ready {
                    let stream = streams.open().unwrap();
                    assert!(!streams.set_priority(stream, 1));
                    assert!(!streams.send_datagram(Bytes::from_static(b"x")));
                    assert_eq!(
                        (streams.max_datagram_bytes(), streams.take_datagram()),
                        (None, None)
                    );
                    assert_eq!((streams.open_uni(), streams.peer_uni_streams()), (None, None));
                    *checked.lock().unwrap() = true;
                }
            };
            Box::new(Script { does: Box::new(does), timer: Time::MAX })
        };
        let config = cc::ControllerConfig {
            mss: 1448,
            initial_window: WINDOW,
            initial_rtt: Span::from_secs(1),
            seed: 1,
            is_paced: false,
        };
        let controller =
            move || cc::build_controller("newreno", &serde_json::json!({}), &config).unwrap();
        Tcp::new(side, &linux(), Box::new(app), Box::new(controller))
    };
    let (mut client, mut server) = (end(Side::Client), end(Side::Server));
    let (mut up, mut down) = (Vec::new(), Vec::new());
    client.connect(Time::ZERO, None, &mut up).unwrap();
    for _ in 0..3 {
        up.drain(..).for_each(|payload| server.receive(Time::ZERO, payload, &mut down));
        down.drain(..).for_each(|payload| client.receive(Time::ZERO, payload, &mut up));
    }
    assert!(*asked.lock().unwrap());
}

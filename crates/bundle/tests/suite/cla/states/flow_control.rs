//! Bounds of a session: transfers that wait for the store, and queued refusals.

use bundle::cla::TcpclSpec;
use bundle::{Role, SessionCommand, SessionEvent};
use transport::AppEvent;
use units::{Span, Time};

use super::{CONTACT, PEER_INIT, TestSession, hex};

/// Encodes a transfer of one byte: XFER_SEGMENT with START and END.
fn small_transfer(number: u64) -> String {
    format!("01 03 {number:016x} 00000000 0000000000000001 61")
}

#[test]
fn flow_control_blocks_a_peer_while_transfers_wait_for_the_store() {
    const MAX_EVENTS: u64 = 4096;
    const ALL: u64 = 3 * MAX_EVENTS;
    let spec = TcpclSpec { keepalive_s: 30, ..TcpclSpec::default() };
    let mut talk = TestSession::new(Role::Passive, spec);
    talk.receive_hex(CONTACT);
    talk.receive_hex(&PEER_INIT.replacen("0000", "001e", 1));
    talk.pipe.outgoing.clear();
    talk.events.clear();
    let transfers: String = (0..ALL).map(small_transfer).collect();
    talk.receive_hex(&transfers);
    assert_eq!(talk.events.len() as u64, MAX_EVENTS, "the rest is not parsed");
    // No further bytes are read.
    talk.receive_hex(&small_transfer(ALL));
    talk.receive_hex("01 03");
    assert_eq!(talk.events.len() as u64, MAX_EVENTS);
    assert_eq!(talk.pipe.incoming, hex(&(small_transfer(ALL) + "01 03")));
    // A peer behind flow control does not count as silent.
    talk.now = Time::ZERO + Span::from_secs(600);
    talk.on(AppEvent::Timer);
    assert!(!talk.pipe.closed);
    talk.pipe.outgoing.clear();
    // Each answer admits the next transfer, and acknowledgements remain in sequence.
    let mut number = 0;
    while let Some(SessionEvent::Received { id, .. }) = talk.events.get(number as usize) {
        assert_eq!(*id, number);
        talk.send_command(SessionCommand::ConfirmStored(number));
        talk.expect_sent(&format!("02 03 {number:016x} 0000000000000001"));
        number += 1;
        assert!(talk.events.len() as u64 <= number + MAX_EVENTS);
    }
    assert_eq!(number, ALL + 1);
    // The last message is truncated; it and the end of the stream are detected after the others.
    talk.pipe.end = true;
    talk.on(AppEvent::Readable(0));
    talk.is_over(true);
}

#[test]
fn the_end_of_a_stream_is_handled_after_waiting_transfers() {
    let mut talk = TestSession::established(Role::Passive);
    let transfers: String = (0..5_000).map(small_transfer).collect();
    talk.pipe.end = true;
    talk.receive_hex(&(transfers + "05 00 00"));
    assert!(
        talk.events.iter().all(|event| matches!(event, SessionEvent::Received { .. })),
        "no end yet"
    );
    (0..5_000).for_each(|number| talk.send_command(SessionCommand::ConfirmStored(number)));
    let received =
        talk.events.iter().filter(|event| matches!(event, SessionEvent::Received { .. })).count();
    assert_eq!(received, 5_000);
    talk.is_over(false);
}

#[test]
fn queued_refusals_after_a_waiting_transfer_are_bounded() {
    let mut talk = TestSession::established(Role::Passive);
    let mut words = small_transfer(0);
    // Each announced length exceeds the MRU: all are refused in sequence.
    let refused: String = (1..20_000)
        .map(|number| {
            format!(
                "01 02 {number:016x} 0000000d 00 0001 0008 0000000080000000 0000000000000001 61"
            )
        })
        .collect();
    words += &refused;
    talk.receive_hex(&words);
    assert_eq!((talk.events.len(), talk.pipe.outgoing.len()), (1, 0), "all wait for the first");
    talk.send_command(SessionCommand::ConfirmStored(0));
    // One XFER_ACK, and an XFER_REFUSE for each other transfer.
    assert_eq!(talk.pipe.outgoing.len(), 18 + 19_999 * 10);
}

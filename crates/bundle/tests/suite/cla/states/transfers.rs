//! Transfers in both directions (figures 11 and 12), refusals, and unexpected messages.

use bundle::cla::TcpclSpec;
use bundle::{DeliveryMode, RefusalReason, Role, SessionCommand, SessionEvent};

use super::{CONTACT, LOCAL_INIT, PEER_INIT, TestSession};

#[test]
fn a_transfer_is_segmented_and_each_segment_acknowledged() {
    // Figure 11; the segment MRU of the peer is 4 octets.
    let mut talk = TestSession::established(Role::Active);
    talk.send(8, b"0123456789");
    talk.expect_sent(
        "01 02 0000000000000000 0000000d 00 0001 0008 000000000000000a 0000000000000004 30313233
         01 00 0000000000000000 0000000000000004 34353637
         01 01 0000000000000000 0000000000000002 3839",
    );
    assert!(matches!(talk.events[..], [SessionEvent::Transmitted(8)]));
    talk.receive_hex(
        "02 02 0000000000000000 0000000000000004  02 00 0000000000000000 0000000000000008",
    );
    assert_eq!(talk.events.len(), 1);
    talk.receive_hex("02 01 0000000000000000 000000000000000a");
    assert!(matches!(talk.events[1..], [SessionEvent::Acknowledged { id: 8, durable: true }]));
    talk.expect_sent("");
}

#[test]
fn an_incoming_transfer_is_acknowledged_when_it_is_stored() {
    // Figure 12, with an unknown flag, which the acknowledgement repeats (section 5.2.3).
    let mut talk = TestSession::established(Role::Passive);
    talk.receive_hex("01 82 0000000000000009 00000000 0000000000000003 616263");
    talk.expect_sent("02 82 0000000000000009 0000000000000003");
    talk.receive_hex("01 01 0000000000000009 0000000000000001 64");
    talk.expect_sent("");
    match &talk.events[..] {
        [SessionEvent::Received { id: 0, data, mode: DeliveryMode::Reliable }] => {
            assert_eq!(data.concat(), b"abcd");
        }
        other => panic!("{other:?}"),
    }
    talk.send_command(SessionCommand::ConfirmStored(0));
    talk.expect_sent("02 01 0000000000000009 0000000000000004");
}

#[test]
fn acknowledgements_of_transfers_remain_in_sequence() {
    // Section 5.2.4: "for each transfer preceding the one to be refused, have either acknowledged ... or refused".
    let mut talk = TestSession::established(Role::Passive);
    talk.receive_hex("01 03 0000000000000001 00000000 0000000000000001 61");
    talk.receive_hex("01 03 0000000000000002 00000000 0000000000000001 62");
    talk.send_command(SessionCommand::Refuse(1, RefusalReason::NoResources));
    talk.expect_sent("");
    talk.send_command(SessionCommand::ConfirmStored(0));
    talk.expect_sent("02 03 0000000000000001 0000000000000001  03 02 0000000000000002");
}

#[test]
fn a_refused_transfer_stops_and_late_segments_are_refused_again() {
    let mut talk = TestSession::established(Role::Passive);
    // The announced length exceeds the MRU.
    talk.receive_hex(
        "01 02 0000000000000001 0000000d 00 0001 0008 0000000040000001 0000000000000001 61",
    );
    talk.expect_sent("03 04 0000000000000001");
    talk.receive_hex("01 00 0000000000000001 0000000000000001 62");
    talk.expect_sent("03 00 0000000000000001");
    // The data does not match the announced length (section 5.2.5.1).
    talk.receive_hex(
        "01 02 0000000000000002 0000000d 00 0001 0008 0000000000000005 0000000000000001 61",
    );
    talk.expect_sent("02 02 0000000000000002 0000000000000001");
    talk.receive_hex("01 01 0000000000000002 0000000000000001 62");
    talk.expect_sent("03 04 0000000000000002");
    // An unknown critical extension (section 5.2.5).
    talk.receive_hex("01 03 0000000000000003 00000005 01 1234 0000 0000000000000001 61");
    talk.expect_sent("03 05 0000000000000003");
    assert!(talk.events.is_empty(), "{:?}", talk.events);
    // The session continues.
    talk.receive_hex("01 03 0000000000000004 00000000 0000000000000001 61");
    assert!(matches!(talk.events[..], [SessionEvent::Received { .. }]));
}

#[test]
fn a_refusal_reaches_the_node() {
    for (code, why) in [
        (0, RefusalReason::Unknown),
        (2, RefusalReason::NoResources),
        (4, RefusalReason::NotAcceptable),
    ] {
        let mut talk = TestSession::established(Role::Active);
        talk.send(3, b"abc");
        talk.receive_hex(&format!("03 {code:02x} 0000000000000000"));
        match talk.events.last() {
            Some(SessionEvent::Refused { id: 3, reason }) => assert_eq!(*reason, why),
            other => panic!("{other:?}"),
        }
    }
    let mut talk = TestSession::established(Role::Active);
    talk.send(3, b"abc");
    talk.receive_hex("03 01 0000000000000000");
    assert!(matches!(
        talk.events.last(),
        Some(SessionEvent::Acknowledged { id: 3, durable: true })
    ));
}

#[test]
fn unexpected_messages_are_rejected() {
    // Section 5.1.2, table 4.
    let mut talk = TestSession::established(Role::Active);
    talk.receive_hex("02 01 0000000000000077 0000000000000001");
    talk.expect_sent("06 03 02");
    talk.receive_hex(PEER_INIT);
    talk.expect_sent("06 03 07");
    talk.receive_hex("01 00 0000000000000005 0000000000000002 6162");
    talk.expect_sent("06 03 01");
    // Neither MSG_REJECT nor a keepalive has a response.
    talk.receive_hex("06 03 01 04");
    talk.expect_sent("");
    // An unknown type ends the session.
    talk.receive_hex("f0");
    talk.expect_sent("06 01 f0");
    talk.is_over(true);
    // A transfer before SESS_INIT: its data is skipped.
    let mut talk = TestSession::new(Role::Passive, TcpclSpec::default());
    talk.receive_hex(CONTACT);
    talk.pipe.outgoing.clear();
    talk.receive_hex("01 03 0000000000000001 00000000 0000000000000001 07");
    talk.expect_sent("03 06 0000000000000001 06 03 01");
    talk.receive_hex(PEER_INIT);
    talk.expect_sent(LOCAL_INIT);
}

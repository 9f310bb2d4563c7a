//! The end of a session (figures 13 and 14), and the silence of the peer.

use bundle::cla::TcpclSpec;
use bundle::{RefusalReason, Role, Session, SessionCommand, SessionEvent};
use transport::AppEvent;
use units::{Span, Time};

use super::{CONTACT, TestSession};

#[test]
fn a_session_ends_as_its_initiator() {
    // Figure 13: earlier transfers are acknowledged first.
    let mut talk = TestSession::established(Role::Active);
    talk.send(1, b"abc");
    talk.pipe.outgoing.clear();
    talk.send_command(SessionCommand::Terminate);
    talk.expect_sent("");
    talk.send(2, b"abc");
    assert!(matches!(
        talk.events.last(),
        Some(SessionEvent::Refused { id: 2, reason: RefusalReason::Terminating })
    ));
    talk.receive_hex("02 03 0000000000000000 0000000000000003");
    talk.expect_sent("05 00 00");
    assert!(!talk.pipe.closed);
    // A new transfer is refused in the Ending state (section 6.1).
    talk.receive_hex("01 03 0000000000000001 00000000 0000000000000001 61");
    talk.expect_sent("03 06 0000000000000001");
    talk.receive_hex("05 01 00");
    talk.is_over(false);
}

#[test]
fn a_session_ends_as_its_responder() {
    // Figure 14: the reply repeats the reason with REPLY; started transfers are completed.
    let mut talk = TestSession::established(Role::Passive);
    talk.receive_hex("01 02 0000000000000001 00000000 0000000000000001 61");
    talk.pipe.outgoing.clear();
    talk.receive_hex("05 00 00");
    talk.expect_sent("05 01 00");
    assert!(!talk.pipe.closed);
    talk.receive_hex("01 01 0000000000000001 0000000000000001 62");
    assert!(!talk.pipe.closed);
    talk.send_command(SessionCommand::ConfirmStored(0));
    talk.expect_sent("02 01 0000000000000001 0000000000000002");
    talk.is_over(false);
}

#[test]
fn a_closed_connection_without_sess_term_is_an_error() {
    let mut talk = TestSession::established(Role::Passive);
    talk.pipe.end = true;
    talk.on(AppEvent::Readable(0));
    talk.is_over(true);
}

#[test]
fn the_keepalive_interval_is_the_minimum_of_both_sides() {
    // Sections 4.7 and 5.1.1.
    let mut talk =
        TestSession::new(Role::Active, TcpclSpec { keepalive_s: 30, ..TcpclSpec::default() });
    talk.receive_hex(CONTACT);
    talk.receive_hex("07 000a 0000000000000004 0000000040000000 0000 00000000");
    talk.pipe.outgoing.clear();
    assert_eq!(talk.session.poll_at(), Time::ZERO + Span::from_secs(10));
    talk.now = talk.session.poll_at();
    talk.on(AppEvent::Timer);
    talk.expect_sent("04");
    talk.now = Time::ZERO + Span::from_secs(20);
    talk.on(AppEvent::Timer);
    talk.expect_sent("05 00 01");
    talk.is_over(true);
}

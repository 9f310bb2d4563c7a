//! Contact headers and SESS_INIT (figures 5 to 10), and the node ID of the peer.

use bundle::cla::{ConnectionParameters, TcpclSpec};
use bundle::{DeliveryMode, Role, Session, SessionCommand, SessionEvent, Transfer};
use bytes::Bytes;
use transport::AppEvent;
use units::{Span, Time};

use super::{CONTACT, LOCAL_INIT, PEER_INIT, TestSession, hex};

#[test]
fn contact_and_session_begin_as_active_entity() {
    // Figures 5, 7 and 8.
    let mut talk = TestSession::new(Role::Active, TcpclSpec::default());
    talk.expect_sent(CONTACT);
    talk.receive_hex("64746e21 04");
    talk.expect_sent("");
    talk.receive_hex("01");
    talk.expect_sent(LOCAL_INIT);
    talk.send(5, b"abc");
    talk.expect_sent("");
    talk.receive_hex(PEER_INIT);
    let peer = Some("ipn:9.0".to_owned());
    match &talk.events[0] {
        SessionEvent::Established { peer: peer_id, max_bundle_bytes: max_bytes } => {
            assert_eq!((peer_id, *max_bytes), (&peer, Some(1 << 30)));
        }
        other => panic!("{other:?}"),
    }
    talk.expect_sent("01 03 0000000000000000 00000000 0000000000000003 616263");
}

#[test]
fn contact_and_session_begin_as_passive_entity() {
    // Figures 6, 7 and 9: the passive entity sends only after the peer.
    let mut talk = TestSession::new(Role::Passive, TcpclSpec::default());
    talk.expect_sent("");
    talk.receive_hex(CONTACT);
    talk.expect_sent(CONTACT);
    talk.receive_hex(PEER_INIT);
    talk.expect_sent(LOCAL_INIT);
    assert!(matches!(talk.events[..], [SessionEvent::Established { .. }]));
}

#[test]
fn a_silent_peer_ends_the_connection_before_the_session() {
    // The timeouts of figures 5, 6, 8 and 9.
    for (role, received) in
        [(Role::Active, ""), (Role::Passive, ""), (Role::Active, CONTACT), (Role::Passive, CONTACT)]
    {
        let mut talk = TestSession::new(role, TcpclSpec::default());
        talk.receive_hex(received);
        assert_eq!(talk.session.poll_at(), Time::ZERO + Span::from_secs(60));
        talk.now = talk.session.poll_at();
        talk.on(AppEvent::Timer);
        talk.is_over(true);
        assert_eq!(talk.session.poll_at(), Time::MAX);
    }
}

#[test]
fn an_invalid_contact_header_gets_no_reply() {
    // Section 6.1: closed without SESS_TERM.
    for (role, expected) in [(Role::Active, CONTACT), (Role::Passive, "")] {
        let mut talk = TestSession::new(role, TcpclSpec::default());
        talk.receive_hex("474554202f20");
        talk.expect_sent(expected);
        talk.is_over(true);
    }
}

#[test]
fn another_version_is_refused_by_the_passive_entity() {
    // Section 4.3: "SHALL send its Contact Header and immediately terminate", reason 2.
    let mut talk = TestSession::new(Role::Passive, TcpclSpec::default());
    talk.receive_hex("64746e21 03 00");
    talk.expect_sent(&format!("{CONTACT} 05 00 02"));
    talk.is_over(true);
    let mut talk = TestSession::new(Role::Active, TcpclSpec::default());
    talk.expect_sent(CONTACT);
    talk.receive_hex("64746e21 03 00");
    talk.expect_sent("");
    talk.is_over(true);
}

#[test]
fn a_session_with_unacceptable_parameters_is_refused() {
    // Section 4.8: an unknown critical extension; reason 4. Figure 10.
    let mut talk = TestSession::new(Role::Active, TcpclSpec::default());
    talk.receive_hex(CONTACT);
    talk.pipe.outgoing.clear();
    talk.receive_hex("07 0000 0000000000010000 0000000040000000 0000 00000005 01 1234 0000");
    talk.expect_sent("05 00 04");
    talk.is_over(true);
}

/// A peer with an unexpected node ID gets SESS_TERM with Contact Failure, and no queued bundle.
#[test]
fn a_peer_with_an_unexpected_node_id_is_refused_with_the_reason() {
    for (expected, taken) in [("ipn:9.0", true), ("ipn:8.0", false), ("dtn://nine/", false)] {
        let terms = ConnectionParameters {
            expected_peer: Some(expected.to_owned()),
            ..ConnectionParameters::default()
        };
        let mut talk = TestSession::with(Role::Active, TcpclSpec::default(), terms);
        let transfer = Transfer {
            id: 5,
            data: vec![Bytes::from_static(b"a bundle")],
            mode: DeliveryMode::Reliable,
            priority: 1,
        };
        talk.send_command(SessionCommand::Send(transfer));
        talk.expect_reply(CONTACT, &format!("{CONTACT} {LOCAL_INIT}"));
        talk.pipe.incoming = hex(PEER_INIT);
        let before = talk.pipe.outgoing.len();
        talk.on(AppEvent::Readable(0));
        if taken {
            assert!(
                matches!(talk.events[0], SessionEvent::Established { .. }),
                "{:?}",
                talk.events
            );
            continue;
        }
        assert_eq!(talk.pipe.outgoing[before..], hex("05 00 04"));
        let why = format!("the peer has the node id \"ipn:9.0\", expected {expected}");
        assert!(
            matches!(&talk.events[..], [SessionEvent::Closed { error: Some(error) }] if *error == why)
        );
    }
}

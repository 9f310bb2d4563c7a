//! TLS after the contact headers (section 4.4), by policy.

use bundle::cla::{TcpclSpec, TlsPolicy};
use bundle::{Role, Session, SessionEvent};
use transport::AppEvent;
use units::{Span, Time};

use super::{CONTACT, LOCAL_INIT, PEER_INIT, TestSession};

const CAN_TLS: &str = "64746e21 04 01";

fn tls(role: Role, tls: TlsPolicy) -> TestSession {
    TestSession::new(role, TcpclSpec { tls, ..TcpclSpec::default() })
}

/// Section 4.3: TLS is used if both contact headers have the flag. SESS_INIT follows its handshake.
#[test]
fn tls_starts_after_both_contact_headers() {
    for policy in [TlsPolicy::Allow, TlsPolicy::Require] {
        let mut active = tls(Role::Active, policy);
        active.expect_reply(CAN_TLS, CAN_TLS);
        assert_eq!(active.pipe.secured_after, Some(6));
        assert!(active.events.is_empty() && !active.pipe.closed);
        active.on(AppEvent::Ready);
        active.expect_reply(PEER_INIT, LOCAL_INIT);
        assert!(
            matches!(&active.events[..], [SessionEvent::Established { .. }]),
            "{:?}",
            active.events
        );

        let mut passive = tls(Role::Passive, policy);
        passive.expect_reply(CAN_TLS, CAN_TLS);
        assert_eq!(passive.pipe.secured_after, Some(6), "its own header goes before, in the clear");
        passive.on(AppEvent::Ready);
        passive.expect_reply(PEER_INIT, LOCAL_INIT);
        assert!(
            matches!(&passive.events[..], [SessionEvent::Established { .. }]),
            "{:?}",
            passive.events
        );
    }
}

#[test]
fn without_tls_support_of_the_peer_the_policy_decides() {
    let mut allows = tls(Role::Active, TlsPolicy::Allow);
    allows.expect_reply(CONTACT, &format!("{CAN_TLS} {LOCAL_INIT}"));
    assert_eq!((allows.pipe.secured_after, allows.pipe.closed), (None, false));
    for role in [Role::Active, Role::Passive] {
        // SESS_TERM, Contact Failure
        let mut requires = tls(role, TlsPolicy::Require);
        requires.expect_reply(CONTACT, &format!("{CAN_TLS} 05 00 04"));
        assert!(requires.pipe.closed);
        let why = "the peer does not support TLS, which this node requires";
        assert!(
            matches!(&requires.events[..], [SessionEvent::Closed { error: Some(error) }] if error == why)
        );
    }
    // A side with policy `No` sends no flag, regardless of the peer.
    let mut no = tls(Role::Active, TlsPolicy::No);
    no.expect_reply(CAN_TLS, &format!("{CONTACT} {LOCAL_INIT}"));
    assert_eq!(no.pipe.secured_after, None);
}

/// Bytes after a contact header with the TLS flag are unauthenticated: anyone on the path can insert them.
#[test]
fn bytes_before_the_tls_handshake_are_refused() {
    for role in [Role::Active, Role::Passive] {
        let mut talk = tls(role, TlsPolicy::Allow);
        talk.expect_reply(&format!("{CAN_TLS} {PEER_INIT}"), CAN_TLS);
        assert!(talk.pipe.closed && talk.pipe.secured_after.is_none());
        let why = "the peer sent data after its contact header before the TLS handshake";
        assert!(
            matches!(&talk.events[..], [SessionEvent::Closed { error: Some(error) }] if error == why)
        );
    }
}

#[test]
fn a_transport_without_keys_ends_the_session() {
    let mut talk = tls(Role::Active, TlsPolicy::Allow);
    talk.pipe.keys = false;
    talk.expect_reply(CAN_TLS, CAN_TLS);
    let why = "this node has no TLS keys";
    assert!(
        matches!(&talk.events[..], [SessionEvent::Closed { error: Some(error) }] if error == why)
    );
}

/// An incomplete TLS handshake has the same timeout as every other message.
#[test]
fn an_incomplete_tls_handshake_times_out() {
    let mut talk = tls(Role::Passive, TlsPolicy::Require);
    talk.expect_reply(CAN_TLS, CAN_TLS);
    talk.now = talk.session.poll_at();
    assert_eq!(talk.now, Time::ZERO + Span::from_secs(60));
    talk.on(AppEvent::Timer);
    let why = "the peer is silent";
    assert!(
        matches!(&talk.events[..], [SessionEvent::Closed { error: Some(error) }] if error == why)
    );
}

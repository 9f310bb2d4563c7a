//! Redirects of a page: their duration, and the errors of invalid ones.

use crate::web_loads::{Page, RTT_S, merge, near, object};
use serde_json::{Value, json};

/// Returns a response without body that redirects to object `to`.
fn leads(name: &str, host: u32, to: u32, after: &[u32]) -> Value {
    merge(object(name, host, 0, after), &json!({"redirect": to}))
}

/// A document behind two redirects: http to https, and another one on the same connection. The load starts with the
/// first, and its response time is that of the document.
#[test]
fn redirects_are_sequential() {
    for (http, handshake) in [("1.1", 2.0), ("2", 2.0), ("3", 1.0)] {
        let page = Page {
            hosts: json!([{"name": "http://a.example", "open": false, "tls": false},
                {"name": "a.example", "open": false}]),
            objects: json!([
                leads("http", 0, 1, &[]),
                leads("https", 1, 2, &[0]),
                object("document", 1, 1000, &[1]),
                object("picture", 1, 1000, &[2]),
            ]),
            changes: json!({"http": http}),
            ..Page::default()
        };
        let run = page.run();
        let pages = run.table("pages");
        let trips = |name: &str| pages.numbers(name)[0] / RTT_S;
        // TCP and a request; the handshake of the other host, its request; the document; the picture.
        let document = 2.0 + handshake + 1.0 + 1.0;
        for (name, expected) in [
            ("ttr_s", document),
            ("plt_s", document + 1.0),
            ("connect_start_s", 0.0),
            ("connect_end_s", 1.0),
            ("request_start_s", 1.0),
            ("content_loaded_s", document + 1.0),
        ] {
            assert!(near(trips(name), expected, 0.01), "{http} {name}: {}", trips(name));
        }
        let queued = run.table("requests").numbers("queued_s");
        let ends = run.table("requests").numbers("end_s");
        assert!(
            (1..4).all(|index| near(queued[index], ends[index - 1], 1e-9)),
            "{queued:?} {ends:?}"
        );
    }
}

/// A browser parses responses, but no redirects. The target of a redirect belongs to the content if the redirect does.
#[test]
fn a_redirect_is_followed_at_once_and_its_target_is_content() {
    let (parse_s, thinks) = (1.0, json!({"think_ns": 200_000_000}));
    let page = Page {
        objects: json!([
            leads("first", 0, 1, &[]),
            object("document", 0, 1000, &[0]),
            leads("old.png", 0, 3, &[1]),
            object("new.png", 0, 1000, &[2]),
            object("late.js", 0, 1000, &[3]),
            object("script.js", 0, 1000, &[1]),
            merge(leads("old.js", 0, 7, &[1]), &thinks),
            object("new.js", 0, 1000, &[6, 5]),
        ]),
        changes: json!({"parse_ns": 1_000_000_000u64}),
        ..Page::default()
    };
    let run = page.run();
    let of = |column: &str| {
        let mut found = vec![0.0; 8];
        let names =
            ["first", "document", "old.png", "new.png", "late.js", "script.js", "old.js", "new.js"];
        let table = run.table("requests");
        for (name, value) in table.names("object").iter().zip(table.numbers(column)) {
            found[names.iter().position(|known| known == name).unwrap()] = value;
        }
        found
    };
    let (queued, end) = (of("queued_s"), of("end_s"));
    for (index, expected) in [
        (1, end[0]),
        (2, end[1] + parse_s),
        (3, end[2]),
        (4, end[3] + parse_s),
        (6, end[1] + parse_s),
        (7, end[5] + parse_s), // the redirect ends while the script is still parsed
    ] {
        assert!(near(queued[index], expected, 1e-6), "{index}: {queued:?} {end:?}");
    }
    assert!(end[5] + 0.1 < end[6] && end[6] < end[7] && end[3] < end[7], "{end:?}");
    let pages = run.table("pages");
    let (content, whole) =
        (pages.numbers("content_loaded_s")[0], pages.numbers("load_event_end_s")[0]);
    assert!(near(content, end[7], 1e-6), "{content} {end:?}");
    assert!(near(whole, end[4].max(end[7]), 1e-6), "{whole} {end:?}");
}

/// A redirect has one target, which depends on it.
#[test]
fn inconsistent_redirects_are_refused() {
    for (to, after, expected) in [
        (5, vec![0], "found redirect 5, expected less than 2"),
        (1, vec![], "does not wait for its redirect"),
        (0, vec![0], "does not wait for its redirect"),
    ] {
        let first = merge(object("main", 0, 0, &[]), &json!({"redirect": to}));
        let page = Page { objects: json!([first, object("a", 0, 1, &after)]), ..Page::default() };
        let error = page.try_run().expect_err("it is refused");
        assert!(error.contains(expected), "{error}");
    }
}

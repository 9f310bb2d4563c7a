//! Validation of a [`WebSpec`].

use super::WebSpec;

/// Checks `spec`.
///
/// # Errors
/// The invalid setting, in words, with its key.
pub(super) fn check(spec: &WebSpec) -> Result<(), String> {
    let page = &spec.page;
    let fail = |error: String| Err(format!("page {:?}: {error}", page.name));
    if page.objects.is_empty() {
        return fail("it has no objects; the first one is the main document".to_owned());
    }
    for object in &page.objects {
        let name = &object.name;
        if object.host as usize >= page.hosts.len() {
            let (host, count) = (object.host, page.hosts.len());
            return fail(format!(
                "object {name:?}: host {host} of {count} hosts (they count from 0)"
            ));
        }
        if let Some(after) =
            object.after.iter().find(|after| **after as usize >= page.objects.len())
        {
            let count = page.objects.len();
            return fail(format!("object {name:?}: after {after} of {count} objects"));
        }
        // One frame of HTTP/2 carries a header block (RFC 9113 section 4.2).
        if object.request_bytes.max(object.response_header_bytes) > 16_000 {
            return fail(format!("object {name:?}: a header block of more than 16,000 bytes"));
        }
    }
    let mut led = vec![false; page.objects.len()];
    for (index, object) in page.objects.iter().enumerate() {
        let Some(to) = object.redirect else { continue };
        let Some(target) = page.objects.get(to as usize) else {
            let (name, count) = (&object.name, page.objects.len());
            return fail(format!("object {name:?}: redirect {to} of {count} objects"));
        };
        if !target.after.contains(&(index as u32)) {
            return fail(format!("object {:?} does not wait for its redirect", target.name));
        }
        if std::mem::replace(&mut led[to as usize], true) {
            return fail(format!("object {:?}: two objects redirect to it", target.name));
        }
    }
    let mut come = vec![false; page.objects.len()];
    // Each round finds at least one more object, or the rest is a cycle.
    while let Some(next) = (0..come.len()).find(|index| {
        !come[*index] && page.objects[*index].after.iter().all(|after| come[*after as usize])
    }) {
        come[next] = true;
    }
    if let Some(stuck) = come.iter().position(|come| !come) {
        return fail(format!("object {:?} waits for itself", page.objects[stuck].name));
    }
    if !page.objects[0].after.is_empty() {
        return fail("the first object is the main document, and waits for nothing".to_owned());
    }
    if spec.loads == 0 {
        return fail("loads = 0: at least 1".to_owned());
    }
    if spec.pause_ns.0 > spec.pause_ns.1 {
        return fail("the least pause is longer than the largest".to_owned());
    }
    if spec.connections_per_host == 0 {
        return fail("connections_per_host = 0: at least 1 (6 in browsers)".to_owned());
    }
    if spec.tls.early_data && !spec.tls.resumption {
        return fail("early_data needs resumption: it is sent under a resumed session".to_owned());
    }
    // At least the version and the random bytes (RFC 8446 section 4.1.2).
    if spec.tls.client_hello_bytes < 100 {
        let bytes = spec.tls.client_hello_bytes;
        return fail(format!("client_hello_bytes = {bytes}: at least 100"));
    }
    Ok(())
}

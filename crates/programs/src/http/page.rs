//! Converts a page of a scenario to documents and objects that a real browser loads like the simulated one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use http::HeaderValue;
use serde::Serialize;
use transport::web::{ObjectSpec, PageSpec};

use super::filler::{BodyFiller, MIN_PICTURE_BYTES};
use super::site::Resource;

/// The path of a page that opens a connection before a measurement.
const OPENER: &str = "/.ok";

/// The body of that page. The empty icon stops browsers from requesting /favicon.ico.
const OPENER_BODY: &str = "<!doctype html><link rel=icon href=data:,><title>ok</title>";

/// Adds an object once all objects that it depends on have loaded (load events do not bubble, but can be captured). An
/// entry contains number, host, kind, and the dependencies.
const LOADER: &str = r#"<script>!function(H,T){document.addEventListener("load",function(v){var m=/(\d+)\.\w+$/.exec(v.target.src||v.target.href||"");m&&T.forEach(function(t){var p=t.indexOf(+m[1],3),k=t[2],u,e;if(p>2&&(t.splice(p,1),t.length==3)){u=H[t[1]]+"/"+t[0]+[".png",".js",".css"][k];e=document.createElement(["img","script","link"][k]);k==2?(e.rel="stylesheet",e.href=u):e.src=u;document.body.appendChild(e)}})},!0)}("#;
const LOADER_END: &str = ")</script>";

/// The type of an object in a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectKind {
    Picture,
    Script,
    Style,
}

impl ObjectKind {
    /// Derives the kind from the name of an object. Unknown names are images, because objects fetched by a script do
    /// not delay the `load` event. Objects too short for an image are scripts, which can be empty.
    fn from_object(object: &ObjectSpec) -> ObjectKind {
        let name = object.name.split(['?', '#']).next().unwrap_or("").to_ascii_lowercase();
        if object.body_bytes < MIN_PICTURE_BYTES
            || name.starts_with("script")
            || name.ends_with(".js")
            || name.ends_with(".mjs")
        {
            ObjectKind::Script
        } else if name.starts_with("style") || name.ends_with(".css") {
            ObjectKind::Style
        } else {
            ObjectKind::Picture
        }
    }

    fn extension(self) -> &'static str {
        match self {
            ObjectKind::Picture => "png",
            ObjectKind::Script => "js",
            ObjectKind::Style => "css",
        }
    }

    fn number(self) -> u8 {
        match self {
            ObjectKind::Picture => 0,
            ObjectKind::Script => 1,
            ObjectKind::Style => 2,
        }
    }

    fn tag(self, url: &str) -> String {
        match self {
            ObjectKind::Picture => format!("<img src={url}>"),
            ObjectKind::Script => format!("<script async src={url}></script>"),
            ObjectKind::Style => format!("<link rel=stylesheet href={url}>"),
        }
    }
}

/// An object in the ready line.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ServedObject {
    pub(super) name: String,
    pub(super) url: String,
    #[serde(rename = "type")]
    pub(super) content_type: &'static str,
    pub(super) bytes: u64,
    pub(super) after: Vec<u32>,
}

/// A page that is ready to be served.
pub(super) struct BuiltPage {
    pub(super) resources: BTreeMap<String, Resource>,
    pub(super) objects: Vec<ServedObject>,
}

/// Builds a page for a server at `port`; `authorities`: names and ports of hosts in URLs, by label.
///
/// # Errors
/// The object that cannot be served, and the reason.
pub(super) fn build(
    page: &PageSpec,
    authorities: &BTreeMap<String, String>,
    port: u16,
) -> Result<BuiltPage, String> {
    check(page)?;
    let known = page.hosts.iter().map(|host| &host.name);
    if let Some(stray) = authorities.keys().find(|label| !known.clone().any(|name| name == *label))
    {
        let names: Vec<&str> = known.map(String::as_str).collect();
        return Err(format!(
            "content: authorities: found \"{stray}\", expected a host of the page: {}",
            names.join(", ")
        ));
    }
    let origins: Vec<String> = page
        .hosts
        .iter()
        .map(|host| {
            let scheme = if host.tls { "https" } else { "http" };
            match authorities.get(&host.name) {
                Some(authority) => format!("{scheme}://{authority}"),
                None => format!("{scheme}://{}.example:{port}", label(&host.name)),
            }
        })
        .collect();
    let filler = BodyFiller::new();
    let plan = PageLayout::from_page(page);
    let mut resources = BTreeMap::new();
    let mut objects = Vec::new();
    for (index, object) in page.objects.iter().enumerate() {
        let (content_type, body) = if index == plan.document {
            document(page, &plan, &origins, &filler)?
        } else {
            body(plan.kinds[index], object.body_bytes, &filler)
        };
        let path = plan.path(index);
        objects.push(ServedObject {
            name: object.name.clone(),
            url: format!("{}{path}", origins[object.host as usize]),
            content_type,
            bytes: object.body_bytes,
            after: object.after.clone(),
        });
        let location = object.redirect.map(|to| {
            let host = page.objects[to as usize].host as usize;
            format!("{}{}", origins[host], plan.path(to as usize))
        });
        let location = location.map(|url| HeaderValue::from_str(&url)).transpose();
        let location =
            location.map_err(|error| format!("content: page: {}: {error}", object.name))?;
        let think = Duration::from_nanos(object.think_ns);
        let header_bytes = Some(object.response_header_bytes);
        resources.insert(
            path,
            Resource { content_type, body, think_time: think, header_bytes, location },
        );
    }
    let opener = Resource {
        content_type: "text/html; charset=utf-8",
        body: vec![OPENER_BODY.into()],
        think_time: Duration::ZERO,
        header_bytes: None,
        location: None,
    };
    resources.insert(OPENER.to_owned(), opener);
    Ok(BuiltPage { resources, objects })
}

fn check(page: &PageSpec) -> Result<(), String> {
    if page.objects.is_empty() {
        return Err("content: page: found no object, expected at least the document".to_owned());
    }
    let count = page.objects.len();
    for object in &page.objects {
        if object.host as usize >= page.hosts.len() {
            return Err(format!("content: page: {}: unknown host {}", object.name, object.host));
        }
        if let Some(stray) = object.after.iter().find(|after| **after as usize >= count) {
            return Err(format!("content: page: {}: unknown object {stray}", object.name));
        }
        if let Some(stray) = object.redirect.filter(|to| *to as usize >= count || *to == 0) {
            return Err(format!(
                "content: page: {}: found a redirect to object {stray}, expected 1 to {}",
                object.name,
                count - 1
            ));
        }
    }
    Ok(())
}

/// The references from a page to its objects.
struct PageLayout {
    /// The document, at the end of the redirects of the first object.
    document: usize,
    /// The document and the redirects to it.
    chain: Vec<usize>,
    /// Per object, the object that the page references for it: the first of its redirects, or itself.
    entry_objects: Vec<usize>,
    /// Per object: a redirect has the kind of its target, because a browser knows the kind only from the reference.
    kinds: Vec<ObjectKind>,
}

impl PageLayout {
    fn from_page(page: &PageSpec) -> PageLayout {
        let count = page.objects.len();
        let mut first: Vec<usize> = (0..count).collect();
        let mut kinds: Vec<ObjectKind> = page.objects.iter().map(ObjectKind::from_object).collect();
        let mut is_target = vec![false; count];
        for to in page.objects.iter().filter_map(|object| object.redirect) {
            is_target[to as usize] = true;
        }
        let mut chain = Vec::new();
        for start in (0..count).filter(|index| !is_target[*index]) {
            let next = |at: &usize| page.objects[*at].redirect.map(|to| to as usize);
            let redirects: Vec<usize> =
                std::iter::successors(Some(start), next).take(count).collect();
            let kind = redirects.last().map_or(kinds[start], |last| kinds[*last]);
            for index in &redirects {
                (first[*index], kinds[*index]) = (start, kind);
            }
            if start == 0 {
                chain = redirects;
            }
        }
        PageLayout {
            document: chain.last().copied().unwrap_or(0),
            chain,
            entry_objects: first,
            kinds,
        }
    }

    fn path(&self, index: usize) -> String {
        match index {
            0 => "/".to_owned(),
            _ if index == self.document => format!("/{index}.html"),
            _ => path(index, self.kinds[index]),
        }
    }
}

/// Converts a host name to a label of a domain name (RFC 1123 section 2.1).
fn label(name: &str) -> String {
    let label: String =
        name.chars()
            .map(|character| {
                if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' }
            })
            .take(63)
            .collect();
    let label = label.trim_matches('-');
    if label.is_empty() { "host".to_owned() } else { label.to_owned() }
}

fn path(index: usize, kind: ObjectKind) -> String {
    format!("/{index}.{}", kind.extension())
}

/// Returns type and body of an object; the body is spaces if it is too short for a comment.
fn body(kind: ObjectKind, length: u64, filler: &BodyFiller) -> (&'static str, Vec<bytes::Bytes>) {
    let comment = || {
        filler.between(b"/*", b"*/", length).unwrap_or_else(|| {
            if length == 0 { Vec::new() } else { vec![vec![b' '; length as usize].into()] }
        })
    };
    match kind {
        ObjectKind::Picture => filler.picture(length).unwrap_or_else(|| ("image/gif", comment())),
        ObjectKind::Script => ("application/javascript", comment()),
        ObjectKind::Style => ("text/css", comment()),
    }
}

/// Returns whether a page is a single image, which a browser shows without a document.
fn is_picture(page: &PageSpec) -> bool {
    const WORDS: [&str; 5] = ["picture", "image", "photo", "img", "logo"];
    let ends = [".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif"];
    let name = page.objects[0].name.to_ascii_lowercase();
    page.objects.len() == 1
        && (WORDS.iter().any(|word| name.starts_with(word))
            || ends.iter().any(|end| name.ends_with(end)))
}

/// Returns type and body of the document. References are at its end, because the simulated browser sends no request
/// before the document is complete.
fn document(
    page: &PageSpec,
    plan: &PageLayout,
    origins: &[String],
    filler: &BodyFiller,
) -> Result<(&'static str, Vec<bytes::Bytes>), String> {
    let main = &page.objects[plan.document];
    if is_picture(page)
        && let Some(picture) = filler.picture(main.body_bytes)
    {
        return Ok(picture);
    }
    let head = "<!doctype html><link rel=icon href=data:,><body><!--";
    let tail = format!("-->{}", references(page, plan, origins));
    let body = filler.between(head.as_bytes(), tail.as_bytes(), main.body_bytes);
    let body = body.ok_or_else(|| {
        format!(
            "content: page: the document \"{}\" has {} bytes, expected at least {} for links to its {} objects",
            main.name,
            main.body_bytes,
            head.len() + tail.len(),
            page.objects.len() - plan.chain.len()
        )
    })?;
    Ok(("text/html; charset=utf-8", body))
}

/// Returns the tags of the objects referenced by the document itself, after the loader of the others.
fn references(page: &PageSpec, plan: &PageLayout, origins: &[String]) -> String {
    let main = page.objects[plan.document].host;
    let (mut tags, mut table) = (String::new(), String::new());
    for (index, object) in page.objects.iter().enumerate().skip(1) {
        // The other objects are targets of redirects.
        if plan.entry_objects[index] != index {
            continue;
        }
        let kind = plan.kinds[index];
        let others = object.after.iter().map(|after| plan.entry_objects[*after as usize]);
        let others: BTreeSet<usize> = others.filter(|after| *after != 0).collect();
        if others.is_empty() {
            tags += &kind.tag(&url(main, index, object, kind, origins));
            continue;
        }
        if !table.is_empty() {
            table.push(',');
        }
        let _ = write!(table, "[{index},{},{}", object.host, kind.number());
        for other in others {
            let _ = write!(table, ",{other}");
        }
        table.push(']');
    }
    if table.is_empty() {
        return tags;
    }
    let hosts: Vec<&str> = origins
        .iter()
        .enumerate()
        .map(|(index, origin)| if index == main as usize { "" } else { origin })
        .collect();
    let hosts = serde_json::to_string(&hosts).unwrap_or_default();
    format!("{LOADER}{hosts},[{table}]{LOADER_END}{tags}")
}

fn url(
    main: u32,
    index: usize,
    object: &ObjectSpec,
    kind: ObjectKind,
    origins: &[String],
) -> String {
    let path = path(index, kind);
    if object.host == main { path } else { format!("{}{path}", origins[object.host as usize]) }
}

#[cfg(test)]
mod tests {
    use transport::web::HostSpec;

    use super::*;

    fn object(name: &str, body_bytes: u64, after: &[u32], host: u32) -> ObjectSpec {
        ObjectSpec {
            name: name.to_owned(),
            host,
            request_bytes: 50,
            response_header_bytes: 100,
            body_bytes,
            after: after.to_vec(),
            redirect: None,
            think_ns: 0,
        }
    }

    fn page(objects: Vec<ObjectSpec>) -> PageSpec {
        let hosts = ["origin", "cdn 1"].map(|name| HostSpec {
            name: name.to_owned(),
            open: false,
            tls: true,
        });
        PageSpec { name: "page".to_owned(), hosts: hosts.to_vec(), objects }
    }

    fn text(page: &BuiltPage, path: &str) -> String {
        String::from_utf8(page.resources[path].body.concat()).unwrap()
    }

    #[test]
    fn every_object_has_its_size_and_the_document_refers_to_it() {
        let mut objects = vec![object("index", 3000, &[], 0)];
        for (index, size) in [0, 1, 3, 4, 34, 35, 90, 91, 94, 95, 5000].into_iter().enumerate() {
            for kind in ["image", "script", "style"] {
                objects.push(object(&format!("{kind}-{index}"), size, &[0], 0));
            }
        }
        let built = build(&page(objects), &BTreeMap::new(), 443).unwrap();
        for served in &built.objects {
            let path = served.url.strip_prefix("https://origin.example:443").unwrap();
            let found: u64 =
                built.resources[path].body.iter().map(|piece| piece.len() as u64).sum();
            assert_eq!(found, served.bytes, "{path}");
            assert!(path == "/" || text(&built, "/").contains(&format!("={path}>")), "{path}");
        }
        assert!(!text(&built, "/").contains("addEventListener"));
    }

    #[test]
    fn dependent_objects_are_in_the_loader_alone() {
        let objects = vec![
            object("index", 1200, &[], 0),
            object("script-1", 100, &[0], 1),
            object("late", 100, &[0, 1], 1),
        ];
        let built = build(&page(objects), &BTreeMap::new(), 4433).unwrap();
        let text = text(&built, "/");
        assert!(text.ends_with("<script async src=https://cdn-1.example:4433/1.js></script>"));
        assert!(text.contains(r#"(["","https://cdn-1.example:4433"],[[2,1,0,1]])</script>"#));
        assert!(!text.contains("/2.png"));
    }

    #[test]
    fn redirect_targets_are_referenced_by_redirects_alone() {
        let mut objects = vec![
            object("moved", 0, &[], 1),
            object("index", 1200, &[0], 0),
            object("old", 7, &[1], 1),
            object("new.js", 100, &[2], 0),
            object("late", 100, &[3, 2], 0),
        ];
        (objects[0].redirect, objects[2].redirect) = (Some(1), Some(3));
        let mut page = page(objects);
        page.hosts[1].tls = false;
        let built = build(&page, &BTreeMap::new(), 4433).unwrap();
        let urls: Vec<&str> = built.objects.iter().map(|served| served.url.as_str()).collect();
        let (main, other) = ("https://origin.example:4433", "http://cdn-1.example:4433");
        assert_eq!(
            urls,
            [
                format!("{other}/"),
                format!("{main}/1.html"),
                format!("{other}/2.js"),
                format!("{main}/3.js"),
                format!("{main}/4.png"),
            ]
        );
        let location = |path: &str| built.resources[path].location.clone();
        assert_eq!(location("/").unwrap(), urls[1]);
        assert_eq!(location("/2.js").unwrap(), urls[3]);
        assert!(location("/1.html").is_none());
        assert_eq!(text(&built, "/2.js").len(), 7);
        let text = text(&built, "/1.html");
        assert_eq!(text.len(), 1200);
        assert!(text.ends_with(&format!("<script async src={other}/2.js></script>")), "{text}");
        // An object that depends on the target depends on its redirect.
        assert!(text.contains(&format!(r#"(["","{other}"],[[4,0,0,2]])</script>"#)), "{text}");
        assert!(!text.contains("3.js"));
        page.objects[2].redirect = Some(9);
        let error = build(&page, &BTreeMap::new(), 4433).err().unwrap();
        assert!(error.contains("a redirect to object 9, expected 1 to 4"), "{error}");
    }

    #[test]
    fn a_document_that_is_too_small_reports_the_minimum() {
        let objects = |size| vec![object("index", size, &[], 0), object("a", 100, &[0], 0)];
        let error = build(&page(objects(20)), &BTreeMap::new(), 443).err().unwrap();
        let (_, after) = error.split_once("at least ").unwrap();
        let needed: u64 = after.split(' ').next().unwrap().parse().unwrap();
        assert!(build(&page(objects(needed - 1)), &BTreeMap::new(), 443).is_err());
        assert_eq!(
            text(&build(&page(objects(needed)), &BTreeMap::new(), 443).unwrap(), "/").len() as u64,
            needed
        );
    }
}

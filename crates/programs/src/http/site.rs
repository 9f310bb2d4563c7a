//! The response to a request, independent of the transport.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW, ALT_SVC, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, DATE,
    LOCATION,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::HttpVersion;
use super::folder::Folder;

/// Bytes per read of a file.
const READ_BYTES: usize = 1 << 16;

/// Header field names without a constant in the library.
const TIMING_ALLOW_ORIGIN: HeaderName = HeaderName::from_static("timing-allow-origin");
const PADDING: HeaderName = HeaderName::from_static("x-pad");

/// The maximum padding of a header in bytes; browsers accept about 256 kB of header.
const MAX_PADDING: usize = 64 << 10;

/// The lifetime of Alt-Svc in a browser in seconds, the default of RFC 7838 section 3.1.
const ALT_SVC_AGE: u32 = 86_400;

/// A body that is sent in pieces.
pub(super) enum ResponseBody {
    Pieces(VecDeque<Bytes>),
    File(File, u64),
}

impl ResponseBody {
    pub(super) fn empty() -> ResponseBody {
        ResponseBody::Pieces(VecDeque::new())
    }

    /// Returns the next piece, never empty; `None` at the end.
    ///
    /// # Errors
    /// An error of the file; also if it has become shorter.
    pub(super) fn next(&mut self) -> io::Result<Option<Bytes>> {
        match self {
            ResponseBody::Pieces(pieces) => Ok(pieces.pop_front()),
            ResponseBody::File(_, 0) => Ok(None),
            ResponseBody::File(file, left) => {
                let mut piece =
                    BytesMut::zeroed(READ_BYTES.min(usize::try_from(*left).unwrap_or(READ_BYTES)));
                let count = file.read(&mut piece)?;
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                piece.truncate(count);
                *left -= count as u64;
                Ok(Some(piece.freeze()))
            }
        }
    }

    /// Returns the remaining bytes.
    pub(super) fn remaining(&self) -> u64 {
        match self {
            ResponseBody::Pieces(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
            ResponseBody::File(_, left) => *left,
        }
    }
}

/// A resource that is served from memory.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The content type.
    pub content_type: &'static str,
    /// The body, in pieces that resources can share.
    pub body: Vec<Bytes>,
    /// The delay before the response.
    pub think_time: Duration,
    /// The length of the header block in bytes, `None` for the minimum.
    pub header_bytes: Option<u32>,
    /// The target of a redirect.
    pub location: Option<HeaderValue>,
}

/// A response.
pub(super) struct HttpResponse {
    pub(super) status: StatusCode,
    pub(super) header: HeaderMap,
    pub(super) body: ResponseBody,
    pub(super) think_time: Duration,
}

/// The content of the server.
pub struct Site {
    resources: BTreeMap<String, Resource>,
    folder: Option<Folder>,
    alt_svc: Option<HeaderValue>,
    /// Characters for padding.
    padding: Bytes,
}

impl Site {
    /// Creates a site of `resources` by path, or of a folder; `alt_svc` is the advertised port of HTTP/3.
    pub fn new(
        resources: BTreeMap<String, Resource>,
        folder: Option<Folder>,
        alt_svc: Option<u16>,
    ) -> Site {
        // X and Z have 8 bits in the Huffman code of HPACK and QPACK (RFC 7541 appendix B), so their encoded length is
        // equal.
        let mut random = [0; 8192];
        units::RandomStream::named(0, "page server", "padding").fill(&mut random);
        let padding = random
            .iter()
            .flat_map(|byte| (0..8).map(move |bit| if byte >> bit & 1 == 0 { b'X' } else { b'Z' }))
            .collect::<Vec<u8>>();
        let alt_svc = alt_svc.and_then(|port| {
            HeaderValue::from_str(&format!("h3=\":{port}\"; ma={ALT_SVC_AGE}")).ok()
        });
        Site { resources, folder, alt_svc, padding: padding.into() }
    }

    /// Returns the response to a request for `path` (with its query) over `protocol`. `first` marks the first request
    /// of a connection.
    pub(super) fn respond(
        &self,
        method: &Method,
        path: &str,
        protocol: HttpVersion,
        first: bool,
    ) -> HttpResponse {
        let mut header = HeaderMap::with_capacity(8);
        header.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        header.insert(TIMING_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        header.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        if let Ok(date) = HeaderValue::from_str(&date()) {
            header.insert(DATE, date);
        }
        if let (true, Some(alt_svc)) = (protocol != HttpVersion::Http3, &self.alt_svc) {
            header.insert(ALT_SVC, alt_svc.clone());
        }
        let plain = |status, header| HttpResponse {
            status,
            header,
            body: ResponseBody::empty(),
            think_time: Duration::ZERO,
        };
        if !matches!(*method, Method::GET | Method::HEAD) {
            header.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            header.insert(CONTENT_LENGTH, 0.into());
            return plain(StatusCode::METHOD_NOT_ALLOWED, header);
        }
        let path = path.split(['?', '#']).next().unwrap_or("/");
        let mut status = StatusCode::OK;
        let (body, content_type, think, wanted) = if let Some(found) = self.resources.get(path) {
            let body = ResponseBody::Pieces(found.body.iter().cloned().collect());
            if let Some(location) = &found.location {
                status = StatusCode::FOUND;
                header.insert(LOCATION, location.clone());
            }
            (body, found.content_type, found.think_time, found.header_bytes)
        } else if let Some((file, length, content_type)) =
            self.folder.as_ref().and_then(|folder| folder.open(path))
        {
            (ResponseBody::File(file, length), content_type, Duration::ZERO, None)
        } else {
            header.insert(CONTENT_LENGTH, 0.into());
            return plain(StatusCode::NOT_FOUND, header);
        };
        header.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        header.insert(CONTENT_LENGTH, body.remaining().into());
        if let Some(wanted) = wanted {
            self.pad_header(&mut header, wanted, protocol, first);
        }
        let body = if *method == Method::HEAD { ResponseBody::empty() } else { body };
        HttpResponse { status, header, body, think_time: think }
    }

    /// Adds a padding field, so that the header block has about `wanted` bytes.
    fn pad_header(&self, header: &mut HeaderMap, wanted: u32, protocol: HttpVersion, first: bool) {
        let text: usize =
            header.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        let name = PADDING.as_str().len();
        let rest = match protocol {
            // Status line and empty line.
            HttpVersion::Http1 => "HTTP/1.1 200 OK\r\n\r\n".len() + text + name + 4,
            // Text is Huffman-coded with about 6 bits per character. In later requests the table contains all fields
            // except length and date.
            HttpVersion::Http2 if first => text * 3 / 4 + name,
            HttpVersion::Http2 => 32 + name,
            // The static table contains nearly all fields (RFC 9204 appendix A).
            HttpVersion::Http3 => 36 + name,
        };
        let Some(more) = (wanted as usize).checked_sub(rest) else { return };
        let padding = self.padding.slice(..more.min(MAX_PADDING).min(self.padding.len()));
        if let Ok(mut value) = HeaderValue::from_maybe_shared(padding) {
            // Never indexed: the padding would evict the other entries.
            value.set_sensitive(true);
            header.insert(PADDING, value);
        }
    }
}

/// Returns the date in the format of RFC 9110 section 5.6.7.
#[expect(clippy::disallowed_methods, reason = "an origin server sends its date")]
fn date() -> String {
    httpdate::fmt_http_date(SystemTime::now())
}

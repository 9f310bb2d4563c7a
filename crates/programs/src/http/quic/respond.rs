//! The futures of a connection: one accepts requests, and one per request responds.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use h3::error::StreamError;
use h3::server::RequestResolver;
use http::Response;
use runtime::Clock;
use units::{Span, Time};

use super::h3_streams::H3Connection;
use super::state::{H3_NO_ERROR, SharedH3State};
use crate::http::HttpVersion;
use crate::http::access_log::{AccessLog, AccessRecord};
use crate::http::site::Site;

/// State shared by all connections of a socket.
pub struct QuicServerContext {
    /// The content.
    pub site: Arc<Site>,
    /// The access log.
    pub log: Arc<AccessLog>,
    /// The clock of the driver.
    pub clock: Clock,
    /// The maximum of bytes of a request header.
    pub header_bytes: u32,
    /// Distinguishes connections of several sockets in the log.
    pub prefix: String,
    /// The client addresses by connection number.
    pub peers: Mutex<BTreeMap<u32, SocketAddr>>,
}

impl QuicServerContext {
    /// Returns the client address of connection number `index`.
    pub(super) fn peer(&self, index: u32) -> String {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(&index).map(ToString::to_string).unwrap_or_default()
    }
}

/// Serves one connection until it closes.
pub(super) async fn serve_connection(
    shared: SharedH3State,
    context: Arc<QuicServerContext>,
    index: u32,
) {
    let mut builder = h3::server::builder();
    builder.max_field_section_size(context.header_bytes.into()).send_grease(false);
    let Ok(mut connection) = builder.build(H3Connection(shared.clone())).await else { return };
    let mut answers = FuturesUnordered::new();
    let mut first = true;
    loop {
        let accepted = {
            let mut accept = pin!(connection.accept());
            poll_fn(|cx| {
                while let Poll::Ready(Some(())) = answers.poll_next_unpin(cx) {}
                accept.as_mut().poll(cx)
            })
            .await
        };
        // The connection has closed, or the library has closed it after an error.
        let Ok(Some(resolver)) = accepted else { return };
        let first = std::mem::take(&mut first);
        answers.push(respond(resolver, shared.clone(), context.clone(), index, first));
    }
}

/// Responds to one request. An error drops the stream, which closes it.
async fn respond(
    resolver: RequestResolver<H3Connection, Bytes>,
    shared: SharedH3State,
    context: Arc<QuicServerContext>,
    index: u32,
    first: bool,
) {
    // A bidirectional stream of the client (RFC 9000 section 2.1).
    let id = resolver.frame_stream.id().index() << 2;
    let (request, mut stream) = match resolver.resolve_request().await {
        Ok(resolved) => resolved,
        Err(StreamError::HeaderTooBig { .. }) => {
            // The library has sent 431 and leaves the stream open.
            if let Some(state) = shared.lock().streams.get_mut(&id) {
                state.reset = None;
                state.finish = true;
            }
            return;
        }
        Err(_) => return,
    };
    let uri = request.uri();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let answer = context.site.respond(request.method(), path, HttpVersion::Http3, first);
    let now = shared.lock().now;
    let record = AccessRecord {
        time_ns: context.clock.monotonic_ns(now),
        protocol: HttpVersion::Http3.name(),
        connection: format!("{}{index}", context.prefix),
        peer: String::new(),
        method: request.method().to_string(),
        authority: uri.authority().map(ToString::to_string).unwrap_or_default(),
        path: path.to_owned(),
        status: answer.status.as_u16(),
        bytes: 0,
        first_byte_ns: None,
        last_byte_ns: None,
        acked_ns: None,
        complete: false,
    };
    match shared.lock().streams.get_mut(&id) {
        Some(state) if !state.stopped => state.record = Some(record),
        _ => return,
    }
    // The request body is not needed (RFC 9114 section 4.1).
    stream.stop_sending(h3::error::Code::from(H3_NO_ERROR));
    if !answer.think_time.is_zero() {
        sleep(&shared, now + Span(answer.think_time.as_nanos() as u64)).await;
    }
    let mut response = Response::new(());
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.header;
    if stream.send_response(response).await.is_err() {
        return;
    }
    let mut body = answer.body;
    loop {
        match body.next() {
            Ok(Some(piece)) => {
                if let Some(state) = shared.lock().streams.get_mut(&id)
                    && let Some(record) = &mut state.record
                {
                    record.bytes += piece.len() as u64;
                }
                if stream.send_data(piece).await.is_err() {
                    return;
                }
            }
            Ok(None) => break,
            Err(_) => return,
        }
    }
    let _ = stream.finish().await;
}

/// Waits until `at`.
async fn sleep(shared: &SharedH3State, at: Time) {
    poll_fn(|cx| {
        let state = &mut *shared.lock();
        if state.closed || state.now >= at {
            return Poll::Ready(());
        }
        state.next_timer_id += 1;
        state.timers.insert((at, state.next_timer_id), cx.waker().clone());
        Poll::Pending
    })
    .await;
}

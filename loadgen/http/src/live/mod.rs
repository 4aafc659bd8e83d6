//! `/podstorm/live`: a stream with one sample of the cluster's state per second. Also the page at
//! `/`, which draws the samples in a browser.
//!
//! Nothing runs in the background: the first stream that needs the sample of a second takes it, and
//! the others send the same bytes. Without clients, there is no cost. The stores are read while the
//! samples are locked; the samples are never locked while a store is.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::VARY;
use http::request::Parts;
use http::{HeaderValue, Method, Response};
use podstorm_objects::ApiError;
use tokio::time::Sleep;

use crate::answer::{self, Bits, Body, NextPart};
use crate::call::Call;
use crate::faults::Waiting;
use crate::media;
use crate::samples::Moment;
use crate::server::ApiServer;

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// Reports whether `/` is answered with the page: the client is a browser, and the server has a
/// page.
pub(crate) fn wants_page(server: &ApiServer, head: &Parts) -> bool {
    server.0.page.is_some()
        && [Method::GET, Method::HEAD].contains(&head.method)
        && media::prefers_html(&head.headers)
}

/// Returns the answer with the page.
pub(crate) fn page(server: &ApiServer) -> Response<Body> {
    let page = server.0.page.clone().unwrap_or_default();
    let mut response = answer::respond(200, HTML, Body::whole(page));
    // Other clients get the list of paths at the same URL.
    let varies = HeaderValue::from_static("Accept");
    response.headers_mut().insert(VARY, varies);
    response
}

/// Opens a stream of samples.
///
/// # Errors
/// 405 for any method except `GET`.
pub(crate) fn stream(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    if *call.method != Method::GET {
        return Err(answer::method_not_allowed());
    }
    let waiting = Arc::new(Waiting::default());
    call.server.add_watch(&waiting);
    let body = LiveBody {
        server: call.server.clone(),
        waiting,
        timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
    };
    Ok(answer::respond(200, EVENT_STREAM, Body::endless(body)))
}

/// The body of a stream of samples. A client that reads slowly gets fewer samples, not older ones.
#[derive(Debug)]
struct LiveBody {
    server: ApiServer,
    waiting: Arc<Waiting>,
    timer: Pin<Box<Sleep>>,
}

impl Bits for LiveBody {
    /// Returns the next event, or `None` when the server drains.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<NextPart> {
        // Register the waker before checking for the end, so that the end is not missed.
        self.waiting.wait(context.waker());
        if self.server.is_draining() {
            return Poll::Ready(Ok(None));
        }
        if self.timer.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        let server = &self.server;
        let (event, next) = server.0.samples.event(|| Moment {
            cluster: server.cluster(),
            metrics: server.metrics(),
            now: server.now(),
            is_virtual: server.0.virtual_time.is_some(),
        });
        self.timer.as_mut().reset(next);
        Poll::Ready(Ok(Some(event)))
    }
}

#[cfg(test)]
mod tests;

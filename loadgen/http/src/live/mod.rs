//! `/podstorm/live`: a stream with one sample of the cluster's state per second; and the page at
//! `/`, which draws the samples in a browser.
//!
//! Nothing runs in the background: the first stream that needs the sample of a second takes it, and
//! the others send the same bytes. Without clients there is no cost. The stores are read while the
//! samples are locked, never the other way round.

mod sample;

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::VARY;
use http::request::Parts;
use http::{HeaderValue, Method, Response};
use podstorm_objects::ApiError;
use tokio::time::{Instant, Sleep};

use self::sample::Sampler;
use crate::answer::{self, Body};
use crate::faults::Waiting;
use crate::{ApiServer, Call, media};

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// Reports whether `/` is answered with the page: the client is a browser, and there is a page.
pub(crate) fn wants_page(server: &ApiServer, head: &Parts) -> bool {
    server.0.page.is_some()
        && [Method::GET, Method::HEAD].contains(&head.method)
        && media::prefers_html(&head.headers)
}

/// Returns the page.
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
    Ok(answer::respond(200, EVENT_STREAM, Body::live(body)))
}

/// The samples of a server.
#[derive(Debug)]
pub(crate) struct Live {
    /// The origin of the seconds, on the computer's clock.
    began: Instant,
    latest: Mutex<Latest>,
}

/// The latest sample.
#[derive(Debug, Default)]
struct Latest {
    /// The second of the sample; `None` before the first sample.
    second: Option<u64>,
    event: Bytes,
    sampler: Sampler,
}

impl Live {
    pub(crate) fn new() -> Live {
        Live {
            began: Instant::now(),
            latest: Mutex::default(),
        }
    }

    /// Returns the event with this second's sample, and the beginning of the next second. O(objects
    /// that own pods + nodes) for the first caller in a second.
    fn event(&self, server: &ApiServer) -> (Bytes, Instant) {
        let elapsed = self.began.elapsed();
        let second = elapsed.as_secs();
        let next = self.began + Duration::from_secs(second + 1);
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        // The sample may already be newer than `second` if the stream waited for the lock.
        if latest.second.is_none_or(|known| known < second) {
            let idle_seconds = second - latest.second.unwrap_or(second);
            let sample = latest.sampler.sample(server, elapsed, idle_seconds);
            // `retry` is the browser's reconnection delay in ms.
            latest.event = format!("retry: 1000\ndata: {sample}\n\n").into();
            latest.second = Some(second);
        }
        (latest.event.clone(), next)
    }
}

/// The body of a stream. A client that reads slowly gets fewer samples, not older ones.
#[derive(Debug)]
pub(crate) struct LiveBody {
    server: ApiServer,
    waiting: Arc<Waiting>,
    timer: Pin<Box<Sleep>>,
}

impl LiveBody {
    /// Returns the next event, or `None` when the server drains.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        // Register the waker before checking for the end, so that the end is not missed.
        self.waiting.wait(context.waker());
        if self.server.is_draining() {
            return Poll::Ready(None);
        }
        if self.timer.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        let (event, next) = self.server.0.live.event(&self.server);
        self.timer.as_mut().reset(next);
        Poll::Ready(Some(event))
    }
}

#[cfg(test)]
mod tests;

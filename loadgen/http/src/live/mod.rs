//! `/podstorm/live`: what the cluster is like, a sample each second for as long as a client listens; and the
//! page at `/`, which draws the samples in a browser.
//!
//! Nothing runs in the background. The stream that is the first to come to a second takes its sample, the
//! others send the same bytes, and while no client listens it costs nothing. The lock of the samples is
//! held while the stores are read, never the other way round.

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

/// Whether a request for `/` is answered with the page: it is a browser's, and there is one.
pub(crate) fn wants_page(server: &ApiServer, head: &Parts) -> bool {
    server.0.page.is_some()
        && [Method::GET, Method::HEAD].contains(&head.method)
        && media::prefers_html(&head.headers)
}

/// The page.
pub(crate) fn page(server: &ApiServer) -> Response<Body> {
    let page = server.0.page.clone().unwrap_or_default();
    let mut response = answer::respond(200, HTML, Body::whole(page));
    // Other clients get the list of paths.
    let varies = HeaderValue::from_static("Accept");
    response.headers_mut().insert(VARY, varies);
    response
}

/// Opens a stream of samples.
///
/// # Errors
/// 405 for another method than GET.
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
    /// Seconds are counted from here, in the time of the computer.
    began: Instant,
    latest: Mutex<Latest>,
}

/// The last sample that was taken.
#[derive(Debug, Default)]
struct Latest {
    /// Its second; `None` before the first.
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

    /// The event with the sample of this second, and when the next second begins. O(objects that own pods +
    /// nodes) for the first caller of a second.
    fn event(&self, server: &ApiServer) -> (Bytes, Instant) {
        let elapsed = self.began.elapsed();
        let second = elapsed.as_secs();
        let next = self.began + Duration::from_secs(second + 1);
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        // A stream that has waited for the lock is content with what is newer.
        if latest.second.is_none_or(|known| known < second) {
            let idle_seconds = second - latest.second.unwrap_or(second);
            let sample = latest.sampler.sample(server, elapsed, idle_seconds);
            // `retry`: how soon a browser comes back, ms.
            latest.event = format!("retry: 1000\ndata: {sample}\n\n").into();
            latest.second = Some(second);
        }
        (latest.event.clone(), next)
    }
}

/// A stream that is being sent. A client that reads slowly gets fewer samples, not older ones.
#[derive(Debug)]
pub(crate) struct LiveBody {
    server: ApiServer,
    waiting: Arc<Waiting>,
    timer: Pin<Box<Sleep>>,
}

impl LiveBody {
    /// The next event; `None` when the server goes away.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        // Before the end is looked for, so that it can't come unnoticed in between.
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

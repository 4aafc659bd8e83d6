//! Requests that may take a long time. They run on threads that serve no connection, at most one
//! per core, so probes and small requests never wait for them. Each has a [time
//! limit](Settings::request_timeout), after which it gets a 504 and commits nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use http::{Method, Response};
use podstorm_apiserver::limits::Exceeded;
use podstorm_apiserver::{Cluster, time_limit};
use podstorm_objects::{ApiError, Reason};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::route::Route;
use crate::view;

/// The maximum size in bytes of a body that is handled on the connection's thread: some
/// milliseconds of work.
const BODY_MAX: usize = 64 << 10;
/// The maximum size in memory, in bytes, of an object that is changed on the connection's thread:
/// several times its size as JSON.
const OBJECT_MAX: usize = 256 << 10;
/// The maximum product of a body's bytes and its schema's bytes on the connection's thread, because
/// each entry may be checked against each alternative.
const LOOKS_MAX: usize = 64 << 20;
/// The maximum number of objects of a kind whose collection is listed, watched or deleted on the
/// connection's thread.
const OBJECTS_MAX: u64 = 2_000;
/// How long work may take to notice that its deadline has passed.
const NOTICED_WITHIN: Duration = Duration::from_secs(1);

/// The concurrency limit of heavy requests.
#[derive(Debug)]
pub(crate) struct Heavy(Arc<Semaphore>);

impl Heavy {
    /// Returns a limit of one request per core: more would not finish earlier.
    pub(crate) fn new() -> Heavy {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Heavy(Arc::new(Semaphore::new(cores)))
    }

    /// Runs a request on a thread that serves no connection.
    ///
    /// # Errors
    /// 504 if there is no answer by `deadline`; waiting for a slot counts. The request then commits
    /// nothing, unless it already has. 500 if `answer` panics.
    pub(crate) async fn answer<B: Send + 'static>(
        &self,
        deadline: Instant,
        answer: impl FnOnce() -> Response<B> + Send + 'static,
    ) -> Result<Response<B>, ApiError> {
        let place = timeout_at(deadline, Arc::clone(&self.0).acquire_owned()).await;
        let place = place.map_err(|_| Exceeded::Time)?;
        let over = Arc::new(AtomicBool::new(false));
        // If the client disconnects, this future is dropped, and that stops the work too.
        let raises = Raises(Arc::clone(&over));
        let mut working = tokio::task::spawn_blocking(move || {
            let answered = time_limit::within(over, answer);
            drop(place);
            answered
        });
        let mut finished = timeout_at(deadline, &mut working).await;
        if finished.is_err() {
            raises.raise();
            finished = timeout(NOTICED_WITHIN, working).await;
        }
        let answered = finished
            .map_err(|_| Exceeded::Time)?
            .map_err(|_| panicked())?;
        // The error may be a result of aborting the work.
        match raises.is_raised() && answered.status().as_u16() >= 400 {
            true => Err(Exceeded::Time.into()),
            false => Ok(answered),
        }
    }
}

/// A flag that aborts the work. It is raised when the caller stops waiting.
struct Raises(Arc<AtomicBool>);

impl Raises {
    fn raise(&self) {
        // Relaxed: the flag orders nothing.
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Raises {
    fn drop(&mut self) {
        self.raise();
    }
}

/// Reports whether a request may take a long time.
pub(crate) fn is_heavy(cluster: &Cluster, route: &Route, method: &Method, body: usize) -> bool {
    let Route::Objects(target) = route else {
        return body > BODY_MAX;
    };
    let custom = target.kind.row().custom;
    let schema = custom.map_or(0, |custom| custom.schema_bytes);
    if body > BODY_MAX || body.saturating_mul(schema) > LOOKS_MAX {
        return true;
    }
    let api = cluster.api(view::stored_kind(target.kind));
    if target.name.is_empty() {
        return method != Method::POST && api.count().is_ok_and(|count| count > OBJECTS_MAX);
    }
    let stored = || api.bytes(&target.namespace, &target.name);
    let is_changed = [Method::PUT, Method::PATCH].contains(method);
    is_changed && stored().is_some_and(|bytes| bytes > OBJECT_MAX)
}

/// Returns a 500 for a panic, which is a bug.
fn panicked() -> ApiError {
    let why = "the request failed: its handler panicked";
    ApiError::status(500, Reason::InternalError, why)
}

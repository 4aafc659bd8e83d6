//! Requests that may take long. They are answered off the threads that serve connections, as many at once as the machine
//! has cores, so that a probe or a small request never waits for them; and each has a [time](Settings::request_timeout),
//! after which it is answered 504 and commits nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use http::{Method, Response};
use podstorm_apiserver::limits::Exceeded;
use podstorm_apiserver::time_limit;
use podstorm_objects::{ApiError, Reason};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::ApiServer;
use crate::answer::Body;
use crate::route::Route;
use crate::view;

/// Most bytes of a body that is read and checked where it came in: some milliseconds of work.
const BODY_MAX: usize = 64 << 10;
/// Most bytes in memory of an object that is changed there: several times as many as it has as JSON.
const OBJECT_MAX: usize = 256 << 10;
/// Most bytes of a body times those of its kind's schema: each entry may be held against each alternative.
const LOOKS_MAX: usize = 64 << 20;
/// Most objects of a kind whose collection is listed, watched or deleted where the request came in.
const OBJECTS_MAX: u64 = 2_000;
/// How long work whose time is over may take to notice.
const NOTICED_WITHIN: Duration = Duration::from_secs(1);

/// The places of requests that take long.
#[derive(Debug)]
pub(crate) struct Heavy(Arc<Semaphore>);

impl Heavy {
    /// One place for each core: more work at once would end no sooner.
    pub(crate) fn new() -> Heavy {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Heavy(Arc::new(Semaphore::new(cores)))
    }

    /// Answers a request on a thread that serves no connection.
    ///
    /// # Errors
    /// 504 where there is no answer by `deadline`, waiting for a place included: the request commits nothing then, unless
    /// it already has. 500 where `answer` panics.
    pub(crate) async fn answer(
        &self,
        deadline: Instant,
        answer: impl FnOnce() -> Response<Body> + Send + 'static,
    ) -> Result<Response<Body>, ApiError> {
        let place = timeout_at(deadline, Arc::clone(&self.0).acquire_owned()).await;
        let place = place.map_err(|_| Exceeded::Time)?;
        let over = Arc::new(AtomicBool::new(false));
        // A client that goes away needs no answer: its work ends, too.
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
        // An error may be one of work that was broken off.
        match raises.is_raised() && answered.status().as_u16() >= 400 {
            true => Err(Exceeded::Time.into()),
            false => Ok(answered),
        }
    }
}

/// Raises the flag of work whose caller has stopped waiting.
struct Raises(Arc<AtomicBool>);

impl Raises {
    fn raise(&self) {
        // Relaxed, as below: the flag orders nothing.
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

/// Whether a request may take long.
pub(crate) fn is_heavy(server: &ApiServer, route: &Route, method: &Method, body: usize) -> bool {
    let Route::Objects(target) = route else {
        return body > BODY_MAX;
    };
    let custom = target.kind.row().custom;
    let schema = custom.map_or(0, |custom| custom.schema_bytes);
    if body > BODY_MAX || body.saturating_mul(schema) > LOOKS_MAX {
        return true;
    }
    let api = server.cluster().api(view::stored_kind(target.kind));
    if target.name.is_empty() {
        return method != Method::POST && api.count().is_ok_and(|count| count > OBJECTS_MAX);
    }
    let stored = || api.bytes(&target.namespace, &target.name);
    let is_changed = [Method::PUT, Method::PATCH].contains(method);
    is_changed && stored().is_some_and(|bytes| bytes > OBJECT_MAX)
}

/// 500: a bug.
fn panicked() -> ApiError {
    let why = "the request could not be answered: a part of the server panicked";
    ApiError::status(500, Reason::InternalError, why)
}

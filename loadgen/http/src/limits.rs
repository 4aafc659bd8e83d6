//! Limits on concurrent requests.
//!
//! A request is in flight from its head to its answer, and a list until it has been sent, for at
//! most one minute. Watches do not count.
//!
//! Source: `server/filters/maxinflight.go` of Kubernetes' apiserver.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use podstorm_objects::{ApiError, Reason};

use tokio::task::AbortHandle;

/// The default maximum number of concurrent reading requests, the same as in upstream.
pub const REQUESTS_INFLIGHT: u64 = 400;
/// The default maximum number of concurrent mutating requests, the same as in upstream.
pub const MUTATING_REQUESTS_INFLIGHT: u64 = 200;

/// How long the transmission of a list may hold a slot: upstream's limit for a whole request. After
/// that, a client that does not read no longer takes a slot from others.
const KEPT_AT_MOST: Duration = Duration::from_secs(60);

/// The requests in flight of one class: reading or mutating.
#[derive(Debug)]
pub(crate) struct InFlight {
    now: AtomicU64,
    /// 0 means no limit.
    max: u64,
}

impl InFlight {
    pub(crate) fn new(max: u64) -> InFlight {
        InFlight {
            now: AtomicU64::new(0),
            max,
        }
    }

    pub(crate) fn now(&self) -> u64 {
        // Relaxed, here and below: the counter orders nothing.
        self.now.load(Ordering::Relaxed)
    }

    /// Takes a slot for a request.
    ///
    /// # Errors
    /// 429 if no slot is free.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Place<'_>, ApiError> {
        let before = self.now.fetch_add(1, Ordering::Relaxed);
        let place = Place(self);
        match self.max == 0 || before < self.max {
            true => Ok(place),
            false => Err(too_many()),
        }
    }

    fn leave(&self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }
}

fn too_many() -> ApiError {
    let message = "Too many requests, please try again later.";
    ApiError::status(429, Reason::TooManyRequests, message).with_retry_after(1)
}

/// The slot of a request that is being answered; freed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Place<'a>(&'a Arc<InFlight>);

impl Place<'_> {
    /// Holds the slot until the answer has been sent.
    pub(crate) fn keep(self) -> KeptPlace {
        let in_flight = Arc::clone(self.0);
        std::mem::forget(self);
        let taken = Arc::new(Taken {
            in_flight,
            is_free: AtomicBool::new(false),
        });
        let late = Arc::clone(&taken);
        let timer = tokio::spawn(async move {
            tokio::time::sleep(KEPT_AT_MOST).await;
            late.free();
        });
        KeptPlace {
            taken,
            timer: timer.abort_handle(),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The slot of a request whose answer is being sent.
#[derive(Debug)]
pub(crate) struct KeptPlace {
    taken: Arc<Taken>,
    timer: AbortHandle,
}

#[derive(Debug)]
struct Taken {
    in_flight: Arc<InFlight>,
    is_free: AtomicBool,
}

impl Taken {
    fn free(&self) {
        // Relaxed: only the first swap lowers the count.
        if !self.is_free.swap(true, Ordering::Relaxed) {
            self.in_flight.leave();
        }
    }
}

impl Drop for KeptPlace {
    fn drop(&mut self) {
        self.taken.free();
        self.timer.abort();
    }
}

//! Load shedding: the requests that are refused while the process is short of memory.

use std::sync::atomic::{AtomicU64, Ordering};

use http::Method;
use podstorm_objects::{ApiError, Reason};

use crate::metrics::Attributes;
use crate::route::Route;

/// The memory use of the process and its limit in bytes. A monitor of the process sets both; each
/// request reads them. There is no limit until both are set.
#[derive(Debug, Default)]
pub struct Memory {
    used: AtomicU64,
    /// 0 means no limit.
    limit: AtomicU64,
}

impl Memory {
    /// Sets the memory in use, and the limit above which requests are refused; 0 means no limit.
    pub fn set(&self, used: u64, limit: u64) {
        // Relaxed, here and below: each value is read on its own. A request between the two stores
        // may be refused one store early.
        self.used.store(used, Ordering::Relaxed);
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Checks whether a request is accepted. Above the limit, only requests that free memory or
    /// need almost none are accepted.
    ///
    /// # Errors
    /// 503 with `Retry-After` for lists, watches, streams, and writes of objects or faults.
    /// Deletions and evictions are exempt.
    pub(crate) fn admit(
        &self,
        method: &Method,
        route: &Route,
        what: &Attributes,
    ) -> Result<(), ApiError> {
        let used = self.used.load(Ordering::Relaxed);
        let limit = self.limit.load(Ordering::Relaxed);
        if limit == 0 || used < limit {
            return Ok(());
        }
        let takes_more = match route {
            Route::Objects(target) if target.subresource == "eviction" => false,
            Route::Objects(target) => match *method {
                Method::DELETE => false,
                Method::GET | Method::HEAD => what.is_long_running || target.name.is_empty(),
                _ => true,
            },
            Route::Live => true,
            Route::Faults(_) => what.is_mutating && method != Method::DELETE,
            _ => false,
        };
        match takes_more {
            true => Err(used_up(used, limit)),
            false => Ok(()),
        }
    }
}

fn used_up(used: u64, limit: u64) -> ApiError {
    let message = format!(
        "the server's memory is used up: {} MiB of at most {} MiB; delete objects, end watches, or \
         start the server with a higher --memory-limit",
        used >> 20,
        limit >> 20
    );
    let reason = Reason::Other("ServiceUnavailable".into());
    ApiError::status(503, reason, message).with_retry_after(1)
}

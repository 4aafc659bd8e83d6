//! The interface of a request log.

use std::time::Duration;

/// An answered request, as the log receives it.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// The method.
    pub method: &'a str,
    /// The path and the query.
    pub path: &'a str,
    /// The status code of the answer.
    pub status: u16,
    /// The time from the head of the request to the head of the answer.
    pub took: Duration,
    /// The `User-Agent` header; empty if absent.
    pub user_agent: &'a str,
    /// The user's name; empty if the request had no valid credential.
    pub user: &'a str,
}

/// A log of requests.
pub trait Log: Send + Sync {
    /// Records an answered request. Called on the thread that answered the request, so it must not
    /// block.
    fn answered(&self, request: &Answered<'_>);

    /// Returns the number of requests that the log dropped because it could not keep up.
    fn dropped(&self) -> u64 {
        0
    }
}

impl<F: Fn(&Answered<'_>) + Send + Sync> Log for F {
    fn answered(&self, request: &Answered<'_>) {
        self(request);
    }
}

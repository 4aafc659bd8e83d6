//! Planted faults: a controller of Jobs whose requests are replaced, which the checker must notice. A fault is planted
//! for one thread; a schedule is played on one.

use std::cell::Cell;

use podstorm::client::Request;

type Replace = fn(&Request) -> Option<Vec<Request>>;

thread_local! {
    static PLANTED: Cell<Option<Replace>> = const { Cell::new(None) };
}

pub(super) fn requests(request: &Request) -> Option<Vec<Request>> {
    PLANTED.get().and_then(|replace| replace(request))
}

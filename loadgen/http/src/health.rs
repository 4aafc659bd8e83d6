//! `/livez`, `/readyz` and `/healthz`: all checks or one by name; `?verbose` lists them.
//!
//! Source: `server/healthz/healthz.go` of Kubernetes' apiserver.

use http::Response;

use crate::answer::{self, Body};
use crate::call::Call;
use crate::route::{CHECKS, SHUTDOWN, has_check};

/// Serves a request for all checks of an endpoint, or for one.
pub(crate) fn serve(call: &Call<'_>, endpoint: &str, check: Option<&str>) -> Response<Body> {
    let is_well = |name: &str| name != SHUTDOWN || !call.server.is_draining();
    if let Some(check) = check {
        return match is_well(check) {
            true => answer::text(200, "ok"),
            false => answer::text(500, "internal server error: process is shutting down\n"),
        };
    }
    let mut lines = String::new();
    let mut failed = false;
    let excluded: Vec<&str> = call.query.all("exclude").collect();
    for name in CHECKS.into_iter().chain([SHUTDOWN]) {
        if !has_check(endpoint, name) {
            continue;
        }
        let (sign, state) = match (excluded.contains(&name), is_well(name)) {
            (true, _) => ("+", "excluded: ok"),
            (false, true) => ("+", "ok"),
            (false, false) => ("-", "failed: reason withheld"),
        };
        failed |= sign == "-";
        lines.push_str(&format!("[{sign}]{name} {state}\n"));
    }
    match (failed, call.query.has("verbose")) {
        (true, _) => answer::text(500, format!("{lines}{endpoint} check failed\n")),
        (false, true) => answer::text(200, format!("{lines}{endpoint} check passed\n")),
        (false, false) => answer::text(200, "ok"),
    }
}

//! `/metrics`: the server's counters, the cluster's sizes, and further metrics.

use http::{HeaderValue, Response};

use crate::answer::{self, Body};
use crate::metrics::{self, Beside};
use crate::server::ApiServer;

/// The content type, exactly as Prometheus' client library writes it.
const FORM: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");

pub(crate) fn serve(server: &ApiServer) -> Response<Body> {
    let log = server.settings().log.as_ref();
    let mut text = metrics::text(
        server.metrics(),
        &Beside {
            in_flight: [false, true].map(|is_mutating| server.in_flight(is_mutating).now()),
            struck: server.struck_by_effect().collect(),
            dropped: log.map(|log| log.dropped()),
            cluster: server.cluster(),
        },
    );
    if let Some(further) = server.further_metrics() {
        text.push_str(&further());
    }
    answer::respond(200, FORM, Body::whole(text))
}

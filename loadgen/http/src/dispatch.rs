//! Dispatch of a request to the module that handles its route.

use http::{Method, Response};
use podstorm_apiserver::errors;
use podstorm_objects::ApiError;

use crate::answer::{self, Body};
use crate::call::Call;
use crate::route::Route;
use crate::{arming, clock, discovery, exposition, health, kubelet, live, objects, reviews};

/// Reports whether the request is a watch or a stream, which are exempt from time limits.
pub(crate) fn is_long_running(call: &Call<'_>, route: &Route) -> bool {
    let Route::Objects(target) = route else {
        return false;
    };
    kubelet::PARTS.contains(&target.subresource.as_str())
        || *call.method == Method::GET && target.is_watch(&call.query)
}

/// Answers a request with the handler of its route.
///
/// # Errors
/// Those of the handler.
pub(crate) fn serve(call: &Call<'_>, route: Route) -> Result<Response<Body>, ApiError> {
    if !is_long_running(call, &route) {
        call.query.check_timeout()?;
    }
    match route {
        Route::Objects(target) => objects::serve(call, &target),
        Route::UnknownResource => Err(errors::unknown_resource()),
        Route::UnknownPath => Ok(answer::text(404, "404 page not found\n")),
        Route::Health(endpoint, check) => Ok(health::serve(call, &endpoint, check.as_deref())),
        Route::Review(kind, namespace) => reviews::serve(call, kind, &namespace),
        Route::Metrics => Ok(exposition::serve(call.server)),
        Route::Clock => clock::show(call),
        Route::Page => Ok(live::page(call.server)),
        Route::Live => live::stream(call),
        Route::Faults(id) => arming::serve(call, id.as_deref()),
        other => discovery::serve(call, &other),
    }
}

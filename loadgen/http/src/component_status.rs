//! `v1` `ComponentStatus`: the health of the store, which is healthy whenever this server answers.
//!
//! Source: `pkg/registry/core/componentstatus` of Kubernetes, deprecated since 1.19.

use std::sync::Arc;

use http::{Method, Response};
use podstorm_apiserver::errors;
use podstorm_objects::{AnyObject, ApiError, DynamicObject};
use serde_json::json;

use crate::answer::{self, Body};
use crate::call::Call;
use crate::list::{ListMetadata, answer_list};
use crate::route::Target;
use crate::shape;
use crate::unstored::component_status;

/// The name that upstream uses for the first server of its store.
const STORE: &str = "etcd-0";

/// Serves a request for one component or for all.
///
/// # Errors
/// 404 for an unknown name; 405 for any request other than a read.
pub(crate) fn serve(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    if *call.method != Method::GET || target.is_watch(&call.query) {
        return Err(answer::method_not_allowed());
    }
    let response = match target.name.as_str() {
        "" => {
            let metadata = ListMetadata::default();
            answer_list(call, component_status(), vec![store()?], &metadata)?
        }
        STORE => shape::answer(call, 200, &store()?)?,
        name => return Err(errors::not_found(component_status(), name)),
    };
    let warning = "v1 ComponentStatus is deprecated in v1.19+";
    Ok(answer::warned(response, &[warning.to_owned()]))
}

fn store() -> Result<AnyObject, ApiError> {
    let healthy = json!({"type": "Healthy", "status": "True", "message": "ok"});
    let document = json!({"metadata": {"name": STORE}, "conditions": [healthy]});
    let object = DynamicObject::from_json(component_status(), document);
    let object = object.map_err(|error| errors::bad_request(error.to_string()))?;
    Ok(Arc::new(object))
}

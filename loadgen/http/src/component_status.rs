//! `v1` `ComponentStatus`: the health of the store, which is healthy as long as this server
//! answers.
//!
//! Source: `pkg/registry/core/componentstatus` of Kubernetes, deprecated since 1.19.

use std::sync::Arc;

use http::{Method, Response};
use podstorm_apiserver::errors;
use podstorm_objects::cells::text;
use podstorm_objects::{AnyObject, ApiError, Cell, Column, DynamicObject, Kind, ResourceType};
use serde_json::{Value, json};

use crate::answer::{self, Body};
use crate::list::{ListMetadata, answer_list};
use crate::route::Target;
use crate::{Call, objects};

/// The verbs in discovery.
pub(crate) const VERBS: &[&str] = &["get", "list"];
/// Upstream's name for the first server of its store.
const STORE: &str = "etcd-0";

static ROW: ResourceType = ResourceType {
    kind: "ComponentStatus",
    resource: "componentstatuses",
    namespaced: false,
    short_names: &["cs"],
    columns: &[
        Column::NAME,
        Column::new(
            "Status",
            "Status of the component conditions",
            Cell::Of(|status, _| match condition(status)["status"].as_str() {
                Some("True") => "Healthy".into(),
                Some("False") => "Unhealthy".into(),
                _ => "Unknown".into(),
            }),
        ),
        Column::new(
            "Message",
            "Message of the component conditions",
            Cell::Of(|status, _| text(condition(status), "/message").into()),
        ),
        Column::new(
            "Error",
            "Error of the component conditions",
            Cell::Of(|status, _| text(condition(status), "/error").into()),
        ),
    ],
    ..ResourceType::DEFAULT
};

fn condition(status: &Value) -> &Value {
    &status["conditions"][0]
}

pub(crate) fn kind() -> Kind {
    Kind::of(&ROW)
}

/// Reports whether a kind is `ComponentStatus`.
pub(crate) fn is(kind: Kind) -> bool {
    std::ptr::eq(kind.row(), &ROW)
}

/// Serves a request for one component or for all.
///
/// # Errors
/// 404 for an unknown name; 405 for any request other than a read.
pub(crate) fn serve(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    if *call.method != Method::GET || target.is_watch(&call.query) {
        return Err(answer::method_not_allowed());
    }
    let mut response = match target.name.as_str() {
        "" => answer_list(call, kind(), vec![store()?], &ListMetadata::default())?,
        STORE => objects::answer(call, 200, &store()?)?,
        name => return Err(errors::not_found(kind(), name)),
    };
    answer::warn(
        &mut response,
        &["v1 ComponentStatus is deprecated in v1.19+".to_owned()],
    );
    Ok(response)
}

fn store() -> Result<AnyObject, ApiError> {
    let healthy = json!({"type": "Healthy", "status": "True", "message": "ok"});
    let document = json!({"metadata": {"name": STORE}, "conditions": [healthy]});
    let object = DynamicObject::from_json(kind(), document);
    let object = object.map_err(|error| errors::bad_request(error.to_string()))?;
    Ok(Arc::new(object))
}

//! Objects in the shape that the client accepts.

use http::Response;
use podstorm_apiserver::warnings_of;
use podstorm_objects::{AnyObject, ApiError, Written};
use serde_json::json;

use crate::answer::{self, Body};
use crate::call::Call;
use crate::media::{Accepted, Shape, not_acceptable};
use crate::{ownership, table};

/// Returns an answer with an object in the shape that the client accepts.
pub(crate) fn answer(
    call: &Call<'_>,
    code: u16,
    object: &AnyObject,
) -> Result<Response<Body>, ApiError> {
    let Accepted { form, shape } = call.accepted;
    let document = match shape {
        Shape::Object | Shape::Discovery => return Ok(answer::object(code, form, &**object)),
        Shape::Metadata(version) => table::partial(&**object, version),
        Shape::MetadataList(_) => return Err(is_no_list()),
        Shape::Table(version) => {
            let include = table::Include::from_query(&call.query)?;
            let kind = object.kind();
            let at = object.metadata().resource_version.to_string();
            let metadata = json!({"resourceVersion": at});
            let items = std::slice::from_ref(object);
            table::table(kind, items, version, include, metadata, call.now)
        }
    };
    Ok(answer::document(code, form, &document))
}

/// Returns a 406: the client asks for a list, but the target is one object.
pub(crate) fn is_no_list() -> ApiError {
    let why = "you requested PartialObjectMetadataList, but the requested object is not a list";
    not_acceptable(why.to_owned())
}

/// Like [`answer()`], with warnings.
pub(crate) fn answer_with(
    call: &Call<'_>,
    code: u16,
    object: &AnyObject,
    writer: &ownership::Writer<'_>,
    warnings: &[String],
) -> Result<Response<Body>, ApiError> {
    let mut response = answer(call, code, object)?;
    let written = Written {
        name: &object.metadata().name,
        json: &|| object.to_json(),
        is_new: code == 201,
        is_changed: writer.has_changed_spec(&**object),
    };
    let of_written = (warnings_of(object.kind()).written)(&written);
    answer::warn(&mut response, &of_written);
    answer::warn(&mut response, warnings);
    Ok(response)
}

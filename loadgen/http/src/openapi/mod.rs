//! OpenAPI: what clients validate and explain objects by, and the check of a request's members.
//!
//! Schemas come from the server's [`schemas`](podstorm_apiserver::schemas), kinds and group versions from its tables.

mod document;
mod operations;
mod swagger;
mod types;
mod unknown;

pub(crate) use document::{Document, Older, index, older};
use podstorm_apiserver::schemas::{
    OBJECT_META, REFERENCE, SCHEMAS, properties, referred_by_name, schema_name, schema_name_of,
};
pub(crate) use podstorm_apiserver::schemas::{
    Schema, referred, schema_named, schema_of, schema_of_kind, written,
};
pub(crate) use types::{wrong_conversion, wrong_type};
pub(crate) use unknown::{
    drop_unknown_changes, drop_unknown_fields, drop_unknown_of, unknown_fields,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reviews;

    #[test]
    fn every_kind_of_requests_has_a_schema() {
        for kind in reviews::kinds() {
            assert!(SCHEMAS.contains_key(&schema_name(kind)), "{kind:?}");
        }
    }
}

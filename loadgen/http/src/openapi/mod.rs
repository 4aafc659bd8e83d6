//! OpenAPI documents, with which clients validate and explain objects.
//!
//! Schemas come from the server's [`schemas`](podstorm_apiserver::schemas), kinds and group
//! versions from its catalog.

mod document;
mod operations;
mod swagger;

pub(crate) use document::{Document, Older, index, older};
pub(crate) use podstorm_apiserver::schemas::{
    OBJECT_META, Schema, Type, referred, schema_named, schema_of, schema_of_kind, written,
};
use podstorm_apiserver::schemas::{
    REFERENCE, SCHEMAS, properties, referred_by_name, schema_name, schema_name_of,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reviews;

    #[test]
    fn every_kind_of_request_has_a_schema() {
        for kind in reviews::kinds() {
            assert!(SCHEMAS.contains_key(&schema_name(kind)), "{kind:?}");
        }
    }
}

//! OpenAPI documents, with which clients validate and explain objects.
//!
//! The schemas come from [`schemas`](podstorm_apiserver::schemas), the kinds and group versions
//! from the server's catalog.

mod document;
mod operations;
mod swagger;

pub(crate) use document::{Document, hashed, index, older};
use podstorm_apiserver::schemas::{
    OBJECT_META, REFERENCE, SCHEMAS, properties, referred_by_name, schema_name, schema_name_of,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unstored;

    #[test]
    fn every_kind_of_request_has_a_schema() {
        for kind in unstored::kinds() {
            assert!(SCHEMAS.contains_key(&schema_name(kind)), "{kind:?}");
        }
    }
}

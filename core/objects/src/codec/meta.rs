//! JSON of `metadata` and owner references.

use serde_json::Value;

use super::item;
use crate::decode::{DecodeError, Members, Path, read_string};
use crate::json::{JsonValue, Tape, Writer};
use crate::shape::{Shape, check};
use crate::{ObjectMeta, OwnerReference, ResourceVersion, Str, Uid};

/// The types of the members that are carried unread.
const REST: &Shape = &Shape::Object(&[
    ("managedFields", Shape::List(&Shape::ANY_OBJECT)),
    ("selfLink", Shape::Text),
]);

impl ObjectMeta {
    /// Reads `metadata`. Null reads as empty metadata.
    ///
    /// # Errors
    /// Fails if a member has a wrong type.
    pub fn from_json(value: Value) -> Result<ObjectMeta, DecodeError> {
        ObjectMeta::read(Tape::new(&value).root(), &Path::ROOT)
    }

    pub(super) fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<ObjectMeta, DecodeError> {
        let mut members = Members::new(value, path)?;
        // In the order of their names, so one pass reads all members.
        let annotations = members.labels("annotations")?.or_absent();
        let creation_timestamp = members.time("creationTimestamp")?;
        let grace = members.opt_i64("deletionGracePeriodSeconds")?;
        let deletion_timestamp = members.time("deletionTimestamp")?;
        let finalizers: Vec<Str> = members.list("finalizers", read_string)?;
        let meta = ObjectMeta {
            annotations,
            creation_timestamp,
            deletion_grace_period_seconds: grace.into(),
            deletion_timestamp,
            finalizers: (!finalizers.is_empty()).then(|| finalizers.into()),
            generate_name: non_empty(members.text("generateName")?),
            generation: members.opt_i64("generation")?.unwrap_or(0),
            labels: members.labels("labels")?.or_absent(),
            name: members.text("name")?.into(),
            namespace: members.text("namespace")?.into(),
            owner_references: members.list("ownerReferences", |value, path| {
                OwnerReference::read(value, path).map(Into::into)
            })?,
            resource_version: ResourceVersion::new(members.text("resourceVersion")?),
            uid: Uid::new(members.text("uid")?),
            rest: members.rest(),
        };
        check(value, REST, path)?;
        Ok(meta)
    }

    /// Returns the JSON object. Unset members are omitted.
    pub fn to_json(&self) -> Value {
        Writer::object_value(|out| self.write(out))
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.put_text("name", &self.name);
        out.put_some("generateName", self.generate_name.as_deref());
        out.put_text("namespace", &self.namespace);
        if !self.uid.is_empty() {
            out.put_shown("uid", &self.uid);
        }
        if !self.resource_version.is_unset() {
            out.put_shown("resourceVersion", &self.resource_version);
        }
        out.put_number("generation", self.generation);
        out.put_time("creationTimestamp", self.creation_timestamp);
        out.put_time("deletionTimestamp", self.deletion_timestamp);
        out.put_some(
            "deletionGracePeriodSeconds",
            self.deletion_grace_period_seconds.get(),
        );
        out.put_labels("labels", &self.labels);
        out.put_labels("annotations", &self.annotations);
        out.put_objects("ownerReferences", &self.owner_references, |out, it| {
            it.write(out)
        });
        out.put_list("finalizers", self.finalizers(), |out, name| out.text(name));
        out.put_rest(&self.rest);
    }
}

impl OwnerReference {
    /// Reads an entry of `metadata.ownerReferences`.
    ///
    /// # Errors
    /// Fails if the value is not an object or a member has a wrong type.
    pub fn from_json(value: Value) -> Result<OwnerReference, DecodeError> {
        OwnerReference::read(Tape::new(&value).root(), &Path::ROOT)
    }

    fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<OwnerReference, DecodeError> {
        let mut members = item(value, path)?;
        Ok(OwnerReference {
            api_version: members.string("apiVersion")?,
            block_owner_deletion: members.opt_flag("blockOwnerDeletion")?,
            controller: members.opt_flag("controller")?,
            kind: members.string("kind")?,
            name: members.string("name")?,
            uid: Uid::new(members.text("uid")?),
        })
    }

    /// Returns the JSON object. `apiVersion`, `kind`, `name` and `uid` are always written.
    pub fn to_json(&self) -> Value {
        Writer::object_value(|out| self.write(out))
    }

    fn write(&self, out: &mut Writer) {
        out.put("apiVersion", &*self.api_version);
        out.put("kind", &*self.kind);
        out.put("name", &*self.name);
        out.put_shown("uid", &self.uid);
        out.put_some("controller", self.controller);
        out.put_some("blockOwnerDeletion", self.block_owner_deletion);
    }
}

fn non_empty(text: &str) -> Option<Str> {
    (!text.is_empty()).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{normal, wrong_values};
    use super::*;

    fn full() -> Value {
        json!({
            "name": "web-abcde", "generateName": "web-", "namespace": "shop",
            "uid": "7f420cbd-206a-47ea-a64a-f37288a6840d", "resourceVersion": "812",
            "generation": 2, "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionTimestamp": "2026-01-02T03:05:05Z", "deletionGracePeriodSeconds": 0,
            "labels": {"app": "web"}, "annotations": {"note": "x"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                "uid": "u1", "controller": true, "blockOwnerDeletion": false}],
            "finalizers": ["example.com/hold"],
            "managedFields": [{"manager": "kubelet"}], "future": 1
        })
    }

    #[test]
    fn metadata_round_trips_with_unknown_members() {
        let meta = ObjectMeta::from_json(full()).unwrap();
        assert_eq!(meta.name, "web-abcde");
        assert_eq!(meta.deletion_grace_period_seconds.get(), Some(0));
        assert_eq!(meta.controller().unwrap().uid, Uid::new("u1"));
        assert_eq!(meta.to_json(), full());
    }

    #[test]
    fn absent_null_and_empty_members_are_omitted() {
        let value = json!({"name": "a", "creationTimestamp": null, "labels": {}, "uid": "",
            "ownerReferences": null, "finalizers": [], "generateName": "", "generation": 0});
        let meta = ObjectMeta::from_json(value).unwrap();
        assert_eq!(meta.to_json(), json!({"name": "a"}));
        assert!(meta.labels.is_absent());
        assert!(meta.finalizers.is_none());
        assert_eq!(normal(ObjectMeta::default().to_json()), json!({}));
    }

    #[test]
    fn wrong_types_are_refused_with_their_path() {
        let cases = r#"
{"name": 3} => name: expected a string, found the number 3
{"labels": {"a": 1}} => labels[a]: expected a string, found the number 1
{"annotations": []} => annotations: expected a map of strings, found a list
{"ownerReferences": [{"uid": 7}]} => ownerReferences[0].uid: expected a string, found the number 7
{"ownerReferences": [null]} => ownerReferences[0]: expected an object, found null
{"ownerReferences": {}} => ownerReferences: expected a list, found an object
{"managedFields": 1} => managedFields: expected a list, found the number 1
{"deletionTimestamp": "soon"} => deletionTimestamp: expected a time such as 2026-01-02T03:04:05Z, found the string "soon"
"#;
        for (value, problem) in wrong_values(cases) {
            let error = ObjectMeta::from_json(value).unwrap_err();
            assert_eq!(error.to_string(), problem);
        }
    }
}

//! The strategy of kinds without a Rust type, as their rows say.

use podstorm_objects::{Cause, DecodeError, DynamicObject, Kind};
use serde_json::Value;

use crate::store::Strategy;
use crate::validation::validate_metadata;

const STATUS: &str = "status";

/// Copies a member from the stored object.
fn keep(new: &mut DynamicObject, old: &DynamicObject, member: &str) {
    match old.fields.get(member) {
        Some(stored) => drop(new.fields.insert(member.to_owned(), stored.clone())),
        None => drop(new.fields.remove(member)),
    }
}

fn broken_rules(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let row = new.kind().row();
    let mut causes = validate_metadata(&new.metadata, row.namespaced);
    causes.extend((row.rules.validate)(new, old));
    causes
}

impl Strategy for DynamicObject {
    fn read(kind: Kind, value: Value) -> Result<Self, DecodeError> {
        DynamicObject::from_json(kind, value)
    }

    fn set_defaults(&mut self, _old: Option<&Self>) {
        (self.kind().row().rules.default)(self);
    }

    fn prepare_for_create(&mut self) {
        if self.kind().row().has_status {
            self.fields.remove(STATUS);
        }
    }

    fn prepare_for_update(&mut self, old: &Self) {
        if self.kind().row().has_status {
            keep(self, old, STATUS);
        }
    }

    fn prepare_for_status_update(&mut self, old: &Self) {
        let status = self.fields.remove(STATUS);
        self.fields.clone_from(&old.fields);
        match status {
            Some(status) => drop(self.fields.insert(STATUS.to_owned(), status)),
            None => drop(self.fields.remove(STATUS)),
        }
    }

    fn spec_differs(&self, old: &Self) -> bool {
        let has_status = self.kind().row().has_status;
        let is_spec = |(name, _): &(&String, &Value)| !(has_status && *name == STATUS);
        let (new, old) = (self.fields.iter(), old.fields.iter());
        new.filter(is_spec).ne(old.filter(is_spec))
    }

    fn validate_create(&self) -> Vec<Cause> {
        broken_rules(self, None)
    }

    fn validate_update(&self, old: &Self) -> Vec<Cause> {
        broken_rules(self, Some(old))
    }

    fn validate_status_update(&self, old: &Self) -> Vec<Cause> {
        self.validate_update(old)
    }
}

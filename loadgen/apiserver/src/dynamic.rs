//! The strategy of kinds without a Rust type, which is determined by their rows.

use compact_str::CompactString;
use podstorm_objects::{
    Cause, DecodeError, DynamicObject, GenerationOf, Kind, Map, ResourceType, Time, Uid,
};
use serde_json::Value;

use crate::defaulting::{Fill, Within};
use crate::store::Strategy;
use crate::validation::validate_metadata;
use crate::{Cluster, builtin, custom, errors, gated, limits, meta, schemas};

const STATUS: &str = "status";

/// Copies a member from the stored object, or removes the member if the stored object lacks it.
fn keep(new: &mut DynamicObject, old: &DynamicObject, member: &str) {
    match old.fields.get(member) {
        Some(stored) => drop(new.fields.insert(member.to_owned(), stored.clone())),
        None => drop(new.fields.remove(member)),
    }
}

/// Sets the members of the status that are never absent.
fn fill_status(object: &mut DynamicObject) {
    schemas::fill_member(object.kind(), STATUS, &mut object.fields);
    let first_phase = object.kind().row().rules.first_phase;
    if !first_phase.is_empty() {
        let status = |status: &mut Map| status.set_absent("phase", first_phase);
        object.fields.within(STATUS, status);
    }
}

/// Returns the rules that an object breaks. If the object is too large after defaulting, the only
/// broken rule is that one.
fn broken_rules(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    if let Some(cause) = too_large(new) {
        return vec![cause];
    }
    let row = new.kind().row();
    let mut causes = validate_metadata(new.kind(), &new.metadata);
    causes.extend((row.rules.validate)(new, old));
    causes.extend(custom::validate(new, old));
    causes
}

fn too_large(object: &DynamicObject) -> Option<Cause> {
    let checked = limits::check_object(&object.fields);
    checked
        .is_err()
        .then(|| errors::too_long("<nil>", limits::BYTES_MAX))
}

impl Strategy for DynamicObject {
    fn read(kind: Kind, value: Value) -> Result<Self, DecodeError> {
        DynamicObject::from_json(kind, value)
    }

    fn of_kind(self, kind: Kind) -> DynamicObject {
        match self.kind().row().custom {
            Some(_) => self,
            None => self.with_kind(kind),
        }
    }

    fn set_defaults(&mut self, _old: Option<&Self>) {
        (self.kind().row().rules.default)(self);
        schemas::fill(self.kind(), &mut self.fields);
        custom::shape(self);
    }

    fn apply_gates(&mut self, cluster: &Cluster, old: Option<&Self>) {
        gated::apply(self, old, cluster);
    }

    fn prepare_for_create(&mut self) {
        if self.kind().row().has_status {
            self.fields.remove(STATUS);
        }
        fill_status(self);
        (self.kind().row().rules.prepare)(self, None);
    }

    fn prepare_for_update(&mut self, old: &Self) {
        if self.kind().row().has_status {
            keep(self, old, STATUS);
        }
        (self.kind().row().rules.prepare)(self, Some(old));
    }

    fn prepare_for_status_update(&mut self, old: &Self) {
        let status = self.fields.remove(STATUS);
        let others = old.fields.iter().filter(|(name, _)| *name != STATUS);
        // Controllers send unchanged fields back, and comparing is cheaper than copying.
        if !self.fields.iter().eq(others.clone()) {
            let others = others.map(|(name, value)| (name.clone(), value.clone()));
            self.fields = others.collect();
        }
        if self.kind().row().custom.is_some() {
            // Only the status and its field owners may change.
            let rest = std::mem::take(&mut self.metadata.rest);
            self.metadata.clone_from(&old.metadata);
            self.metadata.rest = meta::with_managed_fields(&old.metadata.rest, &rest);
        }
        if let Some(status) = status {
            self.fields.insert(STATUS.to_owned(), status);
        }
        fill_status(self);
        (self.kind().row().rules.prepare_status)(self);
        custom::shape(self);
    }

    fn keeps_until_empty(&self) -> bool {
        custom::is_definition(self.kind().row()) && !custom::is_ended(self)
    }

    fn begin_termination(&mut self, now: Time) -> bool {
        custom::begin_termination(self, now);
        true
    }

    fn admit(&mut self, cluster: &Cluster) {
        cluster.give_default_class(self);
    }

    fn committed(cluster: &Cluster, new: Option<&Self>) {
        if let Some(new) = new {
            cluster.seen.note(new.kind());
        }
    }

    fn identified(&self, uid: &Uid, name: &dyn Fn() -> CompactString) -> Option<Self> {
        let identify = self.kind().row().rules.identify?;
        let mut object = self.clone();
        object.metadata.uid = uid.clone();
        if object.metadata.name.is_empty() {
            object.metadata.name = name();
        }
        identify(&mut object);
        Some(object)
    }

    fn complete(&mut self, number: &dyn Fn() -> u64) {
        (self.kind().row().rules.complete)(self, number());
    }

    fn complete_existing(&mut self, number: &dyn Fn() -> u64) {
        // If a kind has `identify`, the fields were set before validation.
        if self.kind().row().rules.identify.is_none() {
            self.complete(number);
        }
    }

    fn spec_differs(&self, old: &Self) -> bool {
        let ResourceType {
            has_status,
            generation_of,
            ..
        } = *self.kind().row();
        match generation_of {
            GenerationOf::Creation => return false,
            GenerationOf::SpecAndLabels if self.metadata.labels != old.metadata.labels => {
                return true;
            }
            GenerationOf::SpecAndAnnotations
                if self.metadata.annotations != old.metadata.annotations =>
            {
                return true;
            }
            GenerationOf::Spec | GenerationOf::SpecAndLabels | GenerationOf::SpecAndAnnotations => {
            }
        }
        let is_spec = |(name, _): &(&String, &Value)| !(has_status && *name == STATUS);
        let (new, old) = (self.fields.iter(), old.fields.iter());
        new.filter(is_spec).ne(old.filter(is_spec))
    }

    fn validate_create(&self) -> Vec<Cause> {
        // An imported address may belong to another network.
        if self.kind() == builtin::SERVICE && self.metadata.uid.is_empty() {
            let causes = builtin::not_allocated(self);
            if !causes.is_empty() {
                return causes;
            }
        }
        broken_rules(self, None)
    }

    fn validate_update(&self, old: &Self) -> Vec<Cause> {
        broken_rules(self, Some(old))
    }

    fn validate_status_update(&self, old: &Self) -> Vec<Cause> {
        if let Some(cause) = too_large(self) {
            return vec![cause];
        }
        let mut causes = validate_metadata(self.kind(), &self.metadata);
        causes.extend((self.kind().row().rules.validate_status)(self, old));
        causes.extend(custom::validate(self, Some(old)));
        causes
    }
}

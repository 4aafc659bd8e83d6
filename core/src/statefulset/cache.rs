//! The cached StatefulSets, each with values that are derived once, when the set arrives.

use std::sync::{Arc, OnceLock};

use podstorm_objects::{
    AnyObject, DynamicObject, Kind, LabelSelector, Map, ObjectReference, OwnerReference,
    ResourceVersion, Selector, SelectorError, Uid,
};
use podstorm_runtime::informer::Informed;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::primitives::{Mutex, lock};
use podstorm_runtime::store::Cached;
use serde_json::Value;

use super::pod::Form;
use super::spec::{ClaimTemplate, SetSpec};
use super::status::Status;
use crate::cache::{mark, selector_mark};
use crate::revisions::{Revision, RevisionData, is_same_template, restored_spec};

/// The number of revisions whose restored forms are kept: the current and the update revision.
const FORMS_MAX: usize = 2;

/// A cached StatefulSet.
#[derive(Debug)]
pub(crate) struct CachedSet {
    pub(super) object: Arc<DynamicObject>,
    pub(super) status: Status,
    pub(super) spec: Arc<Spec>,
    /// The controller reference that the set's pods and revisions carry.
    pub(super) controller_ref: Arc<OwnerReference>,
    /// The reference that Events about the set carry.
    pub(super) reference: Arc<ObjectReference>,
}

/// The values that depend only on the spec. They are kept until the spec changes.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) read: SetSpec,
    pub(super) selector: Result<Arc<Selector>, SelectorError>,
    /// The hash that distinguishes the selector from earlier selectors of the set.
    pub(super) selector_mark: u32,
    /// The hash that distinguishes the claim templates from earlier ones of the set; 0 if there are
    /// none.
    pub(super) storage_mark: u32,
    /// The data of a revision with the current template; built on first use.
    data: OnceLock<Result<RevisionData, String>>,
    /// The restored forms of revisions, the latest last. Syncs write the list.
    forms: Mutex<Vec<(RevisionId, Arc<Form>)>>,
    /// A revision with other data that restores the same template, if one is known. Syncs write it.
    same: Mutex<Option<RevisionId>>,
}

/// The UID and version of a revision. They distinguish it from other revisions and from its earlier
/// states.
type RevisionId = (Uid, ResourceVersion);

fn id_of(revision: &Revision) -> RevisionId {
    let meta = &revision.0.metadata;
    (meta.uid.clone(), meta.resource_version.clone())
}

impl CachedSet {
    /// Returns the data of a revision with the current template.
    ///
    /// # Errors
    /// Fails if the template has a value of the wrong type.
    pub(super) fn data(&self) -> Result<&RevisionData, String> {
        let template = || spec_of(&self.object).and_then(|spec| spec.get("template"));
        let data = self.spec.data.get_or_init(|| {
            let data = RevisionData::of_template(template().unwrap_or(&Value::Null));
            data.map_err(|error| error.to_string())
        });
        data.as_ref().map_err(String::clone)
    }

    /// Reports whether `revision`, whose data differs, restores the current template.
    pub(super) fn is_same_template(&self, revision: &Revision) -> bool {
        let id = id_of(revision);
        if lock(&self.spec.same).as_ref() == Some(&id) {
            return true;
        }
        let Some((spec, data)) = spec_of(&self.object).zip(self.data().ok()) else {
            return false;
        };
        let is_same = is_same_template(spec, revision.data(), data);
        if is_same {
            *lock(&self.spec.same) = Some(id);
        }
        is_same
    }

    /// Returns the set as a revision restores it.
    ///
    /// # Errors
    /// Fails if the revision can't be applied.
    pub(super) fn form(&self, revision: &Revision) -> Result<Arc<Form>, String> {
        let id = id_of(revision);
        let known = |forms: &Vec<(RevisionId, Arc<Form>)>| {
            let known = forms.iter().find(|(known, _)| *known == id);
            known.map(|(_, form)| Arc::clone(form))
        };
        if let Some(known) = known(&lock(&self.spec.forms)) {
            return Ok(known);
        }
        let live = spec_of(&self.object).cloned().unwrap_or_default();
        let spec = restored_spec(&live, revision.data()).map_err(|error| error.to_string())?;
        let form = Form::new(&self.object.metadata, &self.controller_ref, &spec)?;
        let form = Arc::new(form);
        let mut forms = lock(&self.spec.forms);
        if forms.len() == FORMS_MAX {
            forms.remove(0);
        }
        forms.push((id, Arc::clone(&form)));
        Ok(form)
    }
}

fn spec_of(object: &DynamicObject) -> Option<&Map> {
    object.fields.get("spec")?.as_object()
}

fn storage_mark(spec: &SetSpec) -> u32 {
    let names = spec.claim_templates.iter().map(ClaimTemplate::name);
    let names: Vec<&str> = names.collect();
    if names.is_empty() { 0 } else { mark(&names) }
}

impl Spec {
    fn from_object(object: &DynamicObject) -> Spec {
        let empty = Map::new();
        let spec = spec_of(object).unwrap_or(&empty);
        let selector = spec.get("selector").filter(|it| !it.is_null()).cloned();
        let selector = selector.and_then(|it| LabelSelector::from_json(it).ok());
        let selector = Selector::compile(selector.as_ref()).map(Arc::new);
        let read = SetSpec::read(spec);
        Spec {
            selector_mark: selector_mark(&selector),
            storage_mark: storage_mark(&read),
            read,
            selector,
            data: OnceLock::new(),
            forms: Mutex::default(),
            same: Mutex::default(),
        }
    }
}

impl Cached for CachedSet {
    type Object = DynamicObject;
    type Context = ();

    fn derive(object: Arc<DynamicObject>, _: KeyId, old: Option<&Self>, _: &()) -> Self {
        let is_same = |old: &&Self| {
            let [was, is] = [&old.object, &object];
            was.metadata.uid == is.metadata.uid && spec_of(was) == spec_of(is)
        };
        let spec = match old.filter(is_same) {
            Some(same) => Arc::clone(&same.spec),
            None => Arc::new(Spec::from_object(&object)),
        };
        let meta = &object.metadata;
        CachedSet {
            status: Status::read(&object),
            spec,
            controller_ref: Arc::new(Kind::STATEFUL_SET.controller_reference(meta)),
            reference: Arc::new(ObjectReference::new(Kind::STATEFUL_SET, meta)),
            object,
        }
    }

    fn object(&self) -> &Arc<DynamicObject> {
        &self.object
    }

    fn selector(&self) -> Option<&Arc<Selector>> {
        self.spec.selector.as_ref().ok()
    }
}

impl Informed for CachedSet {
    fn read(object: AnyObject) -> Option<Arc<DynamicObject>> {
        object.downcast()
    }
}

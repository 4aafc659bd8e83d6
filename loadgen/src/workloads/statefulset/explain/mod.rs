//! How far a StatefulSet is.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Result, bail};
use podstorm::statefulset::course::Course;
use podstorm_objects::{DynamicObject, Kind};
use serde::Serialize;

use crate::input::InputObject;
use crate::text::json;
use crate::workloads::explain::{Asked, Explanation, Layout};
use crate::workloads::replicaset::explain::find::untyped;
use crate::workloads::replicaset::explain::table::paragraph;

/// The answer.
#[derive(Clone, Debug, Serialize)]
struct Answer {
    /// The version of these fields: raised when one changes its meaning.
    schema_version: u32,
    /// `StatefulSet`.
    kind: &'static str,
    namespace: String,
    name: String,
    /// What `kubectl rollout status` says.
    rollout: String,
}

/// Answers about the StatefulSet of that name.
///
/// # Errors
/// None of that name, or several; a question that StatefulSets don't answer.
pub(super) fn answer(name: &str, asked: Asked) -> Result<Box<dyn Explanation>> {
    if !asked.preferred.is_none() {
        bail!(
            "{}: a StatefulSet reads no deletion cost, and no annotation changes which pods go; leave it out",
            asked.preferred.text()
        );
    }
    let sets = asked.objects.into_iter().filter_map(|object| match object {
        InputObject::Dynamic(object) if object.kind() == Kind::STATEFUL_SET => {
            Some(Arc::<DynamicObject>::from(object))
        }
        _ => None,
    });
    let (set, _) = untyped(
        Kind::STATEFUL_SET,
        name,
        sets.collect(),
        "sts,pods,pvc,controllerrevisions",
    )?;
    let status = Course::of(&*set).map(|course| course.rollout_status());
    Ok(Box::new(Answer {
        schema_version: 1,
        kind: "StatefulSet",
        namespace: set.metadata.namespace.to_string(),
        name: set.metadata.name.to_string(),
        rollout: match status {
            Some(Ok(status)) => status.message,
            Some(Err(error)) => error.to_string(),
            None => String::new(),
        },
    }))
}

impl Explanation for Answer {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        json::write(out, self)
    }

    fn text(&self, layout: Layout) -> String {
        let mut out = String::new();
        let text = format!(
            "StatefulSet {}/{}: {}",
            self.namespace, self.name, self.rollout
        );
        paragraph(&mut out, &text, usize::from(layout.width));
        out
    }
}

//! `kubectl rollout history` and `undo`: the revisions that a Deployment's ReplicaSets preserve,
//! and the return to one of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use podstorm_objects::{Deployment, Labels, ReplicaSet, Selector, Str};

use super::super::annotations::{CHANGE_CAUSE, is_copied};
use super::super::find_new::{new_and_old, revision};
use super::RolloutError;
use crate::template::{TemplateForm, same_template, without_hash_label};

/// The revisions of a Deployment, in ascending order. `Display` formats them as the table that
/// kubectl prints.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The revisions, one row each.
    pub rows: Vec<HistoryRow>,
}

/// A revision of a Deployment.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryRow {
    /// The number of the revision; 0 if the ReplicaSet has none.
    pub revision: i64,
    /// The human-readable reason for the revision.
    pub change_cause: Option<Str>,
    /// The ReplicaSet with the template of the revision.
    pub replica_set: Arc<ReplicaSet>,
}

/// What `kubectl rollout undo` does to return to a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undo {
    /// The JSON patch that kubectl sends; `None` if the Deployment already has the template.
    pub patch: Option<String>,
    /// The message that kubectl prints after the Deployment's name.
    pub message: String,
}

/// Returns the history of a Deployment. `replica_sets` are those in its namespace, in any order.
/// Revisions that can't be parsed are left out. If several ReplicaSets have the same revision, the
/// row has the new ReplicaSet or, if that is not one of them, the youngest.
///
/// # Errors
/// Fails if the Deployment's selector can't be compiled.
pub fn history(
    deployment: &Deployment,
    replica_sets: &[Arc<ReplicaSet>],
) -> Result<History, RolloutError> {
    let mut rows = BTreeMap::new();
    for it in owned(deployment, replica_sets)? {
        if let Some(revision) = it.revision {
            rows.insert(revision, it.replica_set);
        }
    }
    let rows = rows.into_iter().map(|(revision, replica_set)| HistoryRow {
        revision,
        change_cause: change_cause(&replica_set),
        replica_set,
    });
    Ok(History {
        rows: rows.collect(),
    })
}

/// Returns how to return to the revision `to_revision`; 0 means the one before the last.
///
/// # Errors
/// Fails if there is no such revision, the Deployment is paused, or its selector can't be compiled.
pub fn undo(
    deployment: &Deployment,
    replica_sets: &[Arc<ReplicaSet>],
    to_revision: i64,
) -> Result<Undo, RolloutError> {
    if to_revision < 0 {
        return Err(RolloutError::NotInHistory(to_revision));
    }
    let owned = owned(deployment, replica_sets)?;
    let target = if to_revision == 0 {
        let name = || deployment.metadata.name.clone();
        before_last(&owned).ok_or_else(|| RolloutError::NoHistory(name()))?
    } else {
        let found = owned.iter().find(|it| it.revision == Some(to_revision));
        found.ok_or(RolloutError::NotInHistory(to_revision))?
    };
    if deployment.spec.paused {
        return Err(RolloutError::Paused);
    }
    let (wanted, current) = (&target.replica_set.spec.template, &deployment.spec.template);
    if same_template(
        wanted,
        &target.form,
        current,
        &TemplateForm::from_template(current),
    ) {
        return Ok(Undo {
            patch: None,
            message: format!(
                "skipped rollback (current template already matches revision {to_revision})"
            ),
        });
    }
    Ok(Undo {
        patch: Some(patch(deployment, &target.replica_set)),
        message: "rolled back".to_owned(),
    })
}

impl History {
    /// Returns the row of a revision, whose template kubectl describes. If the history is empty,
    /// kubectl prints the history instead.
    ///
    /// # Errors
    /// Fails if the history lacks the revision.
    pub fn at(&self, revision: i64) -> Result<&HistoryRow, RolloutError> {
        let found = self
            .rows
            .binary_search_by_key(&revision, |row| row.revision);
        Ok(&self.rows[found.map_err(|_| RolloutError::NothingToShow)?])
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return f.write_str("No rollout history found.");
        }
        let numbers: Vec<String> = self
            .rows
            .iter()
            .map(|row| row.revision.to_string())
            .collect();
        let title = "REVISION";
        let widest = numbers.iter().map(String::len).max().unwrap_or(0);
        let width = widest.max(title.len());
        writeln!(f, "{title:width$}  CHANGE-CAUSE")?;
        for (number, row) in numbers.iter().zip(&self.rows) {
            let cause = row.change_cause.as_deref().unwrap_or("<none>");
            writeln!(f, "{number:width$}  {cause}")?;
        }
        Ok(())
    }
}

/// A ReplicaSet of the Deployment. Its revision is 0 if absent, `None` if it can't be parsed.
struct Owned {
    replica_set: Arc<ReplicaSet>,
    form: TemplateForm,
    revision: Option<i64>,
}

/// Returns the Deployment's ReplicaSets that match its selector: the old ones by creation, and then
/// the new one.
fn owned(
    deployment: &Deployment,
    replica_sets: &[Arc<ReplicaSet>],
) -> Result<Vec<Owned>, RolloutError> {
    let selector = Selector::compile(deployment.spec.selector.as_deref())?;
    let is_owned = |it: &&Arc<ReplicaSet>| {
        let owner = it.metadata.controller();
        selector.matches(&it.metadata.labels)
            && owner.is_some_and(|owner| owner.uid == deployment.metadata.uid)
    };
    let owned = replica_sets.iter().filter(is_owned).map(|it| Owned {
        replica_set: it.clone(),
        form: TemplateForm::from_template(&it.spec.template),
        revision: revision(&it.metadata).ok().map(|it| it.unwrap_or(0)),
    });
    let mut owned: Vec<Owned> = owned.collect();
    let template = &deployment.spec.template;
    let form = TemplateForm::from_template(template);
    let new = new_and_old(
        &mut owned,
        |it| &it.replica_set,
        |it| &it.form,
        template,
        &form,
    );
    if let Some(new) = new {
        owned[new..].rotate_left(1);
    }
    Ok(owned)
}

/// Returns the ReplicaSet with the second highest revision; the first one if several have it.
fn before_last(owned: &[Owned]) -> Option<&Owned> {
    let (mut last, mut before): (Option<&Owned>, Option<&Owned>) = (None, None);
    for it in owned
        .iter()
        .filter(|it| it.revision.is_some_and(|it| it >= 0))
    {
        if last.is_none_or(|last| last.revision < it.revision) {
            (before, last) = (last, Some(it));
        } else if before.is_none_or(|before| before.revision < it.revision) {
            before = Some(it);
        }
    }
    before
}

/// Returns the change cause in the annotations of the ReplicaSet or, if absent, of its template.
fn change_cause(replica_set: &ReplicaSet) -> Option<Str> {
    let own = &replica_set.metadata.annotations;
    let of_template = &replica_set.spec.template.metadata.annotations;
    let given = |annotations: &Labels| {
        annotations
            .get(CHANGE_CAUSE)
            .filter(|it| !it.is_empty())
            .cloned()
    };
    given(own).or_else(|| given(of_template))
}

/// Returns the patch that gives a Deployment the template and the annotations of a ReplicaSet,
/// except for annotations that are never copied. Like kubectl's, the patch fails if the Deployment
/// has no annotations.
fn patch(deployment: &Deployment, replica_set: &ReplicaSet) -> String {
    let template = without_hash_label(&replica_set.spec.template);
    let annotations = |of: &Labels, copied: bool| {
        let kept = of
            .pairs()
            .iter()
            .filter(|(name, _)| is_copied(name) == copied);
        kept.cloned().collect::<Vec<(Str, Str)>>()
    };
    let mut pairs = annotations(&deployment.metadata.annotations, false);
    pairs.extend(annotations(&replica_set.metadata.annotations, true));
    format!(
        r#"[{{"op":"replace","path":"/spec/template","value":{}}},{{"op":"replace","path":"/metadata/annotations","value":{}}}]"#,
        template.to_json(),
        Labels::from_pairs(pairs).to_json(),
    )
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Resource;
    use serde_json::json;

    use super::*;
    use crate::deployment::annotations::REVISION;

    fn owned_by(uid: &str, revision: &str) -> Arc<ReplicaSet> {
        let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
            "uid": uid, "controller": true});
        let replica_set = ReplicaSet::from_json(
            json!({"metadata": {"name": revision, "labels": {"app": "web"},
            "annotations": {REVISION: revision}, "ownerReferences": [owner]}}),
        );
        Arc::new(replica_set.expect("a ReplicaSet"))
    }

    fn deployment() -> Deployment {
        Deployment::from_json(json!({"metadata": {"name": "web", "uid": "u"},
            "spec": {"selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}}}}))
        .expect("a Deployment")
    }

    #[test]
    fn long_revision_numbers_widen_the_table() {
        let sets = ["3", "1234567890", "x"].map(|it| owned_by("u", it));
        let history = history(&deployment(), &sets).expect("a good selector");
        assert_eq!(
            history.to_string(),
            "REVISION    CHANGE-CAUSE\n3           <none>\n1234567890  <none>\n"
        );
        let third = history.at(3).map(|row| &*row.replica_set.metadata.name);
        assert_eq!(third, Ok("3"));
        assert_eq!(history.at(4), Err(RolloutError::NothingToShow));
    }

    #[test]
    fn other_owners_and_broken_selectors_are_not_history() {
        let sets = [owned_by("other", "3")];
        let mut deployment = deployment();
        let history_of = |deployment: &Deployment| history(deployment, &sets);
        let rows = history_of(&deployment).map(|it| it.rows);
        assert_eq!(rows, Ok(Vec::new()));
        assert_eq!(
            undo(&deployment, &sets, 0),
            Err(RolloutError::NoHistory("web".into()))
        );
        let selector = json!({"matchExpressions": [{"key": "a", "operator": "Bad"}]});
        let selector = podstorm_objects::LabelSelector::from_json(selector).expect("readable");
        deployment.spec.selector = Some(Arc::new(selector));
        assert!(matches!(
            history_of(&deployment),
            Err(RolloutError::Selector(_))
        ));
    }
}

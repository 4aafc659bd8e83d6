//! The checks of invariant N7 for revisions: their numbers increase, and no revision in use is
//! deleted.

use podstorm_objects::DynamicObject;

use super::SetJudge;
use super::seen::Seen;
use crate::simulation::Checked;
use crate::workloads::statefulsets::read::{number_of, revision_of, template_of_revision};

impl SetJudge {
    pub(super) fn revision_written(
        &mut self,
        seen: &Seen,
        old: Option<&DynamicObject>,
        new: &DynamicObject,
        is_gone: bool,
    ) -> Checked {
        let (set, name) = (seen.read(), &new.metadata.name);
        if is_gone {
            return self.revision_deleted(seen, new);
        }
        let number = number_of(new);
        let is_new = match old {
            // The revision was adopted, not renumbered.
            Some(old) if number_of(old) == number => {
                let was_free = old.metadata.controller().is_none();
                return match was_free && set.owns(&new.metadata) {
                    true => Ok(()),
                    false => Err(("N7", format!("{name} was written"))),
                };
            }
            Some(_) => false,
            None => true,
        };
        let seen_numbers = seen.revisions.iter().map(|it| number_of(it));
        let highest = seen_numbers.fold(0, i64::max);
        let template = template_of_revision(new);
        if number != highest + 1 || template != set.template() {
            let text = format!("{name} got the number {number} after {highest}");
            return Err(("N7", text));
        }
        if !is_new {
            self.situations.insert("an earlier revision is reused");
        }
        Ok(())
    }

    fn revision_deleted(&mut self, seen: &Seen, revision: &DynamicObject) -> Checked {
        let (set, name) = (seen.read(), &revision.metadata.name);
        let template = set.template();
        let is_live = |of: &str| {
            let is_used = seen
                .claimed()
                .any(|(_, pod)| revision_of(&pod.metadata) == of);
            let is_found = seen.current() == Some(of) || self.is_of(of, &template);
            is_used || is_found && !seen.lacks_revisions
        };
        if is_live(name) {
            return Err(("N7", format!("{name} was deleted, but is in use")));
        }
        // The check uses the numbers that were seen and the names, because a deletion may hit
        // another revision with the same name.
        let mut known = seen.revisions.iter();
        let known = known.find(|it| it.metadata.name == *name);
        let number = number_of(known.map_or(revision, |known| known));
        let newer = seen.revisions.iter().filter(|it| {
            let is_other = it.metadata.name != *name;
            is_other && number_of(it) >= number && !is_live(&it.metadata.name)
        });
        let newer = newer.count() as i64;
        let limit = set.history_limit();
        self.situations.insert("the history is truncated");
        if newer < limit {
            let text = format!("{name} was deleted: {newer} are newer, but {limit} must be kept");
            return Err(("N7", text));
        }
        Ok(())
    }
}

//! The checks of invariant N6: the claims that a sync creates, and the owner references that it
//! sets on claims.

use podstorm_objects::{DynamicObject, ObjectMeta, Uid};

use super::SetJudge;
use super::seen::Seen;
use crate::simulation::Checked;

impl SetJudge {
    pub(super) fn claim_written(
        &mut self,
        seen: &Seen,
        old: Option<&DynamicObject>,
        new: &DynamicObject,
        is_gone: bool,
    ) -> Checked {
        let (set, name) = (seen.read(), &new.metadata.name);
        if is_gone || new.metadata.is_deleting() && old.is_some_and(|it| !it.metadata.is_deleting())
        {
            return Err(("N6", format!("{name} was deleted")));
        }
        if set.is_deleting() {
            let text = format!("{name} was written although its set was terminating");
            return Err(("N8", text));
        }
        // The ordinal and the name of the claim's pod.
        let of_pod = set.claim_templates().find_map(|template| {
            let pod = name.strip_prefix(template)?.strip_prefix('-')?;
            let meta = ObjectMeta {
                name: pod.into(),
                ..Default::default()
            };
            set.ordinal(&meta).map(|ordinal| (ordinal, meta))
        });
        let Some((ordinal, pod)) = of_pod else {
            return Err(("N6", format!("{name} is not a claim of the set")));
        };
        let Some(old) = old else {
            self.situations.insert("a claim is created");
            let is_wanted = set.ordinals().contains(&ordinal);
            return match is_wanted && new.metadata.owner_references.is_empty() {
                true => Ok(()),
                false => Err(("N6", format!("{name} was created"))),
            };
        };
        let refs = &old.metadata.owner_references;
        let owners = new.metadata.owner_references.iter();
        let owners: Vec<Uid> = owners.map(|it| it.uid.clone()).collect();
        let is_same = old.fields == new.fields && old.metadata.labels == new.metadata.labels;
        let is_right = |pod: &ObjectMeta| {
            !set.is_hands_off(pod, refs) && owners == set.claim_owners(pod, refs)
        };
        // A new pod does not have a UID yet when the existing claims for its name are corrected.
        let mut pods = seen.of_ordinal(ordinal).map(|pod| &pod.metadata);
        let is_right = is_right(&pod) || pods.any(is_right);
        if is_same && is_right {
            self.situations.insert("a claim gets other owners");
            return Ok(());
        }
        let text = format!("{name} was written with the owners {owners:?}");
        Err(("N6", text))
    }
}

//! The owner references of an object, in a list that takes two words.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::{Str, Uid};

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerReference {
    /// The group and version of the owner, e.g. `apps/v1`.
    pub api_version: Str,
    /// The kind of the owner, e.g. `ReplicaSet`.
    pub kind: Str,
    /// The name of the owner, which is in the same namespace or cluster-scoped.
    pub name: Str,
    /// The UID of the owner.
    pub uid: Uid,
    /// Whether this owner is the controller of the object.
    pub controller: Option<bool>,
    /// Whether foreground deletion of the owner waits for this object.
    pub block_owner_deletion: Option<bool>,
}

/// `metadata.ownerReferences`: a list that derefs to a slice. Most objects have at most one owner,
/// which takes no allocation. Changing a longer list copies it.
#[derive(Clone)]
pub struct OwnerReferences(Repr);

#[derive(Clone)]
enum Repr {
    /// Zero or one owner.
    Few(Option<Arc<OwnerReference>>),
    /// Any number of owners, usually several.
    Many(Box<[Arc<OwnerReference>]>),
}

/// The metadata of every object contains this list, so it must be small.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<OwnerReferences>() == 16);

impl OwnerReferences {
    /// Creates the empty list.
    pub const fn new() -> OwnerReferences {
        OwnerReferences(Repr::Few(None))
    }

    /// Appends an owner. O(length).
    pub fn push(&mut self, owner: Arc<OwnerReference>) {
        self.insert(self.len(), owner);
    }

    /// Inserts an owner before the one at `index`. O(length).
    ///
    /// # Panics
    /// Panics if `index` is beyond the end.
    pub fn insert(&mut self, index: usize, owner: Arc<OwnerReference>) {
        if let Repr::Few(one @ None) = &mut self.0
            && index == 0
        {
            *one = Some(owner);
            return;
        }
        let mut all = std::mem::take(self).into_vec();
        all.insert(index, owner);
        *self = all.into();
    }

    /// Keeps the owners for which `keep` returns true, in order. O(length).
    pub fn retain(&mut self, mut keep: impl FnMut(&Arc<OwnerReference>) -> bool) {
        match &mut self.0 {
            Repr::Few(one) => drop(one.take_if(|owner| !keep(owner))),
            Repr::Many(_) => {
                let mut all = std::mem::take(self).into_vec();
                all.retain(keep);
                *self = all.into();
            }
        }
    }

    /// Removes all owners.
    pub fn clear(&mut self) {
        *self = OwnerReferences::new();
    }

    /// Returns the first owner whose `controller` is true; `None` if there is none.
    #[inline]
    pub fn controller(&self) -> Option<&Arc<OwnerReference>> {
        // Called for every event of a pod, so the case of a single owner has no loop.
        let is_controller = |owner: &&Arc<OwnerReference>| owner.controller == Some(true);
        match &self.0 {
            Repr::Few(one) => one.as_ref().filter(is_controller),
            Repr::Many(all) => all.iter().find(is_controller),
        }
    }

    /// Reports whether the list needs an allocation.
    pub fn spilled(&self) -> bool {
        matches!(self.0, Repr::Many(_))
    }

    fn into_vec(self) -> Vec<Arc<OwnerReference>> {
        match self.0 {
            Repr::Few(one) => one.into_iter().collect(),
            Repr::Many(all) => all.into_vec(),
        }
    }
}

impl Default for OwnerReferences {
    fn default() -> Self {
        OwnerReferences::new()
    }
}

impl Deref for OwnerReferences {
    type Target = [Arc<OwnerReference>];

    fn deref(&self) -> &Self::Target {
        match &self.0 {
            Repr::Few(one) => one.as_slice(),
            Repr::Many(all) => all,
        }
    }
}

impl DerefMut for OwnerReferences {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match &mut self.0 {
            Repr::Few(one) => one.as_mut_slice(),
            Repr::Many(all) => all,
        }
    }
}

impl PartialEq for OwnerReferences {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl std::fmt::Debug for OwnerReferences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

impl From<Vec<Arc<OwnerReference>>> for OwnerReferences {
    fn from(mut all: Vec<Arc<OwnerReference>>) -> Self {
        OwnerReferences(if all.len() < 2 {
            Repr::Few(all.pop())
        } else {
            Repr::Many(all.into())
        })
    }
}

impl FromIterator<Arc<OwnerReference>> for OwnerReferences {
    fn from_iter<I: IntoIterator<Item = Arc<OwnerReference>>>(owners: I) -> Self {
        let mut owners = owners.into_iter();
        let (first, second) = (owners.next(), owners.next());
        if second.is_none() {
            return OwnerReferences(Repr::Few(first));
        }
        let all = first.into_iter().chain(second).chain(owners);
        OwnerReferences(Repr::Many(all.collect()))
    }
}

impl Extend<Arc<OwnerReference>> for OwnerReferences {
    fn extend<I: IntoIterator<Item = Arc<OwnerReference>>>(&mut self, owners: I) {
        let before = std::mem::take(self);
        *self = before.into_iter().chain(owners).collect();
    }
}

impl IntoIterator for OwnerReferences {
    type Item = Arc<OwnerReference>;
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_vec().into_iter()
    }
}

impl<'a> IntoIterator for &'a OwnerReferences {
    type Item = &'a Arc<OwnerReference>;
    type IntoIter = std::slice::Iter<'a, Arc<OwnerReference>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut OwnerReferences {
    type Item = &'a mut Arc<OwnerReference>;
    type IntoIter = std::slice::IterMut<'a, Arc<OwnerReference>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn owner(name: u8) -> Arc<OwnerReference> {
        Arc::new(OwnerReference {
            api_version: "v1".into(),
            kind: "Thing".into(),
            name: name.to_string().into(),
            uid: "u".into(),
            controller: None,
            block_owner_deletion: None,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn the_controller_is_the_first_owner_marked_as_one(flags in proptest::collection::vec(0..3u8, 0..5)) {
            let owners = flags.iter().zip(0..).map(|(flag, name)| {
                let controller = [None, Some(false), Some(true)][usize::from(*flag)];
                let owner = OwnerReference::clone(&owner(name));
                Arc::new(OwnerReference { controller, ..owner })
            });
            let owners: Vec<Arc<OwnerReference>> = owners.collect();
            let first = owners.iter().find(|owner| owner.controller == Some(true));
            let list = OwnerReferences::from(owners.clone());
            prop_assert_eq!(list.controller(), first);
        }

        #[test]
        fn the_list_behaves_like_a_vector(steps in proptest::collection::vec((0..6u8, 0..9u8), 0..12)) {
            let (mut list, mut model) = (OwnerReferences::new(), Vec::new());
            for (step, name) in steps {
                let one = owner(name);
                match step {
                    0 => {
                        list.clear();
                        model.clear();
                    }
                    1 => {
                        let at = usize::from(name) % (model.len() + 1);
                        list.insert(at, one.clone());
                        model.insert(at, one);
                    }
                    2 => {
                        list.retain(|other| *other != one);
                        model.retain(|other| *other != one);
                    }
                    3 => {
                        list.extend([one.clone(), one.clone()]);
                        model.extend([one.clone(), one]);
                    }
                    4 => {
                        list = list.iter().cloned().collect();
                        for (mine, its) in list.iter_mut().zip(&mut model) {
                            *mine = one.clone();
                            *its = one.clone();
                        }
                    }
                    _ => {
                        list.push(one.clone());
                        model.push(one);
                    }
                }
                prop_assert_eq!(&*list, &*model);
                prop_assert_eq!(list.spilled(), model.len() > 1);
                prop_assert_eq!(&list, &OwnerReferences::from(model.clone()));
                prop_assert_eq!(list.clone().into_iter().collect::<Vec<_>>(), model.clone());
            }
        }
    }
}

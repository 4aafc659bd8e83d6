//! What the server serves, by group version and resource: the tables that paths are looked up in and
//! discovery is written from.

use std::collections::BTreeMap;

use podstorm_objects::Kind;

/// A group with a version, as in paths and `apiVersion`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupVersion {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
}

impl GroupVersion {
    pub(crate) fn of(api_version: &str) -> GroupVersion {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        GroupVersion {
            group: group.to_owned(),
            version: version.to_owned(),
        }
    }

    /// The `apiVersion`: `v1` or `apps/v1`.
    pub(crate) fn text(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// The kinds that a server serves.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    kinds: BTreeMap<GroupVersion, Vec<Kind>>,
}

impl Catalog {
    /// The kinds sorted by group version, then by resource.
    pub(crate) fn new(kinds: impl IntoIterator<Item = Kind>) -> Catalog {
        let mut sorted: BTreeMap<GroupVersion, Vec<Kind>> = BTreeMap::new();
        for kind in kinds {
            let key = GroupVersion::of(kind.api_version());
            sorted.entry(key).or_default().push(kind);
        }
        for kinds in sorted.values_mut() {
            kinds.sort_by_key(|kind| kind.resource());
        }
        Catalog { kinds: sorted }
    }

    /// The kinds of a group version, sorted by resource.
    pub(crate) fn kinds(&self, of: &GroupVersion) -> Option<&[Kind]> {
        self.kinds.get(of).map(Vec::as_slice)
    }

    pub(crate) fn find(&self, of: &GroupVersion, resource: &str) -> Option<Kind> {
        let kinds = self.kinds(of)?;
        kinds
            .iter()
            .copied()
            .find(|kind| kind.resource() == resource)
    }

    /// The groups but the core one, sorted, with their versions.
    pub(crate) fn groups(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for key in self.kinds.keys().filter(|key| !key.group.is_empty()) {
            groups.entry(&key.group).or_default().push(&key.version);
        }
        groups
    }

    /// All group versions, the core group first.
    pub(crate) fn group_versions(&self) -> impl Iterator<Item = &GroupVersion> {
        self.kinds.keys()
    }
}

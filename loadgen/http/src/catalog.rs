//! The catalog of served kinds by group version and resource, for looking up paths and for
//! discovery.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use podstorm_objects::{Kind, Now, Subresource};
use serde_json::Value;

/// A group and a version, as in paths and in `apiVersion`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupVersion {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
}

impl GroupVersion {
    pub(crate) fn parse(api_version: &str) -> GroupVersion {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        GroupVersion {
            group: group.to_owned(),
            version: version.to_owned(),
        }
    }

    /// Formats the group version as an `apiVersion`: `v1` or `apps/v1`.
    pub(crate) fn text(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// Kubernetes' API groups, highest priority first.
///
/// Source: `apiVersionPriorities` of Kubernetes' `kube-aggregator`.
const GROUPS: [&str; 20] = [
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// Returns the sort key of a version: stable versions come first, then beta, then alpha, the newest
/// of each first. Names of any other form come last.
///
/// Source: `version.CompareKubeAwareVersionStrings` of Kubernetes' apimachinery.
fn priority(version: &str) -> (u8, Reverse<u32>, Reverse<u32>, &str) {
    let last = (3, Reverse(0), Reverse(0), version);
    let Some(rest) = version.strip_prefix('v') else {
        return last;
    };
    let digits = rest.len()
        - rest
            .trim_start_matches(|it: char| it.is_ascii_digit())
            .len();
    let (major, rest) = rest.split_at(digits);
    let Ok(major) = major.parse::<u32>() else {
        return last;
    };
    let (stage, minor) = match rest {
        "" => return (0, Reverse(major), Reverse(0), ""),
        rest if rest.starts_with("beta") => (1, &rest["beta".len()..]),
        rest if rest.starts_with("alpha") => (2, &rest["alpha".len()..]),
        _ => return last,
    };
    match minor.parse::<u32>() {
        Ok(minor) => (stage, Reverse(major), Reverse(minor), ""),
        Err(_) => last,
    }
}

/// The OpenAPI v2 document of a catalog.
#[derive(Debug)]
pub(crate) struct OlderOpenApi {
    pub(crate) json: Bytes,
    pub(crate) protobuf: Bytes,
    pub(crate) tag: String,
}

/// The kinds that a server serves.
#[derive(Debug)]
pub(crate) struct Catalog {
    /// The generation of the cluster's kinds when the catalog was built.
    pub(crate) generation: u64,
    /// When the catalog was built, on the server's clock.
    pub(crate) made: SystemTime,
    kinds: BTreeMap<GroupVersion, Vec<Kind>>,
    /// The OpenAPI tags of the group versions, computed on first request.
    openapi_tags: BTreeMap<GroupVersion, Arc<OnceLock<String>>>,
    /// Keeps the schemas of custom kinds alive as long as the catalog, even if their definitions
    /// change.
    _schemas: Vec<Arc<Value>>,
    /// The OpenAPI v2 document, computed on first request.
    older_openapi: OnceLock<OlderOpenApi>,
}

impl Catalog {
    /// Builds a catalog with the kinds sorted by group version, then by resource.
    pub(crate) fn new(
        generation: u64,
        made: Now,
        kinds: impl IntoIterator<Item = Kind>,
    ) -> Catalog {
        let mut sorted: BTreeMap<GroupVersion, Vec<Kind>> = BTreeMap::new();
        for kind in kinds {
            let key = GroupVersion::parse(kind.api_version());
            sorted.entry(key).or_default().push(kind);
        }
        for kinds in sorted.values_mut() {
            kinds.sort_by_key(|kind| kind.resource());
        }
        let custom = sorted.values().flatten();
        let custom = custom.filter_map(|kind| kind.row().custom?.schema.held());
        Catalog {
            _schemas: custom.collect(),
            generation,
            made: UNIX_EPOCH + Duration::from_nanos(u64::try_from(made.wall_ns).unwrap_or(0)),
            openapi_tags: sorted
                .keys()
                .map(|of| (of.clone(), Arc::default()))
                .collect(),
            kinds: sorted,
            older_openapi: OnceLock::new(),
        }
    }

    /// Reuses the OpenAPI tags of `before` for the group versions that have not changed. O(kinds).
    pub(crate) fn keep_openapi_tags(&mut self, before: &Catalog) {
        for (of, tag) in &mut self.openapi_tags {
            let (Some(now), Some(then)) = (self.kinds.get(of), before.kinds.get(of)) else {
                continue;
            };
            let same = |(now, then): (&Kind, &Kind)| std::ptr::eq(now.row(), then.row());
            if now.len() == then.len() && now.iter().zip(then).all(same) {
                *tag = Arc::clone(&before.openapi_tags[of]);
            }
        }
    }

    /// Returns the slot for the tag of a group version's OpenAPI document.
    pub(crate) fn openapi_tag(&self, of: &GroupVersion) -> &OnceLock<String> {
        &self.openapi_tags[of]
    }

    /// Returns the OpenAPI v2 document. The first call builds it with `make`.
    pub(crate) fn older_openapi(
        &self,
        make: impl FnOnce(&Catalog) -> OlderOpenApi,
    ) -> &OlderOpenApi {
        self.older_openapi.get_or_init(|| make(self))
    }

    /// Reports whether the kinds of a group come from CustomResourceDefinitions.
    pub(crate) fn is_custom(&self, group: &str) -> bool {
        let of_group = self.kinds.iter().filter(|(of, _)| of.group == group);
        of_group
            .flat_map(|(_, kinds)| kinds)
            .any(|kind| kind.row().custom.is_some())
    }

    /// Returns the kinds of a group version, sorted by resource; `None` if it is not served.
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

    /// Returns all groups except the core group, each with its versions. The groups come in the
    /// order in which clients search for a resource by its bare name. The preferred version of a
    /// group comes first.
    pub(crate) fn groups(&self) -> Vec<(&str, Vec<&str>)> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for key in self.kinds.keys().filter(|key| !key.group.is_empty()) {
            match groups.last_mut() {
                Some((group, versions)) if *group == key.group => versions.push(&key.version),
                _ => groups.push((&key.group, vec![&key.version])),
            }
        }
        for (_, versions) in &mut groups {
            versions.sort_by_key(|version| priority(version));
        }
        let rank = |group: &str| GROUPS.iter().position(|known| *known == group);
        // Groups of custom resources come last, by name.
        groups.sort_by_key(|(group, _)| rank(group).unwrap_or(GROUPS.len()));
        groups
    }

    /// Returns the versions of a group, the preferred one first; empty if the group is not served.
    pub(crate) fn versions(&self, group: &str) -> Vec<&str> {
        let of_group = self.kinds.keys().filter(|of| of.group == group);
        let mut versions: Vec<&str> = of_group.map(|of| of.version.as_str()).collect();
        versions.sort_by_key(|version| priority(version));
        versions
    }

    /// Reports whether a group is served.
    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.kinds.keys().any(|of| of.group == group)
    }

    /// Returns all group versions, the core group first.
    pub(crate) fn group_versions(&self) -> impl Iterator<Item = &GroupVersion> {
        self.kinds.keys()
    }
}

/// Returns the subresources of a kind, sorted by name.
pub(crate) fn subresources(kind: Kind) -> Vec<Subresource> {
    let row = kind.row();
    let mut all = row.subresources.to_vec();
    if row.has_status {
        all.push(Subresource {
            name: "status",
            kind: row.kind,
            api_version: row.api_version,
            verbs: Subresource::CHANGE,
        });
    }
    if row.has_scale {
        all.push(Subresource {
            name: "scale",
            kind: "Scale",
            api_version: "autoscaling/v1",
            verbs: Subresource::CHANGE,
        });
    }
    all.sort_by_key(|part| part.name);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_by_client_preference() {
        let versions = "v1beta1 foo1 v2 v1alpha2 v1 v10 v2beta1 v1alpha10";
        let mut versions: Vec<&str> = versions.split(' ').collect();
        versions.sort_by_key(|version| priority(version));
        let wanted = "v10 v2 v1 v2beta1 v1beta1 v1alpha10 v1alpha2 foo1";
        assert_eq!(versions.join(" "), wanted);
    }
}

//! Lists: whole, by namespace, or in pages that all show one version.

use std::collections::VecDeque;
use std::sync::Arc;

use podstorm_objects::{ApiError, Kind, ResourceVersion};

use super::store::lock::Lock;
use super::{Cluster, ClusterResource, KindStore, Strategy, errors};

/// Unfinished paged lists that are kept; the oldest is given up for a new one.
const PAGED_LISTS_MAX: usize = 16;

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions<'a> {
    /// One namespace only.
    pub namespace: Option<&'a str>,
    /// At most so many objects; 0 is all.
    pub limit: usize,
    /// Goes on where the page that gave this token ended; empty begins a list.
    pub continue_token: &'a str,
    /// Not older than this version. Unset and `0` take any; the server's state is always current.
    pub resource_version: ResourceVersion,
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct ListPage<R: ?Sized> {
    /// Sorted by namespace and name.
    pub items: Vec<Arc<R>>,
    /// The version that the whole list shows, the same on every page.
    pub resource_version: ResourceVersion,
    /// The token for the next page; empty on the last one.
    pub continue_token: String,
    /// Objects on the pages that follow.
    pub remaining: usize,
}

/// Lists whose pages have not all been fetched.
#[derive(Debug)]
pub(super) struct PagedLists {
    state: Lock<PagedListsState>,
}

#[derive(Debug, Default)]
struct PagedListsState {
    next_id: u64,
    lists: VecDeque<PagedList>,
}

struct PagedList {
    id: u64,
    kind: Kind,
    version: u64,
    /// `Vec<Arc<R>>` of the kind; what is still to come.
    rest: Box<dyn std::any::Any + Send>,
}

impl std::fmt::Debug for PagedList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}", self.kind, self.id)
    }
}

impl PagedLists {
    pub(super) fn new() -> PagedLists {
        PagedLists {
            state: Lock::default(),
        }
    }

    fn put<R: Strategy>(&self, kind: Kind, version: u64, rest: Vec<Arc<R>>) -> String {
        let mut state = self.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        if state.lists.len() == PAGED_LISTS_MAX {
            state.lists.pop_front();
        }
        state.lists.push_back(PagedList {
            id,
            kind,
            version,
            rest: Box::new(rest),
        });
        format!("{}-{id}", kind.resource())
    }

    fn take<R: Strategy>(&self, kind: Kind, token: &str) -> Result<(u64, Vec<Arc<R>>), ApiError> {
        let malformed = || errors::bad_request("continue key is not valid");
        let (resource, id) = token.split_once('-').ok_or_else(malformed)?;
        let id: u64 = id.parse().map_err(|_| malformed())?;
        if resource != kind.resource() {
            return Err(malformed());
        }
        let mut state = self.state.lock();
        let found = state
            .lists
            .iter()
            .position(|list| list.id == id && list.kind == kind);
        let at = found.ok_or_else(errors::continue_expired)?;
        let list = state
            .lists
            .remove(at)
            .ok_or_else(errors::continue_expired)?;
        let rest = list.rest.downcast().map_err(|_| malformed())?;
        Ok((list.version, *rest))
    }
}

impl Cluster {
    /// All objects of a kind (or of one namespace), sorted by namespace and name, and the version
    /// they show: no object is newer, and a watch from it misses nothing. O(n log n).
    pub fn list<R: ClusterResource>(
        &self,
        namespace: Option<&str>,
    ) -> (Vec<Arc<R>>, ResourceVersion) {
        let snapshot = R::store(self).snapshot(namespace);
        (snapshot.objects, ResourceVersion::Number(snapshot.version))
    }

    /// Looks at every object of a kind as of one version, in no order and without a list of them. O(n);
    /// nobody writes objects of the kind meanwhile, `look` neither.
    pub fn for_each<R: ClusterResource>(&self, look: impl FnMut(&Arc<R>)) {
        R::store(self).for_each(look);
    }

    /// A page of a list. The first one fixes the state that all show; up to 16 unfinished lists
    /// are kept.
    ///
    /// # Errors
    /// 504 for a version that the server has not come to; 410 for a token that was used or given
    /// up; 400 for one it never gave.
    pub fn list_page<R: ClusterResource>(
        &self,
        options: &ListOptions<'_>,
    ) -> Result<ListPage<R>, ApiError> {
        self.list_page_in(R::store(self), options)
    }

    pub(crate) fn list_page_in<R: Strategy>(
        &self,
        store: &KindStore<R>,
        options: &ListOptions<'_>,
    ) -> Result<ListPage<R>, ApiError> {
        let (version, mut items) = if options.continue_token.is_empty() {
            let snapshot = store.snapshot(options.namespace);
            let wanted = options.resource_version.number().unwrap_or(0);
            if wanted > snapshot.version {
                return Err(errors::version_too_large(wanted, snapshot.version));
            }
            (snapshot.version, snapshot.objects)
        } else {
            self.lists.take(store.kind(), options.continue_token)?
        };
        let (mut continue_token, mut remaining) = (String::new(), 0);
        if options.limit > 0 && items.len() > options.limit {
            let rest = items.split_off(options.limit);
            remaining = rest.len();
            continue_token = self.lists.put(store.kind(), version, rest);
        }
        let resource_version = ResourceVersion::Number(version);
        Ok(ListPage {
            items,
            resource_version,
            continue_token,
            remaining,
        })
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Pod;
    use serde_json::json;

    use super::super::testing::*;
    use super::*;

    fn names(items: &[Arc<Pod>]) -> Vec<String> {
        items
            .iter()
            .map(|pod| format!("{}/{}", pod.metadata.namespace, pod.metadata.name))
            .collect()
    }

    fn filled() -> Cluster {
        let cluster = cluster();
        for name in ["c", "a", "b"] {
            cluster.create(pod(name, json!({})), at(0)).unwrap();
            let elsewhere = json!({"metadata": {"namespace": "other"}});
            cluster.create(pod(name, elsewhere), at(0)).unwrap();
        }
        cluster
    }

    #[test]
    fn lists_are_sorted_by_namespace_and_name() {
        let cluster = filled();
        let (all, version) = cluster.list::<Pod>(None);
        let wanted = [
            "default/a",
            "default/b",
            "default/c",
            "other/a",
            "other/b",
            "other/c",
        ];
        assert_eq!(names(&all), wanted);
        assert_eq!(version.number(), Some(cluster.resource_version()));
        assert_eq!(names(&cluster.list::<Pod>(Some("other")).0), &wanted[3..]);
        assert!(cluster.list::<Pod>(Some("none")).0.is_empty());
    }

    #[test]
    fn every_object_is_looked_at_once() {
        let cluster = filled();
        let mut seen = Vec::new();
        cluster.for_each::<Pod>(|pod| seen.push(pod.clone()));
        seen.sort_by(|a, b| {
            let name = |pod: &Pod| (pod.metadata.namespace.clone(), pod.metadata.name.clone());
            name(a).cmp(&name(b))
        });
        assert_eq!(seen, cluster.list::<Pod>(None).0);
    }

    #[test]
    fn pages_show_one_state() {
        let cluster = filled();
        let first = ListOptions {
            limit: 4,
            ..ListOptions::default()
        };
        let page = cluster.list_page::<Pod>(&first).unwrap();
        assert_eq!((page.items.len(), page.remaining), (4, 2));
        cluster.create(pod("d", json!({})), at(0)).unwrap();
        let next = ListOptions {
            continue_token: &page.continue_token,
            ..first.clone()
        };
        let rest = cluster.list_page::<Pod>(&next).unwrap();
        assert_eq!(names(&rest.items), ["other/b", "other/c"]);
        assert_eq!(rest.resource_version, page.resource_version);
        assert_eq!((rest.continue_token.as_str(), rest.remaining), ("", 0));
        assert_eq!(refused(cluster.list_page::<Pod>(&next)), "410 Expired");
        let wrong = ListOptions {
            continue_token: "nodes-0",
            ..first
        };
        assert_eq!(refused(cluster.list_page::<Pod>(&wrong)), "400 BadRequest");
    }

    #[test]
    fn a_list_is_never_older_than_asked_for() {
        let cluster = filled();
        let of = |version: &str| {
            let resource_version = ResourceVersion::new(version);
            cluster.list_page::<Pod>(&ListOptions {
                resource_version,
                ..ListOptions::default()
            })
        };
        let current = cluster.resource_version();
        for version in ["", "0", "1", &current.to_string()] {
            assert_eq!(of(version).unwrap().items.len(), 6, "{version:?}");
        }
        let result = of(&(current + 1).to_string());
        assert!(
            result
                .as_ref()
                .unwrap_err()
                .has_cause("ResourceVersionTooLarge")
        );
        assert_eq!(refused(result), "504 Timeout");
    }
}

//! Lists: all objects, one namespace, or in pages that all show one version.

use std::collections::VecDeque;
use std::sync::Arc;

use podstorm_objects::{ApiError, Kind, Object, ResourceVersion};

use super::store::lock::Lock;
use super::{Cluster, ClusterResource, KindStore, Strategy, errors};

/// Most unfinished paged lists; a new one displaces the oldest.
const PAGED_LISTS_MAX: usize = 16;

/// Whether an object is one of those that a request is about.
pub type Select<'a> = dyn Fn(&dyn Object) -> bool + 'a;

/// The options of a list.
#[derive(Clone, Default)]
pub struct ListOptions<'a> {
    /// One namespace only.
    pub namespace: Option<&'a str>,
    /// Most objects of a page; 0: all.
    pub limit: usize,
    /// The token of the previous page; empty for the first page.
    pub continue_token: &'a str,
    /// Not older than this version. Unset and `0` take any; the server's state is always current.
    pub resource_version: ResourceVersion,
    /// Lists only the objects for which this is true.
    pub select: Option<&'a Select<'a>>,
}

impl std::fmt::Debug for ListOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListOptions")
            .field("namespace", &self.namespace)
            .field("limit", &self.limit)
            .field("continue_token", &self.continue_token)
            .field("resource_version", &self.resource_version)
            .field("select", &self.select.is_some())
            .finish()
    }
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct ListPage<R: ?Sized> {
    /// Sorted by namespace and name.
    pub items: Vec<Arc<R>>,
    /// The version of the whole list, the same on every page.
    pub resource_version: ResourceVersion,
    /// The token for the next page; empty on the last one.
    pub continue_token: String,
    /// The number of objects on the following pages.
    pub remaining: usize,
}

/// The paged lists that have not been fetched to their end.
#[derive(Debug, Default)]
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
    /// The objects of the following pages: a `Vec<Arc<R>>` of the kind.
    rest: Box<dyn std::any::Any + Send>,
}

impl std::fmt::Debug for PagedList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}", self.kind, self.id)
    }
}

impl PagedLists {
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
    /// All objects of a kind, or of one namespace, sorted by namespace and name, and their version:
    /// no object is newer, and a watch from that version misses nothing. O(n log n).
    pub fn list<R: ClusterResource>(
        &self,
        namespace: Option<&str>,
    ) -> (Vec<Arc<R>>, ResourceVersion) {
        let snapshot = R::store(self).snapshot(namespace);
        (snapshot.objects, ResourceVersion::Number(snapshot.version))
    }

    /// Calls `look` with every object of a kind as of one version, in no order. O(n). Writes of the
    /// kind wait meanwhile, so `look` must not write.
    pub fn for_each<R: ClusterResource>(&self, look: impl FnMut(&Arc<R>)) {
        R::store(self).for_each(look);
    }

    /// A page of a list. The first page fixes the version of all pages. Up to 16 unfinished lists
    /// are kept.
    ///
    /// # Errors
    /// 504 for a version that the server has not reached; 410 for a token that was used or
    /// displaced; 400 for an unknown token.
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
            let mut snapshot = store.snapshot(options.namespace);
            let wanted = options.resource_version.number().unwrap_or(0);
            if wanted > snapshot.version {
                return Err(errors::version_too_large(wanted, snapshot.version));
            }
            if let Some(select) = options.select {
                snapshot.objects.retain(|object| select(&**object));
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
mod tests;

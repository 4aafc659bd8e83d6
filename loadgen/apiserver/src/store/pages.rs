//! Pages of a kind: the next objects at a version, in the order of namespace and name.
//!
//! From the first request for a page on, the store keeps its names in order. Therefore, a page
//! costs as much as the objects on it and the changes since its version.

use std::collections::BTreeSet;
use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::Str;

use super::lock::Lock;
use super::log::Unavailable;
use super::past::undone;
use super::{KindStore, Strategy, is_at, sorted};

/// Namespaces and names in order.
pub(super) type Names = Lock<BTreeSet<(Str, CompactString)>>;

/// Objects in the order of namespace and name.
pub(crate) struct Page<R> {
    /// The objects, one more than requested if there are more.
    pub(crate) objects: Vec<Arc<R>>,
    pub(crate) version: u64,
    /// The number of objects from the page's start to the end; known only for the newest state.
    pub(crate) left: Option<usize>,
}

pub(super) fn key_of<R: Strategy>(object: &R) -> (Str, CompactString) {
    let metadata = object.metadata();
    (metadata.namespace.clone(), metadata.name.clone())
}

impl<R: Strategy> KindStore<R> {
    /// Returns the first `limit` objects from a namespace and name on, and one more if there is
    /// one. They are from one namespace or from all, at `version` or now.
    ///
    /// With e events since the version: O(limit + e log e) and O(log n). Without a version also
    /// O(n) in the objects of the namespace, which are counted. The first call takes O(n log n).
    /// Holds the locks of all shards while it collects the objects.
    ///
    /// # Errors
    /// Fails if the state at the version is not available.
    pub(crate) fn page(
        &self,
        namespace: Option<&str>,
        from_namespace: &str,
        from_name: &str,
        limit: usize,
        version: Option<u64>,
    ) -> Result<Page<R>, Unavailable> {
        let mut shards: Vec<_> = self.shards.iter().map(|shard| shard.lock()).collect();
        let mut names = self.names.lock();
        if !shards[0].named {
            let stored = shards.iter().flat_map(|shard| &shard.table);
            *names = stored.map(|stored| key_of(&*stored.object)).collect();
            shards.iter_mut().for_each(|shard| shard.named = true);
        }
        let (undo, as_of) = match version {
            None => (Vec::new(), self.log.version()),
            Some(version) => (self.log.undo(version, None)?.undo, version),
        };
        let from = (Str::from(from_namespace), CompactString::from(from_name));
        let is_in = |at: &str| namespace.is_none_or(|namespace| at == namespace);
        let rest = || names.range(&from..).take_while(|(at, _)| is_in(at));
        // Undoing the later events may remove as many of the current objects as there are events.
        let most = limit.saturating_add(1).saturating_add(undo.len());
        let found = rest().take(most).map(|(namespace, name)| {
            let key = self.key(namespace, name);
            let at = self.shard_of(key.hash);
            let stored = shards[at].table.find(key.hash.0, is_at(&key));
            stored
                .expect("every name in the list is stored")
                .object
                .clone()
        });
        let mut objects: Vec<Arc<R>> = found.collect();
        let left = match version {
            Some(_) => None,
            None if namespace.is_none() && from.0.is_empty() && from.1.is_empty() => {
                Some(names.len())
            }
            None => Some(rest().count()),
        };
        drop((names, shards));
        if !undo.is_empty() {
            objects = undone(objects, undo, namespace);
            objects.retain(|object| key_of(&**object) >= from);
            objects = sorted(objects);
        }
        objects.truncate(limit.saturating_add(1));
        Ok(Page {
            objects,
            version: as_of,
            left,
        })
    }
}

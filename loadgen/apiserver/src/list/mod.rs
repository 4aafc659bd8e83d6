//! Lists: of all objects, of one namespace, or in pages at one version.

mod token;

use std::sync::Arc;

use podstorm_objects::{ApiError, Object, ResourceVersion};

use self::token::{Collection, Token};
use super::{Cluster, ClusterResource, KindStore, Strategy, errors};

/// A predicate that decides whether a request applies to an object.
pub type Select<'a> = dyn Fn(&dyn Object) -> bool + 'a;

/// Options of a list.
#[derive(Clone, Default)]
pub struct ListOptions<'a> {
    /// Restricts the list to one namespace.
    pub namespace: Option<&'a str>,
    /// The maximum number of objects in a page; 0 means no limit.
    pub limit: usize,
    /// The token from the previous page; empty for the first page.
    pub continue_token: &'a str,
    /// The minimum version of the first page. Unset and `0` accept any version. Lists always return
    /// the current state.
    pub resource_version: ResourceVersion,
    /// Restricts the list to the objects for which this returns true.
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
    /// The objects, sorted by namespace and name.
    pub items: Vec<Arc<R>>,
    /// The version of the whole list, the same on every page.
    pub resource_version: ResourceVersion,
    /// The token for the next page; empty on the last page.
    pub continue_token: String,
    /// The number of objects on the following pages, including those that the list does not select.
    pub remaining: usize,
}

impl Cluster {
    /// Returns all objects of a kind, or of one namespace, sorted by namespace and name, and the
    /// version of the list. No object is newer, and a watch from that version misses nothing.
    /// O(n log n).
    pub fn list<R: ClusterResource>(
        &self,
        namespace: Option<&str>,
    ) -> (Vec<Arc<R>>, ResourceVersion) {
        let snapshot = R::store(self).snapshot(namespace);
        (snapshot.objects, ResourceVersion::Number(snapshot.version))
    }

    /// Calls `look` with every object of a kind at one version, in no particular order. O(n).
    /// Writes of the kind wait during the call, so `look` must not write.
    pub fn for_each<R: ClusterResource>(&self, look: impl FnMut(&Arc<R>)) {
        R::store(self).for_each(look);
    }

    /// Returns a page of a list. The first page fixes the version of all pages. A cluster that
    /// [keeps past states](crate::ClusterOptions::keeps_past) returns pages in any order and any
    /// number of times, as long as the history reaches back to the version; other clusters do so
    /// only until the next write of the kind.
    ///
    /// Costs O(objects of the page) plus O(events since the first page); O(n log n) for a list
    /// without a limit and for the first page of the kind ever; O(objects examined) with `select`.
    ///
    /// # Errors
    /// 504 for a version that the server has not reached. 410 for a token whose version is too old,
    /// with a token that continues in the newest state. 400 for a token of another collection, an
    /// invalid token, or a token together with a version.
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
        let wanted = options.resource_version.number().unwrap_or(0);
        if !options.continue_token.is_empty() {
            if wanted > 0 {
                let why = "specifying resource version is not allowed when using continue";
                return Err(errors::bad_request(why));
            }
            let of = Collection {
                kind: store.kind(),
                namespace: options.namespace,
            };
            let token = Token::read(options.continue_token, of)?;
            return self.page_of(store, options, Some(&token));
        }
        if options.limit > 0 {
            let page = self.page_of(store, options, None)?;
            let current = page.resource_version.number().unwrap_or(0);
            return match wanted > current {
                true => Err(errors::version_too_large(wanted, current)),
                false => Ok(page),
            };
        }
        let mut snapshot = store.snapshot(options.namespace);
        if wanted > snapshot.version {
            return Err(errors::version_too_large(wanted, snapshot.version));
        }
        if let Some(select) = options.select {
            snapshot.objects.retain(|object| select(&**object));
        }
        Ok(ListPage {
            items: snapshot.objects,
            resource_version: ResourceVersion::Number(snapshot.version),
            continue_token: String::new(),
            remaining: 0,
        })
    }

    /// Returns the page at the position of a token, or the first page.
    fn page_of<R: Strategy>(
        &self,
        store: &KindStore<R>,
        options: &ListOptions<'_>,
        token: Option<&Token>,
    ) -> Result<ListPage<R>, ApiError> {
        let of = Collection {
            kind: store.kind(),
            namespace: options.namespace,
        };
        let limit = match options.limit {
            0 => usize::MAX,
            limit => limit,
        };
        let mut version = token.and_then(Token::version);
        let mut left = token.and_then(Token::left);
        let (namespace, name) = match token {
            Some(token) => token.start(of),
            None => (options.namespace.unwrap_or(""), ""),
        };
        let mut from = (namespace.to_owned(), name.to_owned());
        // With a selector one pass may not find enough. Without past states only one pass is
        // possible.
        let mut looked_at = match options.select.is_some() && !self.options.keeps_past {
            true => usize::MAX,
            false => limit,
        };
        let mut items: Vec<Arc<R>> = Vec::new();
        let (version, has_more) = loop {
            let page = store.page(options.namespace, &from.0, &from.1, looked_at, version);
            let page = page.map_err(|_| {
                let token = token.map(Token::at_newest);
                errors::continue_expired(token.map_or_else(String::new, |token| token.text()))
            })?;
            left = left.or(page.left);
            let is_last = page.objects.len() <= looked_at;
            if let Some(last) = page.objects.last() {
                let metadata = last.metadata();
                from = (metadata.namespace.to_string(), metadata.name.to_string());
            }
            // The last object of this pass is the first of the next one.
            let objects = page.objects.into_iter().take(looked_at);
            items.extend(objects.filter(|object| options.select.is_none_or(|is| is(&**object))));
            if options.select.is_none() && !is_last {
                // There are more objects, and without a selector all of them count.
                break (page.version, true);
            }
            if is_last || items.len() > limit {
                break (page.version, items.len() > limit);
            }
            version = Some(page.version);
            looked_at = looked_at.saturating_mul(2);
        };
        items.truncate(limit);
        let remaining = left.map_or(0, |left| left.saturating_sub(items.len()));
        let last = items.last().filter(|_| has_more);
        let next = last.map(|last| {
            let metadata = last.metadata();
            let left = options.select.is_none().then_some(remaining);
            Token::behind(of, &metadata.namespace, &metadata.name, version, left).text()
        });
        Ok(ListPage {
            remaining: if next.is_some() { remaining } else { 0 },
            items,
            resource_version: ResourceVersion::Number(version),
            continue_token: next.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests;

//! Lists: all objects, one namespace, or in pages that all show one version.

mod token;

use std::sync::Arc;

use podstorm_objects::{ApiError, Object, ResourceVersion};

use self::token::{Collection, Token};
use super::{Cluster, ClusterResource, KindStore, Strategy, errors};

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
    /// Not older than this version; of the first page alone. Unset and `0` take any; the server's state is always current.
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
    /// The number of objects on the following pages; those that the list does not select count too.
    pub remaining: usize,
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

    /// A page of a list. The first page fixes the version of all pages, which can be asked for in any order and
    /// as often as the history reaches back to it, in a cluster that [keeps older
    /// states](crate::ClusterOptions::keeps_past); in another until the next write of the kind. O(objects of
    /// the page) and O(events since the first page); O(n log n) for a list without a limit and for the first page
    /// of all; O(objects looked at) where the list selects.
    ///
    /// # Errors
    /// 504 for a version that the server has not reached; 410 for a token whose version is too old, with one that goes on
    /// in the newest state; 400 for a token of another collection or none, and for one beside a version.
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

    /// The page from a token on, or the first one.
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
        // Where the list selects, one look may not find enough; where the past is not kept there is one only.
        let mut looked_at = match options.select.is_some() && !self.options.keeps_past {
            true => usize::MAX,
            false => limit,
        };
        let mut items: Vec<Arc<R>> = Vec::new();
        let (version, has_more) = loop {
            let start = (from.0.as_str(), from.1.as_str());
            let page = store.page(options.namespace, start, looked_at, version);
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
            // The last one is looked at again, as the first of the next look.
            let objects = page.objects.into_iter().take(looked_at);
            items.extend(objects.filter(|object| options.select.is_none_or(|is| is(&**object))));
            if options.select.is_none() && !is_last {
                // There are more: no need to look which.
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
            let at = (&*metadata.namespace, metadata.name.as_str());
            let left = options.select.is_none().then_some(remaining);
            Token::behind(of, at, version, left).text()
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

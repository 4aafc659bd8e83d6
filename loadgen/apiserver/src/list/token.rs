//! Continue tokens of paginated lists. A token contains the version of the list and the position in
//! it, so the server keeps no state per list. A page can be read again while the history still
//! contains the version.
//!
//! Source: `storage/continue.go` of Kubernetes' apiserver. Unlike upstream's tokens, these also
//! contain the collection, which upstream takes from the path, and the number of remaining objects.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use podstorm_objects::{ApiError, Kind};
use serde::{Deserialize, Serialize};

use crate::errors;

const FORMAT: &str = "meta.k8s.io/v1";
/// The `rv` of a list that continues in the newest state.
const NEWEST: i64 = -1;

/// The position at which a list continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Token {
    v: String,
    rv: i64,
    /// The first key of the page, relative to the collection: the previous page's last key followed
    /// by a zero byte.
    start: String,
    /// The collection that the list belongs to.
    #[serde(default)]
    of: String,
    /// The number of objects from this position to the end; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<usize>,
}

/// The collection that a token belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collection<'a> {
    pub(super) kind: Kind,
    pub(super) namespace: Option<&'a str>,
}

impl Collection<'_> {
    fn name(&self) -> String {
        format!(
            "{}/{}",
            self.kind.group_resource(),
            self.namespace.unwrap_or("")
        )
    }

    /// Reports whether the keys of the collection begin with a namespace.
    fn spans_namespaces(&self) -> bool {
        self.kind.is_namespaced() && self.namespace.is_none()
    }
}

impl Token {
    /// Returns the token that continues a list of this version after the given object.
    pub(super) fn behind(
        of: Collection<'_>,
        namespace: &str,
        name: &str,
        version: u64,
        left: Option<usize>,
    ) -> Token {
        let start = match of.spans_namespaces() {
            true => format!("{namespace}/{name}\0"),
            false => format!("{name}\0"),
        };
        Token {
            v: FORMAT.to_owned(),
            rv: i64::try_from(version).expect("versions increase one by one"),
            start,
            of: of.name(),
            left,
        }
    }

    /// Decodes a token.
    ///
    /// # Errors
    /// 400 for a string that is not a token of this collection.
    pub(super) fn read(text: &str, of: Collection<'_>) -> Result<Token, ApiError> {
        let refused = |why: String| {
            errors::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        let json = BASE64_URL_SAFE_NO_PAD.decode(text);
        let json = json.map_err(|problem| refused(format!("illegal base64 data: {problem}")))?;
        let token: Result<Token, _> = serde_json::from_slice(&json);
        let token = token.map_err(|problem| refused(problem.to_string()))?;
        if token.v != FORMAT {
            let why = format!(
                "server does not recognize this encoded version {:?}",
                token.v
            );
            return Err(refused(why));
        }
        if token.rv == 0 || token.rv < NEWEST {
            let why = format!("incorrect encoded start resourceVersion (version {FORMAT})");
            return Err(refused(why));
        }
        if token.start.is_empty() {
            return Err(refused(format!(
                "encoded start key empty (version {FORMAT})"
            )));
        }
        if token.of != of.name() {
            return Err(refused(format!(
                "the token belongs to {:?}, not to {:?}",
                token.of,
                of.name()
            )));
        }
        if token.start.matches('/').count() != usize::from(of.spans_namespaces()) {
            return Err(refused(token.start));
        }
        Ok(token)
    }

    pub(super) fn text(&self) -> String {
        let json = serde_json::to_vec(self).expect("strings and numbers convert to JSON");
        BASE64_URL_SAFE_NO_PAD.encode(json)
    }

    /// Returns the version of the list; `None` for the newest state.
    pub(super) fn version(&self) -> Option<u64> {
        u64::try_from(self.rv).ok()
    }

    /// Returns the namespace and name at which the page begins. If the collection is a namespace,
    /// returns this namespace.
    pub(super) fn start<'t>(&'t self, of: Collection<'t>) -> (&'t str, &'t str) {
        let whole = (of.namespace.unwrap_or(""), self.start.as_str());
        match of.spans_namespaces() {
            true => self.start.split_once('/').unwrap_or(whole),
            false => whole,
        }
    }

    pub(super) fn left(&self) -> Option<usize> {
        self.left
    }

    /// Returns a token with the same position in the newest state.
    pub(super) fn at_newest(&self) -> Token {
        Token {
            rv: NEWEST,
            left: None,
            ..self.clone()
        }
    }
}

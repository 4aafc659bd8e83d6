//! Label and annotation maps: sorted, immutable, shared between the objects created from one
//! template.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;
use smallvec::SmallVec;

use super::decode::{DecodeError, Members, Path};
use super::json::{JsonValue, Tape, Writer};
use super::{Map, Str};

/// The number of pairs stored next to the reference count. More pairs get their own allocation.
const INLINE_PAIRS: usize = 2;

type Pairs = SmallVec<[(Str, Str); INLINE_PAIRS]>;

/// A string map sorted by key. An absent map (JSON null) and an empty one are different, like a nil
/// and an empty map in Go. Cloning shares the map. Equality compares the pointers first.
#[derive(Clone, Default)]
pub struct Labels(Option<Arc<Pairs>>);

/// Up to this many pairs are searched linearly.
const FEW: usize = 8;

impl Labels {
    /// The absent map.
    pub const ABSENT: Labels = Labels(None);

    /// Creates a map with these pairs. If a key occurs more than once, its last value counts.
    pub fn from_pairs<K: Into<Str>, V: Into<Str>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        let map: std::collections::BTreeMap<Str, Str> = pairs
            .into_iter()
            .map(|(key, value)| (key.into(), value.into()))
            .collect();
        Labels(Some(Arc::new(map.into_iter().collect())))
    }

    /// Reads a JSON object of strings. Null reads as absent, and a null value as the empty string.
    ///
    /// # Errors
    /// Fails for any other value. The error contains the key.
    pub fn from_json(value: Value) -> Result<Labels, DecodeError> {
        Labels::read(Tape::new(&value).root(), &Path::ROOT)
    }

    /// Like [`Labels::from_json`], for a value on a tape at `path`.
    ///
    /// # Errors
    /// Fails for any other value. The error contains the key.
    pub fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<Labels, DecodeError> {
        if value.is_null() {
            return Ok(Labels::ABSENT);
        }
        if !value.is_object() {
            return Err(path.mismatch("a map of strings", value));
        }
        let read = |(key, value): (&str, JsonValue<'_>)| {
            let text = match value.as_str() {
                Some(text) => text,
                None if value.is_null() => "",
                None => return Err(path.key(key).mismatch("a string", value)),
            };
            Ok((Str::from(key), Str::from(text)))
        };
        let pairs: Pairs = value.pairs().map(read).collect::<Result<_, _>>()?;
        Ok(Labels(Some(Arc::new(pairs))))
    }

    /// Returns the JSON object, null if absent.
    pub fn to_json(&self) -> Value {
        if self.is_absent() {
            return Value::Null;
        }
        let pairs = self.pairs().iter();
        Value::Object(
            pairs
                .map(|(key, value)| (key.to_string(), (**value).into()))
                .collect::<Map>(),
        )
    }

    /// Creates a map of distinct pairs that are usually sorted already.
    pub(crate) fn from_sorted(mut pairs: Vec<(Str, Str)>) -> Labels {
        if !pairs.is_sorted_by(|(a, _), (b, _)| a < b) {
            pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        Labels(Some(Arc::new(pairs.into())))
    }

    /// Reports whether the map is absent, as opposed to empty.
    pub fn is_absent(&self) -> bool {
        self.0.is_none()
    }

    /// Reports whether there are no pairs.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of pairs.
    #[inline]
    pub fn len(&self) -> usize {
        self.pairs().len()
    }

    /// Reports whether the pairs have their own allocation, because there are too many to store
    /// next to the reference count.
    pub fn spilled(&self) -> bool {
        self.0.as_ref().is_some_and(|pairs| pairs.spilled())
    }

    /// Returns the pairs, sorted by key.
    #[inline]
    pub fn pairs(&self) -> &[(Str, Str)] {
        self.0.as_ref().map_or(&[], |pairs| pairs)
    }

    /// Returns the value of a key; `None` if it is absent. O(log n).
    pub fn get(&self, key: &str) -> Option<&Str> {
        let pairs = self.pairs();
        // Keys often share a prefix and differ in length, so testing for equality is cheaper than
        // ordering.
        let at = match pairs.len() {
            0..=FEW => pairs.iter().position(|(probe, _)| **probe == *key),
            _ => pairs.binary_search_by(|(probe, _)| (**probe).cmp(key)).ok(),
        };
        Some(&pairs[at?].1)
    }

    /// Reports whether both are the same allocation, or both absent.
    pub fn is_same(&self, other: &Labels) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        }
    }

    /// Reports whether another value shares this allocation.
    pub(crate) fn is_shared(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|pairs| Arc::strong_count(pairs) > 1)
    }

    /// Reports whether this map has every pair of `other`.
    #[inline]
    pub fn contains_all(&self, other: &Labels) -> bool {
        self.is_same(other)
            || other
                .pairs()
                .iter()
                .all(|(key, value)| self.get(key) == Some(value))
    }

    /// Returns this map with `key` set to `value`. Shares all other strings, and an existing key.
    #[must_use]
    pub fn with(&self, key: &str, value: &str) -> Labels {
        self.with_shared(key, value.into())
    }

    /// Like [`with`](Labels::with), for a value whose text is shared.
    #[must_use]
    pub fn with_shared(&self, key: &str, value: Str) -> Labels {
        let old = self.pairs();
        let found = old.binary_search_by(|(probe, _)| (**probe).cmp(key));
        let (at, key) = match found {
            Ok(at) => (at, old[at].0.clone()),
            Err(at) => (at, key.into()),
        };
        let (before, after) = old.split_at(at);
        let after = &after[usize::from(found.is_ok())..];
        let mut pairs = Pairs::with_capacity(before.len() + 1 + after.len());
        pairs.extend(before.iter().cloned());
        pairs.push((key, value));
        pairs.extend(after.iter().cloned());
        Labels(Some(Arc::new(pairs)))
    }

    /// Returns this map without `key`; absent if no pairs are left.
    #[must_use]
    pub fn without(&self, key: &str) -> Labels {
        Labels::from_pairs(
            self.pairs()
                .iter()
                .filter(|(probe, _)| &**probe != key)
                .cloned(),
        )
        .or_absent()
    }

    /// Returns this map, or an absent one if it is empty. The difference matters only in the
    /// selector of a ReplicationController.
    #[must_use]
    pub fn or_absent(self) -> Labels {
        if self.is_empty() {
            Labels::ABSENT
        } else {
            self
        }
    }
}

impl Members<'_, '_> {
    /// Takes a map of strings, which is absent if the member is absent.
    ///
    /// # Errors
    /// Fails if the value is not a map of strings.
    pub fn labels(&mut self, key: &str) -> Result<Labels, DecodeError> {
        let labels = self.child(key, Labels::read)?;
        Ok(labels.unwrap_or(Labels::ABSENT))
    }
}

impl Writer {
    /// Puts a map of strings unless it is empty.
    pub(crate) fn put_labels(&mut self, name: &'static str, labels: &Labels) {
        if !labels.is_empty() {
            self.member(name, |out| out.labels(labels));
        }
    }

    /// Writes a map of strings.
    pub(crate) fn labels(&mut self, labels: &Labels) {
        self.object(|out| {
            for (key, value) in labels.pairs() {
                out.member_named(key, |out| out.text(value));
            }
        });
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other)
            || (self.is_absent() == other.is_absent() && self.pairs() == other.pairs())
    }
}

impl Eq for Labels {}

impl Hash for Labels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("absent"),
            Some(_) => f
                .debug_map()
                .entries(self.pairs().iter().map(|(key, value)| (key, value)))
                .finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_and_empty_differ() {
        let empty = Labels::from_pairs::<&str, &str>([]);
        assert_ne!(Labels::ABSENT, empty);
        assert!(Labels::ABSENT.is_empty());
        assert!(empty.is_empty());
    }

    #[test]
    fn pairs_are_found_by_key_and_change_in_copies() {
        let labels = Labels::from_pairs([("tier", "front"), ("app", "web")]);
        assert_eq!(labels.get("app").map(|v| &**v), Some("web"));
        assert_eq!(labels.get("none"), None);
        assert!(labels.contains_all(&Labels::from_pairs([("app", "web")])));
        assert!(!Labels::from_pairs([("app", "web")]).contains_all(&labels));
        assert_eq!(labels.without("tier"), Labels::from_pairs([("app", "web")]));
        let changed = labels.with("app", "db");
        assert_eq!(changed.get("app").map(|v| &**v), Some("db"));
    }
}

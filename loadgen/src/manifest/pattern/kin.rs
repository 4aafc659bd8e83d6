//! The patterns of the pods read so far, found again by what a text says of its kin: the prefix of
//! its name and its namespace.

use std::collections::VecDeque;
use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use memchr::memmem::Finder;
use smallvec::SmallVec;

use super::{Language, Likeness, Pattern, Values, is_value, json, yaml};

/// Most bytes of patterns kept; the oldest go first, as lists are sorted by namespace and name.
const BYTES_MAX: usize = 16 << 20;

/// Most patterns of one kin: pods that were restarted or are not ready have their own.
const PATTERNS_OF_KIN: usize = 8;

/// The longest text that a pattern is made of.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// So far into a text its prefix and namespace are looked for.
const KIN_BYTES: usize = 16 << 10;

/// All patterns of a list's items.
#[derive(Debug)]
pub(in crate::manifest) struct Patterns {
    language: Language,
    pub(super) by_kin: HashMap<u64, Kin, RandomState>,
    /// The kin of all patterns, in the order in which they were made.
    pub(super) oldest: VecDeque<u64>,
    pub(super) latest: Option<(u64, Arc<Pattern>)>,
    pub(super) bytes: usize,
    pub(super) bytes_max: usize,
    longest: usize,
    hasher: RandomState,
    prefix: Finder<'static>,
    namespace: Finder<'static>,
}

/// The patterns of one kin, the oldest first, and how often they were of use.
#[derive(Debug, Default)]
pub(super) struct Kin {
    patterns: SmallVec<[Arc<Pattern>; 1]>,
    made: u32,
    fitted: u32,
}

impl Patterns {
    /// No patterns of texts in that language.
    pub(in crate::manifest) fn new(language: Language) -> Patterns {
        // Fixed seeds, as everywhere: nothing about a run may differ from one time to the next.
        let hasher = RandomState::with_seeds(1, 2, 3, 4);
        Patterns {
            language,
            by_kin: HashMap::with_hasher(hasher.clone()),
            oldest: VecDeque::new(),
            latest: None,
            bytes: 0,
            bytes_max: BYTES_MAX,
            longest: 0,
            hasher,
            prefix: Finder::new("generateName"),
            namespace: Finder::new("namespace"),
        }
    }

    /// So many bytes from its beginning are enough for any text that fits a pattern.
    pub(in crate::manifest) fn enough_bytes(&self) -> usize {
        self.longest + KIN_BYTES
    }

    /// The pattern that the text at the beginning of `text` fits, its values, and where it ends.
    pub(in crate::manifest) fn fit(&mut self, text: &[u8]) -> Option<(Likeness, usize)> {
        if let Some((key, latest)) = &self.latest
            && let Some((values, end)) = latest.fit(text)
        {
            if let Some(kin) = self.by_kin.get_mut(key) {
                kin.fitted += 1;
            }
            return Some((Likeness::Next(latest.clone(), values), end));
        }
        let key = self.kin(text)?;
        let kin = self.by_kin.get_mut(&key)?;
        let fit = |pattern: &Arc<Pattern>| -> Option<(Arc<Pattern>, Values, usize)> {
            let (values, end) = pattern.fit(text)?;
            Some((pattern.clone(), values, end))
        };
        let (pattern, values, end) = kin.patterns.iter().rev().find_map(fit)?;
        kin.fitted += 1;
        self.latest = Some((key, pattern.clone()));
        Some((Likeness::Next(pattern, values), end))
    }

    /// Makes a pattern of an item that fits none, where it is a pod that has kin.
    pub(in crate::manifest) fn learn(&mut self, text: &[u8]) -> Likeness {
        self.try_learn(text).map_or(Likeness::None, Likeness::First)
    }

    fn try_learn(&mut self, text: &[u8]) -> Option<Arc<Pattern>> {
        (text.len() <= TEXT_BYTES_MAX).then_some(())?;
        let key = self.kin(text)?;
        let kin = self.by_kin.entry(key).or_default();
        // Kin whose texts differ in other ways too would be learned one by one, in vain.
        (kin.made < (PATTERNS_OF_KIN as u32).saturating_add(kin.fitted)).then_some(())?;
        let values = match self.language {
            Language::Json => json::values(text)?,
            Language::Yaml => yaml::values(text),
        };
        (!values.is_empty()).then_some(())?;
        let pattern = Arc::new(Pattern::new(self.language, text, &values));
        kin.made += 1;
        if kin.patterns.len() == PATTERNS_OF_KIN {
            self.bytes -= kin.patterns.remove(0).bytes();
        } else {
            self.oldest.push_back(key);
        }
        kin.patterns.push(pattern.clone());
        self.longest = self.longest.max(text.len());
        self.bytes += pattern.bytes();
        self.latest = Some((key, pattern.clone()));
        self.forget_oldest();
        Some(pattern)
    }

    fn forget_oldest(&mut self) {
        while self.bytes > self.bytes_max
            && let Some(key) = self.oldest.pop_front()
        {
            let Some(kin) = self.by_kin.get_mut(&key) else {
                continue;
            };
            self.bytes -= kin.patterns.remove(0).bytes();
            if kin.patterns.is_empty() {
                self.by_kin.remove(&key);
            }
        }
    }

    /// What stands for the kin of the pod at the beginning of a text. A wrong one costs time alone:
    /// whether a text fits is seen by the whole of it.
    fn kin(&self, text: &[u8]) -> Option<u64> {
        let text = &text[..text.len().min(KIN_BYTES)];
        let value = |name: &Finder<'_>| {
            let behind = &text[name.find(text)? + name.needle().len()..];
            let start = behind.iter().position(|b| is_value(*b) && *b != b':')?;
            let length = behind[start..].iter().position(|b| !is_value(*b))?;
            Some(&behind[start..start + length])
        };
        let (prefix, namespace) = (value(&self.prefix)?, value(&self.namespace)?);
        Some(self.hasher.hash_one((prefix, namespace)))
    }
}

//! Interning of `managedFields` texts. Their times are whole seconds, so the texts that one manager
//! writes within a second are often equal.

use std::sync::{Mutex, PoisonError};

use ahash::RandomState;
use hashbrown::HashSet;
use podstorm_objects::{Rest, hash_state};

/// The minimum number of texts at which the unused ones are dropped.
const FIRST_BOUND: usize = 1_024;

/// The texts in use. Sharing a text takes amortized O(its length).
#[derive(Debug)]
pub(crate) struct Texts(Mutex<Known>);

#[derive(Debug)]
struct Known {
    texts: HashSet<Rest, RandomState>,
    bound: usize,
}

impl Default for Texts {
    fn default() -> Texts {
        Texts(Mutex::new(Known {
            texts: HashSet::with_hasher(hash_state()),
            bound: FIRST_BOUND,
        }))
    }
}

impl Texts {
    /// Replaces a string by an equal one that is already in use, if there is one.
    pub(crate) fn share(&self, text: &mut Rest) {
        if text.is_empty() {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(equal) = known.texts.get(text) {
            *text = equal.clone();
            return;
        }
        known.texts.insert(text.clone());
        if known.texts.len() > known.bound {
            known.texts.retain(Rest::is_shared);
            known.bound = FIRST_BOUND.max(2 * known.texts.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(number: usize) -> Rest {
        Rest::NONE.with("managedFields", json!([number]))
    }

    #[test]
    fn equal_texts_are_shared_and_unused_ones_dropped() {
        let texts = Texts::default();
        let (mut first, mut second) = (text(1), text(1));
        assert!(!first.is_same(&second));
        texts.share(&mut first);
        texts.share(&mut second);
        assert!(first.is_same(&second));
        for number in 2..10_000 {
            texts.share(&mut text(number));
        }
        assert!(texts.0.lock().unwrap().texts.len() <= FIRST_BOUND + 1);
        let mut third = text(1);
        texts.share(&mut third);
        assert!(first.is_same(&third));
    }
}

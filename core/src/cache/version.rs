//! How far a store has come: the resource version of the last thing it applied.

use crate::object::ResourceVersion;
use crate::primitives::{AtomicU64, Mutex, Ordering, lock};

/// The version a store has reached; read by every sync, written by the informer.
#[derive(Debug, Default)]
pub struct StoreVersion {
    /// The version where it is a number; 0 where it is in `text`.
    number: AtomicU64,
    /// The version where it is unset or no number of 64 bits.
    text: Mutex<ResourceVersion>,
}

impl StoreVersion {
    /// Sets the version.
    pub fn set(&self, version: &ResourceVersion) {
        match version.number() {
            // Release: whoever reads this version must find the objects stored before it.
            Some(number) => self.number.store(number, Ordering::Release),
            None => {
                let mut text = lock(&self.text);
                *text = version.clone();
                // Release: pairs with the Acquire below, so that 0 is seen with its text; under the
                // lock, so that no text is seen before its 0.
                self.number.store(0, Ordering::Release);
            }
        }
    }

    /// The version reached; unset before the first.
    pub fn get(&self) -> ResourceVersion {
        // Acquire: pairs with the Release above.
        match self.number.load(Ordering::Acquire) {
            0 => lock(&self.text).clone(),
            number => ResourceVersion::Number(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_read_back() {
        let version = StoreVersion::default();
        assert!(version.get().is_unset());
        for text in ["17", "x9", "", "99999999999999999999999"] {
            version.set(&ResourceVersion::new(text));
            assert_eq!(version.get().to_string(), text);
        }
    }
}

//! Differences between a case and its recording.

/// One or more differences, in the order in which they were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differences(Vec<String>);

impl Differences {
    /// Returns the first difference.
    #[must_use]
    pub fn first(&self) -> &str {
        &self.0[0]
    }

    /// Returns all differences, starting with the first.
    #[must_use]
    pub fn all(&self) -> &[String] {
        &self.0
    }

    /// Prefixes every difference with its subject.
    pub(super) fn about(self, what: &str) -> Differences {
        let all = self.0.into_iter();
        Differences(
            all.map(|difference| format!("{what}: {difference}"))
                .collect(),
        )
    }

    /// Returns `Ok` if there are no differences.
    pub(super) fn none_of(all: Vec<String>) -> Result<(), Differences> {
        match all.is_empty() {
            true => Ok(()),
            false => Err(Differences(all)),
        }
    }
}

impl From<String> for Differences {
    fn from(difference: String) -> Differences {
        Differences(vec![difference])
    }
}

impl From<&str> for Differences {
    fn from(difference: &str) -> Differences {
        difference.to_owned().into()
    }
}

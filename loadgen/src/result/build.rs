//! The build of this program, which allows tracing a result to its source.

use schemars::JsonSchema;
use serde::Serialize;

/// The build of the program, the same in every result of one binary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Build {
    /// The commit, if the source was a git checkout or the environment variable `PODSTORM_COMMIT`
    /// was set for the build.
    pub commit: Option<String>,
    /// Whether the source differed from the commit; absent if unknown.
    pub dirty: Option<bool>,
    /// The compiler, as `rustc --version` reports it.
    pub rustc: String,
    /// `release` or `debug`: whether debug assertions were compiled in.
    pub profile: String,
}

impl Build {
    /// Returns the build of this program.
    pub fn this() -> Build {
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Build {
            commit: known(env!("PODSTORM_COMMIT")),
            dirty: match env!("PODSTORM_DIRTY") {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            },
            rustc: env!("PODSTORM_RUSTC").to_owned(),
            profile: if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            }
            .to_owned(),
        }
    }

    /// Formats the version and the commit as a single word: `0.1.0+1a2b3c4d5e6f`,
    /// `0.1.0+1a2b3c4d5e6f-dirty`.
    pub fn version(&self, version: &str) -> String {
        let Some(commit) = &self.commit else {
            return version.to_owned();
        };
        let short = commit.get(..12).unwrap_or(commit);
        let dirty = if self.dirty == Some(true) {
            "-dirty"
        } else {
            ""
        };
        format!("{version}+{short}{dirty}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_is_known_and_the_commit_is_valid_or_absent() {
        let build = Build::this();
        assert!(build.rustc.starts_with("rustc "), "{build:?}");
        if let Some(commit) = &build.commit {
            assert!(!commit.contains(char::is_whitespace), "{build:?}");
        } else {
            assert_eq!(build.dirty, None);
        }
    }

    #[test]
    fn the_version_shows_uncommitted_changes() {
        let mut build = Build::default();
        assert_eq!(build.version("1.0.0"), "1.0.0");
        build.commit = Some("0123456789abcdef".into());
        assert_eq!(build.version("1.0.0"), "1.0.0+0123456789ab");
        build.dirty = Some(true);
        assert_eq!(build.version("1.0.0"), "1.0.0+0123456789ab-dirty");
    }
}

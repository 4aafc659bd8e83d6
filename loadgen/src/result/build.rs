//! What this program was built from, so that a result can be traced to its source.

use schemars::JsonSchema;
use serde::Serialize;

/// What the program was built from. The same in every result of one binary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Build {
    /// The commit, where the source was a git checkout or the builder named one in the environment
    /// variable `PODSTORM_COMMIT`.
    pub commit: Option<String>,
    /// Whether the source differed from that commit; absent if unknown.
    pub dirty: Option<bool>,
    /// The compiler, as `rustc --version` says.
    pub rustc: String,
    /// `release` or `debug`: whether assertions of a debug build were compiled in.
    pub profile: String,
}

impl Build {
    /// Of this program.
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

    /// The version with the commit, in one word: `0.1.0+1a2b3c4d5e6f`, `0.1.0+1a2b3c4d5e6f-dirty`.
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
    fn the_compiler_is_known_and_the_commit_is_one_or_none() {
        let build = Build::this();
        assert!(build.rustc.starts_with("rustc "), "{build:?}");
        if let Some(commit) = &build.commit {
            assert!(!commit.contains(char::is_whitespace), "{build:?}");
        } else {
            assert_eq!(build.dirty, None);
        }
    }

    #[test]
    fn a_version_says_when_it_is_not_what_was_committed() {
        let mut build = Build::default();
        assert_eq!(build.version("1.0.0"), "1.0.0");
        build.commit = Some("0123456789abcdef".into());
        assert_eq!(build.version("1.0.0"), "1.0.0+0123456789ab");
        build.dirty = Some(true);
        assert_eq!(build.version("1.0.0"), "1.0.0+0123456789ab-dirty");
    }
}

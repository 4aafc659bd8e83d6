//! The command line of a bench: whether to measure (`cargo bench`) or only to show that the bench
//! runs (`cargo test`, `cargo bench -- --test`), and whether to run everything or only what a
//! filter selects.

use std::env;

/// The flags of criterion and of `cargo test` that take a value, which is therefore not a filter.
const WITH_VALUE: &str = "--baseline --baseline-lenient --color --confidence-level --format --load-baseline --logfile --measurement-time --noise-threshold \
    --nresamples --profile-time --sample-size --save-baseline --shuffle-seed --significance-level --skip --test-threads --warm-up-time";
/// The flags of `cargo bench` with which a run is still a full run.
const OF_FULL_RUNS: [&str; 5] = ["--bench", "--noplot", "--quick", "--quiet", "--verbose"];

/// The request on the command line of a bench.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Whether to run everything once and measure nothing.
    pub is_smoke_test: bool,
    flags: Vec<String>,
    filter: Option<String>,
}

impl Asked {
    /// Parses the arguments of this program.
    pub fn here() -> Asked {
        let arguments = env::args().skip(1);
        // Cargo puts benches and tests into this folder, and other programs into the folder above.
        // A program that is run by itself (`cargo run`) is never a smoke test.
        let program = env::current_exe().unwrap_or_default();
        let folder = program.parent();
        Asked::parse(
            arguments,
            folder.is_some_and(|folder| folder.ends_with("deps")),
        )
    }

    fn parse(arguments: impl Iterator<Item = String>, is_bench: bool) -> Asked {
        let (mut flags, mut filter, mut is_value) = (Vec::new(), None, false);
        for argument in arguments {
            if argument.starts_with('-') {
                is_value = WITH_VALUE.split(' ').any(|flag| flag == argument);
                flags.push(argument);
            } else if !std::mem::take(&mut is_value) {
                filter = Some(argument);
            }
        }
        let has = |name: &str| flags.iter().any(|flag| flag == name);
        Asked {
            is_smoke_test: has("--test") || (is_bench && !has("--bench")),
            flags,
            filter,
        }
    }

    fn has(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| flag == name)
    }

    /// Reports whether criterion only lists or profiles benches, or whether there is nothing to do
    /// at all.
    pub fn lists_only(&self) -> bool {
        ["--list", "--ignored", "--profile-time"]
            .into_iter()
            .any(|name| self.has(name))
    }

    /// Reports whether rough figures are sufficient.
    pub fn is_quick(&self) -> bool {
        self.has("--quick")
    }

    /// Reports whether the run includes all benches.
    pub fn is_full(&self) -> bool {
        let known = |flag: &String| OF_FULL_RUNS.contains(&flag.as_str());
        self.filter.is_none() && self.flags.iter().all(known)
    }

    /// Reports whether the filter accepts an id or a prefix of ids. As in criterion, `^` in a
    /// filter stands for the beginning of an id.
    pub fn wants(&self, id: &str) -> bool {
        let Some(filter) = &self.filter else {
            return true;
        };
        match filter.strip_prefix('^') {
            Some(start) => id.starts_with(start) || start.starts_with(id),
            None => id.contains(&**filter) || filter.starts_with(id),
        }
    }
}

/// Reports whether this program was started only to show that it runs.
pub fn is_smoke_test() -> bool {
    Asked::here().is_smoke_test
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &str) -> Asked {
        Asked::parse(words.split_whitespace().map(str::to_owned), true)
    }

    #[test]
    fn a_bench_does_only_what_is_requested() {
        for (words, is_smoke_test, wants, lists_only) in [
            ("", true, true, false),
            ("--bench --test", true, true, false),
            ("whole", true, true, false),
            ("whole_runs/churn", true, true, false),
            ("^whole_runs/", true, true, false),
            ("^runs", true, false, false),
            ("--nocapture --test-threads 1", true, true, false),
            ("a_test_of_another_name", true, false, false),
            ("--list --format terse", true, true, true),
            ("--ignored", true, true, true),
            ("--bench", false, true, false),
            ("--bench --quick ranking", false, false, false),
            ("--bench --profile-time 5", false, true, true),
        ] {
            let asked = asked(words);
            let is = (
                asked.is_smoke_test,
                asked.wants("whole_runs"),
                asked.lists_only(),
            );
            assert_eq!(is, (is_smoke_test, wants, lists_only), "{words}");
        }
    }

    #[test]
    fn a_run_without_filter_list_or_profile_is_full() {
        assert!(asked("--bench --quick --noplot").is_full());
        assert!(!asked("--bench ranking").is_full());
        assert!(!asked("--bench --profile-time 5").is_full());
    }
}

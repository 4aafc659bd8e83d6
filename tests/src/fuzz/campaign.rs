//! Running a target: its corpus, then mutations of it and of what gave new outcomes.

use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

use super::{Mutator, Target};

/// Inputs kept to mutate, at most.
const POOL_MAX: usize = 4096;

/// When to stop; whichever comes first.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// After so many inputs.
    pub runs: Option<u64>,
    /// After so long.
    pub time: Option<Duration>,
}

/// An input that broke the claim.
#[derive(Clone, Debug)]
pub struct Crash {
    /// The input.
    pub input: Vec<u8>,
    /// What the panic said.
    pub message: String,
}

/// How a campaign went.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Inputs run.
    pub runs: u64,
    /// Different outcomes.
    pub outcomes: usize,
    /// The first input that broke the claim, if one did.
    pub crash: Option<Crash>,
}

/// Runs a target over its corpus and mutations of it until the limit or a crash. `told` hears of every
/// input before it runs.
///
/// # Panics
/// When the corpus is empty.
pub fn run(
    target: &Target,
    corpus: Vec<Vec<u8>>,
    seed: u64,
    limit: Limit,
    mut told: impl FnMut(u64, &[u8]),
) -> Summary {
    assert!(!corpus.is_empty(), "{} has no corpus", target.name);
    let begin = now();
    let mut mutator = Mutator::new(seed, target.words);
    let mut outcomes = BTreeSet::new();
    let mut pool = corpus;
    let given = pool.len() as u64;
    let mut runs = 0;
    while limit.runs.is_none_or(|most| runs < most.max(given))
        && limit.time.is_none_or(|most| begin.elapsed() < most)
    {
        let is_given = runs < given;
        let input = match usize::try_from(runs) {
            Ok(at) if is_given => pool[at].clone(),
            _ => mutator.next(&pool),
        };
        told(runs, &input);
        runs += 1;
        match attempt(target, &input) {
            Err(message) => {
                return Summary {
                    runs,
                    outcomes: outcomes.len(),
                    crash: Some(Crash { input, message }),
                };
            }
            Ok(outcome) => {
                if outcomes.insert(outcome) && !is_given && pool.len() < POOL_MAX {
                    pool.push(input);
                }
            }
        }
    }
    Summary {
        runs,
        outcomes: outcomes.len(),
        crash: None,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a campaign goes on is for people, not for the results"
)]
fn now() -> Instant {
    Instant::now()
}

/// Runs one input; the panic's message when it breaks the claim.
fn attempt(target: &Target, input: &[u8]) -> Result<u64, String> {
    let run = AssertUnwindSafe(|| (target.run)(input));
    panic::catch_unwind(run).map_err(|cause| {
        let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| cause.downcast_ref::<String>().cloned());
        text.unwrap_or_else(|| "a panic without a text".to_owned())
    })
}

/// A shorter input that crashes too: stretches are left out, halves first and single bytes last, for as long
/// as that goes on, O(n log n) runs a round.
pub fn minimise(target: &Target, crash: &Crash) -> Crash {
    let mut best = crash.clone();
    loop {
        let before = best.input.len();
        let mut len = before / 2;
        while len > 0 {
            let mut from = 0;
            while from + len <= best.input.len() {
                let mut shorter = best.input.clone();
                shorter.drain(from..from + len);
                match attempt(target, &shorter) {
                    Err(message) => {
                        best = Crash {
                            input: shorter,
                            message,
                        };
                    }
                    Ok(_) => from += len,
                }
            }
            len /= 2;
        }
        if best.input.len() == before {
            return best;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLANTED: Target = Target {
        name: "planted",
        claim: "no two exclamation marks",
        run: |data| {
            let marks = data.iter().filter(|&&byte| byte == b'!').count();
            assert!(marks < 2, "two of them");
            marks as u64
        },
        words: &["!"],
        short_runs: 0,
    };

    #[test]
    fn a_planted_bug_is_found_and_made_small() {
        let limit = Limit {
            runs: Some(10_000),
            time: None,
        };
        let corpus = vec![b"hello, world".to_vec()];
        let summary = run(&PLANTED, corpus.clone(), 1, limit, |_, _| ());
        let crash = summary.crash.expect("it is easy to find");
        assert_eq!(crash.message, "two of them");
        assert_eq!(minimise(&PLANTED, &crash).input, b"!!");
        let again = run(&PLANTED, corpus, 1, limit, |_, _| ());
        assert_eq!(again.runs, summary.runs, "the same seed, the same inputs");
    }
}

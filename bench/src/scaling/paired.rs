//! The work queue and its plain rival in many alternating rounds: shows the cost of unlucky rounds
//! and of a busy machine, rather than only the best rounds.

use std::fmt::Write as _;

use podstorm_sim::clock::RealClock;
use serde::{Deserialize, Serialize};

use super::report::Source;
use super::{Run, Subject, run};

/// The number of pairs of rounds for each subject.
pub const PAIRS: usize = 15;
/// The maximum number of attempts for these pairs. On a busy machine, some attempts give no figure.
const TURNS: usize = 8 * PAIRS;
/// The number of rounds of threads in one half of a pair. The median round counts.
const ROUNDS: usize = 40;
/// The maximum number of attempts until the threads run concurrently.
const ATTEMPTS: usize = 5;
/// The ratio from which two medians count as equal.
const EQUAL: f64 = 0.95;

/// The results for all subjects.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Paired {
    /// The origin of the figures.
    pub source: Source,
    /// The duration of a `std::hint::spin_loop` in nanoseconds: the fastest of several thousand.
    pub pause_ns: f64,
    /// The pairs of each subject.
    pub subjects: Vec<Pairs>,
}

/// The pairs of one subject, at two threads.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pairs {
    /// The subject, as in `Curve`.
    pub subject: String,
    /// The keys of the threads, as in `Curve`.
    pub keys: String,
    /// The events per second of all threads together, ours and the plain rival's, in the order of
    /// the rounds.
    pub rounds: Vec<[f64; 2]>,
    /// The number of pairs in which the machine never let both threads run concurrently.
    pub without_figure: usize,
}

impl Paired {
    /// Measures the subjects of the work queue: one pair of each subject after the other.
    pub fn measure(source: Source, subjects: &[Subject]) -> Paired {
        let subjects: Vec<&Subject> = subjects
            .iter()
            .filter(|subject| subject.name.starts_with("workqueue"))
            .collect();
        let mut pairs: Vec<Pairs> = subjects
            .iter()
            .map(|subject| Pairs::from_subject(subject))
            .collect();
        for turn in 0..TURNS {
            let short = subjects.iter().zip(&mut pairs);
            for (subject, pairs) in short.filter(|(_, pairs)| pairs.rounds.len() < PAIRS) {
                pairs.add(subject, turn % 2 == 0);
            }
        }
        Paired {
            source,
            pause_ns: pause_ns(),
            subjects: pairs,
        }
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "\n## The queue and one lock, alternating\n\n{}\n\n\
             Two threads, {PAIRS} pairs of rounds; a round is the middle one of {ROUNDS}. Millions of events per second. The ratio is that of a \
             pair, ours to plain:\nabove 1 the queue is faster. Medians of ratios from {EQUAL} on count as equal. A pause of the processor \
             takes {:.1} ns on this machine.\n\n\
             | work | implementation | pairs | worst | quarter | median | three quarters | best |\n\
             |---|---|---:|---:|---:|---:|---:|---:|\n",
            self.source.markdown(),
            self.pause_ns
        );
        for pairs in &self.subjects {
            let of = |value: fn(&[f64; 2]) -> f64| pairs.rounds.iter().map(value).collect();
            let mut row = |what: &str, who: &str, values: Vec<f64>, scale: f64| {
                let cells = quarters(values).map_or_else(
                    || " – | – | – | – | –".to_owned(),
                    |five| {
                        five.map(|value| format!(" {:.2} |", value / scale))
                            .concat()
                    },
                );
                let count = pairs.rounds.len();
                writeln!(text, "| {what} | {who} | {count} |{}", cells.trim_end())
                    .expect("writing to a String does not fail");
            };
            let what = format!("{}, {} keys", pairs.subject, pairs.keys);
            row(&what, "podstorm", of(|round| round[0]), 1e6);
            row("", "plain", of(|round| round[1]), 1e6);
            row("", "ratio", of(|round| round[0] / round[1]), 1.0);
        }
        text
    }
}

impl Pairs {
    fn from_subject(subject: &Subject) -> Pairs {
        Pairs {
            subject: subject.name.to_owned(),
            keys: subject.keys.to_owned(),
            ..Pairs::default()
        }
    }

    fn add(&mut self, subject: &Subject, ours_first: bool) {
        let one = |workers: fn(usize) -> Vec<super::Worker>| {
            let figure = |_| -> Option<f64> {
                let run: Run = run(workers(2), ROUNDS, subject.events);
                run.middle_per_second
            };
            (0..ATTEMPTS).find_map(figure)
        };
        let (ours, plain) = if ours_first {
            let ours = one(subject.ours);
            (ours, one(subject.plain))
        } else {
            let plain = one(subject.plain);
            (one(subject.ours), plain)
        };
        match ours.zip(plain) {
            Some((ours, plain)) => self.rounds.push([ours, plain]),
            None => self.without_figure += 1,
        }
    }
}

/// Returns the minimum, the quartiles and the maximum; `None` if there are no values.
fn quarters(mut values: Vec<f64>) -> Option<[f64; 5]> {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some([0, 1, 2, 3, 4].map(|quarter| values[last * quarter / 4]))
}

fn pause_ns() -> f64 {
    const PAUSES: u32 = 256;
    let clock = RealClock::start();
    let once = |_| {
        let start_ns = clock.now().mono_ns;
        for _ in 0..PAUSES {
            std::hint::spin_loop();
        }
        clock.now().mono_ns - start_ns
    };
    let least_ns = (0..4_000).map(once).min().expect("several");
    least_ns as f64 / f64::from(PAUSES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_those_of_the_sorted_values() {
        let values = (0..=14).rev().map(f64::from).collect();
        assert_eq!(quarters(values), Some([0.0, 3.0, 7.0, 10.0, 14.0]));
        assert_eq!(quarters(vec![2.0]), Some([2.0; 5]));
        assert_eq!(quarters(vec![]), None);
    }

    #[test]
    fn the_table_has_ratios_of_pairs_not_of_medians() {
        let paired = Paired {
            subjects: vec![Pairs {
                rounds: vec![[1e6, 2e6], [4e6, 1e6], [3e6, 3e6]],
                ..Pairs::default()
            }],
            ..Paired::default()
        };
        let text = paired.markdown();
        assert!(
            text.contains("| podstorm | 3 | 1.00 | 1.00 | 3.00 | 3.00 | 4.00 |"),
            "{text}"
        );
        assert!(
            text.contains("| ratio | 3 | 0.50 | 0.50 | 1.00 | 1.00 | 4.00 |"),
            "{text}"
        );
    }
}

//! Campaigns: many seeds in parallel, and the sums of their results.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use podstorm::policy::Behaviour;
use podstorm_objects::Kind;
use podstorm_sim::faults::FaultClass;
use podstorm_sim::lock;

use super::coverage::Pairs;
use super::rows::SubjectRow;
use super::verdict::{Struck, Verdict, Violation};

/// The seeds to play, and how to play them.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The first seed.
    pub first: u64,
    /// The number of seeds; unlimited if `None`.
    pub seeds: Option<u64>,
    /// The behaviour of all seeds; if `None`, even seeds use upstream's and odd seeds the hardened
    /// behaviour.
    pub behaviour: Option<Behaviour>,
    /// The workload that is tested under faults.
    pub workload: &'static SubjectRow,
    /// The classes of faults to which schedules are limited; each seed chooses its classes if
    /// empty.
    pub classes: Vec<FaultClass>,
    /// The number of threads that play seeds.
    pub threads: usize,
    /// The number of failing seeds after which the campaign stops.
    pub failures_max: usize,
}

/// A seed that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The behaviour with which the seed was played.
    pub behaviour: Behaviour,
    /// The violation that was found.
    pub violation: Violation,
}

/// The sums over all seeds with one behaviour.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    /// The number of seeds played.
    pub seeds: u64,
    /// For each kind, the number of seeds in which its controllers ran.
    pub kinds: BTreeMap<Kind, u64>,
    /// The number of seeds in which a controller died.
    pub crashed: u64,
    /// The total simulated time, ns.
    pub simulated_ns: u128,
    /// The number of pods created by controllers.
    pub creates: u64,
    /// The number of pods deleted by controllers.
    pub deletes: u64,
    /// The number of syncs.
    pub syncs: u64,
    /// The number of pods created beyond the wanted number, for each of the
    /// [`Conditions`](super::verdict::Conditions).
    pub excess: [u64; 3],
    /// The number of writes with an unknown outcome, for each of the
    /// [`Conditions`](super::verdict::Conditions).
    pub ambiguous: [u64; 3],
    /// The times from healing to convergence, of all seeds that converged, ns.
    pub converged_after_ns: Vec<i64>,
    /// The counts of faults by class.
    pub faults: BTreeMap<FaultClass, Struck>,
    /// The pairs of fault classes and affected steps, with the number of seeds in which each
    /// occurred.
    pub pairs: Pairs,
    /// The number of seeds in which each situation occurred.
    pub sometimes: BTreeMap<&'static str, u64>,
}

impl Sum {
    fn add(&mut self, verdict: &Verdict) {
        self.seeds += 1;
        self.crashed += u64::from(verdict.crashed);
        self.simulated_ns += verdict.simulated_ns.unsigned_abs() as u128;
        self.creates += verdict.creates;
        self.deletes += verdict.deletes;
        self.syncs += verdict.syncs;
        let kind = verdict.conditions as usize;
        self.excess[kind] += verdict.excess_pods_created;
        self.ambiguous[kind] += verdict.ambiguous_writes;
        self.converged_after_ns.extend(verdict.converged_after_ns);
        for (class, struck) in &verdict.faults {
            self.faults.entry(*class).or_default().add(struck);
        }
        for pair in &verdict.pairs {
            *self.pairs.entry(*pair).or_default() += 1;
        }
        for situation in &verdict.sometimes {
            *self.sometimes.entry(situation).or_default() += 1;
        }
    }

    /// Returns a quantile of the times from healing to convergence, ns; `None` if no seed
    /// converged.
    pub fn converged_quantile(&self, quantile: f64) -> Option<i64> {
        let mut times = self.converged_after_ns.clone();
        times.sort_unstable();
        let at = (quantile * times.len().saturating_sub(1) as f64).round() as usize;
        times.get(at).copied()
    }
}

/// The result of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The sums over all seeds with upstream's behaviour, and over those with the hardened
    /// behaviour.
    pub sums: [Sum; 2],
    /// The seeds that failed, in ascending order.
    pub failures: Vec<Failure>,
}

impl Outcome {
    /// Returns the number of seeds played, both behaviours together.
    pub fn seeds(&self) -> u64 {
        self.sums.iter().map(|sum| sum.seeds).sum()
    }

    /// Returns the counts of a class of faults, both behaviours together.
    pub fn struck(&self, class: FaultClass) -> Struck {
        let mut all = Struck::default();
        for struck in self.sums.iter().filter_map(|sum| sum.faults.get(&class)) {
            all.add(struck);
        }
        all
    }

    /// Returns the number of seeds in which each situation occurred, both behaviours together.
    pub fn sometimes(&self) -> BTreeMap<&'static str, u64> {
        let mut all = BTreeMap::new();
        for (situation, seeds) in self.sums.iter().flat_map(|sum| &sum.sometimes) {
            *all.entry(*situation).or_default() += seeds;
        }
        all
    }

    /// Returns the pairs of fault classes and affected steps, both behaviours together.
    pub fn pairs(&self) -> Pairs {
        let mut all = Pairs::new();
        for (pair, seeds) in self.sums.iter().flat_map(|sum| &sum.pairs) {
            *all.entry(*pair).or_default() += seeds;
        }
        all
    }
}

/// Returns the behaviour with which a seed is played: `wanted`, or upstream's for even seeds and
/// the hardened one for odd seeds.
pub fn behaviour_of(seed: u64, wanted: Option<Behaviour>) -> Behaviour {
    wanted.unwrap_or(match seed % 2 {
        0 => Behaviour::Upstream,
        _ => Behaviour::Hardened,
    })
}

/// Plays the seeds until there are no more, `stop` is set, or too many have failed. After each
/// seed, `progress` is called with the numbers of played and of failed seeds.
pub fn run(
    campaign: &Campaign,
    stop: &AtomicBool,
    progress: &(dyn Fn(u64, usize) + Sync),
) -> Outcome {
    let next = AtomicU64::new(0);
    let outcome = Mutex::new(Outcome::default());
    let work = || loop {
        // Relaxed: a counter and a flag that order nothing.
        let number = next.fetch_add(1, Ordering::Relaxed);
        if campaign.seeds.is_some_and(|seeds| number >= seeds) || stop.load(Ordering::Relaxed) {
            return;
        }
        let seed = campaign.first.wrapping_add(number);
        let behaviour = behaviour_of(seed, campaign.behaviour);
        let schedule = (campaign.workload.draw)(seed, &campaign.classes);
        let verdict = schedule.play_caught(behaviour);
        let mut outcome = lock(&outcome);
        let sum = &mut outcome.sums[behaviour as usize];
        sum.add(&verdict);
        for kind in schedule.kinds() {
            *sum.kinds.entry(kind).or_default() += 1;
        }
        if let Some(violation) = verdict.violation {
            outcome.failures.push(Failure {
                seed,
                behaviour,
                violation,
            });
            if outcome.failures.len() >= campaign.failures_max {
                stop.store(true, Ordering::Relaxed);
            }
        }
        let done = outcome.sums.iter().map(|sum| sum.seeds).sum();
        progress(done, outcome.failures.len());
    };
    std::thread::scope(|scope| {
        for _ in 0..campaign.threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut outcome = outcome
        .into_inner()
        .expect("no thread panics while it holds this lock");
    outcome.failures.sort_by_key(|failure| failure.seed);
    outcome
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use podstorm::replicaset::ReplicaSets;

    use super::super::draw::draw;
    use super::super::play::caught;
    use super::super::rows::Subjects;
    use super::*;

    fn campaign(threads: usize, seeds: u64) -> Outcome {
        let campaign = Campaign {
            first: 1,
            seeds: Some(seeds),
            behaviour: None,
            workload: &Subjects::installed()[0],
            classes: Vec::new(),
            threads,
            failures_max: 100,
        };
        run(&campaign, &AtomicBool::new(false), &|_, _| {})
    }

    #[test]
    fn the_first_seeds_of_either_behaviour_break_no_invariant() {
        let outcome = campaign(2, 60);
        let told: Vec<String> = outcome
            .failures
            .iter()
            .map(|failure| format!("seed {}: {}", failure.seed, failure.violation))
            .collect();
        assert_eq!(told, Vec::<String>::new());
        let [upstream, hardened] = &outcome.sums;
        assert_eq!((upstream.seeds, hardened.seeds), (30, 30));
        // There were faults, and they hit controllers with work to do.
        assert!(upstream.faults.values().any(|struck| struck.mattered > 0));
        for sum in &outcome.sums {
            assert!(sum.kinds[&Kind::REPLICATION_CONTROLLER] > 0);
            let faults = sum.faults.values();
            let mut each = faults.clone();
            assert!(each.all(|struck| struck.noticed <= struck.injected));
            assert!(faults.map(|struck| struck.noticed).sum::<u64>() > 0);
            assert!(sum.pairs.values().all(|seeds| *seeds <= sum.seeds));
        }
        assert!(upstream.creates > 0 && hardened.creates > 0 && hardened.deletes > 0);
        assert_eq!(hardened.excess[0], 0);
    }

    #[test]
    fn a_seeds_trace_does_not_depend_on_parallel_seeds() {
        let trace = |seed: u64| {
            let behaviour = behaviour_of(seed, None);
            caught(&draw::<ReplicaSets>(seed, &[]), behaviour).trace
        };
        let alone: Vec<u128> = (1..13).map(trace).collect();
        let together: Vec<u128> = std::thread::scope(|scope| {
            let plays: Vec<_> = (1..13)
                .map(|seed| scope.spawn(move || trace(seed)))
                .collect();
            plays
                .into_iter()
                .map(|play| play.join().expect("playing a seed does not panic"))
                .collect()
        });
        assert_eq!(alone, together);
        let different: BTreeSet<u128> = alone.iter().copied().collect();
        assert_eq!(different.len(), alone.len(), "seeds differ");
    }

    #[test]
    fn behaviours_alternate_unless_one_is_requested() {
        assert_eq!(behaviour_of(2, None), Behaviour::Upstream);
        assert_eq!(behaviour_of(3, None), Behaviour::Hardened);
        let asked_for = behaviour_of(2, Some(Behaviour::Hardened));
        assert_eq!(asked_for, Behaviour::Hardened);
    }
}

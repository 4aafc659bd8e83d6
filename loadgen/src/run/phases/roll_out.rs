//! Rolls out many workloads that have no controller for it: each workload gets a successor, which
//! grows while the workload shrinks, as in a rolling update by a controller.

use podstorm_objects::Now;

use super::driver::Driver;
use super::tasks::Action;
use crate::scenario::{RollOut, SetImage};
use crate::workloads::Part;

/// The time between two checks of the pairs, ns. A controller would react within this time.
const LOOK_NS: i64 = 100_000_000;

/// A workload that is being replaced, and its successor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    /// The numbers of both in the tracker.
    old: usize,
    new: usize,
    /// The number of pods of the two together before and after the rollout.
    share: i32,
}

/// The desired and available pods of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PairCounts {
    old: i32,
    new: i32,
    new_available: i32,
    old_available: i32,
}

/// Returns the next sizes of the old and the new workload, computed as by a rollout controller. The
/// new one grows into the space that `surge` allows. The old one shrinks by the available pods
/// above the minimum, its unavailable pods first.
fn next_scales(counts: PairCounts, share: i32, surge: i32, unavailable: i32) -> (i32, i32) {
    let PairCounts {
        old,
        new,
        new_available,
        old_available,
    } = counts;
    let room = (share + surge - old - new).max(0);
    let grown = new + room.min((share - new).max(0));
    let least = (share - unavailable).max(0);
    // Unavailable pods of the new one are requested but don't count as available.
    let spare = (old + new - least - (new - new_available)).max(0);
    let unhealthy = (old - old_available).max(0).min(spare);
    let after_unhealthy = old - unhealthy;
    let available = old_available + new_available - least;
    let shrunk = after_unhealthy - available.clamp(0, after_unhealthy).min(spare - unhealthy);
    (shrunk, grown)
}

impl Driver {
    pub(super) fn roll_out(&mut self, roll_out: RollOut, begun_ns: i64, now: Now) -> Action {
        let count = match self.at.count {
            Some(count) => count,
            None => roll_out.of.resolve(self.count_replaceable()),
        };
        self.at.count = Some(count);
        let begun = self.each_due(
            count,
            roll_out.load,
            begun_ns,
            now,
            |driver, number| match driver.maker_of(number) {
                Some(at) => {
                    driver.set_image(at, &SetImage::default(), Some(roll_out.limits()), now)
                }
                None => driver.begin_pair(number, now),
            },
        );
        if !matches!(begun, Action::Done | Action::Wait(_)) {
            return begun;
        }
        if self.at.look_ns > now.mono_ns {
            return Action::Wait(self.at.look_ns);
        }
        self.at.look_ns = now.mono_ns.saturating_add(LOOK_NS);
        let mut pairs = std::mem::take(&mut self.at.pairs);
        pairs.retain(|pair| self.advance(*pair, &roll_out, now));
        let over = pairs.is_empty() && begun == Action::Done;
        self.at.pairs = pairs;
        if over {
            Action::Done
        } else {
            Action::Wait(self.at.look_ns)
        }
    }

    /// Returns how many of the scenario's workloads can be rolled out.
    fn count_replaceable(&self) -> u64 {
        if self.rollouts.generated {
            return self.rollouts.count() as u64;
        }
        let owners = self.generated.iter().map(|at| &self.tracker.owners[*at]);
        owners.filter(|owner| owner.pods().has_successors()).count() as u64
    }

    /// Creates the successor of a workload.
    fn begin_pair(&mut self, number: u64, now: Now) -> Action {
        let index = number as usize;
        let (Some(&old), Some(&before)) = (self.generated.get(index), self.revisions.get(index))
        else {
            return Action::Skipped;
        };
        let revision = before + 1;
        let owner = &self.tracker.owners[old];
        let workload = owner.workload;
        let successor = match self.shares {
            None => {
                let part = Part {
                    number,
                    replicas: 0,
                    revision,
                    is_owned: true,
                };
                workload.make(part, &self.objects)
            }
            // The workload is an old revision, kept for rollbacks.
            Some(_) if owner.desired == 0 => None,
            Some(_) => {
                let api = self.cluster.api(workload.kind());
                let found = api.get(&owner.namespace, &owner.name);
                let pods = owner.pods();
                let Some(found) = self.note("reading", workload.kind(), found) else {
                    return Action::Wrote;
                };
                pods.successor(&*found, revision)
            }
        };
        let Some(successor) = successor else {
            return Action::Skipped;
        };
        self.revisions[index] = revision;
        let created = self.cluster.api(workload.kind()).create(successor, now);
        if let Some(created) = self.note("creating", workload.kind(), created) {
            let new = self.tracker.asked(workload, created.metadata(), 0, now);
            self.generated[index] = new;
            let share = self.tracker.owners[old].desired;
            self.at.pairs.push(Pair { old, new, share });
        }
        Action::Wrote
    }

    /// Scales a pair as far as its pods allow. Returns whether the rollout is still in progress.
    fn advance(&mut self, pair: Pair, roll_out: &RollOut, now: Now) -> bool {
        let (old, new) = (
            &self.tracker.owners[pair.old],
            &self.tracker.owners[pair.new],
        );
        if old.gone || new.gone {
            return false;
        }
        let counts = PairCounts {
            old: old.desired,
            new: new.desired,
            new_available: new.available(),
            old_available: old.available(),
        };
        if counts.old == 0 && counts.new_available >= pair.share {
            return false;
        }
        let surge = roll_out.max_surge.rounded_up(pair.share);
        let mut unavailable = roll_out.max_unavailable.rounded_down(pair.share);
        if surge == 0 && unavailable == 0 {
            // Otherwise nothing could ever change. The Deployment controller does the same.
            unavailable = 1;
        }
        let (shrunk, grown) = next_scales(counts, pair.share, surge, unavailable);
        self.scale_owner(pair.new, grown, now);
        self.scale_owner(pair.old, shrunk, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_never_has_too_many_pods_nor_too_few_available() {
        for (share, surge, unavailable) in
            [(10, 3, 2), (4, 1, 1), (1, 1, 0), (7, 0, 1), (50, 13, 12)]
        {
            let (mut old, mut new, mut rounds) = (share, 0, 0);
            while old > 0 || new < share {
                // In this test, all requested pods exist and are available.
                let counts = PairCounts {
                    old,
                    new,
                    new_available: new,
                    old_available: old,
                };
                let (shrunk, grown) = next_scales(counts, share, surge, unavailable);
                assert!(shrunk <= old && grown >= new, "{counts:?}");
                assert!((shrunk, grown) != (old, new), "stuck at {counts:?}");
                assert!(grown + old <= share + surge, "{counts:?}");
                assert!(shrunk + new >= share - unavailable, "{counts:?}");
                (old, new) = (shrunk, grown);
                rounds += 1;
            }
            assert!(rounds <= 2 * share + 2);
        }
    }

    #[test]
    fn unavailable_pods_hold_back_the_old_workload() {
        let counts = PairCounts {
            old: 8,
            new: 5,
            new_available: 0,
            old_available: 8,
        };
        assert_eq!(next_scales(counts, 10, 3, 2), (8, 5));
        let better = PairCounts {
            new_available: 5,
            ..counts
        };
        assert_eq!(next_scales(better, 10, 3, 2), (3, 5));
    }
}

//! Rolling updates of many ReplicaSets at once, without Deployments: each gets a successor, which grows
//! while it shrinks, by the rules of a Deployment's `RollingUpdate`.

use std::sync::Arc;

use compact_str::format_compact;
use podstorm_objects::{
    LabelSelector, Labels, Now, ObjectMeta, PodTemplate, ReplicaSet, ReplicaSetSpec,
};

use super::driver::Driver;
use super::objects::{anew, with};
use super::tasks::Action;
use crate::scenario::{RollOut, SetImage};

/// The label by which the pods of a Deployment's ReplicaSets differ.
const HASH_LABEL: &str = "pod-template-hash";

/// Between two looks at how far the pairs are, ns: a Deployment's controller reacts within as much.
const LOOK_NS: i64 = 100_000_000;

/// A pair under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    /// Numbers in the tracker.
    old: usize,
    new: usize,
    /// Pods of the two together when neither is being replaced.
    share: i32,
}

/// How far a pair is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    old: i32,
    new: i32,
    new_available: i32,
    old_available: i32,
}

/// What old and new are to be scaled to, as a Deployment's controller reckons it: the new one grows
/// into what `surge` leaves free; the old one shrinks by what is available beyond the least that must
/// be, its own pods that are not available first.
fn next_scales(counts: Counts, share: i32, surge: i32, unavailable: i32) -> (i32, i32) {
    let Counts {
        old,
        new,
        new_available,
        old_available,
    } = counts;
    let room = (share + surge - old - new).max(0);
    let grown = new + room.min((share - new).max(0));
    let least = (share - unavailable).max(0);
    // The new one's pods that are not available count as asked for and missing.
    let spare = (old + new - least - (new - new_available)).max(0);
    let unhealthy = (old - old_available).max(0).min(spare);
    let after_unhealthy = old - unhealthy;
    let available = old_available + new_available - least;
    let shrunk = after_unhealthy - available.clamp(0, after_unhealthy).min(spare - unhealthy);
    (shrunk, grown)
}

/// The next revision of a ReplicaSet from a file, without pods: the same template and selector but for
/// the label that tells revisions apart, under the same owner.
fn successor(old: &ReplicaSet, revision: u32) -> ReplicaSet {
    // What an earlier successor has been given goes again.
    let last = format_compact!("-r{}", revision.saturating_sub(1));
    let next = |text: &str| {
        let base = match revision {
            0 | 1 => text,
            _ => text.strip_suffix(last.as_str()).unwrap_or(text),
        };
        format_compact!("{base}-r{revision}")
    };
    let template = &old.spec.template;
    let hash = match template.metadata.labels.get(HASH_LABEL) {
        Some(hash) => next(hash),
        None => format_compact!("r{revision}"),
    };
    let label = Labels::from_pairs([(HASH_LABEL, hash.as_str())]);
    let selector = old.spec.selector.as_ref().map(|selector| {
        Arc::new(LabelSelector {
            match_labels: with(&selector.match_labels, &label),
            match_expressions: Arc::clone(&selector.match_expressions),
        })
    });
    let template = PodTemplate {
        metadata: ObjectMeta {
            labels: with(&template.metadata.labels, &label),
            ..template.metadata.clone()
        },
        ..PodTemplate::clone(template)
    };
    ReplicaSet {
        metadata: ObjectMeta {
            name: next(&old.metadata.name),
            labels: with(&old.metadata.labels, &label),
            ..anew(&old.metadata)
        },
        spec: ReplicaSetSpec {
            replicas: Some(0),
            selector,
            template: Arc::new(template),
            ..old.spec.clone()
        },
        ..ReplicaSet::default()
    }
}

impl Driver {
    pub(super) fn roll_out(&mut self, roll_out: RollOut, begun_ns: i64, now: Now) -> Action {
        let count = match self.at.count {
            Some(count) => count,
            None => roll_out.of.of(self.count_replica_sets()),
        };
        self.at.count = Some(count);
        let begun = self.each_due(
            count,
            roll_out.load,
            begun_ns,
            now,
            |driver, number| match driver.deployment_of(number) {
                Some(at) => driver.set_image(at, &SetImage::default(), Some(&roll_out), now),
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

    /// The ReplicaSets among the scenario's owners: no ReplicationController stands before one.
    fn count_replica_sets(&self) -> u64 {
        if self.deployments.generated {
            return self.deployments.count() as u64;
        }
        let owners = self.generated.iter().map(|at| &self.tracker.owners[*at]);
        owners.filter(|owner| !owner.is_rc).count() as u64
    }

    /// Creates the successor of a ReplicaSet.
    fn begin_pair(&mut self, number: u64, now: Now) -> Action {
        let index = number as usize;
        let (Some(&old), Some(&before)) = (self.generated.get(index), self.revisions.get(index))
        else {
            return Action::Skipped;
        };
        let revision = before + 1;
        let successor = match self.shares {
            None => self.objects.replica_set(number, 0, revision, true),
            Some(_) => {
                let owner = &self.tracker.owners[old];
                if owner.desired == 0 {
                    // A revision that its Deployment keeps to go back to.
                    return Action::Skipped;
                }
                let found = self
                    .cluster
                    .get::<ReplicaSet>(&owner.namespace, &owner.name);
                let Some(found) = self.note("reading a ReplicaSet", found) else {
                    return Action::Wrote;
                };
                successor(&found, revision)
            }
        };
        self.revisions[index] = revision;
        let created = self.cluster.create(successor, now);
        if let Some(created) = self.note("creating a ReplicaSet", created) {
            let new = self.tracker.asked(&created.metadata, 0, now);
            self.generated[index] = new;
            let share = self.tracker.owners[old].desired;
            self.at.pairs.push(Pair { old, new, share });
        }
        Action::Wrote
    }

    /// Scales a pair as far as its pods allow; whether it is under way still.
    fn advance(&mut self, pair: Pair, roll_out: &RollOut, now: Now) -> bool {
        let (old, new) = (
            &self.tracker.owners[pair.old],
            &self.tracker.owners[pair.new],
        );
        if old.gone || new.gone {
            return false;
        }
        let counts = Counts {
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
            // Nothing could ever happen otherwise; the Deployment controller does the same.
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
    use podstorm_objects::Resource;

    use super::*;

    #[test]
    fn a_pair_never_has_too_many_pods_nor_too_few_available() {
        for (share, surge, unavailable) in
            [(10, 3, 2), (4, 1, 1), (1, 1, 0), (7, 0, 1), (50, 13, 12)]
        {
            let (mut old, mut new, mut rounds) = (share, 0, 0);
            while old > 0 || new < share {
                // Every pod that was asked for is there and available.
                let counts = Counts {
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
    fn a_successor_differs_in_its_name_and_in_the_label_of_its_revision() {
        let text = |object: &ReplicaSet| {
            let selector = object.spec.selector.as_ref().unwrap();
            let texts = [
                &object.metadata.labels,
                &selector.match_labels,
                &object.spec.template.metadata.labels,
            ];
            let hashes = texts.map(|labels| labels.get(HASH_LABEL).map(|hash| hash.to_string()));
            assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
            let app = selector.match_labels.get("app").map(|app| &**app);
            assert_eq!(app, Some("web"));
            let hash = hashes[0].clone().unwrap_or_default();
            format!("{} {hash}", object.metadata.name)
        };
        let read = |name: &str, labels: serde_json::Value| {
            ReplicaSet::from_json(serde_json::json!({
                "metadata": {"name": name, "namespace": "shop", "uid": "u1", "labels": labels,
                    "resourceVersion": "7"},
                "spec": {
                    "replicas": 3,
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": [{"name": "c", "image": "i"}]},
                    },
                },
                "status": {"replicas": 3},
            }))
            .unwrap()
        };
        let labels = serde_json::json!({"app": "web", HASH_LABEL: "5d4f"});
        let old = read("web-5d4f", labels);
        let first = successor(&old, 1);
        assert_eq!(text(&first), "web-5d4f-r1 5d4f-r1");
        assert_eq!(text(&successor(&first, 2)), "web-5d4f-r2 5d4f-r2");
        assert_eq!(first.spec.replicas, Some(0));
        assert_eq!(first.status.replicas, 0);
        assert!(first.metadata.uid.is_empty() && &*first.metadata.namespace == "shop");
        assert_eq!(first.spec.template.spec, old.spec.template.spec);
        let plain = successor(&read("web-r0", serde_json::json!({"app": "web"})), 1);
        assert_eq!(text(&plain), "web-r0-r1 r1");
    }

    #[test]
    fn what_is_not_available_holds_the_old_one_back() {
        let counts = Counts {
            old: 8,
            new: 5,
            new_available: 0,
            old_available: 8,
        };
        assert_eq!(next_scales(counts, 10, 3, 2), (8, 5));
        let better = Counts {
            new_available: 5,
            ..counts
        };
        assert_eq!(next_scales(better, 10, 3, 2), (3, 5));
    }
}

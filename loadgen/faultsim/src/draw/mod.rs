//! Draws a schedule from a seed, by swarm: each seed switches a few classes of faults on, at rates
//! drawn evenly over their orders of magnitude, so that rare pairs meet. Some seeds have one class
//! alone at a high rate, some none at all.

mod dice;

use podstorm_objects::Kind;
use podstorm_sim::faults::{ApiFault, Call, CrashPoint, Effect, FaultClass, StreamKind};

use super::action::{Action, Death, Dependents, Tampering};
use super::schedule::{PlannedCluster, PlannedReplicaSet, SCHEDULE_VERSION, Schedule, Step};
use super::workloads::WorkloadKind;
pub(crate) use dice::Dice;

/// Of a hundred seeds, those without faults, and those with a single class.
const SEEDS_WITHOUT_FAULTS: u32 = 10;
const SEEDS_OF_ONE_CLASS: u32 = 10;

/// One seed in this many has ReplicationControllers: half of these nothing else, half both kinds.
const REPLICATION_CONTROLLERS_IN: u32 = 4;

/// How many classes the other seeds have on average.
const CLASSES: usize = 6;

/// Most steps of one class in one schedule.
const STEPS_MAX: usize = 60;

/// Most ReplicaSets that users delete for good in one schedule.
const DELETED_MAX: usize = 2;

/// The pods that users create and remove by name.
const BY_HAND: [&str; 3] = ["by-hand-1", "by-hand-2", "by-hand-3"];

/// The schedule of a seed; of these classes only, if any are named.
pub fn draw(seed: u64, classes: &[FaultClass]) -> Schedule {
    let mut dice = Dice::new(seed, "schedule", STEPS_MAX);
    let replica_sets = dice.replica_sets();
    let cluster = dice.cluster(replica_sets, |dice| dice.one(&[500, 500, 500, 4]));
    let shares = (SEEDS_WITHOUT_FAULTS, SEEDS_OF_ONE_CLASS);
    let all = FaultClass::ALL;
    let is_chosen = |dice: &mut Dice| dice.random.usize(..all.len()) < CLASSES;
    let (classes, high) = dice.classes(classes, &all, shares, is_chosen);
    let disturb_ms = dice.random.u32(60_000..=600_000);
    let names: Vec<String> = cluster
        .replica_sets
        .iter()
        .map(|set| set.name.clone())
        .collect();
    let mut drawn = Drawn::of(&cluster);
    let mut steps = dice.beside(&cluster, &drawn);
    for at_ms in dice.user_times(disturb_ms) {
        let actions = dice.user_actions(&names, &mut drawn).into_iter();
        steps.extend(actions.map(|action| Step::of_user(at_ms, action)));
    }
    for class in &classes {
        for at_ms in dice.fault_times(high, disturb_ms) {
            let action = dice.fault(*class, &names, &mut drawn);
            let class = Some(*class);
            steps.push(Step {
                at_ms,
                class,
                action,
            });
        }
    }
    // Stable: steps of the same moment stay in the order in which they were drawn.
    steps.sort_by_key(|step| step.at_ms);
    Schedule {
        version: SCHEDULE_VERSION,
        seed,
        cluster,
        disturb_ms,
        classes,
        steps,
    }
}

/// What a schedule has only a few of.
#[derive(Debug, Default)]
struct Drawn {
    /// What there is, each kind once.
    kinds: Vec<WorkloadKind>,
    overlapping: u32,
    rejecting: u32,
    /// The ReplicaSets that are deleted for good.
    deleted: Vec<String>,
}

impl Drawn {
    fn of(cluster: &PlannedCluster) -> Drawn {
        let is_there = |kind: &WorkloadKind| cluster.replica_sets.iter().any(|it| it.kind == *kind);
        let kinds = WorkloadKind::ALL.into_iter().filter(is_there);
        Drawn {
            kinds: kinds.collect(),
            ..Drawn::default()
        }
    }

    fn has_both_kinds(&self) -> bool {
        self.kinds.len() == WorkloadKind::ALL.len()
    }
}

impl Dice {
    fn replica_sets(&mut self) -> Vec<PlannedReplicaSet> {
        let sets = self.random.usize(1..=4);
        let names = ["web", "api", "db", "queue"];
        let kinds = self.kinds(sets);
        let of_kind = |(name, kind): (&&str, WorkloadKind)| PlannedReplicaSet {
            kind,
            name: (*name).to_owned(),
            replicas: self.one(&[0, 1, 2, 3, 5, 8, 13, 30]),
            min_ready_seconds: self.one(&[0, 0, 0, 1, 10]),
        };
        names[..sets].iter().zip(kinds).map(of_kind).collect()
    }

    /// What its objects are.
    fn kinds(&mut self, count: usize) -> Vec<WorkloadKind> {
        use WorkloadKind::{ReplicaSet, ReplicationController};
        if self.below(REPLICATION_CONTROLLERS_IN) > 0 {
            return vec![ReplicaSet; count];
        }
        if count == 1 || self.random.bool() {
            return vec![ReplicationController; count];
        }
        let mut kinds = vec![ReplicaSet, ReplicationController];
        kinds.extend((2..count).map(|_| self.one(&WorkloadKind::ALL)));
        self.random.shuffle(&mut kinds);
        kinds
    }

    /// Where there are both kinds, every second time one of each has the same labels from the
    /// beginning.
    fn beside(&mut self, cluster: &PlannedCluster, drawn: &Drawn) -> Vec<Step> {
        if !drawn.has_both_kinds() || self.random.bool() {
            return Vec::new();
        }
        let first = &cluster.replica_sets[0];
        let others = WorkloadKind::ALL.into_iter().filter(|it| *it != first.kind);
        let beside = |kind| {
            let action = Action::CreateOverlapping {
                kind,
                name: "beside".to_owned(),
                like: first.name.clone(),
                replicas: self.random.i32(0..=6),
            };
            Step::of_user(0, action)
        };
        others.map(beside).collect()
    }

    /// What users do at one moment.
    fn user_actions(&mut self, names: &[String], drawn: &mut Drawn) -> Vec<Action> {
        let replica_set = self.one(names);
        match self.below(30) {
            0..16 => vec![Action::Scale {
                replica_set,
                replicas: self.one(&[0, 1, 2, 3, 4, 6, 8, 12, 20, 40]),
            }],
            16..19 => vec![Action::Touch { replica_set }],
            19..21 => vec![Action::CreateOrphans {
                replica_set,
                pods: self.random.u32(1..=4),
            }],
            21..25 => self.by_hand(replica_set),
            25 if drawn.deleted.len() < DELETED_MAX && !drawn.deleted.contains(&replica_set) => {
                drawn.deleted.push(replica_set.clone());
                vec![Action::DeleteReplicaSet {
                    replica_set,
                    propagation: self.dependents(),
                }]
            }
            _ => vec![Action::Kill {
                replica_set,
                percent: self.one(&[1, 30, 100]),
                how: self.one(&[Death::Deleted, Death::Removed]),
            }],
        }
    }

    /// A pod is created by name, removed, or both: then another one has its name at once.
    fn by_hand(&mut self, replica_set: String) -> Vec<Action> {
        let name = self.one(&BY_HAND).to_owned();
        let remove = Action::RemovePod { name: name.clone() };
        let create = Action::CreatePod {
            name,
            // One in four is none of any ReplicaSet's business.
            replica_set: (self.below(4) > 0).then_some(replica_set),
            deletion_cost: self.one(&[None, Some(-1), Some(9)]),
        };
        match self.below(4) {
            0 => vec![remove],
            1 => vec![remove, create],
            _ => vec![create],
        }
    }

    fn stream(&mut self, drawn: &Drawn) -> StreamKind {
        if self.below(3) > 0 {
            return StreamKind::of(Kind::POD);
        }
        match self.one(&drawn.kinds) {
            WorkloadKind::ReplicaSet => StreamKind::of(Kind::REPLICA_SET),
            WorkloadKind::ReplicationController => StreamKind::of(Kind::REPLICATION_CONTROLLER),
        }
    }

    fn a_call(&mut self) -> Vec<Call> {
        let calls = [
            Call::CreatePod,
            Call::CreatePod,
            Call::DeletePod,
            Call::PatchPod,
            Call::GetOwner,
            Call::PutStatus,
            Call::ReadVersion,
        ];
        match self.below(4) {
            0 => Vec::new(),
            _ => vec![self.one(&calls)],
        }
    }

    fn dependents(&mut self) -> Dependents {
        self.one(&[
            Dependents::Background,
            Dependents::Orphan,
            Dependents::Foreground,
        ])
    }

    fn fault(&mut self, class: FaultClass, names: &[String], drawn: &mut Drawn) -> Action {
        match class {
            FaultClass::ApiError => {
                let calls = self.a_call();
                let fault = self.one(&ApiFault::ALL);
                self.requests(&calls, Effect::Refuse(fault), 20)
            }
            FaultClass::AmbiguousWrite => self.ambiguous_write(),
            FaultClass::PartialBatch => {
                let batch = self.below(4);
                let fault = self.one(&[ApiFault::InternalError, ApiFault::Forbidden]);
                Action::Requests {
                    calls: vec![Call::CreatePod],
                    replica_set: None,
                    batch: Some(batch),
                    index: Some(self.below(1 << batch)),
                    effect: Effect::Refuse(fault),
                    times: 1,
                    within_ms: 120_000,
                }
            }
            FaultClass::EventDropped => Action::Drop {
                stream: self.stream(drawn),
                events: self.magnitude(1, 20),
                list_after_ms: self.magnitude(100, 120_000),
            },
            FaultClass::EventDuplicated => {
                let (stream, events) = (self.stream(drawn), self.random.u32(1..=8));
                match self.random.bool() {
                    true => Action::Duplicate { stream, events },
                    false => Action::Replay { stream, events },
                }
            }
            FaultClass::StreamSkew => Action::Hold {
                stream: self.stream(drawn),
                for_ms: self.magnitude(10, 200_000),
            },
            FaultClass::WatchStall => Action::Pause {
                for_ms: self.magnitude(1, 100_000),
            },
            FaultClass::Compaction => self.compaction(drawn),
            FaultClass::StaleServer => Action::ServeStale {
                stream: self.stream(drawn),
                versions: self.magnitude(1, 100),
                for_ms: self.behind_ms(),
            },
            FaultClass::Crash => self.crash(),
            FaultClass::SecondController => Action::Overlap {
                for_ms: self.magnitude(100, 60_000),
            },
            FaultClass::Clock => match self.below(3) {
                0 => Action::Pause {
                    for_ms: self.magnitude(100, 100_000),
                },
                _ => Action::WallClock {
                    offset_s: self.random.i32(-3_600..=3_600),
                    for_ms: self.magnitude(100, 60_000),
                },
            },
            FaultClass::NamespaceTermination => Action::DeleteNamespace {
                gap_ms: self.magnitude(100, 60_000),
            },
            FaultClass::Quota => Action::Quota {
                pods: self.random.u32(0..=40),
                for_ms: self.magnitude(1_000, 200_000),
            },
            FaultClass::Admission => self.admission(),
            FaultClass::StatusConflict => match self.random.bool() {
                true => Action::WriteStatus {
                    replica_set: self.one(names),
                },
                false => {
                    let conflict = Effect::Refuse(ApiFault::Conflict);
                    self.requests(&[Call::PutStatus], conflict, 5)
                }
            },
            FaultClass::PodKill => Action::Kill {
                replica_set: self.one(names),
                percent: self.one(&[1, 50, 100]),
                how: self.one(&[
                    Death::Deleted,
                    Death::Removed,
                    Death::Failed,
                    Death::Succeeded,
                ]),
            },
            FaultClass::NodeFailure => {
                let (node, for_ms) = (self.below(4), self.magnitude(1_000, 400_000));
                match self.below(3) {
                    0 => Action::LoseNode { node, for_ms },
                    // Each makes a loop that creates pods as fast as calls are answered.
                    1 if drawn.rejecting < 3 => {
                        drawn.rejecting += 1;
                        Action::RejectPods {
                            node,
                            for_ms: for_ms.min(1_000),
                        }
                    }
                    _ => Action::Flap {
                        replica_set: self.one(names),
                        percent: self.one(&[1, 50, 100]),
                    },
                }
            }
            FaultClass::Tampering => Action::Tamper {
                replica_set: self.one(names),
                nth: self.below(20),
                how: self.one(&[
                    Tampering::Relabel,
                    Tampering::Orphan,
                    Tampering::NotController,
                    Tampering::DanglingUid,
                    Tampering::WrongKind,
                    Tampering::ForeignController,
                ]),
            },
            FaultClass::SpecChange => match self.below(3) {
                0 if drawn.overlapping < 2 => {
                    drawn.overlapping += 1;
                    Action::CreateOverlapping {
                        kind: self.one(&drawn.kinds),
                        name: format!("more-{}", drawn.overlapping),
                        like: self.one(names),
                        replicas: self.random.i32(0..=6),
                    }
                }
                _ => Action::ChangeTemplate {
                    replica_set: self.one(names),
                },
            },
            FaultClass::StuckPod => Action::Stick {
                replica_set: self.one(names),
                percent: self.one(&[1, 50, 100]),
                for_ms: self.magnitude(1_000, 300_000),
            },
            FaultClass::Recreate => Action::Recreate {
                replica_set: self.one(names),
                propagation: self.dependents(),
                gap_ms: self.one(&[0, 1, 10, 1_000, 30_000]),
            },
            FaultClass::ExpectationTimeout => Action::Hold {
                stream: StreamKind::of(Kind::POD),
                for_ms: self.random.u32(290_000..=420_000),
            },
            FaultClass::Overload => {
                let calls = self.a_call();
                let slow = Effect::Slow {
                    by_ms: self.magnitude(100, 10_000),
                };
                self.requests(&calls, slow, 100)
            }
            FaultClass::LowerRetry => {
                let calls = [Call::CreatePod, Call::DeletePod, Call::PatchPod];
                let call = self.one(&calls);
                self.requests(&[call], Effect::Twice, 5)
            }
            FaultClass::EventSink => {
                let effect = match self.below(3) {
                    0 => Effect::Refuse(ApiFault::Forbidden),
                    1 => Effect::Refuse(ApiFault::InternalError),
                    _ => Effect::Slow { by_ms: 10_000 },
                };
                self.requests(&[Call::WriteEvent], effect, 50)
            }
        }
    }

    fn crash(&mut self) -> Action {
        let point = self.one(&CrashPoint::ALL);
        let (passes, down_ms) = (self.below(6), self.magnitude(1, 60_000));
        let (stale_versions, stale_for_ms) = match self.below(4) {
            0 => (self.magnitude(1, 100), self.behind_ms()),
            _ => (0, 0),
        };
        Action::Crash {
            point,
            passes,
            down_ms,
            stale_versions,
            stale_for_ms,
        }
    }

    /// For how long a server that lags stays behind: half of them catch up at once.
    fn behind_ms(&mut self) -> u32 {
        match self.random.bool() {
            true => 0,
            false => self.magnitude(100, 200_000),
        }
    }

    fn ambiguous_write(&mut self) -> Action {
        let effect = self.ambiguous();
        let calls = match self.below(3) {
            0 => Vec::new(),
            _ => vec![self.one(&[
                Call::CreatePod,
                Call::CreatePod,
                Call::DeletePod,
                Call::PatchPod,
                Call::PutStatus,
            ])],
        };
        self.requests(&calls, effect, 10)
    }

    fn compaction(&mut self, drawn: &Drawn) -> Action {
        let stream = self.stream(drawn);
        let answers = [
            ApiFault::Gone,
            ApiFault::TooManyRequests,
            ApiFault::InternalError,
            ApiFault::GatewayTimeout,
            ApiFault::ConnectionCut,
        ];
        self.watch_ends(stream, &answers)
    }

    fn admission(&mut self) -> Action {
        let effect = match self.below(5) {
            0 => Effect::StripLabels,
            1 => Effect::StripOwner,
            2 => Effect::Refuse(ApiFault::InternalError),
            3 => Effect::NeverArrives { after_ms: 10_000 },
            _ => Effect::Refuse(ApiFault::Invalid),
        };
        self.requests(&[Call::CreatePod], effect, 20)
    }
}

#[cfg(test)]
mod tests;

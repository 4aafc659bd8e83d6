//! Draws the actions for a class of faults. Seeds keep their meaning only as long as the order of
//! the draws and the width of each draw stay the same.

use podstorm_objects::Kind;
use podstorm_sim::faults::{ApiFault, Call, CrashPoint, Effect, FaultClass, StreamKind};

use crate::action::{Action, Death, Tampering};
use crate::dice::Dice;
use crate::subject::Subject;

/// The maximum number of nodes that reject their pods in one schedule. Each causes a loop that
/// creates pods as fast as calls are answered.
const REJECTING_MAX: u32 = 3;

/// Draws the faults of one schedule.
pub(super) struct Faults<'a, S: Subject> {
    objects: &'a [S::Planned],
    drawing: S::Drawing,
    rejecting: u32,
}

impl<'a, S: Subject> Faults<'a, S> {
    /// Returns the faults of a schedule with these objects; `drawing` is the state of the
    /// workload's draws so far.
    pub(super) fn new(objects: &'a [S::Planned], drawing: S::Drawing) -> Faults<'a, S> {
        Faults {
            objects,
            drawing,
            rejecting: 0,
        }
    }

    /// Draws the actions for a fault of this class, each with its delay, ms.
    pub(super) fn draw(&mut self, dice: &mut Dice, class: FaultClass) -> Vec<(u32, S::Action)> {
        match S::draw_own(dice, class, self.objects, &mut self.drawing) {
            Some(actions) => actions,
            None => vec![(0, self.on_cluster(dice, class).into())],
        }
    }

    fn stream(&self, dice: &mut Dice) -> StreamKind {
        S::draw_stream(dice, &self.drawing)
    }

    fn target(&self, dice: &mut Dice) -> String {
        S::draw_target(dice, self.objects)
    }

    /// # Panics
    /// Panics if the workload itself draws faults of the class.
    fn on_cluster(&mut self, dice: &mut Dice, class: FaultClass) -> Action {
        match class {
            FaultClass::ApiError => {
                let calls = a_call(dice, S::ODDS.calls);
                let fault = dice.one(&ApiFault::ALL);
                dice.requests(&calls, Effect::Refuse(fault), 20)
            }
            FaultClass::AmbiguousWrite => {
                let effect = dice.ambiguous();
                let calls = match dice.below(3) {
                    0 => Vec::new(),
                    _ => vec![dice.one(S::ODDS.writes)],
                };
                dice.requests(&calls, effect, 10)
            }
            FaultClass::PartialBatch => {
                let batch = dice.below(4);
                let fault = dice.one(&[ApiFault::InternalError, ApiFault::Forbidden]);
                Action::Requests {
                    calls: vec![Call::CreatePod],
                    owner: None,
                    batch: Some(batch),
                    index: Some(dice.below(1 << batch)),
                    effect: Effect::Refuse(fault),
                    times: 1,
                    within_ms: 120_000,
                }
            }
            FaultClass::EventDropped => Action::Drop {
                stream: self.stream(dice),
                events: dice.magnitude(1, 20),
                list_after_ms: dice.magnitude(100, 120_000),
            },
            FaultClass::EventDuplicated => {
                let (stream, events) = (self.stream(dice), dice.random.u32(1..=8));
                match dice.random.bool() {
                    true => Action::Duplicate { stream, events },
                    false => Action::Replay { stream, events },
                }
            }
            FaultClass::StreamSkew => Action::Hold {
                stream: self.stream(dice),
                for_ms: dice.magnitude(10, 200_000),
            },
            FaultClass::WatchStall => Action::Pause {
                for_ms: dice.magnitude(1, 100_000),
            },
            FaultClass::Compaction => {
                let stream = self.stream(dice);
                let answers = [
                    ApiFault::Gone,
                    ApiFault::TooManyRequests,
                    ApiFault::InternalError,
                    ApiFault::GatewayTimeout,
                    ApiFault::ConnectionCut,
                ];
                dice.watch_ends(stream, &answers)
            }
            FaultClass::StaleServer => Action::ServeStale {
                stream: self.stream(dice),
                versions: dice.magnitude(1, 100),
                for_ms: behind_ms(dice),
            },
            FaultClass::Crash => crash(dice),
            FaultClass::SecondController => Action::Overlap {
                for_ms: dice.magnitude(100, 60_000),
            },
            FaultClass::Clock => match dice.below(3) {
                0 => Action::Pause {
                    for_ms: dice.magnitude(100, 100_000),
                },
                _ => Action::WallClock {
                    offset_s: dice.random.i32(-3_600..=3_600),
                    for_ms: dice.magnitude(100, 60_000),
                },
            },
            FaultClass::NamespaceTermination => Action::DeleteNamespace {
                gap_ms: dice.magnitude(100, 60_000),
            },
            FaultClass::Quota => Action::Quota {
                pods: dice.random.u32(0..=40),
                for_ms: dice.magnitude(1_000, 200_000),
            },
            FaultClass::Admission => {
                let effect = match dice.below(5) {
                    0 => Effect::StripLabels,
                    1 => Effect::StripOwner,
                    2 => Effect::Refuse(ApiFault::InternalError),
                    3 => Effect::NeverArrives { after_ms: 10_000 },
                    _ => Effect::Refuse(ApiFault::Invalid),
                };
                dice.requests(&[Call::CreatePod], effect, 20)
            }
            FaultClass::StatusConflict => match dice.random.bool() {
                true => Action::WriteStatus {
                    owner: self.target(dice),
                },
                false => {
                    let conflict = Effect::Refuse(ApiFault::Conflict);
                    dice.requests(&[Call::PutStatus], conflict, 5)
                }
            },
            FaultClass::PodKill => Action::Kill {
                owner: self.target(dice),
                percent: dice.one(&[1, 50, 100]),
                how: dice.one(&Death::ALL),
            },
            FaultClass::NodeFailure => {
                let (node, for_ms) = (dice.below(4), dice.magnitude(1_000, 400_000));
                match dice.below(3) {
                    0 => Action::LoseNode { node, for_ms },
                    1 if self.rejecting < REJECTING_MAX => {
                        self.rejecting += 1;
                        Action::RejectPods {
                            node,
                            for_ms: for_ms.min(1_000),
                        }
                    }
                    _ => Action::Flap {
                        owner: self.target(dice),
                        percent: dice.one(&[1, 50, 100]),
                    },
                }
            }
            FaultClass::Tampering => Action::Tamper {
                owner: self.target(dice),
                nth: dice.below(20),
                how: dice.one(&[
                    Tampering::Relabel,
                    Tampering::Orphan,
                    Tampering::NotController,
                    Tampering::DanglingUid,
                    Tampering::WrongKind,
                    Tampering::ForeignController,
                ]),
            },
            FaultClass::StuckPod => Action::Stick {
                owner: self.target(dice),
                percent: dice.one(&[1, 50, 100]),
                for_ms: dice.magnitude(1_000, 300_000),
            },
            FaultClass::ExpectationTimeout => Action::Hold {
                stream: StreamKind::from_kind(Kind::POD),
                for_ms: dice.random.u32(290_000..=420_000),
            },
            FaultClass::Overload => {
                let calls = a_call(dice, S::ODDS.calls);
                let slow = Effect::Slow {
                    by_ms: dice.magnitude(100, 10_000),
                };
                dice.requests(&calls, slow, 100)
            }
            FaultClass::LowerRetry => {
                let call = dice.one(S::ODDS.resent);
                dice.requests(&[call], Effect::Twice, 5)
            }
            FaultClass::EventSink => {
                let effect = match dice.below(3) {
                    0 => Effect::Refuse(ApiFault::Forbidden),
                    1 => Effect::Refuse(ApiFault::InternalError),
                    _ => Effect::Slow { by_ms: 10_000 },
                };
                dice.requests(&[Call::WriteEvent], effect, 50)
            }
            FaultClass::SpecChange | FaultClass::Recreate => {
                unreachable!("the workload draws changes of specs")
            }
        }
    }
}

/// Draws one of these calls, or no call, which selects all writes except writes of Events.
fn a_call(dice: &mut Dice, calls: &[Call]) -> Vec<Call> {
    match dice.below(4) {
        0 => Vec::new(),
        _ => vec![dice.one(calls)],
    }
}

fn crash(dice: &mut Dice) -> Action {
    let point = dice.one(&CrashPoint::ALL);
    let (passes, down_ms) = (dice.below(6), dice.magnitude(1, 60_000));
    let (stale_versions, stale_for_ms) = match dice.below(4) {
        0 => (dice.magnitude(1, 100), behind_ms(dice)),
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

/// Draws the time for which a lagging server stays behind, ms. Half of the servers catch up
/// immediately.
fn behind_ms(dice: &mut Dice) -> u32 {
    match dice.random.bool() {
        true => 0,
        false => dice.magnitude(100, 200_000),
    }
}

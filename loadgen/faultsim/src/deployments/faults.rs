//! Draws faults, of the classes that can meet a Deployment.

use podstorm_sim::faults::{ApiFault, Call, CrashPoint, Effect, FaultClass, StreamEnd, StreamKind};

use super::super::action::Action;
use super::draw::Dice;

/// The classes of which faults are drawn. Those left out change pods or ReplicaSets in ways that the
/// campaign of ReplicaSets looks at.
pub(super) const CLASSES: [FaultClass; 14] = [
    FaultClass::ApiError,
    FaultClass::AmbiguousWrite,
    FaultClass::EventDropped,
    FaultClass::EventDuplicated,
    FaultClass::StreamSkew,
    FaultClass::WatchStall,
    FaultClass::Compaction,
    FaultClass::StaleServer,
    FaultClass::Crash,
    FaultClass::SecondController,
    FaultClass::Clock,
    FaultClass::NodeFailure,
    FaultClass::Overload,
    FaultClass::EventSink,
];

/// The watches of the Deployment controller, its own twice.
const STREAMS: [StreamKind; 6] = [
    StreamKind::Pods,
    StreamKind::ReplicaSets,
    StreamKind::Deployments,
    StreamKind::Deployments,
    StreamKind::DeploymentReplicaSets,
    StreamKind::DeploymentReplicaSets,
];

/// The calls of both controllers, those of the Deployment controller more often.
const CALLS: [Call; 9] = [
    Call::WriteObject,
    Call::WriteObject,
    Call::WriteObject,
    Call::PutStatus,
    Call::PutStatus,
    Call::GetOwner,
    Call::PatchPod,
    Call::CreatePod,
    Call::DeletePod,
];

/// A fault of that class.
pub(super) fn draw(dice: &mut Dice, class: FaultClass) -> Action {
    match class {
        FaultClass::AmbiguousWrite => {
            let answer = dice.ambiguous();
            let effect = match dice.below(4) {
                0 => Effect::CommitLate {
                    answer,
                    after_ms: dice.magnitude(1, 20_000),
                },
                1 => Effect::NeverArrives { after_ms: 30_000 },
                _ => Effect::LoseAnswer(answer),
            };
            requests(dice, effect, 10)
        }
        FaultClass::EventDropped => Action::Drop {
            stream: dice.one(&STREAMS),
            events: dice.magnitude(1, 100),
            list_after_ms: dice.magnitude(100, 120_000),
        },
        FaultClass::EventDuplicated => {
            let stream = dice.one(&STREAMS);
            match dice.below(2) {
                0 => Action::Duplicate {
                    stream,
                    events: dice.magnitude(1, 50),
                },
                _ => Action::Replay {
                    stream,
                    events: 1 + dice.below(8),
                },
            }
        }
        FaultClass::StreamSkew | FaultClass::WatchStall => Action::Hold {
            stream: dice.one(&STREAMS),
            for_ms: dice.magnitude(100, 120_000),
        },
        FaultClass::Compaction => watch_ends(dice),
        FaultClass::StaleServer => Action::ServeStale {
            stream: dice.one(&STREAMS),
            versions: dice.magnitude(1, 200),
            for_ms: dice.one(&[0, 1_000, 60_000]),
        },
        FaultClass::Crash => Action::Crash {
            point: dice.one(&CrashPoint::ALL),
            passes: dice.below(6),
            down_ms: dice.magnitude(1, 60_000),
            stale_versions: dice.one(&[0, 0, 0, 10, 100]),
            stale_for_ms: dice.one(&[0, 1_000, 60_000]),
        },
        FaultClass::SecondController => Action::Overlap {
            for_ms: dice.magnitude(100, 120_000),
        },
        FaultClass::Clock => match dice.below(2) {
            0 => Action::Pause {
                for_ms: dice.magnitude(100, 120_000),
            },
            _ => Action::WallClock {
                offset_s: dice.one(&[-3_600, -60, -1, 1, 60, 3_600]),
                for_ms: dice.magnitude(1_000, 120_000),
            },
        },
        FaultClass::NodeFailure => Action::LoseNode {
            node: dice.below(4),
            for_ms: dice.magnitude(1_000, 120_000),
        },
        FaultClass::Overload => {
            let by_ms = dice.magnitude(100, 10_000);
            requests(dice, Effect::Slow { by_ms }, 100)
        }
        FaultClass::EventSink => Action::Requests {
            calls: vec![Call::WriteEvent],
            replica_set: None,
            batch: None,
            index: None,
            effect: Effect::Refuse(ApiFault::InternalError),
            times: dice.magnitude(1, 50),
            within_ms: 120_000,
        },
        _ => {
            let fault = dice.one(&ApiFault::ALL);
            requests(dice, Effect::Refuse(fault), 60)
        }
    }
}

/// A fault against the next requests of one kind.
fn requests(dice: &mut Dice, effect: Effect, times_max: u32) -> Action {
    Action::Requests {
        calls: vec![dice.one(&CALLS)],
        replica_set: None,
        batch: None,
        index: None,
        effect,
        times: dice.magnitude(1, times_max),
        within_ms: 120_000,
    }
}

fn watch_ends(dice: &mut Dice) -> Action {
    let stream = dice.one(&STREAMS);
    match dice.below(3) {
        0 => Action::Compact { stream },
        1 => Action::EndWatch {
            stream,
            end: dice.one(&[
                StreamEnd::Closed,
                StreamEnd::Expired,
                StreamEnd::InternalError,
                StreamEnd::ClosedAndExpired,
            ]),
        },
        _ => Action::RefuseWatch {
            stream,
            fault: dice.one(&[
                ApiFault::Gone,
                ApiFault::TooManyRequests,
                ApiFault::InternalError,
                ApiFault::ConnectionCut,
            ]),
            times: 1 + dice.below(4),
        },
    }
}

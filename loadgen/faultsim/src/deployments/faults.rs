//! Draws faults, of the classes that can meet a Deployment.

use podstorm_objects::Kind;
use podstorm_sim::faults::{ApiFault, Call, CrashPoint, Effect, FaultClass, StreamKind};

use crate::action::Action;
use crate::draw::Dice;

/// The watches of both controllers, those that the Deployment controller reads more often.
const STREAMS: [StreamKind; 6] = [
    StreamKind::of(Kind::POD),
    StreamKind::of(Kind::REPLICA_SET),
    StreamKind::of(Kind::DEPLOYMENT),
    StreamKind::of(Kind::DEPLOYMENT),
    StreamKind::of(Kind::REPLICA_SET),
    StreamKind::of(Kind::REPLICA_SET),
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

/// A fault of that class, if it is one that strikes Deployments.
pub(super) fn draw(dice: &mut Dice, class: FaultClass) -> Option<Action> {
    Some(match class {
        FaultClass::ApiError => {
            let fault = dice.one(&ApiFault::ALL);
            requests(dice, Effect::Refuse(fault), 60)
        }
        FaultClass::AmbiguousWrite => {
            let effect = dice.ambiguous();
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
        FaultClass::Compaction => {
            let stream = dice.one(&STREAMS);
            let answers = [
                ApiFault::Gone,
                ApiFault::TooManyRequests,
                ApiFault::InternalError,
                ApiFault::ConnectionCut,
            ];
            dice.watch_ends(stream, &answers)
        }
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
        FaultClass::EventSink => {
            let refused = Effect::Refuse(ApiFault::InternalError);
            dice.requests(&[Call::WriteEvent], refused, 50)
        }
        FaultClass::PartialBatch
        | FaultClass::NamespaceTermination
        | FaultClass::Quota
        | FaultClass::Admission
        | FaultClass::StatusConflict
        | FaultClass::PodKill
        | FaultClass::Tampering
        | FaultClass::SpecChange
        | FaultClass::StuckPod
        | FaultClass::Recreate
        | FaultClass::ExpectationTimeout
        | FaultClass::LowerRetry => return None,
    })
}

/// A fault against the next requests of one kind.
fn requests(dice: &mut Dice, effect: Effect, most_times: u32) -> Action {
    let call = dice.one(&CALLS);
    dice.requests(&[call], effect, most_times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classes_that_are_said_to_strike_are_those_that_are_drawn() {
        let mut dice = Dice::new(1, "deployments", 40);
        let drawn = FaultClass::ALL.into_iter();
        let drawn: Vec<FaultClass> = drawn
            .filter(|class| draw(&mut dice, *class).is_some())
            .collect();
        assert_eq!(drawn, FaultClass::ON_DEPLOYMENTS);
    }
}

//! Cases of `pdb`: one sync of a PodDisruptionBudget.

use std::sync::Arc;

use podstorm::cache::Delta;
use podstorm::client::{Answer, EventIntent, Request};
use podstorm::disruption::Controller;
use podstorm::driver::{Driver, Progress, SyncState, Workload};
use podstorm::informer::Informers;
use podstorm::limits::BACKOFF_BASE_NS;
use podstorm::object::disruption::Budget;
use podstorm::object::{
    AnyObject, DynamicObject, Kind, Now, OwnerReference, Pod, ReplicaSet, ReplicationController,
    Resource, ResourceVersion, Scale, Time, Uid,
};
use podstorm::workqueue::{End, Take};
use podstorm_apiserver::{errors, kind_named};
use serde_json::{Value, json};

use super::shared::pod;
use super::{Fields, expect_eq, expect_same_json};

/// The objects whose `/scale` exists in all cases, without a number of replicas.
const SCALED: [&str; 6] = ["u-d", "u-d-1", "u-d-2", "u-solo", "u-ss", "u-rc"];

/// Runs one case twice: the budget is cached before its pods, and after them.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    case.text("category")?;
    let now = now(case)?;
    let budget = Arc::new(budget_object(case.value("pdb"))?);
    let pods = case.all("pods", pod)?;
    let owners = Owners(case.all("owners", Owner::read)?);
    let mut out = case.object("out")?;
    let synced = sync(&budget, &pods, &owners, true, now)?;
    let budget_last = sync(&budget, &pods, &owners, false, now)?;
    expect_eq("with the budget last", &budget_last, &synced)?;

    let recorded = out.take("putStatus");
    let status = synced.status;
    expect_eq(
        "a status is written",
        &status.is_some(),
        &recorded.is_some(),
    )?;
    expect_same_json(
        "putStatus",
        status.unwrap_or_default(),
        recorded.unwrap_or_default(),
    )?;
    expect_eq("events", &synced.events, &out.list("events")?)?;
    let recheck = out.opt_int("recheckAfterNanos")?;
    expect_eq("recheckAfterNanos", &synced.recheck_after_ns, &recheck)?;
    out.finish()
}

/// Returns the time of a case.
pub(super) fn now(case: &mut Fields) -> Result<Now, String> {
    let now = Now {
        mono_ns: 0,
        wall_ns: case.int("nowUnixNano")?,
    };
    expect_eq("now", &now.wall().to_string(), &case.text("now")?)?;
    Ok(now)
}

/// Decodes a budget.
pub(super) fn budget(value: Value) -> Result<Budget, String> {
    budget_object(value).map(|object| Budget::from_object(&object))
}

fn budget_object(value: Value) -> Result<DynamicObject, String> {
    let object = DynamicObject::from_json(Kind::POD_DISRUPTION_BUDGET, value);
    object.map_err(|error| format!("budget: {error}"))
}

/// The effects of a sync.
#[derive(Debug, PartialEq)]
struct Synced {
    status: Option<Value>,
    events: Vec<Value>,
    recheck_after_ns: Option<i64>,
}

fn sync(
    budget: &Arc<DynamicObject>,
    pods: &[Arc<Pod>],
    owners: &Owners,
    budget_first: bool,
    now: Now,
) -> Result<Synced, String> {
    let mut informers = Informers::new(Arc::default());
    let controller = Controller::new(&mut informers);
    for owner in &owners.0 {
        let kind = owner.object.kind();
        let delta = Delta::Applied(owner.object.clone());
        informers.take(kind).apply(delta, now);
    }
    let put_budget = || {
        let informer = informers.take(Kind::POD_DISRUPTION_BUDGET);
        informer.apply(Delta::Applied(budget.clone()), now);
    };
    if budget_first {
        put_budget();
    }
    for pod in pods {
        let change = informers.pods().apply(Delta::Applied(pod.clone()));
        controller.pod_changed(&change, now);
    }
    if !budget_first {
        put_budget();
    }
    let Take::Key(key) = controller.queue().try_take(now.mono_ns) else {
        return Err("the budget was not queued".to_owned());
    };
    let mut status = None;
    let mut send = |request: &Request, _: Now| match request {
        Request::PutStatus { object } => {
            status = Some(object.to_json()["status"].clone());
            Answer::Object(object.clone())
        }
        Request::GetOwnerScale { namespace, owner } => owners.scale(namespace, owner),
        other => panic!("a sync never makes this request: {other:?}"),
    };
    let mut driver: Driver<<Controller as Workload>::Sync> = Driver::default();
    let progress = driver.begin(&controller, 0, key, &mut send, now);
    expect_eq(
        "all requests are answered",
        &(progress == Progress::Finished),
        &true,
    )?;
    Ok(Synced {
        status,
        events: driver.sync.events().iter().map(event_json).collect(),
        recheck_after_ns: match driver.sync.end() {
            End::After(delay_ns) => Some(delay_ns - BACKOFF_BASE_NS),
            End::Forget => None,
            end => return Err(format!("unexpected end of the sync: {end:?}")),
        },
    })
}

fn event_json(event: &EventIntent) -> Value {
    let about = &event.regarding;
    json!({"object": format!("{}/{}", about.kind.name(), about.name),
        "type": event.kind.as_str(), "reason": event.reason,
        "message": event.message.to_string()})
}

/// A controller in the caches of a case.
struct Owner {
    object: AnyObject,
}

impl Owner {
    fn read(value: Value) -> Result<Owner, String> {
        let kind = value["kind"].as_str().unwrap_or_default();
        let error = |error| format!("{kind}: {error}");
        let object: AnyObject = match kind {
            "ReplicaSet" => Arc::new(ReplicaSet::from_json(value.clone()).map_err(error)?),
            "ReplicationController" => {
                Arc::new(ReplicationController::from_json(value.clone()).map_err(error)?)
            }
            _ => {
                let kind = kind_named(kind).ok_or_else(|| format!("unknown kind {kind:?}"))?;
                Arc::new(DynamicObject::from_json(kind, value.clone()).map_err(error)?)
            }
        };
        Ok(Owner { object })
    }
}

struct Owners(Vec<Owner>);

impl Owners {
    /// Returns the answer to a read of `/scale`.
    fn scale(&self, namespace: &str, owner: &OwnerReference) -> Answer {
        let kind = kind_named(&owner.kind).filter(|kind| {
            let is_served = ["", "apps"].contains(&kind.group()) || kind.name() == "Job";
            is_served && kind.api_version() == &*owner.api_version
        });
        let Some(kind) = kind else {
            return Answer::Failed(errors::no_matches(&owner.api_version, &owner.kind));
        };
        let found = self.0.iter().map(|owner| owner.object.as_ref()).find(|it| {
            let meta = it.metadata();
            it.kind() == kind && *meta.namespace == *namespace && *meta.name == *owner.name
        });
        let uid = found.map(|found| found.metadata().uid.clone());
        match uid.filter(|uid| SCALED.iter().any(|scaled| *uid == Uid::new(scaled))) {
            Some(uid) => Answer::Scale(Box::new(Scale {
                uid,
                resource_version: ResourceVersion::default(),
                creation_timestamp: Time::UNSET,
                replicas: 0,
                status_replicas: 0,
                selector: String::new(),
            })),
            None if kind.row().has_scale => Answer::Failed(errors::not_found(kind, &owner.name)),
            None => Answer::Failed(errors::no_scale(kind)),
        }
    }
}

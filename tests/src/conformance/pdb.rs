//! Cases of `pdb`: one sync of a PodDisruptionBudget.

use podstorm::object::{DynamicObject, Kind, Now, OwnerReference, Uid};
use podstorm_apiserver::disruption::{Budget, Controllers, DisruptionEvent, PodController, decide};
use podstorm_apiserver::kind_named;
use serde_json::{Value, json};

use super::shared::pod;
use super::{Fields, expect_eq, expect_same_json};

/// The objects whose `/scale` answers in all cases, without a number of replicas.
const SCALED: [&str; 6] = ["u-d", "u-d-1", "u-d-2", "u-solo", "u-ss", "u-rc"];

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    case.text("category")?;
    let now = now(case)?;
    let budget = budget(case.value("pdb"))?;
    let mut pods = case.all("pods", pod)?;
    pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let owners = Owners(case.all("owners", Owner::read)?);
    let mut out = case.object("out")?;

    let decision = decide(&budget, &pods, &owners, now);
    let status = decision.status.map(|status| status.to_json());
    let recorded = out.take("putStatus");
    expect_eq("a status is put", &status.is_some(), &recorded.is_some())?;
    expect_same_json(
        "putStatus",
        status.unwrap_or_default(),
        recorded.unwrap_or_default(),
    )?;
    let events: Vec<Value> = decision.events.iter().map(event_json).collect();
    expect_eq("events", &events, &out.list("events")?)?;
    let recheck = out.opt_int("recheckAfterNanos")?;
    expect_eq("recheckAfterNanos", &decision.recheck_after_ns, &recheck)?;
    out.finish()
}

/// The time of a case.
pub(super) fn now(case: &mut Fields) -> Result<Now, String> {
    let now = Now {
        mono_ns: 0,
        wall_ns: case.int("nowUnixNano")?,
    };
    expect_eq("now", &now.wall().to_string(), &case.text("now")?)?;
    Ok(now)
}

/// A budget from its JSON.
pub(super) fn budget(value: Value) -> Result<Budget, String> {
    let object = DynamicObject::from_json(Budget::kind(), value);
    object
        .map(|object| Budget::of(&object))
        .map_err(|error| format!("budget: {error}"))
}

fn event_json(event: &DisruptionEvent) -> Value {
    let about = &event.regarding;
    let kind = if event.warning { "Warning" } else { "Normal" };
    json!({"object": format!("{}/{}", about.kind.name(), about.name), "type": kind,
        "reason": event.reason, "message": event.message})
}

/// A controller in the caches of a case.
struct Owner {
    kind: String,
    namespace: String,
    name: String,
    controller: PodController,
}

impl Owner {
    fn read(value: Value) -> Result<Owner, String> {
        let mut owner = Fields::new(value, "owner")?;
        let mut metadata = owner.object("metadata")?;
        let mut spec = owner.object("spec")?;
        let references = metadata.all("ownerReferences", |reference| {
            OwnerReference::from_json(reference).map_err(|error| error.to_string())
        })?;
        let read = Owner {
            kind: owner.text("kind")?,
            namespace: metadata.text("namespace")?,
            name: metadata.text("name")?,
            controller: PodController {
                uid: Uid::new(&metadata.text("uid")?),
                replicas: spec.opt_int("replicas")?.unwrap_or(1),
                controller: references
                    .into_iter()
                    .find(|owner| owner.controller == Some(true)),
            },
        };
        spec.finish()?;
        metadata.finish()?;
        owner.finish()?;
        Ok(read)
    }
}

struct Owners(Vec<Owner>);

impl Controllers for Owners {
    fn workload(&self, kind: Kind, namespace: &str, name: &str) -> Option<PodController> {
        let is_wanted = |owner: &&Owner| {
            owner.kind == kind.name() && owner.namespace == namespace && owner.name == name
        };
        let found = self.0.iter().find(is_wanted);
        found.map(|owner| owner.controller.clone())
    }

    fn kind(&self, api_version: &str, name: &str) -> Option<Kind> {
        let kind = kind_named(name).filter(|kind| kind.api_version() == api_version)?;
        (["", "apps"].contains(&kind.group()) || name == "Job").then_some(kind)
    }

    fn scale(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<(Uid, i64), podstorm::object::ApiError> {
        let found = self.workload(kind, namespace, name);
        let scaled = found.filter(|found| SCALED.iter().any(|uid| found.uid == Uid::new(uid)));
        scaled
            .map(|found| (found.uid, 0))
            .ok_or_else(|| podstorm_apiserver::errors::not_found(kind, name))
    }
}

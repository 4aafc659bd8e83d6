//! Cases of `eviction`: one eviction request, with scripted outcomes of its calls.

use std::sync::Arc;

use podstorm::object::disruption::{Budget, BudgetStatus};
use podstorm::object::{ApiError, Cause, Pod, Reason, Resource, ResourceVersion, Uid};
use podstorm_apiserver::{DeleteOptions, Eviction, EvictionCalls, EvictionRequest, errors, evict};
use serde_json::{Map, Value, json};

use super::shared::pod;
use super::{Fields, expect_eq, pdb, pruned};

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    case.text("category")?;
    let now = pdb::now(case)?;
    let name = case.text("name")?;
    let mut eviction = case.object("eviction")?;
    let mut metadata = eviction.object("metadata")?;
    let named = metadata.text("name")?;
    let namespace = metadata.text("namespace")?;
    metadata.finish()?;
    let (options, in_body) = delete_options(eviction.object("deleteOptions")?)?;
    eviction.finish()?;
    let in_query = case.texts("dryRun")?;
    let mut calls = Script {
        pod: pod(case.value("pod"))?,
        is_missing: case.flag("podMissing")?,
        budgets: case.all("budgets", pdb::budget)?,
        pod_deletes: Answers::new(case.texts("podDeletes")?),
        budget_puts: Answers::new(case.texts("budgetPuts")?),
        budget_gets: Answers::new(
            case.all("budgetGets", |status| Ok(BudgetStatus::from_json(&status)))?,
        ),
        dry_run: if in_body.is_empty() {
            in_query.clone()
        } else {
            in_body.clone()
        },
        made: Vec::new(),
    };
    expect_eq(
        "the pod's namespace",
        &calls.pod.metadata.namespace.to_string(),
        &namespace,
    )?;
    let answer = EvictionRequest::check(&name, &named, &all(&in_query), &all(&in_body)).and_then(
        |dry_run| {
            let options = &options;
            let request = EvictionRequest {
                options,
                dry_run,
                now,
            };
            evict(&mut calls, &request)
        },
    );
    let status = match answer {
        Ok(Eviction::Evicted) => json!({"status": "Success"}),
        Ok(Eviction::Refused(error)) | Err(error) => status(&error),
    };
    let mut out = case.object("out")?;
    out.sent("status", status)?;
    out.sent("calls", calls.made.into())?;
    out.finish()
}

fn all(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

/// Formats a `Status` without `kind` and `apiVersion`, and without empty members.
fn status(error: &ApiError) -> Value {
    let mut status = pruned(error.to_json());
    if let Value::Object(members) = &mut status {
        members.remove("kind");
        members.remove("apiVersion");
    }
    status
}

/// Parses the options of a deletion. Also returns their `dryRun` values.
fn delete_options(mut fields: Fields) -> Result<(DeleteOptions, Vec<String>), String> {
    let mut preconditions = fields.object("preconditions")?;
    let set = |text: String| (!text.is_empty()).then_some(text);
    let options = DeleteOptions {
        grace_period_seconds: fields.opt_int("gracePeriodSeconds")?,
        precondition_uid: set(preconditions.text("uid")?).map(|uid| Uid::new(&uid)),
        precondition_rv: set(preconditions.text("resourceVersion")?)
            .map(|version| ResourceVersion::new(&version)),
        ..DeleteOptions::default()
    };
    let dry_run = fields.texts("dryRun")?;
    preconditions.finish()?;
    fields.finish()?;
    Ok((options, dry_run))
}

/// The outcomes of successive calls. The last outcome repeats.
struct Answers<T> {
    all: Vec<T>,
    next: usize,
}

impl<T: Clone> Answers<T> {
    fn new(all: Vec<T>) -> Answers<T> {
        Answers { all, next: 0 }
    }

    fn next(&mut self) -> Option<T> {
        let last = self.all.len().checked_sub(1)?;
        let at = self.next.min(last);
        self.next += 1;
        Some(self.all[at].clone())
    }
}

/// Returns the scripted outcome of a call, with the messages of the recording.
fn outcome(scripted: Option<String>, resource: &str, name: &str) -> Result<(), ApiError> {
    match scripted.as_deref().unwrap_or("") {
        "" => Ok(()),
        "conflict" => Err(errors::conflict(
            resource,
            name,
            "the object has been modified",
        )),
        "notFound" => {
            let mut error = errors::conflict(resource, name, "");
            error.code = 404;
            error.reason = Reason::NotFound;
            error.message = format!("{resource} \"{name}\" not found");
            Err(error)
        }
        "internal" => {
            let message = "Internal error occurred: boom";
            let cause = Cause {
                message: "boom".into(),
                ..Cause::default()
            };
            Err(ApiError::status(500, Reason::InternalError, message).with_cause(cause))
        }
        other => panic!("unknown outcome {other:?}"),
    }
}

/// A cluster whose calls have scripted outcomes, and a log of the calls.
struct Script {
    pod: Arc<Pod>,
    is_missing: bool,
    budgets: Vec<Budget>,
    pod_deletes: Answers<String>,
    budget_puts: Answers<String>,
    budget_gets: Answers<BudgetStatus>,
    dry_run: Vec<String>,
    made: Vec<Value>,
}

impl Script {
    fn made(&mut self, mut call: Value, failed: bool) {
        call["error"] = failed.into();
        self.made.push(call);
    }
}

impl EvictionCalls for Script {
    fn get_pod(&mut self) -> Result<Arc<Pod>, ApiError> {
        // The recording does not mark this call as failing.
        self.made(json!({"call": "getPod"}), false);
        match self.is_missing {
            true => Err(errors::not_found(Pod::KIND, &self.pod.metadata.name)),
            false => Ok(self.pod.clone()),
        }
    }

    fn list_budgets(&mut self) -> Result<Vec<Budget>, ApiError> {
        self.made(json!({"call": "listBudgets"}), false);
        Ok(self.budgets.clone())
    }

    fn get_budget(&mut self, name: &str) -> Result<Budget, ApiError> {
        self.made(json!({"call": "getBudget", "name": name}), false);
        let mut all = self.budgets.iter();
        let found = all.find(|budget| budget.metadata.name == name);
        let mut budget = found.cloned().expect("only a listed budget is requested");
        if let Some(status) = self.budget_gets.next() {
            budget.status = status;
        }
        Ok(budget)
    }

    fn put_budget_status(&mut self, budget: &Budget) -> Result<(), ApiError> {
        let name = &budget.metadata.name;
        let result = outcome(self.budget_puts.next(), "poddisruptionbudgets", name);
        let version = budget.metadata.resource_version.to_string();
        let call = json!({"call": "putBudgetStatus", "name": name.as_str(),
            "resourceVersion": version, "status": budget.status.to_json()});
        self.made(call, result.is_err());
        result
    }

    fn put_pod_status(
        &mut self,
        change: &dyn Fn(&Pod) -> Result<Pod, ApiError>,
    ) -> Result<Arc<Pod>, ApiError> {
        let mut call = json!({"call": "putPod"});
        let mut new = match change(&self.pod) {
            Ok(new) => new,
            Err(error) => {
                self.made(call, true);
                return Err(error);
            }
        };
        let version = self
            .pod
            .metadata
            .resource_version
            .number()
            .expect("a number");
        new.metadata.resource_version = (version + 1).into();
        call["newResourceVersion"] = (version + 1).to_string().into();
        call["conditions"] = new.status.to_json()["conditions"].take();
        self.made(call, false);
        self.pod = Arc::new(new);
        Ok(self.pod.clone())
    }

    fn delete_pod(&mut self, options: &DeleteOptions) -> Result<(), ApiError> {
        let mut sent = Map::new();
        if let Some(seconds) = options.grace_period_seconds {
            sent.insert("gracePeriodSeconds".into(), seconds.into());
        }
        let uid = options.precondition_uid.as_ref().map(Uid::to_string);
        let version = options
            .precondition_rv
            .as_ref()
            .map(ResourceVersion::to_string);
        sent.insert(
            "preconditions".into(),
            json!({"uid": uid, "resourceVersion": version}),
        );
        sent.insert("dryRun".into(), self.dry_run.clone().into());
        let result = outcome(self.pod_deletes.next(), "pods", &self.pod.metadata.name);
        let call = json!({"call": "deletePod", "options": sent});
        self.made(call, result.is_err());
        result
    }
}

//! Eviction of pods: a deletion that the disruption budgets must allow.
//!
//! An eviction is a function of the six calls that it makes, so that a test can replace the cluster
//! with recorded outcomes.
//!
//! Source: `EvictionREST` of Kubernetes' `pkg/registry/core/pod/storage`.

use std::sync::Arc;

use podstorm_objects::disruption::{Budget, SYNC_FAILED, evicted};
use podstorm_objects::{ApiError, Cause, Details, DynamicObject, Kind, Now, Pod, PodPhase, Reason};

use crate::delete::check_preconditions;
use crate::store::KindStore;
use crate::store::counts::{Verb, WriteEffects};
use crate::update::{Update, prepare_and_validate};
use crate::{Cluster, DeleteOptions, errors};

/// The kind PodDisruptionBudget.
const BUDGET: Kind = Kind::POD_DISRUPTION_BUDGET;

/// The maximum number of attempts of a call that gets conflicts. Upstream waits half a second
/// before each repetition, for writers on other machines. Here there is no wait, because all
/// writers are in this process.
const TRIES: usize = 20;

/// The maximum number of evicted pods that a budget's controller has not processed yet.
const DISRUPTED_PODS_MAX: usize = 2000;

/// The retry delay while a budget's controller has not seen its latest spec, in seconds.
const RETRY_AFTER_SECONDS: u32 = 10;

/// The calls of an eviction, all of which concern one pod and the budgets of its namespace. The
/// errors are those of the API server.
pub trait EvictionCalls {
    /// Returns the pod.
    ///
    /// # Errors
    /// 404 if there is no such pod.
    fn get_pod(&mut self) -> Result<Arc<Pod>, ApiError>;

    /// Returns the budgets of the namespace.
    ///
    /// # Errors
    /// Any error.
    fn list_budgets(&mut self) -> Result<Vec<Budget>, ApiError>;

    /// Returns a budget by name.
    ///
    /// # Errors
    /// 404 if there is no such budget.
    fn get_budget(&mut self, name: &str) -> Result<Budget, ApiError>;

    /// Writes the status of a budget, if the budget has the stored version.
    ///
    /// # Errors
    /// 409 for a different version.
    fn put_budget_status(&mut self, budget: &Budget) -> Result<(), ApiError>;

    /// Changes the current status of the pod. Returns the new pod.
    ///
    /// # Errors
    /// 404, and the errors of `change`.
    fn put_pod_status(
        &mut self,
        change: &dyn Fn(&Pod) -> Result<Pod, ApiError>,
    ) -> Result<Arc<Pod>, ApiError>;

    /// Deletes the pod; in a dry run, only checks the deletion.
    ///
    /// # Errors
    /// 404; 409 for a failed precondition.
    fn delete_pod(&mut self, options: &DeleteOptions) -> Result<(), ApiError>;
}

/// An eviction to carry out.
#[derive(Clone, Debug)]
pub struct EvictionRequest<'a> {
    /// The options of the deletion.
    pub options: &'a DeleteOptions,
    /// Do not write anything.
    pub dry_run: bool,
    /// The time of the eviction.
    pub now: Now,
}

/// The result of an eviction whose calls have not failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The deletion of the pod has begun.
    Evicted,
    /// Several budgets select the pod, so nothing was done: a `Status` with code 500. In upstream,
    /// the storage returns it as the result, and the server turns it into an error.
    Refused(ApiError),
}

impl EvictionRequest<'_> {
    /// Checks that the body of an eviction agrees with its URL: the names, then the values of
    /// `dryRun`, those of the query first. Returns whether the eviction is a dry run.
    ///
    /// # Errors
    /// 400 for different names; 500 for different values of `dryRun`.
    pub fn check(
        url_name: &str,
        name: &str,
        in_query: &[&str],
        in_body: &[&str],
    ) -> Result<bool, ApiError> {
        if url_name != name {
            let why = "name in URL does not match name in Eviction object";
            return Err(errors::bad_request(why));
        }
        if !in_query.is_empty() && !in_body.is_empty() && in_query != in_body {
            let message = format!(
                "Non-matching dry-run options in request and content: [{}] and [{}]",
                in_query.join(" "),
                in_body.join(" ")
            );
            return Err(ApiError::status(500, Reason::Other(String::new()), message));
        }
        Ok(!in_query.is_empty() || !in_body.is_empty())
    }
}

/// Evicts a pod.
///
/// # Errors
/// 404 for the pod; 429 if its budget allows no disruption, with the cause `DisruptionBudget`; 403
/// for a budget in an invalid state; 409 for a failed precondition or repeated conflicts; the
/// errors of the calls.
pub fn evict(
    calls: &mut dyn EvictionCalls,
    request: &EvictionRequest<'_>,
) -> Result<Eviction, ApiError> {
    // The version that the caller requires is never replaced, so a conflict with it is final.
    let is_pinned = request.options.precondition_rv.is_some();
    let ignoring = on_conflict(!is_pinned, || {
        let pod = calls.get_pod()?;
        if !ignores_budgets(&pod) {
            return Ok(Some(pod));
        }
        let is_pending = pod.is_active();
        let options = match is_pending && !is_pinned {
            true => &at_version(request.options, &pod),
            false => request.options,
        };
        mark_and_delete(calls, request, options)?;
        Ok(None)
    });
    let Some(pod) = ignoring? else {
        return Ok(Eviction::Evicted);
    };
    let budgets = calls.list_budgets()?;
    let mut matching = budgets.into_iter().filter(|budget| {
        let selector = budget.compiled();
        selector.is_ok_and(|selector| selector.matches(&pod.metadata.labels))
    });
    let Some(budget) = matching.next() else {
        return mark_and_delete(calls, request, request.options).map(|()| Eviction::Evicted);
    };
    if matching.next().is_some() {
        let message = "This pod has more than one PodDisruptionBudget, which the eviction \
                       subresource does not support.";
        let status = ApiError::status(500, Reason::Other(String::new()), message);
        return Ok(Eviction::Refused(status));
    }
    if pod.is_ready() || !allows_unhealthy(&budget) {
        take_disruption(calls, request, &pod, budget)?;
        mark_and_delete(calls, request, request.options)?;
        return Ok(Eviction::Evicted);
    }
    // If the pod has become ready in the meantime, this is a conflict.
    let options = at_version(request.options, &pod);
    let deleted = mark_and_delete(calls, request, &options);
    match deleted {
        Err(error) if error.code == 409 && !is_pinned => {
            Err(being_processed(&budget.metadata.name))
        }
        deleted => deleted.map(|()| Eviction::Evicted),
    }
}

/// Repeats `call` on conflicts if `repeats` is true, at most [`TRIES`] times in total.
fn on_conflict<T>(
    repeats: bool,
    mut call: impl FnMut() -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    for _ in 1..TRIES {
        match call() {
            Err(error) if error.code == 409 && repeats => {}
            outcome => return outcome,
        }
    }
    call()
}

/// Reports whether the pod serves no traffic, so that its end is not a disruption.
fn ignores_budgets(pod: &Pod) -> bool {
    !pod.is_active() || pod.status.phase == PodPhase::Pending
}

/// Reports whether the budget allows the eviction of an unhealthy pod.
fn allows_unhealthy(budget: &Budget) -> bool {
    let status = &budget.status;
    budget.always_allows_unhealthy
        || (status.current_healthy >= status.desired_healthy && status.desired_healthy > 0)
}

fn at_version(options: &DeleteOptions, pod: &Pod) -> DeleteOptions {
    DeleteOptions {
        precondition_rv: Some(pod.metadata.resource_version.clone()),
        ..options.clone()
    }
}

/// Marks the pod as about to be disrupted, then deletes it.
fn mark_and_delete(
    calls: &mut dyn EvictionCalls,
    request: &EvictionRequest<'_>,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    if request.dry_run {
        return calls.delete_pod(options);
    }
    let marked = calls.put_pod_status(&|latest| {
        check_preconditions(options, Kind::POD, &latest.metadata)?;
        Ok(evicted(latest, request.now))
    })?;
    match options.precondition_rv {
        // The mark has changed the version that the precondition requires.
        Some(_) => calls.delete_pod(&at_version(options, &marked)),
        None => calls.delete_pod(options),
    }
}

/// Subtracts one disruption from those that the budget allows.
fn take_disruption(
    calls: &mut dyn EvictionCalls,
    request: &EvictionRequest<'_>,
    pod: &Pod,
    budget: Budget,
) -> Result<(), ApiError> {
    let name = budget.metadata.name.clone();
    let mut listed = Some(budget);
    on_conflict(true, || {
        let mut budget = match listed.take() {
            Some(budget) => budget,
            None => calls.get_budget(&name)?,
        };
        check(&budget)?;
        let status = &mut budget.status;
        status.disruptions_allowed -= 1;
        if status.disruptions_allowed == 0 {
            status.set_condition(request.now);
        }
        let evicted = pod.metadata.name.to_string();
        status.disrupted_pods.insert(evicted, request.now.wall());
        match request.dry_run {
            true => Ok(()),
            false => calls.put_budget_status(&budget),
        }
    })
}

/// Checks that the budget allows a disruption.
///
/// # Errors
/// 429 if the budget doesn't allow one; 403 for a budget in an invalid state.
fn check(budget: &Budget) -> Result<(), ApiError> {
    let (name, status) = (&budget.metadata.name, &budget.status);
    if status.observed_generation < budget.metadata.generation {
        return Err(being_processed(name));
    }
    if status.disruptions_allowed < 0 {
        return Err(forbidden(name, "pdb disruptions allowed is negative"));
    }
    if status.disrupted_pods.len() > DISRUPTED_PODS_MAX {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(forbidden(name, why));
    }
    if status.disruptions_allowed > 0 {
        return Ok(());
    }
    let denied = status.condition().filter(|found| found.status == "False");
    let denied = denied.map(|found| (found.reason.as_str(), found.message.as_str()));
    let not_now = format!("The disruption budget {name} does not allow evicting pods currently");
    let (desired, current) = (status.desired_healthy, status.current_healthy);
    let why = match denied {
        Some((SYNC_FAILED, message)) if !message.is_empty() => {
            format!("{not_now} because it failed sync: {message}")
        }
        _ if current <= desired => format!(
            "The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        ),
        Some((reason, message)) if !message.is_empty() => {
            format!("{not_now} ({reason}): {message}")
        }
        _ => not_now,
    };
    Err(too_many(why))
}

/// Returns the 429 of a budget that does not allow the eviction.
fn too_many(why: String) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    ApiError::status(429, Reason::TooManyRequests, message).with_cause(Cause {
        reason: "DisruptionBudget".to_owned(),
        message: why,
        field: String::new(),
    })
}

/// Returns the 429 of a budget that the disruption controller has not processed yet.
fn being_processed(name: &str) -> ApiError {
    let why = format!("The disruption budget {name} is still being processed by the server.");
    too_many(why).with_retry_after(RETRY_AFTER_SECONDS)
}

/// Returns a 403 about a budget. Upstream uses the singular of the resource here.
fn forbidden(name: &str, why: &str) -> ApiError {
    let message = format!("poddisruptionbudget.policy \"{name}\" is forbidden: {why}");
    ApiError::status(403, Reason::Forbidden, message).with_details(Details {
        name: name.to_owned(),
        group: "policy".to_owned(),
        kind: "poddisruptionbudget".to_owned(),
        ..Details::default()
    })
}

impl Cluster {
    /// Evicts a pod: asks the disruption budget, marks the pod as disrupted and deletes it.
    ///
    /// # Errors
    /// The same as [`evict`], and 404 for a missing namespace, 403 for a terminating one.
    pub fn evict(
        &self,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        dry_run: bool,
        now: Now,
    ) -> Result<Eviction, ApiError> {
        self.admit_namespace(Kind::POD, namespace, name)?;
        let request = EvictionRequest {
            options,
            dry_run,
            now,
        };
        let mut calls = ClusterCalls {
            cluster: self,
            namespace,
            name,
            request: &request,
        };
        evict(&mut calls, &request)
    }
}

/// The calls of an eviction in a cluster.
struct ClusterCalls<'a> {
    cluster: &'a Cluster,
    /// The pod's namespace.
    namespace: &'a str,
    /// The pod's name.
    name: &'a str,
    request: &'a EvictionRequest<'a>,
}

impl EvictionCalls for ClusterCalls<'_> {
    fn get_pod(&mut self) -> Result<Arc<Pod>, ApiError> {
        self.cluster.get(self.namespace, self.name)
    }

    fn list_budgets(&mut self) -> Result<Vec<Budget>, ApiError> {
        let list = |store: &KindStore<DynamicObject>| store.snapshot(Some(self.namespace)).objects;
        let budgets = self.cluster.with_used_store(BUDGET, list);
        let budgets = budgets.unwrap_or_default();
        Ok(budgets
            .iter()
            .map(|budget| Budget::from_object(budget))
            .collect())
    }

    fn get_budget(&mut self, name: &str) -> Result<Budget, ApiError> {
        let get = |store: &KindStore<DynamicObject>| store.get(self.namespace, name);
        let stored = self.cluster.with_used_store(BUDGET, get);
        let stored = stored.unwrap_or_else(|| Err(errors::not_found(BUDGET, name)))?;
        Ok(Budget::from_object(&stored))
    }

    fn put_budget_status(&mut self, budget: &Budget) -> Result<(), ApiError> {
        let object = Arc::new(budget.status_update());
        let api = self.cluster.api(BUDGET);
        api.update_status(object, self.request.now).map(drop)
    }

    fn put_pod_status(
        &mut self,
        change: &dyn Fn(&Pod) -> Result<Pod, ApiError>,
    ) -> Result<Arc<Pod>, ApiError> {
        let effects = WriteEffects::for_verb(Verb::UpdateStatus);
        let (cluster, now) = (self.cluster, self.request.now);
        cluster.modify(&cluster.pods, self.namespace, self.name, now, |old| {
            let mut new = change(old)?;
            prepare_and_validate(cluster, &mut new, &**old, effects.verb, None)?;
            Ok(Update::Write(new, effects))
        })
    }

    fn delete_pod(&mut self, options: &DeleteOptions) -> Result<(), ApiError> {
        let effects = WriteEffects {
            dry_run: self.request.dry_run,
            ..WriteEffects::for_verb(Verb::Delete)
        };
        let (cluster, now) = (self.cluster, self.request.now);
        let (namespace, name) = (self.namespace, self.name);
        let deleted = cluster.delete_in(&cluster.pods, namespace, name, options, effects, now);
        deleted.map(drop)
    }
}

#[cfg(test)]
#[path = "evict_tests.rs"]
mod tests;

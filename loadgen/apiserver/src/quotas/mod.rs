//! ResourceQuotas: limits on the total usage by the objects of a namespace. A create is charged
//! before it is stored, and refused if it would exceed a quota. An update is charged for its
//! increase. Deletions and decreases are released after their commit.
//!
//! In upstream, the quota controller releases usage, and counts the usage for a new quota. Both can
//! be [left to a client](crate::ClusterOptions::leaves_quotas): if two programs released usage,
//! each would subtract what the other has already subtracted.
//!
//! A cluster that never had a quota only checks a flag per commit.
//!
//! Source: `plugin/resourcequota` of Kubernetes' apiserver and its `pkg/quota`.

mod scopes;
mod usage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use podstorm_objects::{AnyObject, ApiError, DynamicObject, Kind, Now, Object, Quantity};
use serde_json::{Map, Value, json};

use crate::store::Strategy;
use crate::{Cluster, DeleteOptions, ListOptions, Patch, builtin, errors};

pub(crate) use usage::of_containers;

/// Returns the total requests of a pod with this spec, including its overhead, by resource name:
/// the sum of the containers that run at the same time, or the need of an earlier init container if
/// that is higher. Requests of the pod as a whole replace those of its containers.
pub fn pod_requests(spec: &Value) -> BTreeMap<String, Quantity> {
    of_containers(spec, "requests")
}

/// Like [`pod_requests`], for limits.
pub fn pod_limits(spec: &Value) -> BTreeMap<String, Quantity> {
    of_containers(spec, "limits")
}

/// Amounts by resource name.
type Amounts = BTreeMap<String, Quantity>;

/// The increase in usage that an update was charged for.
pub(crate) struct Charge {
    kind: Kind,
    namespace: String,
    /// The object that was going to be stored.
    json: Value,
    more: Amounts,
}

/// Whether the cluster ever had a ResourceQuota, LimitRange, PriorityClass or StorageClass.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    quotas: AtomicBool,
    pub(crate) ranges: AtomicBool,
    classes: AtomicBool,
    storage_classes: AtomicBool,
}

impl Seen {
    /// Records that an object of this kind was committed.
    pub(crate) fn note(&self, kind: Kind) {
        // Relaxed: a thread that creates an object after this create has returned sees the flag.
        if kind == builtin::QUOTA {
            self.quotas.store(true, Ordering::Relaxed);
        } else if kind == builtin::LIMIT_RANGE {
            self.ranges.store(true, Ordering::Relaxed);
        } else if kind == builtin::PRIORITY_CLASS {
            self.classes.store(true, Ordering::Relaxed);
        } else if kind == Kind::STORAGE_CLASS {
            self.storage_classes.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn has_classes(&self) -> bool {
        self.classes.load(Ordering::Relaxed)
    }

    pub(crate) fn has_storage_classes(&self) -> bool {
        self.storage_classes.load(Ordering::Relaxed)
    }

    pub(crate) fn has_quotas(&self) -> bool {
        self.quotas.load(Ordering::Relaxed)
    }

    pub(crate) fn has_ranges(&self) -> bool {
        self.ranges.load(Ordering::Relaxed)
    }
}

/// The name of the quota that [`Cluster::set_pod_quota`] writes.
const POD_QUOTA: &str = "pods";

/// What a new or changed object needs of quotas.
#[derive(Clone, Copy)]
struct Demand<'a> {
    new: &'a dyn Object,
    json: &'a Value,
    needed: &'a Amounts,
}

impl Cluster {
    /// Limits the number of pods of a namespace that have not ended, with a ResourceQuota named
    /// `pods`. If `limit` is `None`, deletes the quota if it exists. Pods beyond the limit stay;
    /// creates get 403 until there are fewer pods. O(pods of the namespace).
    ///
    /// # Errors
    /// If there is a limit, those of [`create`](Cluster::create).
    pub fn set_pod_quota(
        &self,
        namespace: &str,
        limit: Option<u64>,
        now: Now,
    ) -> Result<(), ApiError> {
        let api = self.api(builtin::QUOTA);
        let Some(limit) = limit else {
            let options = DeleteOptions::default();
            return match api.delete(namespace, POD_QUOTA, &options, now) {
                Err(error) if !error.is_not_found() => Err(error),
                _ => Ok(()),
            };
        };
        let mut quota = Map::new();
        let spec = json!({"hard": {"pods": limit.to_string()}});
        quota.insert("spec".to_owned(), spec);
        let patched = api.patch(namespace, POD_QUOTA, &Patch::Merge(quota.clone()), now);
        if !patched.as_ref().is_err_and(ApiError::is_not_found) {
            return patched.map(drop);
        }
        let metadata = json!({"name": POD_QUOTA, "namespace": namespace});
        quota.insert("metadata".to_owned(), metadata);
        let quota = api
            .read(Value::Object(quota))?
            .expect("the JSON is a valid quota");
        api.create(quota, now).map(drop)
    }

    /// Charges a new object to the quotas of its namespace. A dry run only checks.
    ///
    /// # Errors
    /// 403 if the object exceeds a quota, or lacks an amount that a quota measures. No quota is
    /// charged then.
    #[cold]
    pub(crate) fn charge(&self, new: &dyn Object, dry_run: bool, now: Now) -> Result<(), ApiError> {
        let quotas = self.objects_in(builtin::QUOTA, &new.metadata().namespace);
        if quotas.is_empty() {
            return Ok(());
        }
        let json = &new.to_json();
        let needed = &usage::usage_of(new.kind(), json);
        self.charge_all(&quotas, Demand { new, json, needed }, dry_run, now)
    }

    /// Reports whether an update can increase the usage of objects of the kind.
    pub(crate) fn changes_usage(kind: Kind) -> bool {
        usage::changes(kind)
    }

    /// Charges the increase in usage by an update, and returns the charge. A dry run only checks.
    ///
    /// # Errors
    /// 403 if the increase exceeds a quota. No quota is charged then.
    #[cold]
    pub(crate) fn charge_change(
        &self,
        old: &dyn Object,
        new: &dyn Object,
        dry_run: bool,
        now: Now,
    ) -> Result<Charge, ApiError> {
        let kind = new.kind();
        let json = new.to_json();
        let more = usage::increase(
            &usage::usage_of(kind, &old.to_json()),
            &usage::usage_of(kind, &json),
        );
        if !more.is_empty() {
            let quotas = self.objects_in(builtin::QUOTA, &new.metadata().namespace);
            let demand = Demand {
                new,
                json: &json,
                needed: &more,
            };
            self.charge_all(&quotas, demand, dry_run, now)?;
        }
        Ok(Charge {
            kind,
            namespace: new.metadata().namespace.to_string(),
            json,
            more,
        })
    }

    /// Releases the charge for an update that was not stored.
    #[cold]
    pub(crate) fn give_back_change(&self, charge: &Charge, now: Now) {
        if charge.more.is_empty() {
            return;
        }
        for quota in self.objects_in(builtin::QUOTA, &charge.namespace) {
            if scopes::matches(part(&*quota, "spec"), charge.kind, &charge.json) {
                self.add_usage(&quota, &charge.more, false, now);
            }
        }
    }

    fn charge_all(
        &self,
        quotas: &[AnyObject],
        demand: Demand<'_>,
        dry_run: bool,
        now: Now,
    ) -> Result<(), ApiError> {
        // Several quotas are all checked before the first one is written.
        if dry_run || quotas.len() > 1 {
            for quota in quotas {
                self.charge_one(quota, demand, true, now)?;
            }
        }
        if dry_run {
            return Ok(());
        }
        let mut charged = Vec::new();
        for quota in quotas {
            match self.charge_one(quota, demand, false, now) {
                Ok(true) => charged.push(quota),
                Ok(false) => {}
                Err(refused) => {
                    // Another writer has used up a quota since the check.
                    for quota in charged {
                        self.add_usage(quota, demand.needed, false, now);
                    }
                    return Err(refused);
                }
            }
        }
        Ok(())
    }

    /// Charges one quota, or only checks it, and repeats this if others charge it concurrently.
    /// Returns whether the quota was charged.
    fn charge_one(
        &self,
        quota: &AnyObject,
        demand: Demand<'_>,
        only_asks: bool,
        now: Now,
    ) -> Result<bool, ApiError> {
        let (namespace, name) = (&*quota.metadata().namespace, quota.metadata().name.as_str());
        let is_ours = !self.options.leaves_quotas;
        if is_ours && is_uncounted(part(&**quota, "spec"), part(&**quota, "status")) {
            self.count_usage(namespace, name, now);
        }
        let Demand { new, json, needed } = demand;
        let (kind, of) = (new.kind(), new.metadata().name.as_str());
        let mut outcome = Ok(false);
        self.write_usage(quota, now, |spec, status| {
            outcome = Ok(false);
            if !scopes::matches(spec, kind, json) {
                return status.clone();
            }
            let hard = amounts(&status["hard"]);
            if let Some(missing) = usage::unspecified(kind, json, &hard) {
                let why = format!("failed quota: {name}: must specify {missing}");
                outcome = Err(errors::forbidden(kind, of, &why));
                return status.clone();
            }
            match spent(name, status, needed) {
                Err(why) => outcome = Err(errors::forbidden(kind, of, &why)),
                Ok(Some(used)) if !only_asks => {
                    outcome = Ok(true);
                    return json!({"hard": status["hard"], "used": used});
                }
                Ok(_) => {}
            }
            status.clone()
        });
        outcome
    }

    /// Releases the charge for a new object that was not stored.
    #[cold]
    pub(crate) fn give_back(&self, new: &dyn Object, now: Now) {
        self.move_usage(new.kind(), Some(new), None, now);
    }

    /// Updates the usage after a commit.
    #[cold]
    pub(crate) fn notify_quotas<R: Strategy>(&self, old: Option<&R>, new: Option<&R>, now: Now) {
        let Some(object) = new.or(old) else { return };
        let kind = object.kind();
        if kind == builtin::QUOTA {
            if let Some(quota) = new
                && is_uncounted(part(quota, "spec"), part(quota, "status"))
            {
                self.notify_gc_of_quota(quota);
            }
            return;
        }
        match (old, new) {
            // Admission has charged the new object.
            (None, _) => {}
            (Some(old), Some(new)) if kind == Kind::POD => {
                if old.counts_for_quota() != new.counts_for_quota() {
                    self.move_usage(kind, Some(old), Some(new), now);
                } else if new.counts_for_quota()
                    && old.metadata().generation != new.metadata().generation
                {
                    // The pod may have been resized.
                    self.settle_change(old, new, now);
                }
            }
            (Some(old), Some(new)) => {
                if usage::changes(kind) {
                    self.settle_change(old, new, now);
                }
            }
            (Some(old), None) => self.move_usage(kind, Some(old), None, now),
        }
    }

    /// Releases the decrease in usage by an update. The increase was charged before.
    fn settle_change(&self, old: &dyn Object, new: &dyn Object, now: Now) {
        let kind = new.kind();
        let jsons = [old.to_json(), new.to_json()];
        let [before, after] = jsons.each_ref().map(|json| usage::usage_of(kind, json));
        let more = usage::increase(&before, &after);
        for quota in self.objects_in(builtin::QUOTA, &new.metadata().namespace) {
            let spec = part(&*quota, "spec");
            let [was, is] = jsons
                .each_ref()
                .map(|json| scopes::matches(spec, kind, json));
            // The update may have moved the object into or out of the quota.
            let mut less = Amounts::new();
            for (amounts, holds, is_more) in
                [(&before, was, true), (&more, is, true), (&after, is, false)]
            {
                for (name, amount) in amounts.iter().filter(|_| holds) {
                    let sum = less.entry(name.clone()).or_default();
                    *sum = match is_more {
                        true => sum.plus(*amount),
                        false => sum.minus(*amount),
                    };
                }
            }
            less.retain(|_, amount| !amount.is_zero());
            if !less.is_empty() {
                self.add_usage(&quota, &less, false, now);
            }
        }
    }

    fn move_usage(&self, kind: Kind, old: Option<&dyn Object>, new: Option<&dyn Object>, now: Now) {
        let Some(object) = new.or(old) else { return };
        for quota in self.objects_in(builtin::QUOTA, &object.metadata().namespace) {
            let spec = part(&*quota, "spec");
            for (object, is_more) in [(old, false), (new, true)] {
                let json = object.map(|object| object.to_json()).unwrap_or_default();
                if object.is_some() && scopes::matches(spec, kind, &json) {
                    self.add_usage(&quota, &usage::usage_of(kind, &json), is_more, now);
                }
            }
        }
    }

    /// Adds amounts to the usage in a quota's status, or subtracts them. Does not subtract if the
    /// usage is left to a client, because the client may already have counted without the object.
    fn add_usage(&self, quota: &AnyObject, amounts_moved: &Amounts, is_more: bool, now: Now) {
        if !is_more && self.options.leaves_quotas {
            return;
        }
        self.write_usage(quota, now, |_, status| {
            let hard = amounts(&status["hard"]);
            let mut used = amounts(&status["used"]);
            for (name, amount) in amounts_moved {
                if hard.contains_key(name) {
                    let before = used.get(name).copied().unwrap_or_default();
                    let after = match is_more {
                        true => before.plus(*amount),
                        false => before.minus(*amount),
                    };
                    used.insert(name.clone(), after);
                }
            }
            json!({"hard": status["hard"], "used": texts(&used, &status["hard"])})
        });
    }

    /// Counts the usage of the resources that a quota limits. O(objects of the quota's namespace).
    pub(crate) fn count_usage(&self, namespace: &str, name: &str, now: Now) {
        let Ok(quota) = self.api(builtin::QUOTA).get(namespace, name) else {
            return;
        };
        let spec = part(&*quota, "spec");
        let hard = amounts(&spec["hard"]);
        let mut used: Amounts = hard
            .keys()
            .map(|name| (name.clone(), Quantity::default()))
            .collect();
        for kind in self
            .kinds()
            .into_iter()
            .filter(|kind| usage::is_measured(*kind, &hard))
        {
            for object in self.objects_in(kind, namespace) {
                let json = object.to_json();
                if !scopes::matches(spec, kind, &json) {
                    continue;
                }
                for (name, amount) in usage::usage_of(kind, &json) {
                    if let Some(used) = used.get_mut(&name) {
                        *used = used.plus(amount);
                    }
                }
            }
        }
        self.write_usage(&quota, now, |_, status| {
            if status["hard"] == spec["hard"] {
                return status.clone();
            }
            json!({"hard": spec["hard"], "used": texts(&used, &spec["hard"])})
        });
    }

    /// Writes a quota's status, which `change` computes from the stored spec and status. Calls
    /// `change` again if another writer was faster.
    fn write_usage(
        &self,
        quota: &AnyObject,
        now: Now,
        mut change: impl FnMut(&Value, &Value) -> Value,
    ) {
        let api = self.api(builtin::QUOTA);
        let metadata = quota.metadata();
        loop {
            let Ok(stored) = api.get(&metadata.namespace, &metadata.name) else {
                return;
            };
            let before = part(&*stored, "status");
            let status = change(part(&*stored, "spec"), before);
            if status == *before {
                return;
            }
            let Some(mut new) = stored.downcast_ref::<DynamicObject>().cloned() else {
                return;
            };
            new.fields.insert("status".to_owned(), status);
            match api.update_status(Arc::new(new), now) {
                Err(error) if error.code == 409 => {}
                _ => return,
            }
        }
    }

    /// Returns the objects of a kind in a namespace; empty if the kind is not served.
    pub(crate) fn objects_in(&self, kind: Kind, namespace: &str) -> Vec<AnyObject> {
        let listed = self.api(kind).list(&ListOptions {
            namespace: Some(namespace),
            ..ListOptions::default()
        });
        listed.map(|page| page.items).unwrap_or_default()
    }
}

/// Returns the member `name` of a quota: its spec or its status.
fn part<'q>(quota: &'q dyn Object, name: &str) -> &'q Value {
    let quota = quota.downcast_ref::<DynamicObject>();
    let part = quota.and_then(|quota| quota.fields.get(name));
    part.unwrap_or(&Value::Null)
}

/// Reports whether the usage of some resource that a quota limits has not been counted yet.
fn is_uncounted(spec: &Value, status: &Value) -> bool {
    status["hard"] != spec["hard"]
}

fn amounts(list: &Value) -> Amounts {
    let entries = list.as_object().into_iter().flatten();
    let read = entries.filter_map(|(name, value)| {
        let amount = Quantity::from_json(value).ok()?;
        Some((name.clone(), amount))
    });
    read.collect()
}

/// Returns a quota's usage with the needs of a new object added; `None` if nothing changes.
///
/// # Errors
/// Returns the message about the limits that the object exceeds.
fn spent(
    name: &str,
    status: &Value,
    needed: &Amounts,
) -> Result<Option<Map<String, Value>>, String> {
    let (hard, mut used) = (amounts(&status["hard"]), amounts(&status["used"]));
    let asked: Amounts = (needed.iter())
        .filter(|(name, amount)| hard.contains_key(*name) && !amount.is_zero())
        .map(|(name, amount)| (name.clone(), *amount))
        .collect();
    let of = |all: &Amounts, name: &str| all.get(name).copied().unwrap_or_default();
    let exceeded: Vec<&String> = (asked.iter())
        .filter(|(name, amount)| of(&used, name).plus(**amount) > of(&hard, name))
        .map(|(name, _)| name)
        .collect();
    if !exceeded.is_empty() {
        let list = |member: &str, all: &Amounts| -> String {
            let told = exceeded.iter().map(|name| {
                let like = status[member][name.as_str()].as_str().unwrap_or("");
                format!("{name}={}", of(all, name).text_like(like))
            });
            told.collect::<Vec<_>>().join(",")
        };
        return Err(format!(
            "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
            list("hard", &asked),
            list("used", &used),
            list("hard", &hard)
        ));
    }
    for (name, amount) in &asked {
        let used = used.entry(name.clone()).or_default();
        *used = used.plus(*amount);
    }
    Ok((!asked.is_empty()).then(|| texts(&used, &status["hard"])))
}

/// Formats amounts for a status, each in the notation of its counterpart in `like`.
fn texts(amounts: &Amounts, like: &Value) -> Map<String, Value> {
    let text = |name: &String, amount: &Quantity| {
        amount.text_like(like[name.as_str()].as_str().unwrap_or(""))
    };
    let texts = amounts
        .iter()
        .map(|(name, amount)| (name.clone(), text(name, amount).into()));
    texts.collect()
}

#[cfg(test)]
mod tests;

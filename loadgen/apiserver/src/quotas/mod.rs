//! ResourceQuotas: what the objects of a namespace may use together. A create is charged before it is
//! stored, and refused where it would exceed a quota; so is a change, for what it uses more. What goes is
//! given back with its commit.
//!
//! Giving back, and counting what a new quota limits, are the work of upstream's quota controller, and can be
//! [left to others](crate::ClusterOptions::leaves_quotas). Of two that give back, each would subtract what the
//! other has subtracted.
//!
//! A cluster that never had a quota pays one flag for each commit.
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

/// What the containers of a pod with that spec request together, with its overhead, by the name of the resource: those
/// that run at once, or one that runs before them; what the pod requests as a whole stands for its containers.
pub fn pod_requests(spec: &Value) -> BTreeMap<String, Quantity> {
    of_containers(spec, "requests")
}

/// As [`pod_requests`], of what the containers may use at most.
pub fn pod_limits(spec: &Value) -> BTreeMap<String, Quantity> {
    of_containers(spec, "limits")
}

/// Amounts by the name of a resource.
type Amounts = BTreeMap<String, Quantity>;

/// What a change was charged for.
pub(crate) struct Charge {
    kind: Kind,
    namespace: String,
    /// The object as it was to be stored.
    json: Value,
    more: Amounts,
}

/// Whether there ever was a quota, a range of limits, a class of priority, and one of volumes.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    quotas: AtomicBool,
    pub(crate) ranges: AtomicBool,
    classes: AtomicBool,
    storage_classes: AtomicBool,
}

impl Seen {
    /// Notes an object that was committed.
    pub(crate) fn note(&self, kind: Kind) {
        // Relaxed: a thread that creates an object after this one's create was answered sees it.
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

/// The name of the quota of [`Cluster::set_pod_quota`].
const POD_QUOTA: &str = "pods";

impl Cluster {
    /// Limits the pods of a namespace that have not ended, by a ResourceQuota named `pods`, or deletes it if
    /// it is there. Pods beyond the limit stay; creates get 403 until there are fewer. O(pods of the namespace).
    ///
    /// # Errors
    /// With a limit: those of [`create`](Cluster::create).
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
            .expect("it has the form of a quota");
        api.create(quota, now).map(drop)
    }

    /// Charges a new object to the quotas of its namespace; a dry run only asks.
    ///
    /// # Errors
    /// 403 where it exceeds one, or doesn't say how much it needs of what one measures; then none is charged.
    #[cold]
    pub(crate) fn charge(&self, new: &dyn Object, dry_run: bool, now: Now) -> Result<(), ApiError> {
        let quotas = self.objects_in(builtin::QUOTA, &new.metadata().namespace);
        if quotas.is_empty() {
            return Ok(());
        }
        let json = new.to_json();
        let needed = usage::of(new.kind(), &json);
        self.charge_all(&quotas, (new, &json, &needed), dry_run, now)
    }

    /// Whether objects of a kind may use more after a change.
    pub(crate) fn changes_usage(kind: Kind) -> bool {
        usage::changes(kind)
    }

    /// Charges what an object uses more after a change, and returns it; a dry run only asks.
    ///
    /// # Errors
    /// 403 where it exceeds a quota; then none is charged.
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
        let more = usage::increase(&usage::of(kind, &old.to_json()), &usage::of(kind, &json));
        if !more.is_empty() {
            let quotas = self.objects_in(builtin::QUOTA, &new.metadata().namespace);
            self.charge_all(&quotas, (new, &json, &more), dry_run, now)?;
        }
        Ok(Charge {
            kind,
            namespace: new.metadata().namespace.to_string(),
            json,
            more,
        })
    }

    /// Gives back what was charged for a change that was not stored after all.
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
        (new, json, needed): (&dyn Object, &Value, &Amounts),
        dry_run: bool,
        now: Now,
    ) -> Result<(), ApiError> {
        // Of several, all are asked before one is written.
        if dry_run || quotas.len() > 1 {
            for quota in quotas {
                self.charge_one(quota, (new, json, needed), true, now)?;
            }
        }
        if dry_run {
            return Ok(());
        }
        let mut charged = Vec::new();
        for quota in quotas {
            match self.charge_one(quota, (new, json, needed), false, now) {
                Ok(true) => charged.push(quota),
                Ok(false) => {}
                Err(refused) => {
                    // Another writer was faster.
                    for quota in charged {
                        self.add_usage(quota, needed, false, now);
                    }
                    return Err(refused);
                }
            }
        }
        Ok(())
    }

    /// Charges one quota, whatever others charge it for meanwhile, or only asks; returns whether it charged.
    fn charge_one(
        &self,
        quota: &AnyObject,
        (new, json, needed): (&dyn Object, &Value, &Amounts),
        only_asks: bool,
        now: Now,
    ) -> Result<bool, ApiError> {
        let (namespace, name) = (&*quota.metadata().namespace, quota.metadata().name.as_str());
        let is_ours = !self.options.leaves_quotas;
        if is_ours && is_uncounted(part(&**quota, "spec"), part(&**quota, "status")) {
            self.count_usage(namespace, name, now);
        }
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

    /// Gives back what a new object was charged for that was not stored after all.
    #[cold]
    pub(crate) fn give_back(&self, new: &dyn Object, now: Now) {
        self.move_usage(new.kind(), Some(new), None, now);
    }

    /// Keeps the usage right after a commit.
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
            // Charged when it was admitted.
            (None, _) => {}
            (Some(old), Some(new)) if kind == Kind::POD => {
                if old.counts_for_quota() != new.counts_for_quota() {
                    self.move_usage(kind, Some(old), Some(new), now);
                } else if new.counts_for_quota()
                    && old.metadata().generation != new.metadata().generation
                {
                    // It may have been resized.
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

    /// Gives back what an object uses less after a change. What it uses more was charged before.
    fn settle_change(&self, old: &dyn Object, new: &dyn Object, now: Now) {
        let kind = new.kind();
        let jsons = [old.to_json(), new.to_json()];
        let [before, after] = jsons.each_ref().map(|json| usage::of(kind, json));
        let more = usage::increase(&before, &after);
        for quota in self.objects_in(builtin::QUOTA, &new.metadata().namespace) {
            let spec = part(&*quota, "spec");
            let [was, is] = jsons
                .each_ref()
                .map(|json| scopes::matches(spec, kind, json));
            // The change may have moved the object into the quota, or out of it.
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
                    self.add_usage(&quota, &usage::of(kind, &json), is_more, now);
                }
            }
        }
    }

    /// Adds to what a quota says is used of its resources, or takes away.
    /// Takes nothing away where the usage is left to others, who may have counted already without what goes.
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

    /// Counts what is used of the resources that a quota limits. O(objects of its namespace).
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
                for (name, amount) in usage::of(kind, &json) {
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

    /// Writes the status that `change` makes of a stored quota's spec and status. It is called again where
    /// another writer was faster.
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

    /// The objects of a kind in a namespace; none where the kind is not served.
    pub(crate) fn objects_in(&self, kind: Kind, namespace: &str) -> Vec<AnyObject> {
        let listed = self.api(kind).list(&ListOptions {
            namespace: Some(namespace),
            ..ListOptions::default()
        });
        listed.map(|page| page.items).unwrap_or_default()
    }
}

/// The spec or the status of a quota.
fn part<'q>(quota: &'q dyn Object, name: &str) -> &'q Value {
    let quota = quota.downcast_ref::<DynamicObject>();
    let part = quota.and_then(|quota| quota.fields.get(name));
    part.unwrap_or(&Value::Null)
}

/// Whether what is used of the resources that a quota limits has not been counted.
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

/// What is used of a quota with what a new object needs; `None` where that changes nothing.
///
/// # Errors
/// What exceeds it.
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

/// Amounts as a status has them, in the spelling of others.
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

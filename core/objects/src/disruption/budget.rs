//! PodDisruptionBudgets in the form that the controller and evictions read and change. Objects
//! come from the store as [`DynamicObject`]s and are written back with a new status.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{
    DynamicObject, Kind, LabelSelector, Now, Object as _, ObjectMeta, ObjectReference, Selector,
    SelectorError, Time,
};

/// The type of the condition that the disruption controller writes.
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

/// The reason of that condition if the controller could not compute the budget.
pub const SYNC_FAILED: &str = "SyncFailed";

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Budget {
    /// The metadata, such as name, version and generation.
    pub metadata: ObjectMeta,
    /// `spec.selector`, which selects the budget's pods. Absent selects none, empty selects all in
    /// the namespace.
    pub selector: Option<LabelSelector>,
    /// `spec.minAvailable`.
    pub min_available: Option<Amount>,
    /// `spec.maxUnavailable`.
    pub max_unavailable: Option<Amount>,
    /// Whether `spec.unhealthyPodEvictionPolicy` is `AlwaysAllow`. Otherwise it is
    /// `IfHealthyBudget`, which is also the meaning of absent.
    pub always_allows_unhealthy: bool,
    /// The status of the budget.
    pub status: BudgetStatus,
}

/// A number of pods, or a percentage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number of pods.
    Number(i64),
    /// A string. Valid strings are whole percentages such as `50%`.
    Text(String),
}

/// `status` of a PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetStatus {
    /// The generation of the spec that the other members belong to.
    pub observed_generation: i64,
    /// The pods whose eviction was allowed and whose deletion has not been seen yet, with the time
    /// of the eviction.
    pub disrupted_pods: BTreeMap<String, Time>,
    /// The number of evictions that are allowed now.
    pub disruptions_allowed: i64,
    /// The number of ready pods that the budget selects.
    pub current_healthy: i64,
    /// The number of pods that must be ready.
    pub desired_healthy: i64,
    /// The number of pods that the controller computed the budget from.
    pub expected_pods: i64,
    /// The conditions. The one of type `DisruptionAllowed` belongs to the controller.
    pub conditions: Vec<Condition>,
}

/// A `metav1.Condition`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// `type`.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The generation of the spec that the condition belongs to.
    pub observed_generation: i64,
    /// When `status` last changed.
    pub last_transition_time: Time,
    /// One machine-readable word.
    pub reason: String,
    /// A human-readable sentence.
    pub message: String,
}

impl Amount {
    fn read(value: &Value) -> Option<Amount> {
        match value {
            Value::Number(number) => number.as_i64().map(Amount::Number),
            Value::String(text) => Some(Amount::Text(text.clone())),
            _ => None,
        }
    }

    /// Returns this amount as a number of pods out of `total`. A percentage is rounded up.
    ///
    /// # Errors
    /// Fails for a string that is not a percentage, which validation refuses.
    ///
    /// Source: `GetScaledValueFromIntOrPercent` in Kubernetes' apimachinery.
    pub fn resolve(&self, total: i64) -> Result<i64, String> {
        let text = match self {
            Amount::Number(number) => return Ok(*number),
            Amount::Text(text) => text,
        };
        let percent = text.strip_suffix('%').and_then(|number| {
            let number: i64 = number.parse().ok()?;
            Some(
                number
                    .saturating_mul(total)
                    .saturating_add(99)
                    .div_euclid(100),
            )
        });
        percent.ok_or_else(|| {
            "invalid value for IntOrString: invalid type: string is not a percentage".to_owned()
        })
    }
}

impl Budget {
    /// Reads the budget in an object. Members of a wrong type count as absent, but reading an
    /// object already refuses them.
    pub fn from_object(object: &DynamicObject) -> Budget {
        let spec = object.fields.get("spec").unwrap_or(&Value::Null);
        let selector = match &spec["selector"] {
            Value::Null => None,
            selector => LabelSelector::from_json(selector.clone()).ok(),
        };
        Budget {
            metadata: object.metadata().clone(),
            selector,
            min_available: Amount::read(&spec["minAvailable"]),
            max_unavailable: Amount::read(&spec["maxUnavailable"]),
            always_allows_unhealthy: spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow",
            status: BudgetStatus::from_json(object.fields.get("status").unwrap_or(&Value::Null)),
        }
    }

    /// Returns the object to send to `/status`, with only the metadata and the status.
    pub fn status_update(&self) -> DynamicObject {
        let mut object = DynamicObject::new(Kind::POD_DISRUPTION_BUDGET);
        object.metadata = self.metadata.clone();
        object
            .fields
            .insert("status".to_owned(), self.status.to_json());
        object
    }

    /// Returns the compiled selector.
    ///
    /// # Errors
    /// Fails if the selector is invalid.
    pub fn compiled(&self) -> Result<Selector, SelectorError> {
        Selector::compile(self.selector.as_ref())
    }

    /// Returns the reference for the budget's events.
    pub fn reference(&self) -> ObjectReference {
        ObjectReference::new(Kind::POD_DISRUPTION_BUDGET, &self.metadata)
    }
}

impl BudgetStatus {
    /// Reads the status from its JSON form. Members of wrong types count as absent.
    pub fn from_json(value: &Value) -> BudgetStatus {
        let number = |member: &str| value[member].as_i64().unwrap_or(0);
        let disrupted = value["disruptedPods"].as_object().into_iter().flatten();
        let conditions = value["conditions"].as_array().into_iter().flatten();
        BudgetStatus {
            observed_generation: number("observedGeneration"),
            disrupted_pods: disrupted.map(|(pod, at)| (pod.clone(), time(at))).collect(),
            disruptions_allowed: number("disruptionsAllowed"),
            current_healthy: number("currentHealthy"),
            desired_healthy: number("desiredHealthy"),
            expected_pods: number("expectedPods"),
            conditions: conditions.map(Condition::from_json).collect(),
        }
    }

    /// Returns the JSON form.
    pub fn to_json(&self) -> Value {
        let mut status = Map::new();
        if self.observed_generation != 0 {
            status.insert("observedGeneration".into(), self.observed_generation.into());
        }
        if !self.disrupted_pods.is_empty() {
            let pods = self.disrupted_pods.iter();
            let pods: Map<_, _> = pods
                .map(|(pod, at)| (pod.clone(), at.to_string().into()))
                .collect();
            status.insert("disruptedPods".into(), pods.into());
        }
        for (member, number) in [
            ("disruptionsAllowed", self.disruptions_allowed),
            ("currentHealthy", self.current_healthy),
            ("desiredHealthy", self.desired_healthy),
            ("expectedPods", self.expected_pods),
        ] {
            status.insert(member.into(), number.into());
        }
        if !self.conditions.is_empty() {
            let conditions = self.conditions.iter().map(Condition::to_json);
            status.insert("conditions".into(), conditions.collect());
        }
        status.into()
    }

    /// Returns the condition of type `DisruptionAllowed`; `None` if there is none.
    pub fn condition(&self) -> Option<&Condition> {
        let mut conditions = self.conditions.iter();
        conditions.find(|condition| condition.kind == DISRUPTION_ALLOWED)
    }

    /// Sets the condition from the number of allowed disruptions.
    ///
    /// Source: `UpdateDisruptionAllowedCondition` in Kubernetes' component-helpers.
    pub fn set_condition(&mut self, now: Now) {
        let (status, reason) = self.computed_condition();
        self.put_condition(status, reason, "", now);
    }

    /// Returns the status and the reason of the condition for the number of allowed disruptions.
    pub fn computed_condition(&self) -> (&'static str, &'static str) {
        match self.disruptions_allowed > 0 {
            true => ("True", "SufficientPods"),
            false => ("False", "InsufficientPods"),
        }
    }

    /// Sets the condition `DisruptionAllowed`. Its transition time changes only with its status.
    pub fn put_condition(&mut self, status: &str, reason: &str, message: &str, now: Now) {
        let before = self.condition().filter(|before| before.status == status);
        let since = before.map_or(now.wall(), |before| before.last_transition_time);
        let condition = Condition {
            kind: DISRUPTION_ALLOWED.to_owned(),
            status: status.to_owned(),
            observed_generation: self.observed_generation,
            last_transition_time: since,
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        let mut conditions = self.conditions.iter_mut();
        match conditions.find(|before| before.kind == DISRUPTION_ALLOWED) {
            Some(before) => *before = condition,
            None => self.conditions.push(condition),
        }
    }
}

impl Condition {
    fn from_json(value: &Value) -> Condition {
        let text = |member: &str| value[member].as_str().unwrap_or("").to_owned();
        Condition {
            kind: text("type"),
            status: text("status"),
            observed_generation: value["observedGeneration"].as_i64().unwrap_or(0),
            last_transition_time: time(&value["lastTransitionTime"]),
            reason: text("reason"),
            message: text("message"),
        }
    }

    fn to_json(&self) -> Value {
        let mut condition = json!({"type": self.kind, "status": self.status,
            "lastTransitionTime": self.last_transition_time.to_string(),
            "reason": self.reason, "message": self.message});
        if self.observed_generation != 0 {
            condition["observedGeneration"] = self.observed_generation.into();
        }
        condition
    }
}

fn time(value: &Value) -> Time {
    let text = value.as_str().unwrap_or("");
    text.parse().unwrap_or(Time::UNSET)
}

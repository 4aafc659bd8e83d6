//! The parts of a StatefulSet's spec that a sync reads, from the live object or from a revision.

use podstorm_objects::{DynamicObject, IntOrString, Kind, Labels, Map};
use serde_json::Value;

use super::claims::RetentionPolicy;
use crate::deployment::sizes::{IntOrStringError, scaled};

/// The parts of a spec that a sync reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetSpec {
    /// `replicas`.
    pub replicas: i64,
    /// `ordinals.start`: the ordinal of the first pod.
    pub start: i64,
    /// `minReadySeconds`.
    pub min_ready_seconds: i32,
    /// `revisionHistoryLimit`.
    pub history_limit: i64,
    /// Whether `podManagementPolicy` is `Parallel`.
    pub is_parallel: bool,
    /// `updateStrategy`.
    pub strategy: Strategy,
    /// `persistentVolumeClaimRetentionPolicy`.
    pub policy: RetentionPolicy,
    /// `volumeClaimTemplates`, at most one per name.
    pub claim_templates: Vec<ClaimTemplate>,
    /// `serviceName`.
    pub service: String,
    /// `selector.matchLabels`.
    pub match_labels: Labels,
}

/// `updateStrategy`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strategy {
    /// Whether the type is `RollingUpdate`.
    pub is_rolling: bool,
    /// Whether the type is `OnDelete`.
    pub is_on_delete: bool,
    /// `rollingUpdate`, which may be present with another type.
    pub rolling_update: Option<RollingUpdate>,
}

/// `updateStrategy.rollingUpdate`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RollingUpdate {
    /// `partition`: the number of pods, from the lowest ordinal up, that are not updated.
    pub partition: i64,
    /// `maxUnavailable`.
    pub max_unavailable: Option<IntOrString>,
}

/// A template for PersistentVolumeClaims. Every pod gets one claim from each template.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimTemplate(pub DynamicObject);

impl ClaimTemplate {
    /// Returns the name of the template, which is also the name of the volume.
    pub fn name(&self) -> &str {
        &self.0.metadata.name
    }
}

impl SetSpec {
    /// Reads a spec. Absent members get the server's defaults. O(bytes).
    pub fn read(spec: &Map) -> SetSpec {
        let member = |name: &str| spec.get(name).unwrap_or(&Value::Null);
        let number = |name: &str| member(name).as_i64();
        let mut claim_templates: Vec<ClaimTemplate> = Vec::new();
        for template in member("volumeClaimTemplates")
            .as_array()
            .into_iter()
            .flatten()
        {
            let claim = DynamicObject::from_json(Kind::PERSISTENT_VOLUME_CLAIM, template.clone());
            let Ok(claim) = claim.map(ClaimTemplate) else {
                continue;
            };
            // As in upstream, which keeps the templates in a map, the last one of a name wins.
            match claim_templates
                .iter_mut()
                .find(|it| it.name() == claim.name())
            {
                Some(same) => *same = claim,
                None => claim_templates.push(claim),
            }
        }
        let match_labels = Labels::from_json(member("selector")["matchLabels"].clone());
        SetSpec {
            replicas: number("replicas").unwrap_or(1),
            start: member("ordinals")["start"].as_i64().unwrap_or(0),
            min_ready_seconds: int32(number("minReadySeconds").unwrap_or(0)),
            history_limit: number("revisionHistoryLimit").unwrap_or(10),
            is_parallel: *member("podManagementPolicy") == "Parallel",
            strategy: Strategy::read(member("updateStrategy")),
            policy: RetentionPolicy::read(member("persistentVolumeClaimRetentionPolicy")),
            claim_templates,
            service: member("serviceName")
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            match_labels: match_labels.unwrap_or_default(),
        }
    }

    /// Reports whether the set wants a pod with this ordinal.
    pub fn has_ordinal(&self, ordinal: i64) -> bool {
        (self.start..self.start.saturating_add(self.replicas)).contains(&ordinal)
    }

    /// Returns how many pods, from the lowest ordinal up, a rolling update does not change.
    pub(super) fn partition(&self) -> i64 {
        let rolling = self.strategy.rolling_update.as_ref();
        rolling.map_or(0, |rolling| rolling.partition)
    }

    /// Reports whether a new pod with this ordinal is built from the current revision, given that
    /// `current_replicas` pods have the current revision. Other pods are built from the update
    /// revision.
    pub fn wants_current(&self, ordinal: i64, current_replicas: i64) -> bool {
        let unchanged = match &self.strategy.rolling_update {
            Some(rolling) => rolling.partition,
            None if self.strategy.is_rolling => current_replicas,
            None => return false,
        };
        ordinal < self.start.saturating_add(unchanged)
    }

    /// Returns how many pods a rolling update may make unavailable, at least one.
    ///
    /// # Errors
    /// Fails if `maxUnavailable` is a string but not a percentage.
    pub(super) fn max_unavailable(&self) -> Result<i64, IntOrStringError> {
        let rolling = self.strategy.rolling_update.as_ref();
        let value = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        max_unavailable(value, int32(self.replicas)).map(i64::from)
    }
}

/// Returns how many of `replicas` pods may be unavailable, at least one. Percentages are rounded
/// down.
///
/// # Errors
/// Fails for a string that is not a percentage.
///
/// Source: `getStatefulSetMaxUnavailable` of Kubernetes' `pkg/controller/statefulset`.
pub fn max_unavailable(
    value: Option<&IntOrString>,
    replicas: i32,
) -> Result<i32, IntOrStringError> {
    let value = value.map_or(Ok(1), |value| scaled(value, replicas, f64::floor))?;
    Ok(value.max(1))
}

impl Strategy {
    /// Reads `updateStrategy`.
    pub(super) fn read(strategy: &Value) -> Strategy {
        Strategy {
            is_rolling: strategy["type"] == "RollingUpdate",
            is_on_delete: strategy["type"] == "OnDelete",
            rolling_update: strategy.get("rollingUpdate").and_then(RollingUpdate::read),
        }
    }
}

impl RollingUpdate {
    fn read(value: &Value) -> Option<RollingUpdate> {
        let members = value.as_object()?;
        let max_unavailable = members.get("maxUnavailable");
        Some(RollingUpdate {
            partition: value["partition"].as_i64().unwrap_or(0),
            max_unavailable: max_unavailable.and_then(|value| match value {
                Value::String(text) => Some(IntOrString::Text(text.as_str().into())),
                other => other.as_i64().map(|number| IntOrString::Int(int32(number))),
            }),
        })
    }
}

fn int32(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(match number.is_negative() {
        true => i32::MIN,
        false => i32::MAX,
    })
}

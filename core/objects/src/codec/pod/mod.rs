//! JSON of pods and pod specs.

mod hostname;

use std::sync::Arc;

use serde_json::Value;
use smallvec::SmallVec;

use super::{open, pod_shape};
use crate::decode::{DecodeError, Members, Path};
use crate::hostname::HOSTNAME;
use crate::json::{JsonValue, Rest, Tape, Writer};
use crate::shape::check;
use crate::token_volume::MARKER;
use crate::{
    Hostname, Kind, Map, ObjectMeta, Pod, PodClaim, PodSpec, PodStatus, Resource, RestartPolicy,
    SpecContainer, Str, TOLERATED_TAINTS, TokenVolume,
};

object!(Pod, |pod, out| {
    let hostname = pod.own_hostname();
    put_spec(
        out,
        &pod.spec,
        pod.node_name.as_ref(),
        pod.token_volume,
        hostname,
    );
    out.put_object("status", |out| pod.status.write(out));
});

impl Resource for Pod {
    const KIND: Kind = Kind::POD;

    fn read(value: JsonValue<'_>) -> Result<Self, DecodeError> {
        let (mut members, metadata) = open(value, Kind::POD)?;
        let spec =
            |value: JsonValue<'_>, path: &Path<'_>| ReadSpec::read(value, path, Some(&metadata));
        let read = members.child("spec", spec)?.unwrap_or_default();
        let status = members
            .child("status", PodStatus::read)?
            .unwrap_or_default();
        Ok(Pod {
            metadata,
            spec: read.spec,
            node_name: read.node_name,
            token_volume: read.token_volume,
            hostname: read.hostname,
            status,
        })
    }
}

/// A pod spec after reading: the shared spec, and the members that belong to a single pod.
#[derive(Default)]
pub(super) struct ReadSpec {
    pub(super) spec: Arc<PodSpec>,
    pub(super) node_name: Option<Str>,
    pub(super) token_volume: Option<TokenVolume>,
    pub(super) hostname: Hostname,
}

impl ReadSpec {
    /// Reads the spec of a pod with this metadata or, without metadata, of a template.
    pub(super) fn read(
        value: JsonValue<'_>,
        path: &Path<'_>,
        meta: Option<&ObjectMeta>,
    ) -> Result<ReadSpec, DecodeError> {
        let mut members = Members::new(value, path)?;
        let hostname = meta.and_then(|meta| {
            let hostname = members.look(HOSTNAME)?.as_str()?;
            Some(Hostname::new(hostname, meta))
        });
        let hostname = hostname.unwrap_or_default();
        if hostname != Hostname::OfSpec {
            members.take(HOSTNAME);
        }
        let node_name = members.text("nodeName")?;
        check(value, &pod_shape::POD_SPEC, path)?;
        let token_volume = TokenVolume::find(value);
        let name = token_volume.map(|volume| volume.to_string());
        let mut spec = PodSpec::read(members, name.as_deref());
        spec.has_hostname &= hostname == Hostname::OfSpec;
        Ok(ReadSpec {
            spec: spec.into(),
            node_name: (!node_name.is_empty()).then(|| node_name.into()),
            token_volume,
            hostname,
        })
    }
}

/// Writes `spec` with the members that belong to this pod only. Writes nothing if the spec is
/// empty.
pub(super) fn put_spec(
    out: &mut Writer,
    spec: &PodSpec,
    node_name: Option<&Str>,
    token_volume: Option<TokenVolume>,
    hostname: Option<&str>,
) {
    out.put_object("spec", |out| {
        spec.pieces(token_volume, |text| out.raw(text));
        out.put_some(HOSTNAME, hostname);
        out.put_some("nodeName", node_name.map(|name| &**name));
    });
}

const KEPT_OUTSIDE: &str = "not allowed in a spec that pods share";

impl PodSpec {
    /// Returns the approximate size of the spec in memory, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<PodSpec>() + self.members.as_str().len()
    }

    /// Creates a pod spec from members that may be shared between pods.
    ///
    /// # Errors
    /// Fails if a member has a wrong type, and for `nodeName` and the name of a [`TokenVolume`],
    /// because these are stored outside the shared spec.
    pub fn from_json(members: Map) -> Result<PodSpec, DecodeError> {
        let members = Value::Object(members);
        let tape = Tape::new(&members);
        if TokenVolume::find(tape.root()).is_some() {
            return Err(Path::ROOT.member("volumes").error(KEPT_OUTSIDE));
        }
        PodSpec::of_members(tape.root(), None)
    }

    /// Returns this spec with changed members. `members` must come from [`to_map`](PodSpec::to_map)
    /// of this spec, called without a volume, so that placeholders mark the places of the names
    /// that were taken out.
    ///
    /// # Errors
    /// Fails if a member has a wrong type, and for `nodeName`.
    pub fn with_members(&self, members: Map) -> Result<PodSpec, DecodeError> {
        let members = Value::Object(members);
        let name = (!self.stars.is_empty()).then_some(MARKER);
        PodSpec::of_members(Tape::new(&members).root(), name)
    }

    /// Creates a pod spec with these members. Also returns the pod's own service-account volume,
    /// whose name is taken out of the spec, if there is one.
    ///
    /// # Errors
    /// Fails if a member has a wrong type, and for `nodeName`.
    pub fn with_volume(members: Map) -> Result<(PodSpec, Option<TokenVolume>), DecodeError> {
        let members = Value::Object(members);
        let tape = Tape::new(&members);
        let volume = TokenVolume::find(tape.root());
        let name = volume.map(|volume| volume.to_string());
        let spec = PodSpec::of_members(tape.root(), name.as_deref())?;
        Ok((spec, volume))
    }

    fn of_members(spec: JsonValue<'_>, name: Option<&str>) -> Result<PodSpec, DecodeError> {
        let path = Path::ROOT;
        if spec.get("nodeName").is_some() {
            return Err(path.member("nodeName").error(KEPT_OUTSIDE));
        }
        check(spec, &pod_shape::POD_SPEC, &path)?;
        let members = Members::new(spec, &path)?;
        Ok(PodSpec::read(members, name))
    }

    /// Calls `look` with the members. The name of the pod's service-account volume is restored in
    /// each of its places. O(bytes): the text is parsed.
    pub fn look<R>(
        &self,
        token_volume: Option<TokenVolume>,
        look: impl FnOnce(JsonValue<'_>) -> R,
    ) -> R {
        let text = format!("{{{}}}", self.text_with(token_volume));
        look(Tape::of_written(&text).root())
    }

    /// Returns the members as trees. Costs as much as [`look`](PodSpec::look).
    pub fn to_map(&self, token_volume: Option<TokenVolume>) -> Map {
        self.look(token_volume, |members| members.to_map())
    }

    /// Returns the value of a member; `None` if it is absent. O(bytes): use it only on rare paths.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.members.get(name)
    }

    /// Returns the claims that the `volumes` of a pod with this name need, in order. A spec without
    /// claims is only searched for two words; any other is parsed.
    pub fn claims(&self, pod: &str) -> Vec<PodClaim> {
        let text = self.members.as_str();
        if !["\"persistentVolumeClaim\"", "\"ephemeral\""]
            .iter()
            .any(|word| text.contains(word))
        {
            return Vec::new();
        }
        let volumes = self.get("volumes").unwrap_or_default();
        let volumes = volumes.as_array().into_iter().flatten();
        let claims = volumes.filter_map(|volume| {
            if let Some(name) = volume["persistentVolumeClaim"]["claimName"].as_str() {
                return Some(PodClaim {
                    name: name.into(),
                    template: None,
                });
            }
            let template = volume["ephemeral"].get("volumeClaimTemplate")?;
            let volume = volume["name"].as_str()?;
            Some(PodClaim {
                name: format!("{pod}-{volume}").into(),
                template: Some((volume.into(), template.clone())),
            })
        });
        claims.collect()
    }

    /// Calls `give` with the text of the members, piece by piece. The name of the pod's
    /// service-account volume is restored in each of its places. O(number of places).
    fn pieces(&self, token_volume: Option<TokenVolume>, mut give: impl FnMut(&str)) {
        let text = self.members.as_str();
        let mut done = 0;
        if let Some(volume) = token_volume {
            for star in &self.stars {
                let star = *star as usize;
                give(&text[done..star]);
                give(volume.letters());
                done = star + 1;
            }
        }
        give(&text[done..]);
    }

    /// Returns the text of the members, without braces. The name of the pod's service-account
    /// volume is restored in each of its places. O(bytes).
    pub fn text_with(&self, token_volume: Option<TokenVolume>) -> String {
        let mut full = String::with_capacity(self.members.as_str().len() + 4 * self.stars.len());
        self.pieces(token_volume, |piece| full.push_str(piece));
        full
    }

    /// Creates the spec from the members that were not taken. Their types have been checked. The
    /// volume name `name` is taken out.
    fn read(mut members: Members<'_, '_>, name: Option<&str>) -> PodSpec {
        let mut stars = SmallVec::new();
        let text = Rest::written_by(|out| {
            let stars = &mut stars;
            let mut text = SpecText { out, name, stars };
            for (name, value) in members.left() {
                text.member(name, value);
            }
        });
        // In the order of their names, so one pass reads all members.
        let mut look = |member| members.look(member);
        let deadline = look("activeDeadlineSeconds").and_then(|seconds| seconds.as_i64());
        let affinity = look("affinity");
        let containers = look("containers");
        let hostname = look(HOSTNAME);
        let lists = [containers, look("initContainers")];
        let has_host_port = lists.into_iter().any(|list| any(list, takes_host_port));
        let [containers, init_containers] = lists;
        let containers = SpecContainer::read_all(containers).collect();
        let init_containers = SpecContainer::read_all(init_containers).collect();
        let selector = look("nodeSelector");
        let priority = look("priority").and_then(|priority| priority.as_i64());
        let policy = look("restartPolicy").and_then(|policy| policy.as_str());
        let scheduler_name = look("schedulerName").and_then(|name| name.as_str());
        let gates = look("schedulingGates");
        let has_security_context = look("securityContext").is_some();
        let mut account = |member| look(member).and_then(|it| it.as_str()).unwrap_or("");
        let is_one_account = account("serviceAccount") == account("serviceAccountName");
        let grace = look("terminationGracePeriodSeconds").and_then(|seconds| seconds.as_i64());
        let is_particular = selector.is_some_and(|selector| selector.pairs().next().is_some())
            || affinity.is_some_and(has_required_terms)
            || any(look("tolerations"), |it| !is_usual_toleration(it))
            || any(look("topologySpreadConstraints"), must_hold)
            || has_host_port;
        PodSpec {
            members: text,
            stars,
            is_converted: has_security_context && is_one_account,
            termination_grace_period_seconds: grace,
            containers,
            init_containers,
            scheduler_name: scheduler_name
                .filter(|name| *name != "default-scheduler")
                .map(Into::into),
            has_hostname: hostname.is_some(),
            is_gated: gates.is_some_and(|gates| gates.items().next().is_some()),
            is_particular,
            // Validation refuses an out-of-range number.
            priority: priority.and_then(|it| it.try_into().ok()).unwrap_or(0),
            // Absent means `Always`, and so does a value that admission refuses.
            restart_policy: policy.and_then(RestartPolicy::new).unwrap_or_default(),
            active_deadline_seconds: deadline,
        }
    }
}

/// Reports whether a list has an item for which `is_one` is true.
fn any(list: Option<JsonValue<'_>>, is_one: fn(JsonValue<'_>) -> bool) -> bool {
    list.is_some_and(|list| list.items().any(is_one))
}

fn is_text(of: JsonValue<'_>, member: &str, text: &str) -> bool {
    of.get(member).and_then(|it| it.as_str()) == Some(text)
}

fn takes_host_port(container: JsonValue<'_>) -> bool {
    let is_taken = |port: JsonValue<'_>| {
        let number = port.get("hostPort").and_then(|number| number.as_i64());
        number.is_some_and(|number| number > 0)
    };
    any(container.get("ports"), is_taken)
}

/// Reports whether an affinity has required terms, not only preferences.
fn has_required_terms(affinity: JsonValue<'_>) -> bool {
    let required = |kind| {
        affinity
            .get(kind)?
            .get("requiredDuringSchedulingIgnoredDuringExecution")
    };
    let is_of_pods = |kind| required(kind).is_some_and(|terms| terms.items().next().is_some());
    required("nodeAffinity").is_some_and(|terms| terms.is_object())
        || is_of_pods("podAffinity")
        || is_of_pods("podAntiAffinity")
}

fn must_hold(constraint: JsonValue<'_>) -> bool {
    !is_text(constraint, "whenUnsatisfiable", "ScheduleAnyway")
}

/// Reports whether this is a toleration for a taint that every pod tolerates.
fn is_usual_toleration(toleration: JsonValue<'_>) -> bool {
    let is_usual = |key: &str| is_text(toleration, "key", key);
    is_text(toleration, "effect", "NoExecute") && TOLERATED_TAINTS.into_iter().any(is_usual)
}

impl SpecContainer {
    fn read_all(list: Option<JsonValue<'_>>) -> impl Iterator<Item = SpecContainer> {
        let items = list.into_iter().flat_map(|list| list.items());
        items.map(SpecContainer::read)
    }

    fn read(container: JsonValue<'_>) -> SpecContainer {
        let text = |member| {
            let value = container.get(member);
            value.and_then(|it| it.as_str()).unwrap_or("")
        };
        SpecContainer {
            name: text("name").into(),
            image: text("image").into(),
            is_sidecar: text("restartPolicy") == "Always",
        }
    }
}

/// Writes the text of a spec, with placeholders for the name of the pod's own volume.
struct SpecText<'a> {
    out: &'a mut Writer,
    name: Option<&'a str>,
    stars: &'a mut SmallVec<[u32; 2]>,
}

impl SpecText<'_> {
    fn member(&mut self, name: &str, value: JsonValue<'_>) {
        self.out.begin_member(name);
        if self.name.is_none() {
            value.write(self.out);
        } else if name == "volumes" {
            self.list(value, SpecText::named);
        } else if TokenVolume::CONTAINERS.contains(&name) {
            self.list(value, |text, container| {
                text.object(container, |text, name, value| match name {
                    "volumeMounts" => text.list(value, SpecText::named),
                    _ => value.write(text.out),
                });
            });
        } else {
            value.write(self.out);
        }
    }

    /// Writes a list item by item.
    fn list(&mut self, list: JsonValue<'_>, mut write: impl FnMut(&mut Self, JsonValue<'_>)) {
        if !list.is_list() {
            return list.write(self.out);
        }
        self.out.open('[');
        for item in list.items() {
            self.out.comma();
            write(self, item);
        }
        self.out.close(']');
    }

    /// Writes an object member by member.
    fn object(
        &mut self,
        object: JsonValue<'_>,
        mut write: impl FnMut(&mut Self, &str, JsonValue<'_>),
    ) {
        if !object.is_object() {
            return object.write(self.out);
        }
        self.out.open('{');
        for (name, value) in object.pairs() {
            self.out.begin_member(name);
            write(self, name, value);
        }
        self.out.close('}');
    }

    /// Writes an item whose `name` may be the name of the volume.
    fn named(&mut self, item: JsonValue<'_>) {
        self.object(item, |text, member, value| {
            if member == "name" && value.as_str() == text.name {
                text.out.text(MARKER);
                // The position before the closing quote.
                let star = u32::try_from(text.out.len() - 2);
                text.stars.push(star.expect("a spec has less than 4 GiB"));
            } else {
                value.write(text.out);
            }
        });
    }
}

#[cfg(test)]
mod tests;

//! Merging of lists. For each list field in the schemas, two writers over HTTP add one entry each
//! to a valid object of a kind that has the field, by strategic merge patches and by server-side
//! apply.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use podstorm_apiserver::schemas::{SCHEMAS, properties, referred_by_name, schema_name_of};

use super::fuzzed::grammar::Sample;
use super::*;

const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A list: the name of its struct, and its own name.
type Field = (&'static str, &'static str);

/// Lists that refuse all generated entries or that no client may change. Other tests cover them.
const REFUSED: [&str; 72] = [
    "CSIDriverSpec.volumeLifecycleModes",
    "CephFSVolumeSource.monitors",
    "ClusterRole.rules",
    "ClusterRoleBinding.subjects",
    "ConfigMapProjection.items",
    "ConfigMapVolumeSource.items",
    "Container.resizePolicy",
    "Container.volumeMounts",
    "CustomResourceDefinitionSpec.versions",
    "CustomResourceDefinitionVersion.additionalPrinterColumns",
    "DeviceClaim.config",
    "DeviceClaim.constraints",
    "DeviceClaim.requests",
    "DeviceClaimConfiguration.requests",
    "DeviceConstraint.requests",
    "DeviceRequest.firstAvailable",
    "DeviceSubRequest.selectors",
    "DeviceSubRequest.tolerations",
    "DownwardAPIProjection.items",
    "DownwardAPIVolumeSource.items",
    "EphemeralContainer.args",
    "EphemeralContainer.command",
    "EphemeralContainer.env",
    "EphemeralContainer.envFrom",
    "EphemeralContainer.ports",
    "EphemeralContainer.resizePolicy",
    "EphemeralContainer.restartPolicyRules",
    "EphemeralContainer.volumeDevices",
    "EphemeralContainer.volumeMounts",
    "ExactDeviceRequest.selectors",
    "ExactDeviceRequest.tolerations",
    "HPAScalingRules.policies",
    "HTTPGetAction.httpHeaders",
    "HTTPIngressRuleValue.paths",
    "HorizontalPodAutoscalerSpec.metrics",
    "ISCSIVolumeSource.portals",
    "JSONSchemaProps.allOf",
    "JSONSchemaProps.anyOf",
    "JSONSchemaProps.enum",
    "JSONSchemaProps.oneOf",
    "JSONSchemaProps.required",
    "JSONSchemaProps.x-kubernetes-list-map-keys",
    "JSONSchemaProps.x-kubernetes-validations",
    "LabelSelector.matchExpressions",
    "LabelSelectorRequirement.values",
    "MutatingWebhookConfiguration.webhooks",
    "NamespaceSpec.finalizers",
    "NamespaceStatus.conditions",
    "NodeSpec.podCIDRs",
    "PersistentVolumeClaimSpec.accessModes",
    "PersistentVolumeSpec.accessModes",
    "PodDNSConfig.nameservers",
    "PodFailurePolicy.rules",
    "PodFailurePolicyOnExitCodesRequirement.values",
    "PodSpec.ephemeralContainers",
    "PolicyRule.nonResourceURLs",
    "ProjectedVolumeSource.sources",
    "RBDVolumeSource.monitors",
    "ResourceQuotaSpec.scopes",
    "Role.rules",
    "RoleBinding.subjects",
    "ScopeSelector.matchExpressions",
    "ScopedResourceSelectorRequirement.values",
    "SecretProjection.items",
    "SecretVolumeSource.items",
    "ServiceCIDRSpec.cidrs",
    "ServiceSpec.ipFamilies",
    "ServiceSpec.loadBalancerSourceRanges",
    "StatefulSetSpec.volumeClaimTemplates",
    "SuccessPolicy.rules",
    "ValidatingWebhookConfiguration.webhooks",
    "WebhookConversion.conversionReviewVersions",
];

/// A step from an object into a nested struct: to a member and, if that is a list, to its first
/// entry.
#[derive(Clone, Copy, Debug)]
struct MergeStep {
    of: &'static str,
    member: &'static str,
    is_list: bool,
}

fn property((schema, member): Field) -> &'static Value {
    &SCHEMAS[schema]["properties"][member]
}

fn text_of(value: &'static Value, name: &str) -> &'static str {
    value[name].as_str().unwrap_or("")
}

/// Returns the shortest path from a kind's objects to each struct in them.
fn ways(root: &str) -> BTreeMap<&'static str, Vec<MergeStep>> {
    let (root, _) = SCHEMAS.get_key_value(root).expect("a served kind");
    let mut ways = BTreeMap::from([(root.as_str(), Vec::new())]);
    let mut next = VecDeque::from([root.as_str()]);
    while let Some(of) = next.pop_front() {
        for (member, property) in properties(&SCHEMAS[of]) {
            let item = property.get("items");
            let Some(inner) = referred_by_name(item.unwrap_or(property)) else {
                continue;
            };
            let Some((inner, _)) = SCHEMAS.get_key_value(inner) else {
                continue;
            };
            if !ways.contains_key(inner.as_str()) {
                let step = MergeStep {
                    of,
                    member,
                    is_list: item.is_some(),
                };
                let way = ways[of].iter().copied().chain([step]).collect();
                ways.insert(inner, way);
                next.push_back(inner);
            }
        }
    }
    ways
}

/// Maximum depth of nested structs in a sample.
const DEPTH: usize = 4;

/// Returns a valid value of a field. `which` selects one of several distinct values.
fn sample(property: &'static Value, name: &str, which: usize, depth: usize) -> Value {
    let number = which + 1;
    if let Some(referred) = referred_by_name(property) {
        return match referred.rsplit('.').next().unwrap_or("") {
            "Quantity" => number.to_string().into(),
            "Time" => format!("2026-01-01T00:00:0{which}Z").into(),
            "MicroTime" => format!("2026-01-01T00:00:0{which}.000000Z").into(),
            "IntOrString" => number.into(),
            "RawExtension" | "JSON" => json!({}),
            _ => sample_struct(referred, which, depth),
        };
    }
    if let Some(values) = property["enum"].as_array() {
        return values[which % values.len()].clone();
    }
    let each = |part: &str| sample(&property[part], name, which, depth);
    match text_of(property, "type") {
        "integer" | "number" => number.into(),
        "boolean" => true.into(),
        "array" => json!([each("items")]),
        "object" if property.get("additionalProperties").is_some() => {
            json!({"a": each("additionalProperties")})
        }
        "object" => json!({"a": "b"}),
        _ if property["format"] == "byte" => "AAE=".into(),
        _ => match name {
            "ip" | "podIPs" | "hostIPs" | "externalIPs" | "clusterIPs" | "addresses" => {
                format!("10.0.0.{number}").into()
            }
            "podCIDRs" | "loadBalancerSourceRanges" => format!("10.{which}.0.0/16").into(),
            "mountPath" | "devicePath" => format!("/a{which}").into(),
            "status" => "True".into(),
            "operator" => "Exists".into(),
            "finalizers" => format!("example.com/a{which}").into(),
            "url" => format!("https://a{which}.example.com/").into(),
            _ => format!("a{which}").into(),
        },
    }
}

/// Returns a struct with its required members and those that distinguish it from others in a list.
fn sample_struct(name: &str, which: usize, depth: usize) -> Value {
    let schema = &SCHEMAS[name];
    let required = schema["required"].as_array().into_iter().flatten();
    let named: BTreeSet<&str> = required
        .filter_map(Value::as_str)
        .chain(["name", "type", "uid", "ip", "image", "key", "path"])
        .collect();
    let Some(deeper) = depth.checked_sub(1) else {
        return json!({});
    };
    let sampled = |(member, property): (&'static String, &'static Value)| {
        [0, 1].map(|which| (member.clone(), sample(property, member, which, deeper)))
    };
    let members = properties(schema).filter(|(member, _)| named.contains(member.as_str()));
    let mut all: Vec<[(String, Value); 2]> = members.map(sampled).collect();
    let differs = |both: &[(String, Value); 2]| both[0] != both[1];
    if !all.iter().any(differs) {
        all.extend(properties(schema).map(sampled).find(differs));
    }
    all.into_iter().map(|both| both[which].clone()).collect()
}

/// Returns the entries that the two writers add to a list.
fn entries(field: Field) -> [Value; 2] {
    let items = &property(field)["items"];
    [0, 1].map(|which| {
        let mut entry = sample(items, field.1, which, DEPTH);
        let keys = property(field)["x-kubernetes-list-map-keys"].as_array();
        let keys = keys.into_iter().flatten().filter_map(Value::as_str);
        let of = referred_by_name(items).unwrap_or("");
        for key in keys.chain([text_of(property(field), "x-kubernetes-patch-merge-key")]) {
            if let Some(property) = SCHEMAS.get(of).and_then(|of| of["properties"].get(key)) {
                entry[key] = sample(property, key, which, DEPTH);
            }
        }
        entry
    })
}

/// Returns a document with `value` at the end of the path. Entries of lists on the path are taken
/// from `object`.
fn nested(object: &Value, way: &[MergeStep], member: &str, value: &Value) -> Value {
    let Some((step, rest)) = way.split_first() else {
        return json!({member: value});
    };
    let there = &object[step.member];
    let inner = match step.is_list {
        true => {
            let of = (step.of, step.member);
            let mut entry = match &there[0] {
                Value::Null => entries(of)[0].clone(),
                entry => entry.clone(),
            };
            let Value::Object(changes) = nested(&entry, rest, member, value) else {
                unreachable!("an object");
            };
            entry.as_object_mut().expect("of a struct").extend(changes);
            json!([entry])
        }
        false => nested(there, rest, member, value),
    };
    json!({step.member: inner})
}

/// Returns the list at the end of the path.
fn found<'v>(object: &'v Value, way: &[MergeStep], member: &str) -> &'v Value {
    let inner = way.iter().fold(object, |value, step| match step.is_list {
        true => &value[step.member][0],
        false => &value[step.member],
    });
    &inner[member]
}

/// Reports whether a list has the entry with all members that were sent.
fn has(list: &Value, entry: &Value) -> bool {
    let same = |found: &Value| match (found, entry) {
        (Value::Object(found), Value::Object(entry)) => entry
            .iter()
            .all(|(name, value)| found.get(name).is_some_and(|it| like(it, value))),
        (found, entry) => found == entry,
    };
    list.as_array().is_some_and(|list| list.iter().any(same))
}

/// Reports whether a value equals the sent one, apart from what the server has added.
fn like(found: &Value, sent: &Value) -> bool {
    match (found, sent) {
        (Value::Object(found), Value::Object(sent)) => sent
            .iter()
            .all(|(name, value)| found.get(name).is_some_and(|it| like(it, value))),
        (Value::Array(found), Value::Array(sent)) => {
            found.len() == sent.len() && found.iter().zip(sent).all(|(a, b)| like(a, b))
        }
        _ => found == sent,
    }
}

async fn patch(server: &ApiServer, path: &str, kind: &str, body: &Value) -> (u16, Value) {
    let request = Request::patch(path).header("content-type", kind);
    let body = Full::new(Bytes::from(body.to_string()));
    let answer = server.answer(request.body(body).expect("a request")).await;
    let answer = answer.expect("an answer");
    (answer.status().as_u16(), json(answer).await)
}

/// Recreates the object of the kind and returns it with the path for writing `member`, which differs
/// between status and spec.
async fn fresh(
    server: &ApiServer,
    sample: &Sample,
    way: &[MergeStep],
    member: &str,
) -> (Value, String) {
    let collection = sample.collection("default");
    let object = sample.object("a");
    let name = object["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    let path = format!("{collection}/{name}");
    let forced = format!("{path}?gracePeriodSeconds=0");
    let release = json!({"metadata": {"finalizers": null}});
    let _released = send(server, "PATCH", &path, &release).await;
    let _gone = send(server, "DELETE", &forced, &Value::Null).await;
    let made = send(server, "POST", &collection, &object).await;
    let made = json(made).await;
    let first = way.first().map_or(member, |step| step.member);
    let part = if first == "status" { "/status" } else { "" };
    (made, format!("{path}{part}"))
}

/// The result of the two writes: the entries in the list, or the reason for a refusal.
#[derive(Debug)]
enum Outcome {
    Both,
    Last,
    Conflict,
    Refused(String),
}

async fn by_strategic(
    server: &ApiServer,
    sample: &Sample,
    way: &[MergeStep],
    field: Field,
) -> Outcome {
    let (object, path) = fresh(server, sample, way, field.1).await;
    let [one, two] = entries(field);
    let mut last = Value::Null;
    for entry in [&one, &two] {
        let body = nested(&object, way, field.1, &json!([entry]));
        let (code, answer) = patch(server, &path, STRATEGIC, &body).await;
        if code != 200 {
            return Outcome::Refused(format!("{code} {}", answer["message"]));
        }
        last = answer;
    }
    outcome(found(&last, way, field.1), &one, &two, &last)
}

async fn by_apply(server: &ApiServer, sample: &Sample, way: &[MergeStep], field: Field) -> Outcome {
    let (object, path) = fresh(server, sample, way, field.1).await;
    let [one, two] = entries(field);
    let mut last = Value::Null;
    for (manager, entry) in [("one&force=true", &one), ("two", &two)] {
        let mut body = nested(&object, way, field.1, &json!([entry]));
        body["apiVersion"] = object["apiVersion"].clone();
        body["kind"] = object["kind"].clone();
        body["metadata"]["name"] = object["metadata"]["name"].clone();
        let path = format!("{path}?fieldManager={manager}");
        let (code, answer) = patch(server, &path, APPLY, &body).await;
        match code {
            200 => last = answer,
            409 if manager == "two" => return Outcome::Conflict,
            _ => return Outcome::Refused(format!("{code} {}", answer["message"])),
        }
    }
    outcome(found(&last, way, field.1), &one, &two, &last)
}

fn outcome(list: &Value, one: &Value, two: &Value, all: &Value) -> Outcome {
    match (has(list, one), has(list, two)) {
        (true, true) => Outcome::Both,
        (false, true) => Outcome::Last,
        _ => Outcome::Refused(format!("both entries are missing: {list} of {all}")),
    }
}

#[tokio::test]
async fn every_list_is_merged_by_its_schema() {
    let server = with_namespace(builder(), "default").await;
    let samples: Vec<Sample> = Sample::all()
        .into_iter()
        .filter(Sample::is_stored)
        .collect();
    for sample in &samples {
        let _made = send(
            &server,
            "POST",
            &sample.collection("default"),
            &sample.object("a"),
        )
        .await;
    }
    // The kinds with each list, and the paths to it.
    let mut places: BTreeMap<Field, Vec<(&Sample, Vec<MergeStep>)>> = BTreeMap::new();
    for sample in &samples {
        let (_, api_version) = sample.prefix.split_once('/').expect("api or apis");
        let schema = schema_name_of(api_version, sample.kind);
        if !SCHEMAS.contains_key(&schema) {
            continue;
        }
        for (of, way) in ways(&schema) {
            for (member, property) in properties(&SCHEMAS[of]) {
                if property["type"] == "array" && member != "managedFields" {
                    let place = (sample, way.clone());
                    places.entry((of, member)).or_default().push(place);
                }
            }
        }
    }
    let (mut shown, mut wrong, mut refused) = (0, Vec::new(), Vec::new());
    for (field, mut all) in places {
        all.sort_by_key(|(_, way)| way.len());
        all.truncate(6);
        let rule = property(field);
        let merges = |rule| {
            let mut strategies = text_of(rule, "x-kubernetes-patch-strategy").split(',');
            strategies.any(|it| it == "merge")
        };
        let mut reasons = Vec::new();
        for (sample, way) in &all {
            let ends = match by_strategic(&server, sample, way, field).await {
                Outcome::Refused(why) => {
                    reasons.push(format!("{}: {why}", sample.kind));
                    continue;
                }
                ends => ends,
            };
            // Inside a list that is replaced, everything is replaced.
            let mut lists = way.iter().filter(|step| step.is_list);
            let merges = merges(rule) && lists.all(|step| merges(property((step.of, step.member))));
            let is_right = matches!(
                (&ends, merges),
                (Outcome::Both, true) | (Outcome::Last, false)
            );
            if !is_right {
                wrong.push(format!("patched: {field:?} of {}: {ends:?}", sample.kind));
            }
            shown += 1;
            reasons.clear();
            break;
        }
        let divides = ["map", "set"].contains(&text_of(rule, "x-kubernetes-list-type"));
        for (sample, way) in &all {
            // Inside an atomic value nothing has an owner of its own.
            let is_in_whole = way.iter().any(|step| {
                let list_type = text_of(property((step.of, step.member)), "x-kubernetes-list-type");
                let inner = &SCHEMAS[step.of];
                step.is_list && list_type == "atomic"
                    || property((step.of, step.member))["x-kubernetes-map-type"] == "atomic"
                    || inner["x-kubernetes-map-type"] == "atomic"
            });
            let is_in_whole = is_in_whole || SCHEMAS[field.0]["x-kubernetes-map-type"] == "atomic";
            let ends = match by_apply(&server, sample, way, field).await {
                Outcome::Refused(why) => {
                    reasons.push(format!("{}: {why}", sample.kind));
                    continue;
                }
                ends => ends,
            };
            let is_divided = divides && !is_in_whole;
            let is_right = matches!(
                (&ends, is_divided),
                (Outcome::Both, true) | (Outcome::Conflict, false)
            );
            if !is_right {
                wrong.push(format!("applied: {field:?} of {}: {ends:?}", sample.kind));
            }
            shown += 1;
            reasons.clear();
            break;
        }
        if !reasons.is_empty() {
            let of = field.0.rsplit('.').next().unwrap_or("");
            refused.push(format!("{of}.{}", field.1));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    refused.sort_unstable();
    assert_eq!(refused, REFUSED);
    assert!(shown > 380, "{shown}");
}

async fn change(server: &ApiServer, path: &str, body: &Value) -> Value {
    let (code, answer) = patch(server, path, STRATEGIC, body).await;
    assert_eq!(code, 200, "{answer}");
    answer
}

#[tokio::test]
async fn ports_webhooks_and_strategies_are_merged() {
    let server = with_namespace(builder(), "default").await;
    let services = "/api/v1/namespaces/default/services";
    let service =
        json!({"metadata": {"name": "gate"}, "spec": {"ports": [{"name": "web", "port": 80}]}});
    send(&server, "POST", services, &service).await;
    let gate = format!("{services}/gate");
    let numbers = |service: &Value| -> Vec<Value> {
        let ports = service["spec"]["ports"].as_array().expect("a list").iter();
        ports.map(|port| port["port"].clone()).collect()
    };
    let more = json!({"spec": {"ports": [{"name": "extra", "port": 9090}]}});
    assert_eq!(numbers(&change(&server, &gate, &more).await), [9090, 80]);
    let fewer = json!({"spec": {"ports": [{"port": 80, "$patch": "delete"}]}});
    let left = change(&server, &gate, &fewer).await;
    assert_eq!(numbers(&left), [9090]);
    assert!(!left.to_string().contains('$'), "{left}");

    // As kubectl does when OpenAPI marks the keys of these maps as retained.
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "tmp"}]}});
    let deployment = json!({"metadata": {"name": "shift"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let made = send(&server, "POST", deployments, &deployment).await;
    assert_eq!(made.status(), 201);
    let volume =
        json!({"name": "tmp", "$retainKeys": ["hostPath", "name"], "hostPath": {"path": "/tmp"}});
    let spec = json!({"$setElementOrder/volumes": [{"name": "tmp"}], "volumes": [volume]});
    let recreate = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"},
        "template": {"spec": spec}}});
    let changed = change(&server, &format!("{deployments}/shift"), &recreate).await;
    assert_eq!(changed["spec"]["strategy"], json!({"type": "Recreate"}));
    let wanted = json!([{"name": "tmp", "hostPath": {"path": "/tmp", "type": ""}}]);
    assert_eq!(changed["spec"]["template"]["spec"]["volumes"], wanted);

    let hook = |name: &str| {
        json!({"name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://one.example.com/"}})
    };
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let both = json!({"metadata": {"name": "guard"},
        "webhooks": [hook("one.example.com"), hook("two.example.com")]});
    send(&server, "POST", hooks, &both).await;
    let ignoring = json!({"webhooks": [{"name": "two.example.com", "failurePolicy": "Ignore"}]});
    let changed = change(&server, &format!("{hooks}/guard"), &ignoring).await;
    let policies: Vec<&Value> = [0, 1]
        .map(|at| &changed["webhooks"][at]["failurePolicy"])
        .into();
    assert_eq!(policies, ["Fail", "Ignore"]);
    for (manager, name) in [("a", "one.example.com"), ("b", "two.example.com")] {
        let config = json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "guard2"},
            "webhooks": [hook(name)]});
        let path = format!("{hooks}/guard2?fieldManager={manager}");
        let (code, applied) = patch(&server, &path, APPLY, &config).await;
        assert!(matches!(code, 200 | 201), "{applied}");
    }
    let both = json(send(&server, "GET", &format!("{hooks}/guard2"), &Value::Null).await).await;
    assert_eq!(both["webhooks"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn an_invalid_directive_is_refused_without_a_change() {
    let server = with_namespace(builder(), "default").await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let map =
        json!({"metadata": {"name": "a", "finalizers": ["example.com/a"]}, "data": {"k": "v"}});
    let made = json(send(&server, "POST", maps, &map).await).await;
    let path = format!("{maps}/a");
    for (patched, code, message) in [
        (
            json!({"data": {"$retainKeys": "k"}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            json!({"data": {"$retainKeys": [], "l": "w"}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            json!({"metadata": {"$setElementOrder": []}}),
            400,
            "invalid patch format of setElementOrder list",
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveList": []}}),
            400,
            "invalid patch format of primitive list",
        ),
        (
            json!({"metadata": {"finalizers": [["x"]]}}),
            500,
            "list element types are not identical: [[example.com/a] [[x]]]",
        ),
        (
            json!({"metadata": {"$setElementOrder/finalizers": "x"}}),
            500,
            "expected a []interface {}, but received a string",
        ),
        (
            json!({"data": {"$patch": "mend"}}),
            500,
            "unknown patch type: mend in map: map[$patch:mend]",
        ),
    ] {
        let (found, answer) = patch(&server, &path, STRATEGIC, &patched).await;
        assert_eq!(
            (found, answer["message"].as_str()),
            (code, Some(message)),
            "{patched}"
        );
    }
    // Only strategic patches have directives. In other patches they are unknown members.
    for body in [
        json!({"$patch": "delete"}),
        json!({"metadata": {"$retainKeys": ["name"]}}),
    ] {
        let changed = send(&server, "PATCH", &path, &body).await;
        assert_eq!(changed.status(), 200);
    }
    let now = json(send(&server, "GET", &path, &Value::Null).await).await;
    assert_eq!(
        now["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
}

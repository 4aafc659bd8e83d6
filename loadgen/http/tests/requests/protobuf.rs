//! Typed clients: objects and reviews of every kind, sent and requested as protobuf.

use podstorm_http::protobuf::decode;

use super::*;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns the members, besides type and name, of a valid object of a kind; `null` if it needs
/// none. `None` for kinds that cannot be created.
fn members(version: &str, kind: &str) -> Option<Value> {
    let template = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Always"}});
    let once =
        json!({"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}});
    let selector = json!({"matchLabels": {"a": "b"}});
    let workload =
        json!({"spec": {"selector": selector, "template": template, "serviceName": "s"}});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"});
    let rules = json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
        "resources": ["pods"], "scope": "*"}]);
    let webhook = json!({"webhooks": [{"name": "a.b.c", "sideEffects": "None", "rules": rules,
        "clientConfig": {"url": "https://a.b/c"}, "admissionReviewVersions": ["v1"]}]});
    let matched = json!({"resourceRules": rules});
    let pod_of_event = json!({"kind": "Pod", "namespace": "n", "name": "p"});
    let attributes = json!({"resource": "pods", "verb": "get", "namespace": "n"});
    let extra = json!({"scopes": ["a", "b"], "none": ["c"]});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}}});
    let devices = json!({"devices": {"requests": [{"name": "d", "exactly": {"deviceClassName": "c",
        "allocationMode": "ExactCount", "count": 2}}]}});
    Some(match kind {
        "Namespace"
        | "ServiceAccount"
        | "LimitRange"
        | "ResourceQuota"
        | "NetworkPolicy"
        | "DeviceClass"
        | "ClusterRole"
        | "Role"
        | "Lease"
        | "CSIDriver"
        | "Endpoints"
        | "PodDisruptionBudget"
        | "Node"
        | "SelfSubjectReview" => json!({"spec": {}}),
        "ConfigMap" => json!({"data": {"a": "b"}, "binaryData": {"c": "eHl6"}}),
        "Secret" => json!({"data": {"a": "eHl6", "b": ""}, "type": "Opaque"}),
        "Pod" => {
            json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i",
            "resources": {"limits": {"cpu": "1500m"}}}],
            "securityContext": {"supplementalGroups": [5, 6]}}})
        }
        "PodTemplate" => json!({"template": template}),
        "ReplicationController" => json!({"spec": {"selector": {"a": "b"}, "template": template}}),
        "ReplicaSet" | "Deployment" | "StatefulSet" | "DaemonSet" => workload,
        "ControllerRevision" => json!({"revision": 3, "data": {"spec": {"any": [1, null]}}}),
        "Job" => json!({"spec": {"manualSelector": true, "selector": selector,
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": once["spec"]}}}),
        "CronJob" => json!({"spec": {"schedule": "0 0 * * *", "timeZone": "Etc/UTC",
            "jobTemplate": {"spec": {"template": once}}}}),
        "Service" => json!({"spec": {"ports": [{"port": 80, "targetPort": "http"}]}}),
        "EndpointSlice" => json!({"addressType": "IPv4", "ports": [{"name": "", "port": 80}],
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": false}}]}),
        "Event" if version == "v1" => json!({"involvedObject": pod_of_event, "reason": "R",
            "firstTimestamp": "2026-01-02T03:04:05Z", "count": 2}),
        "Event" => {
            json!({"regarding": pod_of_event, "reason": "R", "action": "A", "type": "Normal",
            "eventTime": "2026-01-02T03:04:05.000678Z", "reportingController": "a.b/c",
            "reportingInstance": "i"})
        }
        "HorizontalPodAutoscaler" => json!({"spec": {"maxReplicas": 3, "minReplicas": 1,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}}),
        "Binding" => json!({"target": {"kind": "Node", "name": "m"}}),
        "PersistentVolume" => json!({"spec": {"capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a", "type": ""}}}),
        "PersistentVolumeClaim" => json!({"spec": claim}),
        "StorageClass" => json!({"provisioner": "a.b/c", "parameters": {"x": "y"}}),
        "VolumeAttributesClass" => json!({"driverName": "a.b", "parameters": {"x": "y"}}),
        "CSINode" => json!({"spec": {"drivers": [{"name": "a.b", "nodeID": "i",
            "allocatable": {"count": 0}}]}}),
        "CSIStorageCapacity" => json!({"storageClassName": "c", "capacity": "1Gi",
            "nodeTopology": {"matchLabels": {"a": "b"}}}),
        "VolumeAttachment" => json!({"spec": {"attacher": "a.b", "nodeName": "m",
            "source": {"persistentVolumeName": "p"}}}),
        "Ingress" => json!({"spec": {"defaultBackend": {"service": {"name": "s",
            "port": {"name": "http"}}}}}),
        "IngressClass" => json!({"spec": {"controller": "a.b/c"}}),
        "IPAddress" => json!({"metadata": {"name": "10.7.7.7"}, "spec": {"parentRef":
            {"resource": "services", "namespace": "n", "name": "s"}}}),
        "ServiceCIDR" => json!({"spec": {"cidrs": ["10.9.0.0/24"]}}),
        "RoleBinding" | "ClusterRoleBinding" => json!({"roleRef": role,
            "subjects": [{"kind": "Group", "name": "g"}]}),
        "PriorityClass" => json!({"value": -7, "preemptionPolicy": "Never"}),
        "RuntimeClass" => json!({"handler": "h"}),
        "CertificateSigningRequest" => json!({"spec": {"signerName": "a.b/c",
            "usages": ["client auth"], "request": "eHl6", "extra": extra}}),
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => webhook,
        "ValidatingAdmissionPolicy" => json!({"spec": {"matchConstraints": matched,
            "validations": [{"expression": "true", "messageExpression": "'m'"}]}}),
        "MutatingAdmissionPolicy" => json!({"spec": {"matchConstraints": matched,
            "reinvocationPolicy": "Never", "mutations": [{"patchType": "JSONPatch",
                "jsonPatch": {"expression": "[]"}}]}}),
        "ValidatingAdmissionPolicyBinding" => json!({"spec": {"policyName": "p",
            "validationActions": ["Deny"]}}),
        "MutatingAdmissionPolicyBinding" => json!({"spec": {"policyName": "p"}}),
        "FlowSchema" => json!({"spec": {"matchingPrecedence": 9,
            "priorityLevelConfiguration": {"name": "l"},
            "rules": [{"subjects": [{"kind": "User", "user": {"name": "u"}}],
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                    "clusterScope": true}]}]}}),
        "PriorityLevelConfiguration" => json!({"spec": {"type": "Limited", "limited":
            {"lendablePercent": 0, "limitResponse": {"type": "Queue", "queuing":
                {"queues": 16, "handSize": 4, "queueLengthLimit": 10}}}}}),
        "APIService" => json!({"metadata": {"name": "v1.a.b"}, "spec": {"group": "a.b",
            "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"namespace": "n", "name": "s"}}}),
        "CustomResourceDefinition" => json!({"metadata": {"name": "gadgets.a.b"}, "spec": {
            "group": "a.b", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"type": "object", "default": {"size": 1, "tags": []},
                    "properties": {"size": {"type": "integer", "minimum": 0, "maximum": 2.5},
                        "any": {"x-kubernetes-int-or-string": true},
                        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
                        "map": {"type": "object", "additionalProperties": {"type": "string"}}}}}}}}]}}),
        "ResourceClaim" => json!({"spec": devices}),
        "ResourceClaimTemplate" => json!({"spec": {"spec": devices}}),
        "ResourceSlice" => json!({"spec": {"driver": "a.b", "nodeName": "m",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d", "attributes": {"x": {"int": -3}, "y": {"bool": false}},
                "capacity": {"z": {"value": "1Gi"}}}]}}),
        "TokenReview" => json!({"spec": {"token": "t", "audiences": ["a"]}}),
        "SelfSubjectAccessReview" => json!({"spec": {"resourceAttributes": attributes}}),
        "SubjectAccessReview" | "LocalSubjectAccessReview" => json!({"spec":
            {"resourceAttributes": attributes, "user": "u", "extra": extra}}),
        "SelfSubjectRulesReview" => json!({"spec": {"namespace": "n"}}),
        _ => return None,
    })
}

async fn send_bytes(server: &ApiServer, path: &str, kinds: [&str; 2], body: Bytes) -> (u16, Bytes) {
    let [content_type, accept] = kinds;
    let request = Request::post(path).header("content-type", content_type);
    let request = request
        .header("user-agent", "typed")
        .header("accept", accept);
    let request = request.body(Full::new(body));
    bytes(
        server
            .answer(request.expect("a request"))
            .await
            .expect("an answer"),
    )
    .await
}

async fn bytes(response: Response<Body>) -> (u16, Bytes) {
    let status = response.status().as_u16();
    let body = response
        .into_body()
        .collect()
        .await
        .expect("a complete body");
    (status, body.to_bytes())
}

/// Returns an object without null members and without those that differ between two creations.
fn told(object: Value) -> Value {
    let says = |name: &str, value: &Value| {
        let is_new = [
            "uid",
            "creationTimestamp",
            "resourceVersion",
            "managedFields",
            "name",
        ];
        !(is_new.contains(&name) || value.is_null())
    };
    match object {
        Value::Object(members) => {
            let members = members
                .into_iter()
                .filter(|(name, value)| says(name, value));
            members.map(|(name, value)| (name, told(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(told).collect(),
        other => other,
    }
}

/// Returns an object without members that clients cannot distinguish from absent ones.
fn full(value: Value) -> Value {
    let says = |value: &Value| !value.is_null() && *value != json!({});
    match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (name, full(value)));
            members.filter(|(_, value)| says(value)).collect()
        }
        Value::Array(items) => items.into_iter().map(full).collect(),
        other => other,
    }
}

/// Returns where each kind can be created: its version, its name and the path.
async fn places(server: &ApiServer) -> Vec<(String, String, String)> {
    let mut places = Vec::new();
    for root in ["/api", "/apis"] {
        let asked = Request::get(root).header("accept", DISCOVERY);
        let groups = json(ask(server, asked).await).await;
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        for group in groups["items"].as_array().expect("groups") {
            let name = text(&group["metadata"]["name"]);
            for version in group["versions"].as_array().expect("versions") {
                let version_name = text(&version["version"]);
                let (api_version, path) = match name.as_str() {
                    "" => (version_name.clone(), format!("/api/{version_name}")),
                    _ => (
                        format!("{name}/{version_name}"),
                        format!("/apis/{name}/{version_name}"),
                    ),
                };
                for resource in version["resources"].as_array().expect("resources") {
                    let verbs = resource["verbs"].as_array().expect("verbs");
                    if !verbs.iter().any(|verb| verb == "create") {
                        continue;
                    }
                    let namespace = match resource["scope"] == "Namespaced" {
                        true => "/namespaces/n",
                        false => "",
                    };
                    let path = format!("{path}{namespace}/{}", text(&resource["resource"]));
                    let kind = text(&resource["responseKind"]["kind"]);
                    places.push((api_version.clone(), kind, path));
                }
            }
        }
    }
    places
}

#[tokio::test]
async fn objects_of_every_kind_are_created_and_read_as_protobuf() {
    let server = with_namespace(builder(), "n").await;
    let places = places(&server).await;
    assert!(places.len() > 60, "{places:?}");
    // The pod that the Binding names.
    let pod =
        json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    send(&server, "POST", "/api/v1/namespaces/n/pods", &pod).await;
    for (version, kind, path) in places {
        let mut object = members(&version, &kind).unwrap_or_else(|| panic!("{version} {kind}"));
        object["apiVersion"] = version.clone().into();
        object["kind"] = kind.clone().into();
        let metadata = object["metadata"].as_object_mut().map(std::mem::take);
        let mut metadata = metadata.unwrap_or_default();
        let name = metadata.entry("name").or_insert_with(|| "x".into()).clone();
        object["metadata"] = metadata.into();
        let json_to_protobuf = ["application/json", PROTOBUF];
        // A dry run converts the object to protobuf, which is sent next.
        let trial = format!("{path}?dryRun=All");
        let text = Bytes::from(object.to_string());
        let (status, body) = send_bytes(&server, &trial, json_to_protobuf, text).await;
        let why = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(status, 201, "{version} {kind}: {why}");
        let Ok(first) = decode(&body) else {
            // A Binding is answered with a Status.
            assert_eq!(kind, "Binding");
            continue;
        };
        let (status, made) = send_bytes(&server, &path, [PROTOBUF; 2], body).await;
        let why = String::from_utf8_lossy(&made).into_owned();
        if kind == "SelfSubjectRulesReview" {
            // The answer does not repeat the namespace that was asked for.
            assert!(status == 400 && why.contains("no namespace"), "{why}");
            continue;
        }
        assert_eq!(status, 201, "{version} {kind}: {why}");
        let made = decode(&made).expect("an object");
        assert_eq!(told(made.into()), told(first.into()), "{version} {kind}");
        let path = format!("{path}/{}", name.as_str().unwrap_or(""));
        let read = ask(&server, Request::get(&path).header("accept", PROTOBUF)).await;
        if read.status() != 200 {
            assert!(kind.ends_with("Review"), "{version} {kind}");
            continue;
        }
        let (_, read) = bytes(read).await;
        let read = Value::Object(decode(&read).expect("an object"));
        let in_json = json(ask(&server, Request::get(&path)).await).await;
        assert_eq!(full(read), full(in_json), "{version} {kind}");
        send(&server, "DELETE", &path, &Value::Null).await;
    }
}

/// As client-go writes it: the extra attributes of a user are a map of messages.
#[tokio::test]
async fn extra_attributes_of_a_user_are_decoded() {
    const REVIEW: &[u8] = b"k8s\x00\x0a.\x0a\x17authorization.k8s.io/v1\x12\x13SubjectAccessReview\x12$\x12\x22\x0a\x0b\x12\x03get*\x04pods\x1a\x01u*\x10\x0a\x06scopes\x12\x06\x0a\x01a\x0a\x01b";
    let server = builder().build();
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let kinds = [PROTOBUF, "application/json"];
    let (status, answer) = send_bytes(&server, path, kinds, Bytes::from_static(REVIEW)).await;
    let answer: Value = serde_json::from_slice(&answer).expect("an answer in JSON");
    assert_eq!(
        (status, &answer["spec"]["extra"]),
        (201, &json!({"scopes": ["a", "b"]})),
        "{answer}"
    );
}

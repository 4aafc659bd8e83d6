//! Which values a member may have, as `kubectl explain` lists them.
//!
//! Source: the `+enum` types in Kubernetes' `k8s.io/api`; recorded answers of 1.36.

use serde_json::{Map, Value};

/// The struct, its member, and the values, sorted. Of a list they are those of its entries.
const VALUES: &[(&str, &str, &[&str])] = &[
    (
        "AppArmorProfile",
        "type",
        &["Localhost", "RuntimeDefault", "Unconfined"],
    ),
    (
        "AzureDiskVolumeSource",
        "cachingMode",
        &["None", "ReadOnly", "ReadWrite"],
    ),
    (
        "AzureDiskVolumeSource",
        "kind",
        &["Dedicated", "Managed", "Shared"],
    ),
    ("Container", "imagePullPolicy", PULL),
    ("Container", "terminationMessagePolicy", TERMINATION),
    ("ContainerPort", "protocol", PROTOCOLS),
    (
        "CronJobSpec",
        "concurrencyPolicy",
        &["Allow", "Forbid", "Replace"],
    ),
    (
        "DaemonSetUpdateStrategy",
        "type",
        &["OnDelete", "RollingUpdate"],
    ),
    ("DeploymentStrategy", "type", &["Recreate", "RollingUpdate"]),
    ("EndpointPort", "protocol", PROTOCOLS),
    ("EndpointSlice", "addressType", &["FQDN", "IPv4", "IPv6"]),
    ("EphemeralContainer", "imagePullPolicy", PULL),
    (
        "EphemeralContainer",
        "terminationMessagePolicy",
        TERMINATION,
    ),
    ("HTTPGetAction", "scheme", &["HTTP", "HTTPS"]),
    (
        "HTTPIngressPath",
        "pathType",
        &["Exact", "ImplementationSpecific", "Prefix"],
    ),
    (
        "HostPathVolumeSource",
        "type",
        &[
            "",
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ],
    ),
    ("ImageVolumeSource", "pullPolicy", PULL),
    ("JobSpec", "completionMode", &["Indexed", "NonIndexed"]),
    (
        "JobSpec",
        "podReplacementPolicy",
        &["Failed", "TerminatingOrFailed"],
    ),
    ("Lifecycle", "stopSignal", SIGNALS),
    ("MutatingWebhook", "failurePolicy", FAILURE),
    ("MutatingWebhook", "matchPolicy", MATCH),
    (
        "MutatingWebhook",
        "reinvocationPolicy",
        &["IfNeeded", "Never"],
    ),
    ("NamespaceStatus", "phase", &["Active", "Terminating"]),
    ("NetworkPolicyPort", "protocol", PROTOCOLS),
    ("NetworkPolicySpec", "policyTypes", &["Egress", "Ingress"]),
    (
        "NodeSelectorRequirement",
        "operator",
        &["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"],
    ),
    ("PersistentVolumeClaimSpec", "volumeMode", VOLUME_MODES),
    (
        "PersistentVolumeClaimStatus",
        "phase",
        &["Bound", "Lost", "Pending"],
    ),
    (
        "PersistentVolumeSpec",
        "persistentVolumeReclaimPolicy",
        &["Delete", "Recycle", "Retain"],
    ),
    ("PersistentVolumeSpec", "volumeMode", VOLUME_MODES),
    (
        "PersistentVolumeStatus",
        "phase",
        &["Available", "Bound", "Failed", "Pending", "Released"],
    ),
    (
        "PodFailurePolicyOnExitCodesRequirement",
        "operator",
        &["In", "NotIn"],
    ),
    (
        "PodFailurePolicyRule",
        "action",
        &["Count", "FailIndex", "FailJob", "Ignore"],
    ),
    (
        "PodSecurityContext",
        "fsGroupChangePolicy",
        &["Always", "OnRootMismatch"],
    ),
    (
        "PodSecurityContext",
        "supplementalGroupsPolicy",
        &["Merge", "Strict"],
    ),
    (
        "PodSpec",
        "dnsPolicy",
        &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
    ),
    ("PodSpec", "preemptionPolicy", PREEMPTION),
    (
        "PodSpec",
        "restartPolicy",
        &["Always", "Never", "OnFailure"],
    ),
    (
        "PodStatus",
        "phase",
        &["Failed", "Pending", "Running", "Succeeded", "Unknown"],
    ),
    ("PriorityClass", "preemptionPolicy", PREEMPTION),
    (
        "SeccompProfile",
        "type",
        &["Localhost", "RuntimeDefault", "Unconfined"],
    ),
    ("SecurityContext", "procMount", &["Default", "Unmasked"]),
    ("ServicePort", "protocol", PROTOCOLS),
    (
        "ServiceSpec",
        "externalTrafficPolicy",
        &["Cluster", "Local"],
    ),
    (
        "ServiceSpec",
        "internalTrafficPolicy",
        &["Cluster", "Local"],
    ),
    (
        "ServiceSpec",
        "ipFamilyPolicy",
        &["PreferDualStack", "RequireDualStack", "SingleStack"],
    ),
    ("ServiceSpec", "sessionAffinity", &["ClientIP", "None"]),
    (
        "ServiceSpec",
        "type",
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
    ),
    (
        "StatefulSetSpec",
        "podManagementPolicy",
        &["OrderedReady", "Parallel"],
    ),
    (
        "StatefulSetUpdateStrategy",
        "type",
        &["OnDelete", "RollingUpdate"],
    ),
    (
        "StorageClass",
        "reclaimPolicy",
        &["Delete", "Recycle", "Retain"],
    ),
    (
        "StorageClass",
        "volumeBindingMode",
        &["Immediate", "WaitForFirstConsumer"],
    ),
    ("Taint", "effect", EFFECTS),
    ("Toleration", "effect", EFFECTS),
    ("Toleration", "operator", &["Equal", "Exists", "Gt", "Lt"]),
    (
        "TopologySpreadConstraint",
        "nodeAffinityPolicy",
        &["Honor", "Ignore"],
    ),
    (
        "TopologySpreadConstraint",
        "nodeTaintsPolicy",
        &["Honor", "Ignore"],
    ),
    (
        "TopologySpreadConstraint",
        "whenUnsatisfiable",
        &["DoNotSchedule", "ScheduleAnyway"],
    ),
    ("ValidatingWebhook", "failurePolicy", FAILURE),
    ("ValidatingWebhook", "matchPolicy", MATCH),
    (
        "VolumeMount",
        "mountPropagation",
        &["Bidirectional", "HostToContainer", "None"],
    ),
];

const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "PreferNoSchedule"];
const FAILURE: &[&str] = &["Fail", "Ignore"];
const MATCH: &[&str] = &["Equivalent", "Exact"];
const PREEMPTION: &[&str] = &["Never", "PreemptLowerPriority"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const PULL: &[&str] = &["Always", "IfNotPresent", "Never"];
const TERMINATION: &[&str] = &["FallbackToLogsOnError", "File"];
const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];

/// Those of Linux but the ones in real time: `SIGRTMIN` and `SIGRTMAX` alone, and with what is added to them.
const SIGNALS: &[&str] = &[
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMIN",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

/// What the description of a member adds about its values.
const DESCRIBED: &[(&str, &str, &str)] = &[(
    "DeploymentStrategy",
    "type",
    "\n\nPossible enum values:\n - `\"Recreate\"` Kill all existing pods before creating new ones.\n - `\"RollingUpdate\"` Replace the old ReplicaSets by new one using rolling update i.e gradually scale down the old ReplicaSets and scale up the new one.",
)];

/// Adds the values to the schemas.
pub(super) fn add(schemas: &mut Map<String, Value>) {
    for (name, schema) in schemas.iter_mut() {
        let name = name.rsplit('.').next().unwrap_or("");
        let of_struct = VALUES.iter().filter(|(of, ..)| *of == name);
        for (_, member, values) in of_struct {
            let Some(mut property) = schema.pointer_mut(&format!("/properties/{member}")) else {
                continue;
            };
            if property["type"] == "array" {
                property = &mut property["items"];
            }
            property["enum"] = (*values).into();
        }
        let described = DESCRIBED.iter().filter(|(of, ..)| *of == name);
        for (_, member, text) in described {
            let description = schema.pointer_mut(&format!("/properties/{member}/description"));
            if let Some(Value::String(description)) = description {
                description.push_str(text);
            }
        }
    }
}

//! The types of the members of a pod's spec and status, as `v1` of Kubernetes 1.36 defines them.
//! Members with many variants (affinity, volume sources, security contexts) are only checked to be
//! objects.

use crate::shape::Shape::{self, Flag, Int32, Int64, IntOrText, List, MapOf, Object, Quantity};
use crate::shape::Shape::{Text, Time};

const ANY: Shape = Shape::ANY_OBJECT;
const TEXTS: Shape = List(&Text);

const LOCAL_REFERENCE: Shape = Object(&[("name", Text)]);

const ENV: Shape = Object(&[("name", Text), ("value", Text), ("valueFrom", ANY)]);

const ENV_FROM: Shape = Object(&[("configMapRef", ANY), ("prefix", Text), ("secretRef", ANY)]);

const PORT: Shape = Object(&[
    ("containerPort", Int32),
    ("hostIP", Text),
    ("hostPort", Int32),
    ("name", Text),
    ("protocol", Text),
]);

const PROBE: Shape = Object(&[
    ("exec", Object(&[("command", TEXTS)])),
    ("failureThreshold", Int32),
    ("grpc", Object(&[("port", Int32), ("service", Text)])),
    (
        "httpGet",
        Object(&[
            ("host", Text),
            (
                "httpHeaders",
                List(&Object(&[("name", Text), ("value", Text)])),
            ),
            ("path", Text),
            ("port", IntOrText),
            ("scheme", Text),
        ]),
    ),
    ("initialDelaySeconds", Int32),
    ("periodSeconds", Int32),
    ("successThreshold", Int32),
    ("tcpSocket", Object(&[("host", Text), ("port", IntOrText)])),
    ("terminationGracePeriodSeconds", Int64),
    ("timeoutSeconds", Int32),
]);

const RESOURCES: Shape = Object(&[
    (
        "claims",
        List(&Object(&[("name", Text), ("request", Text)])),
    ),
    ("limits", MapOf(&Quantity)),
    ("requests", MapOf(&Quantity)),
]);

const VOLUME_MOUNT: Shape = Object(&[
    ("mountPath", Text),
    ("mountPropagation", Text),
    ("name", Text),
    ("readOnly", Flag),
    ("recursiveReadOnly", Text),
    ("subPath", Text),
    ("subPathExpr", Text),
]);

const CONTAINER: Shape = Object(&[
    ("args", TEXTS),
    ("command", TEXTS),
    ("env", List(&ENV)),
    ("envFrom", List(&ENV_FROM)),
    ("image", Text),
    ("imagePullPolicy", Text),
    ("lifecycle", ANY),
    ("livenessProbe", PROBE),
    ("name", Text),
    ("ports", List(&PORT)),
    ("readinessProbe", PROBE),
    (
        "resizePolicy",
        List(&Object(&[("resourceName", Text), ("restartPolicy", Text)])),
    ),
    ("resources", RESOURCES),
    ("restartPolicy", Text),
    ("restartPolicyRules", List(&ANY)),
    ("securityContext", ANY),
    ("startupProbe", PROBE),
    ("stdin", Flag),
    ("stdinOnce", Flag),
    ("targetContainerName", Text),
    ("terminationMessagePath", Text),
    ("terminationMessagePolicy", Text),
    ("tty", Flag),
    (
        "volumeDevices",
        List(&Object(&[("devicePath", Text), ("name", Text)])),
    ),
    ("volumeMounts", List(&VOLUME_MOUNT)),
    ("workingDir", Text),
]);

const TOLERATION: Shape = Object(&[
    ("effect", Text),
    ("key", Text),
    ("operator", Text),
    ("tolerationSeconds", Int64),
    ("value", Text),
]);

const TOPOLOGY_SPREAD: Shape = Object(&[
    ("labelSelector", ANY),
    ("matchLabelKeys", TEXTS),
    ("maxSkew", Int32),
    ("minDomains", Int32),
    ("nodeAffinityPolicy", Text),
    ("nodeTaintsPolicy", Text),
    ("topologyKey", Text),
    ("whenUnsatisfiable", Text),
]);

/// The members of a pod's `spec`.
pub(super) const POD_SPEC: Shape = Object(&[
    ("activeDeadlineSeconds", Int64),
    (
        "affinity",
        Object(&[
            ("nodeAffinity", ANY),
            ("podAffinity", ANY),
            ("podAntiAffinity", ANY),
        ]),
    ),
    ("automountServiceAccountToken", Flag),
    ("containers", List(&CONTAINER)),
    (
        "dnsConfig",
        Object(&[
            ("nameservers", TEXTS),
            ("options", List(&ANY)),
            ("searches", TEXTS),
        ]),
    ),
    ("dnsPolicy", Text),
    ("enableServiceLinks", Flag),
    ("ephemeralContainers", List(&CONTAINER)),
    (
        "hostAliases",
        List(&Object(&[("hostnames", TEXTS), ("ip", Text)])),
    ),
    ("hostIPC", Flag),
    ("hostNetwork", Flag),
    ("hostPID", Flag),
    ("hostUsers", Flag),
    ("hostname", Text),
    ("hostnameOverride", Text),
    ("imagePullSecrets", List(&LOCAL_REFERENCE)),
    ("initContainers", List(&CONTAINER)),
    ("nodeName", Text),
    ("nodeSelector", MapOf(&Text)),
    ("os", LOCAL_REFERENCE),
    ("overhead", MapOf(&Quantity)),
    ("preemptionPolicy", Text),
    ("priority", Int32),
    ("priorityClassName", Text),
    ("readinessGates", List(&Object(&[("conditionType", Text)]))),
    ("resourceClaims", List(&LOCAL_REFERENCE)),
    ("resources", RESOURCES),
    ("restartPolicy", Text),
    ("runtimeClassName", Text),
    ("schedulerName", Text),
    ("schedulingGates", List(&LOCAL_REFERENCE)),
    ("securityContext", ANY),
    ("serviceAccount", Text),
    ("serviceAccountName", Text),
    ("setHostnameAsFQDN", Flag),
    ("shareProcessNamespace", Flag),
    ("subdomain", Text),
    ("terminationGracePeriodSeconds", Int64),
    ("tolerations", List(&TOLERATION)),
    ("topologySpreadConstraints", List(&TOPOLOGY_SPREAD)),
    ("volumes", List(&LOCAL_REFERENCE)),
]);

/// The members of a pod's `status` that have no typed field.
pub(super) const POD_STATUS: Shape = Object(&[
    ("ephemeralContainerStatuses", List(&CONTAINER_STATUS)),
    ("hostIP", Text),
    ("hostIPs", List(&Object(&[("ip", Text)]))),
    ("message", Text),
    ("nominatedNodeName", Text),
    ("observedGeneration", Int64),
    ("podIP", Text),
    ("podIPs", List(&Object(&[("ip", Text)]))),
    ("qosClass", Text),
    ("reason", Text),
    ("resize", Text),
    ("startTime", Time),
]);

/// The members of a pod condition that have no typed field.
pub(super) const POD_CONDITION: Shape = Object(&[
    ("lastProbeTime", Time),
    ("message", Text),
    ("observedGeneration", Int64),
    ("reason", Text),
]);

const CONTAINER_STATE: Shape = Object(&[
    ("running", Object(&[("startedAt", Time)])),
    (
        "terminated",
        Object(&[
            ("containerID", Text),
            ("exitCode", Int32),
            ("finishedAt", Time),
            ("message", Text),
            ("reason", Text),
            ("signal", Int32),
            ("startedAt", Time),
        ]),
    ),
    ("waiting", Object(&[("message", Text), ("reason", Text)])),
]);

/// The members of an entry of `containerStatuses`.
pub(super) const CONTAINER_STATUS: Shape = Object(&[
    ("allocatedResources", MapOf(&Quantity)),
    ("containerID", Text),
    ("image", Text),
    ("imageID", Text),
    ("lastState", CONTAINER_STATE),
    ("name", Text),
    ("ready", Flag),
    ("resources", RESOURCES),
    ("restartCount", Int32),
    ("started", Flag),
    ("state", CONTAINER_STATE),
    ("volumeMounts", List(&VOLUME_MOUNT)),
]);

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_tables_are_sorted() {
        for shape in [POD_SPEC, POD_STATUS, POD_CONDITION, CONTAINER_STATUS] {
            assert!(shape.is_sorted(), "{shape:?}");
        }
    }
}

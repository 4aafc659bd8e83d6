//! Requests that upstream's server forwards to kubelets: logs, streams and proxied requests.
//!
//! Source: `pkg/registry/core/pod/strategy.go` of Kubernetes; recorded answers of 1.36.

pub(crate) mod log;

use std::net::IpAddr;

use http::{Method, Response, StatusCode};
use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Kind, Node, Object, Pod, Reason};
use serde_json::Value;

use self::log::LogBody;
use crate::answer::{self, Body};
use crate::call::Call;
use crate::route::Target;

/// The parameters of a log request that are forwarded to the kubelet.
const OF_LOG: [&str; 7] = [
    "follow",
    "limitBytes",
    "previous",
    "sinceSeconds",
    "sinceTime",
    "tailLines",
    "timestamps",
];
/// The parameters of a stream, each with its name at the kubelet.
const OF_STREAM: [(&str, &str); 4] = [
    ("stderr", "error"),
    ("stdin", "input"),
    ("stdout", "output"),
    ("tty", "tty"),
];

/// The subresources that kubelets serve.
pub(crate) const PARTS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Serves a request that a kubelet would answer.
///
/// # Errors
/// 404 for a missing pod, node or service; 400 for an invalid container; 405; 500 if kubelets are
/// unreachable; 501 for a request that a simulated container cannot serve; 503 for a service,
/// because no simulated pod serves requests.
pub(crate) fn serve(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    match (target.subresource.as_str(), call.method.clone()) {
        ("log", Method::GET) => log(call, target),
        ("attach" | "exec" | "portforward", Method::GET | Method::POST) => stream(call, target),
        ("proxy", _) => proxy(call, target),
        _ => Err(answer::method_not_allowed()),
    }
}

fn log(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let options = log::Options::from_query(&call.query)?;
    let pod = call.cluster().get::<Pod>(&target.namespace, &target.name)?;
    let container = container(call, &pod)?;
    let Some(node) = pod.node_name.as_deref() else {
        // A pod without a node has no kubelet that could return a log.
        return Ok(answer::nothing(StatusCode::NO_CONTENT));
    };
    check_node(call, node)?;
    if !call.server.0.settings.reaches_kubelets {
        let given = OF_LOG.iter().map(|name| (*name, call.query.text(name)));
        let given = given.filter(|(_, value)| !["", "false"].contains(value));
        let url = url(target, "containerLogs", &container, given);
        let why = unreachable("Get", node, &url);
        return Err(answer::unclassified(why));
    }
    let log = log::read(call, &pod, &container, &options)?;
    if !options.follow {
        return Ok(answer::text(200, log.text));
    }
    Ok(answer::log(LogBody::new(call, &pod, container, log)))
}

/// Serves a stream to a container, which always fails: simulated containers have no processes.
fn stream(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let pod = call.cluster().get::<Pod>(&target.namespace, &target.name)?;
    let (path, container) = match target.subresource.as_str() {
        "portforward" => ("portForward", String::new()),
        other => (other, container(call, &pod)?),
    };
    let Some(node) = pod.node_name.as_deref() else {
        let why = format!("pod {} does not have a host assigned", target.name);
        return Err(errors::bad_request(why));
    };
    check_node(call, node)?;
    if !call.server.0.settings.reaches_kubelets {
        let commands = call
            .query
            .all("command")
            .map(|command| ("command", command));
        let wanted = OF_STREAM.iter().filter(|(name, _)| call.query.flag(name));
        let given = commands.chain(wanted.map(|(_, name)| (*name, "1")));
        let why = unreachable("Post", node, &url(target, path, &container, given));
        let why = format!("Internal error occurred: error sending request: {why}");
        return Err(ApiError::status(500, Reason::InternalError, why));
    }
    Err(not_simulated(target))
}

fn proxy(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    // A name may include a scheme and a port: `https:NAME:PORT`.
    let mut parts = target.name.split(':');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some("http" | "https"), Some(name), _) => name,
        (name, ..) => name.unwrap_or(""),
    };
    let object = call
        .cluster()
        .api(target.kind)
        .get(&target.namespace, name)?;
    if target.kind == Kind::POD && !is_global(&object.to_json()["status"]["podIP"]) {
        return Err(errors::bad_request("address not allowed"));
    }
    if target.kind.name() == "Service" {
        let why = format!("no endpoints available for service {name:?}");
        return Err(ApiError::status(
            503,
            Reason::Other("ServiceUnavailable".to_owned()),
            why,
        ));
    }
    Err(not_simulated(target))
}

/// Reports whether a string is a unicast address, as Go's `IsGlobalUnicast` does.
fn is_global(address: &Value) -> bool {
    match address.as_str().and_then(|text| text.parse().ok()) {
        Some(IpAddr::V4(it)) => {
            let elsewhere = it.is_link_local() || it.is_loopback() || it.is_multicast();
            !(elsewhere || it.is_broadcast() || it.is_unspecified())
        }
        Some(IpAddr::V6(it)) => {
            let elsewhere = it.is_unicast_link_local() || it.is_loopback() || it.is_multicast();
            !(elsewhere || it.is_unspecified())
        }
        None => false,
    }
}

fn not_simulated(target: &Target) -> ApiError {
    let why = format!(
        "simulated nodes and containers run no processes: nothing serves {}/{}",
        target.kind.resource(),
        target.subresource
    );
    ApiError::status(501, Reason::Other("NotImplemented".to_owned()), why)
}

/// Returns the path and the query of a URL at a kubelet.
fn url<'a>(
    target: &Target,
    path: &str,
    container: &str,
    query: impl Iterator<Item = (&'a str, &'a str)>,
) -> String {
    let mut text = format!("{path}/{}/{}", target.namespace, target.name);
    if !container.is_empty() {
        text.push('/');
        text.push_str(container);
    }
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(query)
        .finish();
    if !query.is_empty() {
        text.push('?');
        text.push_str(&query);
    }
    text
}

/// Returns the message for a node that has no address.
fn unreachable(method: &str, node: &str, url: &str) -> String {
    format!("{method} \"https://{node}:10250/{url}\": dial tcp: lookup {node}: no such host")
}

/// Returns the name of the requested container.
///
/// # Errors
/// 400 if the pod does not have the container, or if no name is given and the pod has several
/// containers.
fn container(call: &Call<'_>, pod: &Pod) -> Result<String, ApiError> {
    let name = &pod.metadata.name;
    let wanted = call.query.text("container");
    let json = pod.to_json();
    let names = |list: &str| {
        let containers = json["spec"][list].as_array().into_iter().flatten();
        let names = containers.filter_map(|container| container["name"].as_str());
        names.collect::<Vec<&str>>()
    };
    let main = names("containers");
    let lists = ["initContainers", "ephemeralContainers"].map(names);
    let [init, ephemeral] = &lists;
    let mut all = init.iter().chain(&main).chain(ephemeral);
    let why = match (wanted, main.as_slice()) {
        ("", []) => format!("a container name must be specified for pod {name}"),
        ("", [only]) => return Ok((*only).to_owned()),
        ("", _) => {
            let all: Vec<&str> = all.copied().collect();
            let all = all.join(" ");
            format!("a container name must be specified for pod {name}, choose one of: [{all}]")
        }
        _ if all.any(|known| *known == wanted) => return Ok(wanted.to_owned()),
        _ => format!("container {wanted} is not valid for pod {name}"),
    };
    Err(errors::bad_request(why))
}

/// Checks that a node exists.
///
/// # Errors
/// 404 if the node does not exist.
fn check_node(call: &Call<'_>, node: &str) -> Result<(), ApiError> {
    let found = call.cluster().get::<Node>("", node);
    // Sic: the error names a pod.
    found
        .map(drop)
        .map_err(|_| errors::not_found(Kind::POD, node))
}

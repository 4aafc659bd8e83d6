//! What upstream's server asks of kubelets and of what runs on nodes: logs, streams, requests to pass on.
//!
//! Source: `pkg/registry/core/pod/strategy.go` of Kubernetes; recorded answers of 1.36.

pub(crate) mod log;

use std::net::IpAddr;

use http::{Method, Response};
use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Kind, Node, Object, Pod, Reason};
use serde_json::Value;

use self::log::LogBody;
use crate::Call;
use crate::answer::{self, Body};
use crate::route::Target;

/// Parameters of a log that are passed on.
const OF_LOG: [&str; 7] = [
    "follow",
    "limitBytes",
    "previous",
    "sinceSeconds",
    "sinceTime",
    "tailLines",
    "timestamps",
];
/// Parameters of a stream, and what kubelets call them.
const OF_STREAM: [(&str, &str); 4] = [
    ("stderr", "error"),
    ("stdin", "input"),
    ("stdout", "output"),
    ("tty", "tty"),
];

/// The parts of objects that kubelets are asked for.
pub(crate) const PARTS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Answers what is asked of a kubelet.
///
/// # Errors
/// 404 for a pod, a node or a service that isn't there; 400 for a container that can't be meant; 405; 500
/// where kubelets are not reached; 501 for what a simulated container can't do; 503 for a service, as
/// no simulated pod answers behind one.
pub(crate) fn serve(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    match (target.subresource.as_str(), call.method.clone()) {
        ("log", Method::GET) => log(call, target),
        ("attach" | "exec" | "portforward", Method::GET | Method::POST) => stream(call, target),
        ("proxy", _) => proxy(call, target),
        _ => Err(answer::method_not_allowed()),
    }
}

fn log(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let options = log::Options::of(&call.query)?;
    let pod = call.cluster().get::<Pod>(&target.namespace, &target.name)?;
    let container = container(call, &pod)?;
    let Some(node) = pod.node_name.as_deref() else {
        // There is no kubelet yet that could be asked for one.
        return Ok(answer::nothing());
    };
    check_node(call, node)?;
    if !call.server.0.settings.reaches_kubelets {
        let given = OF_LOG.iter().map(|name| (*name, call.query.text(name)));
        let given = given.filter(|(_, value)| !["", "false"].contains(value));
        let at = ("containerLogs", container.as_str());
        let why = unreachable("Get", node, &url(target, at, given));
        return Err(ApiError::status(500, Reason::Other(String::new()), why));
    }
    let log = log::read(call, &pod, &container, &options)?;
    if !options.follow {
        return Ok(answer::text(200, log.text));
    }
    Ok(answer::log(LogBody::new(call, &pod, container, log)))
}

/// A stream to a container. None can be opened: a simulated one has no processes.
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
        let why = unreachable("Post", node, &url(target, (path, &container), given));
        let why = format!("Internal error occurred: error sending request: {why}");
        return Err(ApiError::status(500, Reason::InternalError, why));
    }
    Err(not_simulated(target))
}

fn proxy(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    // A name may say which port, and by which protocol: `https:NAME:PORT`.
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

/// Whether a text is an address of one place on a network, as Go's `IsGlobalUnicast` says.
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
        "simulated nodes and containers run no processes: there is nothing behind {}/{}",
        target.kind.resource(),
        target.subresource
    );
    ApiError::status(501, Reason::Other("NotImplemented".to_owned()), why)
}

/// The path at a kubelet, with a query.
fn url<'a>(
    target: &Target,
    (path, container): (&str, &str),
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

/// Why a node without an address does not answer.
fn unreachable(method: &str, node: &str, url: &str) -> String {
    format!("{method} \"https://{node}:10250/{url}\": dial tcp: lookup {node}: no such host")
}

/// The name of the container that is meant.
///
/// # Errors
/// 400 for one that the pod doesn't have, and for none where it has several.
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

/// # Errors
/// 404 for a node that isn't there.
fn check_node(call: &Call<'_>, node: &str) -> Result<(), ApiError> {
    let found = call.cluster().get::<Node>("", node);
    // Sic: told as a pod.
    found
        .map(drop)
        .map_err(|_| errors::not_found(Kind::POD, node))
}

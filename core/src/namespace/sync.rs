//! One sync of a namespace: it deletes pods, then everything else, and then writes the conditions
//! and removes the finalizer.
//!
//! Source: `Delete` of `namespacedResourcesDeleter` in Kubernetes' `pkg/controller/namespace/deletion`.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use podstorm_objects::{AnyObject, ApiError, Kind, Namespace};
use podstorm_runtime::client::{Answer, DiscoveredKind, Discovery, Request};
use podstorm_runtime::driver::Calls;
use serde_json::json;

use super::conditions::Conditions;
use super::content::{Deletion, delete_all};

/// How a sync ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The namespace no longer exists, or there is nothing left to do.
    Done,
    /// Objects remain, and may be gone after this number of seconds.
    Remaining(i64),
}

impl Outcome {
    /// Returns the number of seconds until the next sync; `None` if no further sync is needed.
    pub fn again_after_seconds(self) -> Option<i64> {
        match self {
            Outcome::Done => None,
            Outcome::Remaining(estimate) => Some(estimate / 2 + 1),
        }
    }
}

/// The errors of an incomplete sync, in order. The sync is retried after a growing delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped(pub Vec<String>);

impl Stopped {
    fn from_error(error: ApiError) -> Stopped {
        Stopped(vec![error.message])
    }
}

/// Formats a single error as is, and several errors as `[a, b]`.
impl Display for Stopped {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            [error] => f.write_str(error),
            errors => write!(f, "[{}]", errors.join(", ")),
        }
    }
}

/// Syncs the namespace with this name.
///
/// # Errors
/// Fails if a request fails or if objects remain that should be gone.
///
/// # Panics
/// Panics if a request gets an answer of the wrong kind.
pub async fn sync(name: &str, calls: &Calls) -> Result<Outcome, Stopped> {
    let namespace = match get(name, calls).await {
        Err(error) if error.is_not_found() => return Ok(Outcome::Done),
        other => other.map_err(Stopped::from_error)?,
    };
    if !namespace.metadata.is_deleting() {
        return Ok(Outcome::Done);
    }
    let Some(mut namespace) = retry_on_conflict(namespace, calls, terminating).await? else {
        return Ok(Outcome::Done);
    };
    if !namespace.metadata.is_deleting() || namespace.finalizers().is_empty() {
        return Ok(Outcome::Done);
    }
    let estimate = delete_content(&mut namespace, calls).await?;
    if estimate > 0 {
        return Ok(Outcome::Remaining(estimate));
    }
    retry_on_conflict(namespace, calls, finalized).await?;
    Ok(Outcome::Done)
}

/// Returns the write that sets the phase `Terminating`; `None` if no such write is needed.
fn terminating(namespace: &Namespace) -> Option<Request> {
    if !namespace.metadata.is_deleting() || namespace.terminating {
        return None;
    }
    let mut new = namespace.clone();
    new.terminating = true;
    new.set_phase("Terminating");
    let object = Arc::new(new);
    Some(Request::PutStatus { object })
}

/// Returns the write that removes this controller's finalizer: the namespace with the other
/// finalizers, sorted, and without a status. `None` if the namespace has no finalizers.
fn finalized(namespace: &Namespace) -> Option<Request> {
    let mut rest = namespace.finalizers();
    if rest.is_empty() {
        return None;
    }
    rest.retain(|name| *name != Namespace::KUBERNETES);
    rest.sort_unstable();
    let spec = match rest.is_empty() {
        true => json!({}),
        false => json!({"finalizers": rest}),
    };
    let mut new = Namespace {
        metadata: namespace.metadata.clone(),
        ..Namespace::default()
    };
    new.fields.insert("spec".into(), spec);
    let namespace = Arc::new(new);
    Some(Request::Finalize { namespace })
}

/// Repeats a write of the latest namespace until there is no conflict. Returns the written
/// namespace; `None` if it no longer exists.
async fn retry_on_conflict(
    mut namespace: Namespace,
    calls: &Calls,
    write: fn(&Namespace) -> Option<Request>,
) -> Result<Option<Namespace>, Stopped> {
    loop {
        let Some(request) = write(&namespace) else {
            return Ok(Some(namespace));
        };
        let again = match read(calls.request(request).await) {
            Ok(written) => return Ok(Some(written)),
            Err(error) if error.code == 409 => get(&namespace.metadata.name, calls).await,
            Err(error) => Err(error),
        };
        let latest = match again {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other.map_err(Stopped::from_error)?,
        };
        if latest.metadata.uid != namespace.metadata.uid {
            let message = "namespace uid has changed across retries";
            return Err(Stopped(vec![message.to_owned()]));
        }
        namespace = latest;
    }
}

async fn get(name: &str, calls: &Calls) -> Result<Namespace, ApiError> {
    let request = Request::Get {
        kind: Kind::NAMESPACE,
        namespace: "".into(),
        name: name.into(),
    };
    read(calls.request(request).await)
}

fn read(answer: Answer) -> Result<Namespace, ApiError> {
    match answer {
        Answer::Object(object) => Ok(of_object(&object)),
        Answer::Failed(error) => Err(error),
        other => panic!("a request for a namespace can't be answered by {other:?}"),
    }
}

fn of_object(object: &AnyObject) -> Namespace {
    let namespace = object.downcast_ref::<Namespace>();
    namespace.expect("the object is a namespace").clone()
}

/// Returns the namespaced kinds whose objects can be deleted, pods first.
fn deletable(discovery: Discovery) -> impl Iterator<Item = DiscoveredKind> {
    let kinds = discovery.kinds.into_iter();
    let kinds = kinds.filter(|found| found.kind.is_namespaced() && found.has("delete"));
    let (pods, others): (Vec<_>, Vec<_>) = kinds.partition(|found| found.kind == Kind::POD);
    pods.into_iter().chain(others)
}

/// Deletes the content that can be deleted, and writes the conditions. Returns the estimated time
/// in s until the remaining objects are gone; 0 if there are none.
async fn delete_content(namespace: &mut Namespace, calls: &Calls) -> Result<i64, Stopped> {
    let mut conditions = Conditions::default();
    let mut errors = Vec::new();
    let mut discovery = match calls.request(Request::Discover).await {
        Answer::Discovered(discovery) => *discovery,
        Answer::Failed(error) => {
            conditions.discovery_failed(error.message.clone());
            errors.push(error.message);
            Discovery::default()
        }
        other => panic!("a discovery can't be answered by {other:?}"),
    };
    if let Some(failed) = discovery.failed.take() {
        let (count, message) = (failed.count, failed.message);
        conditions.discovery_failed(format!(
            "Discovery failed for some groups, {count} failing: {message}"
        ));
        errors.push(message);
    }
    if let Some(error) = discovery.malformed.take() {
        // If a group version is malformed, nothing is deleted.
        discovery.kinds.clear();
        conditions.parsing_failed(&error);
        errors.push(error);
    }
    let mut estimate = 0;
    for found in deletable(discovery) {
        let is_pods = found.kind == Kind::POD;
        let deletion = Deletion {
            found: &found,
            namespace: &namespace.metadata,
        };
        let deleted = delete_all(&deletion, calls).await;
        if let Some(error) = deleted.error {
            conditions.deletion_failed(&error);
            let name = &namespace.metadata.name;
            errors.push(match is_pods {
                true => format!("failed to delete pods for namespace: {name}, err: {error}"),
                false => error,
            });
        }
        if is_pods && deleted.remaining > 0 {
            // Nothing else is deleted while any pod is left. Upstream then reports no totals.
            estimate = deleted.estimate;
            break;
        }
        estimate = estimate.max(deleted.estimate);
        if deleted.remaining > 0 {
            let kind = format!("{}.{}", found.kind.resource(), found.kind.group());
            conditions.remain(&kind, deleted.remaining, &deleted.by_finalizer);
        }
    }
    write_conditions(namespace, &conditions, calls).await;
    match errors.is_empty() {
        true => Ok(estimate),
        false => Err(Stopped(errors)),
    }
}

async fn write_conditions(namespace: &mut Namespace, conditions: &Conditions, calls: &Calls) {
    if conditions.write_to(namespace, calls.now().wall()) {
        let object = Arc::new(namespace.clone());
        // Like upstream, ignores a failure: the next sync writes the conditions again.
        let _written = calls.request(Request::PutStatus { object }).await;
    }
}

//! One sync of a namespace: pods first, then everything else, the conditions, the finalizer.

use std::collections::BTreeMap;
use std::fmt::Display;

use podstorm_objects::{ApiError, Namespace, Now, Time};
use serde_json::json;

use super::conditions::Conditions;
use crate::finalizer;

/// How long objects with finalizers are given, s.
const FINALIZERS_TAKE: i64 = 15;

/// A kind of objects in namespaces that can be deleted.
#[derive(Clone, Debug)]
pub struct ContentType<K> {
    /// What the API finds it by.
    pub kind: K,
    /// Its group, empty for the core group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its name in paths: `pods`.
    pub resource: String,
    /// Whether its objects can be deleted by one request.
    pub deletes_collections: bool,
}

impl<K> ContentType<K> {
    fn is_pods(&self) -> bool {
        self.group.is_empty() && self.resource == "pods"
    }
}

/// What discovery finds.
#[derive(Clone, Debug)]
pub struct Discovery<K> {
    /// The kinds of objects in namespaces that can be deleted.
    pub types: Vec<ContentType<K>>,
    /// How many groups could not be asked, and the error that says which; they are missing in
    /// `types`.
    pub failed: Option<(usize, String)>,
    /// The error of a group version that is none: then no kind is deleted.
    pub unparsable: Option<String>,
}

/// What a sync needs to know of an object in the namespace.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// Its name.
    pub name: String,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// For how long a pod may still run, s: its grace period, 0 once it has ended. 0 for others.
    pub grace_seconds: i64,
}

/// The requests of a sync.
pub trait NamespaceApi {
    /// What this API finds a kind by.
    type Kind: Clone;

    /// GET of the namespace.
    ///
    /// # Errors
    /// 404 when it is gone.
    fn get(&mut self) -> Result<Namespace, ApiError>;

    /// PUT of its `/status`.
    ///
    /// # Errors
    /// 409 when it has changed, and any other.
    fn put_status(&mut self, namespace: &Namespace) -> Result<Namespace, ApiError>;

    /// PUT of its `/finalize`.
    ///
    /// # Errors
    /// As [`put_status`](NamespaceApi::put_status).
    fn finalize(&mut self, namespace: &Namespace) -> Result<Namespace, ApiError>;

    /// The kinds whose objects are to be deleted.
    fn discover(&mut self) -> Discovery<Self::Kind>;

    /// LIST of the namespace's objects of a kind.
    ///
    /// # Errors
    /// Any.
    fn list(&mut self, of: &ContentType<Self::Kind>) -> Result<Vec<Content>, ApiError>;

    /// DELETE of the namespace's objects of a kind, with the policy Background.
    ///
    /// # Errors
    /// 404 or 405 where there is no such request; any other.
    fn delete_collection(&mut self, of: &ContentType<Self::Kind>) -> Result<(), ApiError>;

    /// DELETE of one object, with the policy Background.
    ///
    /// # Errors
    /// Any.
    fn delete(&mut self, of: &ContentType<Self::Kind>, name: &str) -> Result<(), ApiError>;
}

/// How a sync ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The namespace is gone, or there is nothing to do.
    Done,
    /// Objects remain, and may be gone after that many seconds.
    Remaining(i64),
}

impl Outcome {
    /// When the namespace is due again, s from now; `None`: no more.
    pub fn again_after_seconds(self) -> Option<i64> {
        match self {
            Outcome::Done => None,
            Outcome::Remaining(estimate) => Some(estimate / 2 + 1),
        }
    }
}

/// A sync that did not come to its end, to be tried again after a growing delay: all errors, in the
/// order in which they came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped(pub Vec<String>);

impl Stopped {
    fn of(error: impl Display) -> Stopped {
        Stopped(vec![error.to_string()])
    }
}

/// What became of the objects of one kind.
#[derive(Default)]
struct Deleted {
    /// How long those that are left may take, s.
    estimate: i64,
    remaining: usize,
    /// How many of those that are left have a finalizer.
    by_finalizer: BTreeMap<String, usize>,
    error: Option<String>,
}

/// One sync of a namespace.
///
/// # Errors
/// When a request failed, or objects remain that should be gone.
pub fn sync<A: NamespaceApi>(api: &mut A, now: Now) -> Result<Outcome, Stopped> {
    let namespace = match api.get() {
        Err(error) if error.is_not_found() => return Ok(Outcome::Done),
        other => other.map_err(|error| Stopped::of(error.message))?,
    };
    if !namespace.metadata.is_deleting() {
        return Ok(Outcome::Done);
    }
    let begun = retry_on_conflict(api, namespace, |api, namespace| {
        if !namespace.metadata.is_deleting() || namespace.terminating {
            return Ok(namespace.clone());
        }
        let mut new = namespace.clone();
        new.terminating = true;
        finalizer::set_phase(&mut new, "Terminating");
        api.put_status(&new)
    });
    let Some(mut namespace) = begun? else {
        return Ok(Outcome::Done);
    };
    if !namespace.metadata.is_deleting() || finalizer::all(&namespace).is_empty() {
        return Ok(Outcome::Done);
    }
    let estimate = delete_content(api, &mut namespace, now)?;
    if estimate > 0 {
        return Ok(Outcome::Remaining(estimate));
    }
    retry_on_conflict(api, namespace, |api, namespace| {
        if finalizer::all(namespace).is_empty() {
            return Ok(namespace.clone());
        }
        api.finalize(&without_finalizer(namespace))
    })?;
    Ok(Outcome::Done)
}

/// Repeats a write on the namespace as it is now, until it meets no conflict. `None` when the
/// namespace is gone.
fn retry_on_conflict<A: NamespaceApi>(
    api: &mut A,
    mut namespace: Namespace,
    write: impl Fn(&mut A, &Namespace) -> Result<Namespace, ApiError>,
) -> Result<Option<Namespace>, Stopped> {
    loop {
        let again = match write(api, &namespace) {
            Ok(written) => return Ok(Some(written)),
            Err(error) if error.code == 409 => api.get(),
            Err(error) => Err(error),
        };
        let latest = match again {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other.map_err(|error| Stopped::of(error.message))?,
        };
        if latest.metadata.uid != namespace.metadata.uid {
            return Err(Stopped::of("namespace uid has changed across retries"));
        }
        namespace = latest;
    }
}

/// Deletes what can be deleted, and writes the conditions. Returns how long what is left may take,
/// s; 0 when nothing is.
fn delete_content<A: NamespaceApi>(
    api: &mut A,
    namespace: &mut Namespace,
    now: Now,
) -> Result<i64, Stopped> {
    let mut conditions = Conditions::default();
    let mut errors = Vec::new();
    let discovery = api.discover();
    if let Some((groups, error)) = discovery.failed {
        conditions.discovery_failed(groups, &error);
        errors.push(error);
    }
    let types = match discovery.unparsable {
        Some(error) => {
            conditions.parsing_failed(&error);
            errors.push(error);
            Vec::new()
        }
        None => discovery.types,
    };
    let begun = namespace.metadata.deletion_timestamp;
    let (pods, others): (Vec<_>, Vec<_>) = types.into_iter().partition(ContentType::is_pods);
    let mut estimate = 0;
    for of in &pods {
        let deleted = delete_all(api, of, &namespace.metadata.name, begun, now);
        if let Some(error) = deleted.error {
            conditions.deletion_failed(&error);
            let name = &namespace.metadata.name;
            errors.push(format!(
                "failed to delete pods for namespace: {name}, err: {error}"
            ));
        }
        if deleted.remaining > 0 {
            // Nothing else is touched while a pod is left, and upstream reports no totals then.
            write_conditions(api, namespace, &conditions, now);
            return finish(deleted.estimate, errors);
        }
        estimate = estimate.max(deleted.estimate);
    }
    for of in &others {
        let deleted = delete_all(api, of, &namespace.metadata.name, begun, now);
        estimate = estimate.max(deleted.estimate);
        if let Some(error) = deleted.error {
            conditions.deletion_failed(&error);
            errors.push(error);
        }
        if deleted.remaining > 0 {
            let kind = format!("{}.{}", of.resource, of.group);
            conditions.remain(&kind, deleted.remaining, &deleted.by_finalizer);
        }
    }
    write_conditions(api, namespace, &conditions, now);
    finish(estimate, errors)
}

fn finish(estimate: i64, errors: Vec<String>) -> Result<i64, Stopped> {
    match errors.is_empty() {
        true => Ok(estimate),
        false => Err(Stopped(errors)),
    }
}

fn write_conditions<A: NamespaceApi>(
    api: &mut A,
    namespace: &mut Namespace,
    conditions: &Conditions,
    now: Now,
) {
    if conditions.write_to(namespace, now.wall()) {
        // As upstream: the next sync writes them again.
        let _ = api.put_status(namespace);
    }
}

/// Deletes the objects of one kind, and looks at what is left.
fn delete_all<A: NamespaceApi>(
    api: &mut A,
    of: &ContentType<A::Kind>,
    namespace: &str,
    begun: Time,
    now: Now,
) -> Deleted {
    let mut deleted = Deleted::default();
    if let Err(error) = try_delete_all(api, of, namespace, (begun, now), &mut deleted) {
        deleted.error = Some(error);
    }
    deleted
}

fn try_delete_all<A: NamespaceApi>(
    api: &mut A,
    of: &ContentType<A::Kind>,
    namespace: &str,
    (begun, now): (Time, Now),
    deleted: &mut Deleted,
) -> Result<(), String> {
    let text = |error: ApiError| error.message;
    let is_unsupported = |error: &ApiError| matches!(error.code, 404 | 405);
    let mut estimate = 0;
    if of.is_pods() {
        let pods = api.list(of).map_err(text)?;
        estimate = pods.iter().map(|pod| pod.grace_seconds).max().unwrap_or(0);
        let since_ns = now.wall_ns - begun.unix_nanos().unwrap_or(now.wall_ns);
        if since_ns >= estimate.saturating_mul(1_000_000_000) {
            estimate = 0;
        }
    }
    deleted.estimate = estimate;
    let supported = match of.deletes_collections {
        true => match api.delete_collection(of) {
            Err(error) if is_unsupported(&error) => false,
            other => other.map(|()| true).map_err(text)?,
        },
        false => false,
    };
    if !supported {
        for item in api.list(of).map_err(text)? {
            match api.delete(of, &item.name) {
                Err(error) if is_unsupported(&error) => {}
                other => other.map_err(text)?,
            }
        }
    }
    let left = api.list(of).map_err(text)?;
    if left.is_empty() {
        deleted.estimate = 0;
        return Ok(());
    }
    deleted.remaining = left.len();
    for finalizer in left.iter().flat_map(|item| &item.finalizers) {
        *deleted.by_finalizer.entry(finalizer.clone()).or_default() += 1;
    }
    if estimate > 0 {
        return Ok(());
    }
    if !deleted.by_finalizer.is_empty() {
        deleted.estimate = FINALIZERS_TAKE;
        return Ok(());
    }
    let (group, version, resource) = (&of.group, &of.version, &of.resource);
    Err(format!(
        "unexpected items still remain in namespace: {namespace} for gvr: {group}/{version}, \
         Resource={resource}"
    ))
}

/// What is sent to `/finalize`: the namespace without this controller's finalizer, the others
/// sorted, and no status.
fn without_finalizer(namespace: &Namespace) -> Namespace {
    let mut rest = finalizer::all(namespace);
    rest.retain(|name| *name != finalizer::KUBERNETES);
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
    new
}

//! The test harness of the service account controllers: a server with a few kinds, and caches that
//! follow it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm_objects::{
    AnyObject, ApiError, Cause, DynamicObject, Kind, Namespace, Now, Object, Resource,
    ResourceVersion,
};
use podstorm_runtime::client::{Answer, Reason, Request};
use podstorm_runtime::driver::{AsyncSync, Driver, SyncState as _, Workload, sync_all};
use podstorm_runtime::informer::{AnyInformer, Informers};
use serde_json::{Value, json};

use crate::cache::Delta;

const SECOND_NS: i64 = 1_000_000_000;

pub(super) fn at(seconds: i64) -> Now {
    Now {
        mono_ns: seconds * SECOND_NS,
        wall_ns: (1_800_000_000 + seconds) * SECOND_NS,
    }
}

type Name = (Kind, String, String);

/// A controller with its caches, and a server.
pub(super) struct World<C> {
    controller: C,
    informers: BTreeMap<Kind, Arc<dyn AnyInformer>>,
    driver: Driver<AsyncSync>,
    server: Server,
    /// The kinds whose caches are held back, each with its undelivered changes.
    held: BTreeMap<Kind, Vec<Delta<dyn Object>>>,
    outcomes: Vec<&'static str>,
}

#[derive(Default)]
struct Server {
    objects: BTreeMap<Name, AnyObject>,
    version: u64,
    /// The namespaces that refuse objects, each with the code of the answer.
    refused: BTreeMap<String, u16>,
    /// The requests that must fail, in the format of [`World::sync`].
    failing: BTreeSet<&'static str>,
    /// The changes that have not reached the caches yet.
    unheard: Vec<(Kind, Delta<dyn Object>)>,
    /// The writes so far, each with the code of its answer.
    written: Vec<String>,
}

impl<C: Workload<Sync = AsyncSync>> World<C> {
    pub(super) fn new(kinds: &[Kind], make: impl FnOnce(&mut Informers) -> C) -> World<C> {
        let mut informers = Informers::new(Arc::default());
        let controller = make(&mut informers);
        let taken = kinds.iter().map(|kind| (*kind, informers.take(*kind)));
        World {
            controller,
            informers: taken.collect(),
            driver: Driver::default(),
            server: Server::default(),
            held: BTreeMap::new(),
            outcomes: Vec::new(),
        }
    }

    /// Delivers the changes to the caches that are not held back.
    fn hear(&mut self) {
        for (kind, delta) in std::mem::take(&mut self.server.unheard) {
            match self.held.get_mut(&kind) {
                Some(held) => held.push(delta),
                None => self.informers[&kind].apply(delta, at(0)),
            }
        }
    }

    /// Holds back the changes of a kind until they are released.
    pub(super) fn hold_back(&mut self, kind: Kind) {
        self.held.insert(kind, Vec::new());
    }

    pub(super) fn release(&mut self, kind: Kind) {
        for delta in self.held.remove(&kind).expect("the kind must be held back") {
            self.informers[&kind].apply(delta, at(0));
        }
    }

    /// Adds a namespace with this phase.
    pub(super) fn namespace(&mut self, name: &str, phase: &str) {
        let json = json!({"metadata": {"name": name}, "status": {"phase": phase}});
        let namespace = Namespace::from_json(json).expect("a readable namespace");
        self.server.store(namespace);
        self.hear();
    }

    /// Makes the server refuse objects in the namespace, as after the start of its deletion.
    pub(super) fn refuse_namespace(&mut self, name: &str) {
        self.server.refused.insert(name.to_owned(), 403);
    }

    /// Makes the server answer as if the namespace no longer existed.
    pub(super) fn lose_namespace(&mut self, name: &str) {
        self.server.refused.insert(name.to_owned(), 404);
    }

    /// Makes a request fail from now on, or succeed again.
    pub(super) fn fail(&mut self, request: &'static str, fails: bool) {
        match fails {
            true => self.server.failing.insert(request),
            false => self.server.failing.remove(request),
        };
    }

    /// Creates an object with these members as a client. Returns its UID.
    pub(super) fn put(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
        members: &[(&str, Value)],
    ) -> String {
        let mut json = json!({"metadata": {}});
        for (member, value) in members {
            json[member] = value.clone();
        }
        json["metadata"]["namespace"] = namespace.into();
        json["metadata"]["name"] = name.into();
        let object = DynamicObject::from_json(kind, json).expect("a readable object");
        let stored = self.server.store(object);
        self.hear();
        stored.metadata().uid.to_string()
    }

    /// Changes an object as a client, with a JSON merge patch.
    pub(super) fn change(&mut self, kind: Kind, namespace: &str, name: &str, patch: &Value) {
        let mut json = self.get(kind, namespace, name);
        merge(&mut json, patch);
        let object = DynamicObject::from_json(kind, json).expect("a readable object");
        self.server.store(object);
        self.hear();
    }

    pub(super) fn delete(&mut self, kind: Kind, namespace: &str, name: &str) {
        let gone = self.server.remove(kind, namespace, name);
        assert!(gone, "{name} must exist");
        self.hear();
    }

    /// Returns the object as the server has it; null if it does not exist.
    pub(super) fn get(&self, kind: Kind, namespace: &str, name: &str) -> Value {
        let found = self.server.get(kind, namespace, name);
        found.map_or(Value::Null, |object| object.to_json())
    }

    /// Syncs the keys that are due. Returns the writes, each with the code of its answer.
    pub(super) fn sync(&mut self, seconds: i64) -> Vec<String> {
        let now = at(seconds);
        loop {
            let (server, outcomes) = (&mut self.server, &mut self.outcomes);
            let mut answer = |request: &Request, _: Now| server.answer(request);
            let ended = |sync: &mut AsyncSync| outcomes.push(sync.outcome_label());
            let syncs = sync_all(&self.controller, &mut self.driver, &mut answer, now, ended);
            self.hear();
            if syncs == 0 {
                return std::mem::take(&mut self.server.written);
            }
        }
    }

    /// Returns the results of the syncs since the last call: for each the failed step, or `ok`.
    pub(super) fn outcomes(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.outcomes)
    }

    pub(super) fn next_due(&self) -> Option<i64> {
        let queues = self.controller.queues().iter();
        queues.filter_map(|queue| queue.next_due()).min()
    }
}

impl Server {
    fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&AnyObject> {
        let key = (kind, namespace.to_owned(), name.to_owned());
        self.objects.get(&key)
    }

    /// Stores an object at the next version. Assigns a UID if it has none.
    fn store<T: Object>(&mut self, mut object: T) -> AnyObject {
        self.version += 1;
        let kind = object.kind();
        let meta = object.metadata_mut();
        if meta.uid.is_empty() {
            meta.uid = format!("uid-{}", self.version).as_str().into();
        }
        meta.resource_version = ResourceVersion::Number(self.version);
        let key = (kind, meta.namespace.to_string(), meta.name.to_string());
        let object: AnyObject = Arc::new(object);
        self.objects.insert(key, Arc::clone(&object));
        self.unheard
            .push((kind, Delta::Applied(Arc::clone(&object))));
        object
    }

    fn remove(&mut self, kind: Kind, namespace: &str, name: &str) -> bool {
        let key = (kind, namespace.to_owned(), name.to_owned());
        let gone = self.objects.remove(&key).map(Delta::Deleted);
        let is_gone = gone.is_some();
        self.unheard.extend(gone.map(|gone| (kind, gone)));
        is_gone
    }

    fn answer(&mut self, request: &Request) -> Answer {
        let (verb, kind, namespace, name) = match request {
            Request::Get {
                kind,
                namespace,
                name,
            } => ("get", *kind, &**namespace, name.as_str()),
            Request::Delete {
                kind,
                namespace,
                name,
                ..
            } => ("delete", *kind, &**namespace, name.as_str()),
            Request::Create { object } | Request::Put { object } => {
                let verb = match request {
                    Request::Create { .. } => "create",
                    _ => "update",
                };
                let meta = object.metadata();
                (verb, object.kind(), &*meta.namespace, meta.name.as_str())
            }
            other => panic!("unexpected request: {other:?}"),
        };
        let text = format!("{verb} {} {namespace}/{name}", kind.name());
        let answered = match self.failing.contains(&*text) {
            true => Err(error(500)),
            false => self.carry_out(request, kind, namespace, name),
        };
        let (code, answer) = match answered {
            Ok(answer) => (if verb == "create" { 201 } else { 200 }, answer),
            Err(error) => (error.code, Answer::Failed(error)),
        };
        if verb != "get" {
            self.written.push(format!("{text}: {code}"));
        }
        answer
    }

    fn carry_out(
        &mut self,
        request: &Request,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Answer, ApiError> {
        let stored = self.get(kind, namespace, name).cloned();
        let object = match (request, stored) {
            (Request::Create { .. }, Some(_)) => return Err(error(409)),
            (Request::Create { object }, None) => match self.refused.get(namespace) {
                Some(code) => return Err(error(*code)),
                None => object,
            },
            (_, None) => return Err(error(404)),
            (Request::Put { object }, Some(stored)) => {
                let version = |of: &AnyObject| of.metadata().resource_version.clone();
                if version(object) != version(&stored) {
                    return Err(error(409));
                }
                object
            }
            (Request::Delete { options, .. }, Some(stored)) => {
                let options = options.as_ref();
                let uid = options.and_then(|options| options.precondition_uid.as_ref());
                if uid.is_some_and(|uid| *uid != stored.metadata().uid) {
                    return Err(error(409));
                }
                self.remove(kind, namespace, name);
                return Ok(Answer::Deleted(None));
            }
            (_, Some(stored)) => return Ok(Answer::Object(stored)),
        };
        let object = object.downcast_ref::<DynamicObject>();
        let object = object.expect("only dynamic objects are written").clone();
        Ok(Answer::Object(self.store(object)))
    }
}

/// Returns an error with this code. For 403 it is the error of a terminating namespace.
fn error(code: u16) -> ApiError {
    let reason = match code {
        404 => Reason::NotFound,
        409 => Reason::Conflict,
        _ => Reason::Other(String::new()),
    };
    let error = ApiError::status(code, reason, "refused");
    if code != 403 {
        return error;
    }
    error.with_cause(Cause {
        reason: "NamespaceTerminating".to_owned(),
        ..Cause::default()
    })
}

/// Applies a JSON merge patch to a value.
fn merge(to: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *to = patch.clone();
        return;
    };
    for (name, value) in members {
        match value {
            Value::Null => drop(to.as_object_mut().and_then(|to| to.remove(name))),
            _ => merge(&mut to[name], value),
        }
    }
}

//! A server that has a StatefulSet and the objects that the set owns, and a controller that has
//! seen all of them.

use std::sync::Arc;

use anyhow::{Context, Result};
use podstorm::cache::Delta;
use podstorm::client::{Answer, Request};
use podstorm::controller::ControllerType as _;
use podstorm::driver::{Driver, Workload, sync_all};
use podstorm::informer::Informers;
use podstorm::statefulset::{Controller, ControllerOptions, StatefulSets};
use podstorm_apiserver::{Cluster, ClusterOptions, ListOptions};
use podstorm_objects::{AnyObject, DynamicObject, Kind, Now, Pod};
use podstorm_sim::engine::client::{ApiCalls, Client};

use super::{Asked, Found, words};
use crate::input::{described, named_namespace};
use crate::workloads::replicaset::explain::find::full_name;

/// The server, with the name of its set.
pub(super) struct Server {
    cluster: Arc<Cluster>,
    client: Client,
    at: (String, String),
    options: ControllerOptions,
    now: Now,
}

impl Server {
    /// Creates a server with these objects, and sets the size and the image of the set.
    ///
    /// # Errors
    /// The server refuses an object.
    pub(super) fn new(
        found: &Found,
        replicas: Option<i32>,
        image: Option<&str>,
        options: ControllerOptions,
        now: Now,
    ) -> Result<Server> {
        let cluster = Arc::new(Cluster::new(ClusterOptions::default()));
        let meta = &found.set.metadata;
        // Ignore the error: `default` exists from the start.
        let _there = cluster.import(named_namespace(&meta.namespace), now);
        let owned = found.revisions.iter().chain(&found.claims);
        for object in std::iter::once(&found.set).chain(owned) {
            let api = cluster.api(object.kind());
            let imported = api.import(Arc::clone(object) as AnyObject, now);
            imported.with_context(|| described(&**object))?;
        }
        for pod in &found.pods {
            let imported = cluster.import(Pod::clone(pod), now);
            imported.with_context(|| format!("Pod {}", full_name(&pod.metadata)))?;
        }
        let server = Server {
            client: Client::new(Arc::clone(&cluster), None),
            cluster,
            at: (meta.namespace.to_string(), meta.name.to_string()),
            options,
            now,
        };
        if replicas.is_some() || image.is_some() {
            let mut set = DynamicObject::clone(&server.found().set);
            if let Some(spec) = set.fields.get_mut("spec") {
                if let Some(replicas) = replicas {
                    spec["replicas"] = replicas.into();
                }
                let container = spec.pointer_mut("/template/spec/containers/0");
                if let Some((image, container)) = image.zip(container) {
                    container["image"] = image.into();
                }
            }
            let what = format!("StatefulSet {}", full_name(&set.metadata));
            let api = server.cluster.api(Kind::STATEFUL_SET);
            api.update(Arc::new(set), now).context(what)?;
        }
        Ok(server)
    }

    /// Returns the time.
    pub(super) fn now(&self) -> Now {
        self.now
    }

    fn all(&self, kind: Kind) -> Vec<Arc<DynamicObject>> {
        let page = self.cluster.api(kind).list(&ListOptions::default());
        let all = page.into_iter().flat_map(|page| page.items);
        all.filter_map(|object| object.downcast()).collect()
    }

    /// Returns the current set with its own pods, and the claims and revisions in its namespace.
    pub(super) fn found(&self) -> Found {
        let sets = self.all(Kind::STATEFUL_SET);
        let set = sets
            .into_iter()
            .next()
            .expect("it was stored, and the controller deletes no StatefulSet");
        let mut pods: Vec<Arc<Pod>> = self.cluster.list(None).0;
        let is_own = |pod: &Arc<Pod>| {
            let owner = pod.metadata.controller();
            owner.is_some_and(|owner| owner.uid == set.metadata.uid)
        };
        pods.retain(is_own);
        Found {
            pods,
            claims: self.all(Kind::PERSISTENT_VOLUME_CLAIM),
            revisions: self.all(Kind::CONTROLLER_REVISION),
            set,
        }
    }

    /// Runs one sync of a controller that has seen everything. Returns the requests of the sync
    /// and, if it failed, why.
    pub(super) fn sync(&mut self) -> (Vec<Asked>, Option<String>) {
        let mut informers = Informers::new(Arc::default());
        let controller = Controller::new(self.options.clone(), &mut informers);
        let (now, version) = (self.now, 1.into());
        let found = self.found();
        for kind in StatefulSets::ROW
            .watched()
            .filter(|kind| *kind != Kind::POD)
        {
            let objects = self
                .all(kind)
                .into_iter()
                .map(|it| it as AnyObject)
                .collect();
            informers.take(kind).replace(objects, &version, now);
        }
        for pod in self.cluster.list::<Pod>(None).0 {
            let change = informers.pods().apply(Delta::Applied(pod));
            controller.pod_changed(&change, now);
        }
        let (mut asked, mut failure) = (Vec::new(), None);
        let mut calls = ApiCalls::default();
        let mut transport = |request: &Request, now: Now| -> Answer {
            asked.extend(words::asked(&found, request));
            self.client.carry_out(request, &mut calls, now)
        };
        let mut driver: Driver<<Controller as Workload>::Sync> = Driver::default();
        sync_all(&controller, &mut driver, &mut transport, now, |sync| {
            failure = sync.failure().map(|failure| failure.message.clone());
        });
        debug_assert!(found.set.metadata.name == *self.at.1);
        (asked, failure)
    }
}

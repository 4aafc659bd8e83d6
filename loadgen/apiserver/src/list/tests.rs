//! Lists and pages.

use podstorm_objects::Pod;
use serde_json::json;

use super::super::testing::*;
use super::*;

fn names(items: &[Arc<Pod>]) -> Vec<String> {
    let name = |pod: &Arc<Pod>| format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
    items.iter().map(name).collect()
}

fn filled() -> Cluster {
    let cluster = cluster();
    for name in ["c", "a", "b"] {
        cluster.create(pod(name, json!({})), at(0)).unwrap();
        let elsewhere = json!({"metadata": {"namespace": "other"}});
        cluster.create(pod(name, elsewhere), at(0)).unwrap();
    }
    cluster
}

#[test]
fn lists_are_sorted_by_namespace_and_name() {
    let cluster = filled();
    let (all, version) = cluster.list::<Pod>(None);
    let of = |namespace: &str| ["a", "b", "c"].map(|name| format!("{namespace}/{name}"));
    assert_eq!(names(&all), [of("default"), of("other")].concat());
    assert_eq!(version.number(), Some(cluster.resource_version()));
    assert_eq!(names(&cluster.list::<Pod>(Some("other")).0), of("other"));
    assert!(cluster.list::<Pod>(Some("none")).0.is_empty());
}

#[test]
fn every_object_is_looked_at_once() {
    let cluster = filled();
    let mut seen = Vec::new();
    cluster.for_each::<Pod>(|pod| seen.push(pod.clone()));
    seen.sort_by_key(|pod| (pod.metadata.namespace.clone(), pod.metadata.name.clone()));
    assert_eq!(seen, cluster.list::<Pod>(None).0);
}

#[test]
fn pages_show_one_state() {
    let cluster = filled();
    let first = ListOptions {
        limit: 4,
        ..ListOptions::default()
    };
    let page = cluster.list_page::<Pod>(&first).unwrap();
    assert_eq!((page.items.len(), page.remaining), (4, 2));
    cluster.create(pod("d", json!({})), at(0)).unwrap();
    let next = ListOptions {
        continue_token: &page.continue_token,
        ..first.clone()
    };
    let rest = cluster.list_page::<Pod>(&next).unwrap();
    assert_eq!(names(&rest.items), ["other/b", "other/c"]);
    assert_eq!(rest.resource_version, page.resource_version);
    assert_eq!((rest.continue_token.as_str(), rest.remaining), ("", 0));
    assert_eq!(refused(cluster.list_page::<Pod>(&next)), "410 Expired");
    let wrong = ListOptions {
        continue_token: "nodes-0",
        ..first
    };
    assert_eq!(refused(cluster.list_page::<Pod>(&wrong)), "400 BadRequest");
}

#[test]
fn a_list_is_never_older_than_asked_for() {
    let cluster = filled();
    let of = |version: &str| {
        let resource_version = ResourceVersion::new(version);
        cluster.list_page::<Pod>(&ListOptions {
            resource_version,
            ..ListOptions::default()
        })
    };
    let current = cluster.resource_version();
    for version in ["", "0", "1", &current.to_string()] {
        assert_eq!(of(version).unwrap().items.len(), 6, "{version:?}");
    }
    let result = of(&(current + 1).to_string());
    let error = result.as_ref().unwrap_err();
    assert!(error.has_cause("ResourceVersionTooLarge"));
    assert_eq!(refused(result), "504 Timeout");
}

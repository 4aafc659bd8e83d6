//! Tests of lists and pages.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use podstorm_objects::{Namespace, Pod};
use serde_json::{Value, json};

use super::super::testing::*;
use super::*;
use crate::{ClusterOptions, History};

fn names(items: &[Arc<Pod>]) -> Vec<String> {
    let name = |pod: &Arc<Pod>| format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
    items.iter().map(name).collect()
}

fn filled() -> Cluster {
    let cluster = cluster();
    fill(&cluster);
    cluster
}

fn fill(cluster: &Cluster) {
    for name in ["c", "a", "b"] {
        cluster.create(pod(name, json!({})), at(0)).unwrap();
        let elsewhere = json!({"metadata": {"namespace": "other"}});
        cluster.create(pod(name, elsewhere), at(0)).unwrap();
    }
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
fn every_object_is_examined_once() {
    let cluster = filled();
    let mut seen = Vec::new();
    cluster.for_each::<Pod>(|pod| seen.push(pod.clone()));
    seen.sort_by_key(|pod| (pod.metadata.namespace.clone(), pod.metadata.name.clone()));
    assert_eq!(seen, cluster.list::<Pod>(None).0);
}

fn remembering() -> Cluster {
    cluster_with(ClusterOptions {
        keeps_past: true,
        history: History {
            min_events: 0,
            ..History::default()
        },
        ..ClusterOptions::default()
    })
}

fn page(limit: usize, continue_token: &str) -> ListOptions<'_> {
    ListOptions {
        limit,
        continue_token,
        ..ListOptions::default()
    }
}

#[test]
fn pages_show_one_state_and_can_be_read_repeatedly() {
    let cluster = remembering();
    fill(&cluster);
    let first = cluster.list_page::<Pod>(&page(4, "")).unwrap();
    assert_eq!((first.items.len(), first.remaining), (4, 2));
    // Create, delete and recreate pods that sort before and after the end of the page.
    cluster.create(pod("d", json!({})), at(0)).unwrap();
    let elsewhere = json!({"metadata": {"namespace": "other"}});
    cluster.create(pod("aa", elsewhere), at(0)).unwrap();
    let again = pod("b", json!({"metadata": {"namespace": "other"}}));
    for (namespace, name) in [("default", "a"), ("other", "b"), ("other", "c")] {
        let deleted = cluster.delete::<Pod>(namespace, name, &forced(), at(0));
        deleted.unwrap();
    }
    cluster.create(again, at(0)).unwrap();
    for _ in 0..3 {
        let next = page(4, &first.continue_token);
        let rest = cluster.list_page::<Pod>(&next).unwrap();
        assert_eq!(names(&rest.items), ["other/b", "other/c"]);
        assert!(rest.items.iter().all(|pod| {
            pod.metadata.resource_version.number() <= first.resource_version.number()
        }));
        assert_eq!(rest.resource_version, first.resource_version);
        assert_eq!((rest.continue_token.as_str(), rest.remaining), ("", 0));
    }
    // The token also works with a different limit, and while many other lists are unfinished.
    for _ in 0..100 {
        cluster.list_page::<Pod>(&page(1, "")).unwrap();
    }
    let one = cluster
        .list_page::<Pod>(&page(1, &first.continue_token))
        .unwrap();
    assert_eq!(
        (names(&one.items), one.remaining),
        (vec!["other/b".into()], 1)
    );
    let last = cluster
        .list_page::<Pod>(&page(1, &one.continue_token))
        .unwrap();
    assert_eq!(names(&last.items), ["other/c"]);
    assert_eq!(last.continue_token, "");

    // Without the history, the list continues with the current state.
    cluster.compact::<Pod>();
    cluster.create(pod("e", json!({})), at(0)).unwrap();
    let error = cluster
        .list_page::<Pod>(&page(4, &first.continue_token))
        .unwrap_err();
    assert_eq!(error.code, 410);
    let details = error.details.unwrap();
    let now = cluster
        .list_page::<Pod>(&page(1, &details.continue_token))
        .unwrap();
    assert_eq!(
        (names(&now.items), now.remaining),
        (vec!["other/aa".into()], 1)
    );
    assert_eq!(
        now.resource_version.number(),
        Some(cluster.resource_version())
    );
    let rest = cluster
        .list_page::<Pod>(&page(9, &now.continue_token))
        .unwrap();
    assert_eq!(names(&rest.items), ["other/b"]);
}

#[test]
fn a_token_is_valid_only_for_its_collection() {
    let cluster = remembering();
    fill(&cluster);
    let of = |namespace, limit, token: &str| {
        cluster.list_page::<Pod>(&ListOptions {
            namespace,
            ..page(limit, token)
        })
    };
    let token = |namespace| of(namespace, 1, "").unwrap().continue_token;
    let all = [None, Some("default"), Some("other")];
    for one in all {
        for other in all {
            let page = of(other, 1, &token(one));
            match one == other {
                true => assert_eq!(page.unwrap().items.len(), 1),
                false => assert_eq!(refused(page), "400 BadRequest", "{one:?} {other:?}"),
            }
        }
    }
    let kinds = cluster.list_page::<Namespace>(&page(1, &token(None)));
    assert_eq!(refused(kinds), "400 BadRequest");
    let beside = cluster.list_page::<Pod>(&ListOptions {
        resource_version: ResourceVersion::new("1"),
        ..page(1, &token(None))
    });
    assert_eq!(refused(beside), "400 BadRequest");
    let json = |json: Value| BASE64_URL_SAFE_NO_PAD.encode(json.to_string());
    let good = json!({"v": "meta.k8s.io/v1", "rv": 1, "start": "default/a\0", "of": "pods/"});
    for (member, value) in [
        ("v", json!("v2")),
        ("rv", json!(0)),
        ("rv", json!(-2)),
        ("start", json!("")),
        ("start", json!("a")),
        ("start", json!("a/b/c")),
        ("of", json!("nodes/")),
    ] {
        let mut wrong = good.clone();
        wrong[member] = value;
        assert_eq!(
            refused(of(None, 1, &json(wrong.clone()))),
            "400 BadRequest",
            "{wrong}"
        );
    }
    for wrong in ["?", "nodes-0", "e30", "bnVsbA"] {
        assert_eq!(refused(of(None, 1, wrong)), "400 BadRequest", "{wrong}");
    }
}

#[test]
fn pages_together_equal_the_list_despite_concurrent_writes() {
    let cluster = remembering();
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..20 {
        let mut write = || {
            let name = format!("p{}", random.u32(..40));
            let namespace = ["default", "other"][random.usize(..2)];
            let metadata = json!({"metadata": {"namespace": namespace}});
            match random.u32(..3) {
                0 => drop(cluster.delete::<Pod>(namespace, &name, &forced(), at(0))),
                _ => drop(cluster.create(pod(&name, metadata), at(0))),
            }
            random.usize(1..9)
        };
        for _ in 0..30 {
            write();
        }
        // An open watch keeps the history.
        let _watch = watch::<Pod>(&cluster);
        let even = |object: &dyn Object| object.metadata().name.as_bytes().len() == 2;
        let select: &Select<'_> = &even;
        for (namespace, select) in [(None, None), (Some("other"), None), (None, Some(select))] {
            let (mut paged, mut token) = (Vec::new(), String::new());
            let mut version = None;
            while version.is_none() || !token.is_empty() {
                let limit = write();
                let page = cluster.list_page::<Pod>(&ListOptions {
                    namespace,
                    select,
                    ..page(limit, &token)
                });
                let page = page.unwrap();
                assert!(page.items.len() <= limit);
                let number = page.resource_version.number();
                assert_eq!(*version.get_or_insert(number), number);
                paged.extend(page.items);
                token = page.continue_token;
            }
            let version = version.flatten().expect("at least one page was read");
            let (mut then, _) = cluster.list_as_of::<Pod>(namespace, version).unwrap();
            then.retain(|pod| select.is_none_or(|is| is(&**pod)));
            assert_eq!(names(&paged), names(&then));
            assert!(paged.iter().zip(&then).all(|(a, b)| Arc::ptr_eq(a, b)));
        }
    }
}

#[test]
fn a_list_is_never_older_than_the_requested_version() {
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

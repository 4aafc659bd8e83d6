//! The initial objects of a new cluster, compared with a real kube-apiserver 1.20.2.
//!
//! Of the objects that the real server creates at its start, this build can show only FlowSchemas.
//! It creates roles and bindings only if it enforces them, and then it exits; and it cannot read
//! PriorityLevelConfigurations and APIServices.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::control_plane::server::with_real_server;
use crate::served::{Served, with_one};

/// Returns the specs of the FlowSchemas by name, in a version of their group.
fn flow_schemas(served: &Served, version: &str) -> BTreeMap<String, Value> {
    let path = format!("/apis/flowcontrol.apiserver.k8s.io/{version}/flowschemas");
    let list = served.run(&format!("get --raw {path}"));
    let list: Value = serde_json::from_str(&list).expect("a list as JSON");
    let items = list["items"].as_array().expect("a list").iter();
    let spec = |item: &Value| {
        let name = item["metadata"]["name"].as_str().expect("a name");
        (name.to_owned(), item["spec"].clone())
    };
    items.map(spec).collect()
}

#[test]
#[ignore = "needs kubectl, openssl and a built control plane"]
fn flow_schemas_are_equal_except_for_later_changes() {
    with_one(&[], |ours| {
        let ours = flow_schemas(ours, "v1");
        with_real_server(|real| {
            // The server creates them after it has started to serve.
            real.comes("get flowschema kube-controller-manager");
            let mut real = flow_schemas(real, "v1beta1");
            assert!(real.len() >= 10, "{real:?}");
            // Since 1.24, leaders are elected only by Leases.
            let elections = real
                .get_mut("system-leader-election")
                .expect("the FlowSchema exists");
            let rules = &mut elections["rules"][0]["resourceRules"];
            let rules = rules.as_array_mut().expect("a list");
            rules
                .retain(|rule| rule["resources"] != serde_json::json!(["endpoints", "configmaps"]));
            for (name, spec) in &real {
                assert_eq!(ours.get(name), Some(spec), "{name}");
            }
            let later: Vec<_> = ours
                .keys()
                .filter(|name| !real.contains_key(*name))
                .collect();
            assert_eq!(later, ["endpoint-controller", "probes", "system-node-high"]);
        });
    });
}

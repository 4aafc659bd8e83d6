//! Tests of token Secrets and their accounts, from creation to deletion.

use super::super::harness::World;
use super::*;
use crate::identity::{PLACEHOLDER_CA, SignTokens};
use serde_json::json;

/// A signer whose tokens state for what they were signed.
#[derive(Debug)]
struct Plain;

impl SignTokens for Plain {
    fn sign(&self, of: &TokenOf<'_>) -> Option<String> {
        let (account, secret) = (of.account, of.secret);
        (secret != "unsigned").then(|| format!("{}/{}/{secret}", account.name, account.uid))
    }
}

fn world_with(signer: Option<Arc<dyn SignTokens>>) -> World<Controller> {
    let identity = Identity {
        signer,
        ..Identity::default()
    };
    World::new(&[Kind::SERVICE_ACCOUNT, Kind::SECRET], |informers| {
        Controller::new(identity, informers)
    })
}

fn world() -> World<Controller> {
    world_with(Some(Arc::new(Plain)))
}

fn account(world: &mut World<Controller>) -> String {
    world.put(Kind::SERVICE_ACCOUNT, "shop", "builder", &[])
}

/// Creates a client's Secret for the account `builder`, with its UID `uid` if that is given.
fn secret(world: &mut World<Controller>, name: &str, uid: Option<&str>) {
    let mut annotations = json!({ACCOUNT_NAME: "builder"});
    if let Some(uid) = uid {
        annotations[ACCOUNT_UID] = uid.into();
    }
    let members = [
        ("metadata", json!({"annotations": annotations})),
        ("type", TOKEN_TYPE.into()),
    ];
    world.put(Kind::SECRET, "shop", name, &members);
}

fn data(world: &World<Controller>, name: &str, key: &str) -> String {
    let secret = world.get(Kind::SECRET, "shop", name);
    let text = secret["data"][key].as_str().unwrap_or("");
    String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap()
}

const FILLED: [&str; 1] = ["update Secret shop/t: 200"];
const DELETED: [&str; 1] = ["delete Secret shop/t: 200"];

#[test]
fn a_secret_gets_the_token_of_its_account() {
    let mut world = world();
    let uid = account(&mut world);
    secret(&mut world, "t", None);
    assert_eq!(world.sync(0), FILLED);
    assert_eq!(data(&world, "t", "ca.crt"), PLACEHOLDER_CA);
    assert_eq!(data(&world, "t", "namespace"), "shop");
    assert_eq!(data(&world, "t", "token"), format!("builder/{uid}/t"));
    let annotations = &world.get(Kind::SECRET, "shop", "t")["metadata"]["annotations"];
    let expected = json!({ACCOUNT_NAME: "builder", ACCOUNT_UID: uid});
    assert_eq!(*annotations, expected);
    assert!(world.sync(1).is_empty());
}

#[test]
fn only_a_foreign_authority_is_replaced() {
    let mut world = world();
    account(&mut world);
    secret(&mut world, "t", None);
    let given = BASE64_STANDARD.encode("own");
    let change = json!({"data": {"ca.crt": given, "namespace": given, "token": given, "k": given}});
    world.change(Kind::SECRET, "shop", "t", &change);
    assert_eq!(world.sync(0), FILLED);
    assert_eq!(data(&world, "t", "ca.crt"), PLACEHOLDER_CA);
    for kept in ["namespace", "token", "k"] {
        assert_eq!(data(&world, "t", kept), "own", "{kept}");
    }
    world.change(Kind::SECRET, "shop", "t", &json!({"data": {"token": ""}}));
    assert_eq!(world.sync(1), FILLED, "a removed token must be added again");
}

#[test]
fn other_secrets_are_ignored() {
    let mut world = world();
    account(&mut world);
    let annotations = json!({"annotations": {ACCOUNT_NAME: "builder"}});
    world.put(
        Kind::SECRET,
        "shop",
        "t",
        &[("metadata", annotations), ("type", "Opaque".into())],
    );
    assert!(world.sync(0).is_empty());
    world.delete(Kind::SECRET, "shop", "t");
    world.delete(Kind::SERVICE_ACCOUNT, "shop", "builder");
    assert!(world.sync(1).is_empty());
}

#[test]
fn a_secret_without_its_account_is_deleted() {
    let mut world = world();
    secret(&mut world, "t", None);
    assert_eq!(world.sync(0), DELETED);
    account(&mut world);
    secret(&mut world, "t", Some("another"));
    assert_eq!(
        world.sync(1),
        DELETED,
        "an account with another UID does not match"
    );
    // The cache does not have the account yet, but the server does.
    world.delete(Kind::SERVICE_ACCOUNT, "shop", "builder");
    world.sync(2);
    world.hold_back(Kind::SERVICE_ACCOUNT);
    account(&mut world);
    secret(&mut world, "t", None);
    assert_eq!(world.sync(3), FILLED);
}

#[test]
fn secrets_are_deleted_with_their_account() {
    let mut world = world();
    account(&mut world);
    for name in ["t", "u"] {
        secret(&mut world, name, None);
    }
    world.put(Kind::SERVICE_ACCOUNT, "shop", "other", &[]);
    let members = [
        ("metadata", json!({"annotations": {ACCOUNT_NAME: "other"}})),
        ("type", TOKEN_TYPE.into()),
    ];
    world.put(Kind::SECRET, "shop", "stays", &members);
    world.sync(0);
    world.delete(Kind::SERVICE_ACCOUNT, "shop", "builder");
    let both = ["delete Secret shop/t: 200", "delete Secret shop/u: 200"];
    assert_eq!(world.sync(1), both);
    assert!(!world.get(Kind::SECRET, "shop", "stays").is_null());
}

/// The deletion and the new account arrive as one change.
#[test]
fn secrets_are_deleted_with_a_recreated_account() {
    let mut world = world();
    account(&mut world);
    secret(&mut world, "t", None);
    world.sync(0);
    account(&mut world);
    assert_eq!(world.sync(1), DELETED);
    secret(&mut world, "t", None);
    assert_eq!(world.sync(2), FILLED);
}

#[test]
fn a_secret_that_changed_meanwhile_waits_for_its_event() {
    let mut world = world();
    account(&mut world);
    world.hold_back(Kind::SECRET);
    secret(&mut world, "t", None);
    world.release(Kind::SECRET);
    world.hold_back(Kind::SECRET);
    world.change(Kind::SECRET, "shop", "t", &json!({"data": {"k": ""}}));
    assert!(world.sync(0).is_empty());
    assert_eq!((world.outcomes(), world.next_due()), (vec!["ok"], None));
    world.release(Kind::SECRET);
    assert_eq!(world.sync(1), FILLED);
}

#[test]
fn a_failed_write_is_retried_ten_times() {
    let mut world = world();
    account(&mut world);
    secret(&mut world, "t", None);
    world.fail("update Secret shop/t", true);
    let mut tries = 0;
    for second in 0..60 {
        tries += world.sync(second).len();
    }
    assert_eq!(tries, 11);
    assert_eq!(world.next_due(), None);
    world.fail("update Secret shop/t", false);
    world.change(Kind::SECRET, "shop", "t", &json!({"data": {"k": ""}}));
    assert_eq!(world.sync(60), FILLED, "the next event must start over");
    secret(&mut world, "unsigned", None);
    assert!(world.sync(61).is_empty());
    assert_eq!(world.outcomes().last(), Some(&"not signed"));
}

#[test]
fn an_account_does_not_list_a_deleted_secret() {
    let mut world = world();
    let listed = json!([{"name": "t"}, {"name": "pull"}]);
    world.put(
        Kind::SERVICE_ACCOUNT,
        "shop",
        "builder",
        &[("secrets", listed)],
    );
    secret(&mut world, "t", None);
    world.sync(0);
    world.delete(Kind::SECRET, "shop", "t");
    assert_eq!(world.sync(1), ["update ServiceAccount shop/builder: 200"]);
    let account = world.get(Kind::SERVICE_ACCOUNT, "shop", "builder");
    assert_eq!(account["secrets"], json!([{"name": "pull"}]));
    secret(&mut world, "u", None);
    world.sync(2);
    world.delete(Kind::SECRET, "shop", "u");
    assert!(world.sync(3).is_empty(), "the Secret is not in the list");
    // After a failure, the sync is retried for the account that the Secret named.
    world.change(
        Kind::SERVICE_ACCOUNT,
        "shop",
        "builder",
        &json!({"secrets": [{"name": "v"}]}),
    );
    secret(&mut world, "v", None);
    world.sync(4);
    world.fail("get ServiceAccount shop/builder", true);
    world.delete(Kind::SECRET, "shop", "v");
    assert!(world.sync(5).is_empty());
    world.fail("get ServiceAccount shop/builder", false);
    assert_eq!(world.sync(6), ["update ServiceAccount shop/builder: 200"]);
    let account = world.get(Kind::SERVICE_ACCOUNT, "shop", "builder");
    assert!(account.get("secrets").is_none());
}

#[test]
fn without_a_signer_secrets_get_all_except_the_token() {
    let mut world = world_with(None);
    account(&mut world);
    secret(&mut world, "t", None);
    assert_eq!(world.sync(0), FILLED);
    assert_eq!(data(&world, "t", "namespace"), "shop");
    assert!(
        world.get(Kind::SECRET, "shop", "t")["data"]
            .get("token")
            .is_none()
    );
}

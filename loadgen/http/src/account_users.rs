//! Users of service account tokens. A token authenticates its user while the objects that it is
//! bound to exist.
//!
//! Source: `pkg/serviceaccount` of Kubernetes 1.36: `jwt.go`, `claims.go`, `legacy.go`.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use podstorm_apiserver::Cluster;
use podstorm_objects::{AnyObject, DynamicObject, Kind, Now};

use crate::account_tokens::{Bound, Claims, ISSUER, TokenKey, user_name};
use crate::credentials::{NotAuthenticated, User, bearer};
use crate::server::ApiServer;

/// Tolerance for clock skew in seconds: how long a token stays valid after its expiry, and after
/// the deletion of an object that it is bound to.
const LEEWAY_SECONDS: i64 = 60;

/// The prefix of the keys of a user's extra attributes.
const EXTRA: &str = "authentication.kubernetes.io/";

/// The user of a token, and the token's audiences that the request accepts.
#[derive(Clone, Debug)]
pub(crate) struct Authenticated {
    pub(crate) user: Arc<User>,
    pub(crate) audiences: Vec<String>,
}

impl ApiServer {
    /// Returns the token key. `None` if it has not been created yet.
    fn known_token_key(&self) -> Option<&TokenKey> {
        self.0.settings.token_key.get()
    }

    /// Returns the token key; the first call creates it. `None` if the system cannot provide random
    /// numbers.
    pub(crate) fn token_key(&self) -> Option<&TokenKey> {
        let slot = &self.0.settings.token_key;
        if slot.get().is_none() {
            // If another thread was faster, use its key.
            let _first = slot.set(TokenKey::new().ok()?);
        }
        slot.get()
    }

    /// Returns the user of a bearer token, if the token is valid now and for one of `audiences`.
    ///
    /// # Errors
    /// Fails if the token is unknown or invalid, or is for other audiences.
    pub(crate) fn authenticate(
        &self,
        token: &str,
        audiences: &[&str],
    ) -> Result<Authenticated, NotAuthenticated> {
        let (user, of_token) = match self.credentials().of_token(token) {
            Some(user) => (user, vec![ISSUER.to_owned()]),
            None => {
                let claims = self.known_token_key().and_then(|key| key.verify(token));
                let claims = claims.ok_or(NotAuthenticated::Unknown)?;
                let checked = check(self.cluster(), &claims, token, self.now());
                checked.map_err(NotAuthenticated::Invalid)?;
                let audiences = match claims.is_of_secret() {
                    true => vec![ISSUER.to_owned()],
                    false => claims.audiences.clone(),
                };
                (Arc::new(user(&claims)), audiences)
            }
        };
        let meant: Vec<String> = (of_token.iter())
            .filter(|one| audiences.contains(&one.as_str()))
            .cloned()
            .collect();
        match meant.is_empty() {
            true => Err(NotAuthenticated::Invalid(format!(
                "token audiences {} is invalid for the target audiences {}",
                go_list(&of_token),
                go_list(audiences)
            ))),
            false => Ok(Authenticated {
                user,
                audiences: meant,
            }),
        }
    }

    /// Returns the user of a request's bearer token, which must be valid for this server.
    ///
    /// # Errors
    /// The same as [`authenticate`](ApiServer::authenticate).
    pub(crate) fn user_of_token(&self, token: &str) -> Result<Arc<User>, NotAuthenticated> {
        let authenticated = self.authenticate(token, &[ISSUER])?;
        Ok(authenticated.user)
    }

    /// Reports whether a request with these headers has a valid bearer token, or needs no
    /// credential.
    pub(crate) fn accepts(&self, headers: &HeaderMap) -> bool {
        let is_good = |token| self.user_of_token(token).is_ok();
        !self.credentials().are_required() || bearer(headers).is_some_and(is_good)
    }
}

/// Formats a list of strings as Go's `%q` does.
fn go_list(texts: &[impl AsRef<str>]) -> String {
    let texts: Vec<String> = texts
        .iter()
        .map(|text| format!("{:?}", text.as_ref()))
        .collect();
    format!("[{}]", texts.join(" "))
}

/// Checks the claims of a token against the time and the objects in the cluster.
///
/// # Errors
/// Returns the reason why the token is invalid now.
fn check(cluster: &Cluster, claims: &Claims, token: &str, now: Now) -> Result<(), String> {
    let now_seconds = now.wall().unix_seconds().unwrap_or_default();
    let deleted_before = now_seconds - LEEWAY_SECONDS;
    let is_gone = |object: &AnyObject| {
        let deleted = object.metadata().deletion_timestamp.unix_seconds();
        deleted.is_some_and(|at| at < deleted_before)
    };
    let get = |kind: Kind, namespace: &str, name: &str| cluster.api(kind).get(namespace, name).ok();
    let namespace = claims.namespace.as_str();
    let is_of_secret = claims.is_of_secret();
    if let Some(lasts) = claims.lasts {
        if now_seconds > lasts.until.saturating_add(LEEWAY_SECONDS) {
            return Err("service account token has expired".to_owned());
        }
        if now_seconds.saturating_add(LEEWAY_SECONDS) < lasts.from {
            return Err("service account token is not valid yet".to_owned());
        }
    }
    let invalidated = || Err("service account token has been invalidated".to_owned());
    if let (true, Some(secret)) = (is_of_secret, &claims.secret) {
        let secret = get(Kind::SECRET, namespace, &secret.name);
        let Some(secret) = secret.filter(|secret| !is_gone(secret)) else {
            return invalidated();
        };
        if token_in(&secret).as_deref() != Some(token.as_bytes()) {
            return Err("token does not match server's copy".to_owned());
        }
    }
    let account = &claims.account;
    let found = cluster
        .api(Kind::SERVICE_ACCOUNT)
        .get(namespace, &account.name);
    let found = found.map_err(|error| error.message)?;
    if is_gone(&found) {
        return Err(format!(
            "service account {namespace}/{} has been deleted",
            account.name
        ));
    }
    let uid = found.metadata().uid.to_string();
    if uid != account.uid {
        return Err(format!(
            "service account UID ({uid}) does not match claim ({})",
            account.uid
        ));
    }
    if is_of_secret {
        return Ok(());
    }
    // A pod's token names the pod's node but is not bound to it.
    let node = claims.node.as_ref().filter(|_| claims.pod.is_none());
    for (bound, kind, namespace, what) in [
        (&claims.pod, Kind::POD, namespace, "pod"),
        (&claims.secret, Kind::SECRET, namespace, "secret"),
        (&node.cloned(), Kind::NODE, "", "node"),
    ] {
        let Some(bound) = bound else { continue };
        let found = get(kind, namespace, &bound.name).filter(|found| !is_gone(found));
        let Some(found) = found else {
            return invalidated();
        };
        let uid = found.metadata().uid.to_string();
        if uid != bound.uid {
            return Err(format!(
                "{what} UID ({uid}) does not match service account {what} ref claim ({})",
                bound.uid
            ));
        }
    }
    Ok(())
}

/// Returns the token that a Secret holds.
fn token_in(secret: &AnyObject) -> Option<Vec<u8>> {
    let members = &secret.downcast_ref::<DynamicObject>()?.fields;
    let token = members.get("data")?.get("token")?.as_str()?;
    BASE64_STANDARD.decode(token).ok()
}

/// Returns the user that the claims identify.
fn user(claims: &Claims) -> User {
    let mut user = User {
        name: user_name(&claims.namespace, &claims.account.name),
        uid: claims.account.uid.clone(),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", claims.namespace),
        ],
        ..User::default()
    };
    let mut tell = |key: &str, value: &str| {
        if !value.is_empty() {
            user.extra
                .insert(format!("{EXTRA}{key}"), vec![value.to_owned()]);
        }
    };
    if !claims.id.is_empty() {
        tell("credential-id", &format!("JTI={}", claims.id));
    }
    let bound: [(&str, Option<&Bound>); 2] =
        [("pod", claims.pod.as_ref()), ("node", claims.node.as_ref())];
    for (what, bound) in bound {
        if let Some(bound) = bound {
            tell(&format!("{what}-name"), &bound.name);
            tell(&format!("{what}-uid"), &bound.uid);
        }
    }
    user.authenticated()
}

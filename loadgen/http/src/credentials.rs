//! Authentication: bearer tokens, client certificates, and their users.
//!
//! Source: `authentication/request` and `endpoints/filters/{authentication,impersonation}` of
//! Kubernetes' apiserver.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, LazyLock};

use http::HeaderMap;
use http::header::AUTHORIZATION;
use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Reason};
use serde_json::{Map, Value, json};

use crate::route::Route;

/// The group of all authenticated users.
const AUTHENTICATED: &str = "system:authenticated";

static ANONYMOUS: LazyLock<Arc<User>> = LazyLock::new(|| {
    Arc::new(User {
        name: "system:anonymous".to_owned(),
        groups: vec!["system:unauthenticated".to_owned()],
        ..User::default()
    })
});

/// A user of the API. A listener passes the user of a request as `Arc<User>` in the request's
/// extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// The user's UID; may be empty.
    pub uid: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// Extra attributes of the user, by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Returns a random token: 32 bytes in hexadecimal.
///
/// # Errors
/// Fails if the system cannot provide random numbers.
pub fn random_token() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Seeds this process's hash maps at random, so that clients cannot provoke hash collisions. Call
/// it in a process that serves untrusted clients before the cluster is created. Servers that listen
/// call it, too, for the maps that are created later.
///
/// # Errors
/// Fails if the system cannot provide random numbers.
pub fn draw_hash_seed() -> io::Result<()> {
    let mut seed = [0; 8];
    getrandom::fill(&mut seed)?;
    podstorm_objects::seed_hashes(u64::from_ne_bytes(seed));
    Ok(())
}

impl User {
    /// Returns the user as JSON for reviews. Empty members are omitted.
    pub(crate) fn to_json(&self) -> Value {
        let mut user = Map::new();
        user.insert("username".to_owned(), self.name.as_str().into());
        if !self.uid.is_empty() {
            user.insert("uid".to_owned(), self.uid.as_str().into());
        }
        if !self.groups.is_empty() {
            user.insert("groups".to_owned(), json!(self.groups));
        }
        if !self.extra.is_empty() {
            user.insert("extra".to_owned(), json!(self.extra));
        }
        Value::Object(user)
    }

    /// Adds the user to the group of authenticated users.
    pub(crate) fn authenticated(mut self) -> User {
        if !self.groups.iter().any(|group| group == AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}

/// The reason why a token does not authenticate a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotAuthenticated {
    /// The token is unknown to the server.
    Unknown,
    /// The server issued the token, but the token has expired or is invalid here. Holds the reason
    /// in upstream's words.
    Invalid(String),
}

/// The credentials that a server accepts. If there are none, clients need no credential, and those
/// without one are `system:anonymous`.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    tokens: BTreeMap<String, Arc<User>>,
    required: bool,
}

impl Credentials {
    /// Adds a bearer token for a user. If the token is already known, replaces its user and returns
    /// false. From then on, every client needs a credential.
    pub fn add_token(&mut self, token: impl Into<String>, user: User) -> bool {
        self.required = true;
        let user = Arc::new(user.authenticated());
        self.tokens.insert(token.into(), user).is_none()
    }

    /// Reports whether clients need a credential.
    pub(crate) fn are_required(&self) -> bool {
        self.required
    }

    /// Returns the user of a token that was [added](Credentials::add_token), or `None`.
    pub(crate) fn of_token(&self, token: &str) -> Option<Arc<User>> {
        self.tokens.get(token).cloned()
    }

    /// Returns the user of a request.
    ///
    /// # Errors
    /// * 401 if a credential is required but is missing (except for public routes) or wrong.
    /// * 401 for a token that the server issued and that is no longer valid, even if no credential
    ///   is required.
    /// * 400 for `Impersonate-Group` without `Impersonate-User`.
    pub(crate) fn user_of(
        &self,
        head: &http::request::Parts,
        route: &Route,
        user_of_token: impl Fn(&str) -> Result<Arc<User>, NotAuthenticated>,
    ) -> Result<Arc<User>, ApiError> {
        let user = match head.extensions.get::<Arc<User>>() {
            Some(user) => Arc::clone(user),
            None => match bearer(&head.headers).map(user_of_token) {
                Some(Ok(user)) => user,
                Some(Err(NotAuthenticated::Invalid(_))) => return Err(unauthorized()),
                None if self.required && !route.is_public() => return Err(unauthorized()),
                Some(Err(NotAuthenticated::Unknown)) if self.required => {
                    return Err(unauthorized());
                }
                _ => Arc::clone(&ANONYMOUS),
            },
        };
        match head.headers.contains_key("impersonate-user")
            || head.headers.contains_key("impersonate-group")
        {
            true => impersonated(&head.headers),
            false => Ok(user),
        }
    }
}

/// Returns the bearer token in a request's headers, if there is one.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.trim().split_once(' ')?;
    let token = rest.split(' ').next().filter(|token| !token.is_empty())?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

/// Returns the user that a request impersonates. Every user may impersonate any other user.
fn impersonated(headers: &HeaderMap) -> Result<Arc<User>, ApiError> {
    let text = |name: &str| -> String {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or("").to_owned()
    };
    let groups = headers.get_all("impersonate-group").iter();
    let groups = groups.filter_map(|group| group.to_str().ok());
    let user = User {
        name: text("impersonate-user"),
        uid: text("impersonate-uid"),
        groups: groups.map(str::to_owned).collect(),
        ..User::default()
    };
    match user.name.is_empty() {
        true => {
            let why = "Impersonate-Group requires Impersonate-User";
            Err(errors::bad_request(why))
        }
        false => Ok(Arc::new(user.authenticated())),
    }
}

/// Returns a 401: the credential is missing or wrong.
fn unauthorized() -> ApiError {
    ApiError::status(401, Reason::Other("Unauthorized".into()), "Unauthorized")
}

#[cfg(test)]
mod tests {
    use super::random_token;

    #[test]
    fn tokens_differ() {
        let (one, other) = (random_token().unwrap(), random_token().unwrap());
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
    }
}

//! Who sends a request: bearer tokens, client certificates, and the users that they stand for.
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

/// The group of everybody who has shown a credential.
const AUTHENTICATED: &str = "system:authenticated";

static ANONYMOUS: LazyLock<Arc<User>> = LazyLock::new(|| {
    Arc::new(User {
        name: "system:anonymous".to_owned(),
        uid: String::new(),
        groups: vec!["system:unauthenticated".to_owned()],
        ..User::default()
    })
});

/// A user of the API. What a listener puts into a request's extensions as `Arc<User>` sends it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// Its UID; may be empty.
    pub uid: String,
    /// The groups that it is in.
    pub groups: Vec<String>,
    /// What else is known of it, by keys.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A random token: 32 bytes, in hexadecimal.
///
/// # Errors
/// The system has no random numbers.
pub fn random_token() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Gives the maps of this process a seed that clients can't know, so that no names collide on purpose. A process that
/// serves others calls it before it makes its cluster; servers that listen call it anyway, for maps made from then on.
///
/// # Errors
/// The system has no random numbers.
pub fn draw_hash_seed() -> io::Result<()> {
    let mut seed = [0; 8];
    getrandom::fill(&mut seed)?;
    podstorm_objects::seed_hashes(u64::from_ne_bytes(seed));
    Ok(())
}

impl User {
    /// The user as reviews show it: without what is empty.
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

    /// As a member of the group of all who are known.
    pub(crate) fn authenticated(mut self) -> User {
        if !self.groups.iter().any(|group| group == AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}

/// Why a token stands for no user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotAuthenticated {
    /// The server does not know the token.
    Unknown,
    /// It was one of the server's, and is no good any more or not here: why, in upstream's words.
    Invalid(String),
}

/// The credentials that a server takes. With none at all everybody is served, as `system:anonymous`.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    tokens: BTreeMap<String, Arc<User>>,
    required: bool,
}

impl Credentials {
    /// Takes a bearer token for a user; false where the token is another user's already. Everybody
    /// needs a credential from now on.
    pub fn add_token(&mut self, token: impl Into<String>, user: User) -> bool {
        self.required = true;
        let user = Arc::new(user.authenticated());
        self.tokens.insert(token.into(), user).is_none()
    }

    /// Whether everybody needs one.
    pub(crate) fn are_required(&self) -> bool {
        self.required
    }

    /// The user of a token that was [added](Credentials::add_token).
    pub(crate) fn of_token(&self, token: &str) -> Option<Arc<User>> {
        self.tokens.get(token).cloned()
    }

    /// The user of a request.
    ///
    /// # Errors
    /// 401 where credentials are needed, and there is none or a wrong one: what is public is asked without one; 401 for
    /// a token of the server's that is no good any more, whether credentials are needed or not; 400 for groups without
    /// a user to act as.
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

/// The token of a request, if it has one.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.trim().split_once(' ')?;
    let token = rest.split(' ').next().filter(|token| !token.is_empty())?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

/// The user that a request wants to be sent by: everybody may act as anybody.
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
            let why = "Impersonate-Group needs Impersonate-User: the user to act as";
            Err(errors::bad_request(why))
        }
        false => Ok(Arc::new(user.authenticated())),
    }
}

/// 401: no credential, or a wrong one.
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

//! Service account tokens: JSON web tokens that the server signs, and their claims.
//!
//! Source: `Claims` and `LegacyClaims` in Kubernetes' `pkg/serviceaccount`; RFC 7515, 7517 and
//! 7519.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use podstorm_objects::{ObjectMeta, Uid};
use ring::rand::SystemRandom;
use serde_json::{Map, Value, json};

use crate::token_keys::{KeyError, PrivateKey, PublicKey};

/// The issuer and default audience of tokens that expire.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// The issuer of the tokens in Secrets.
const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// The prefix of the claims of tokens in Secrets.
const LEGACY: &str = "kubernetes.io/serviceaccount/";

/// The prefix of service accounts' user names.
const USER: &str = "system:serviceaccount:";

/// The maximum number of cached verified tokens. Verifying a signature costs more than a lookup.
const VERIFIED_MAX: usize = 1_024;

/// The key that signs a server's service account tokens, and the public keys of all tokens that the
/// server trusts. Clones share the keys.
#[derive(Clone)]
pub struct TokenKey(Arc<Key>);

struct Key {
    private: Arc<PrivateKey>,
    /// The keys that verify tokens, without duplicates. The public key of `private` comes first.
    public: Vec<PublicKey>,
    random: SystemRandom,
    /// The claims of verified tokens, keyed by token.
    verified: Mutex<BTreeMap<String, Arc<Claims>>>,
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKey")
            .field("id", &self.signs_by().id)
            .finish_non_exhaustive()
    }
}

impl TokenKey {
    /// Creates a new key.
    ///
    /// # Errors
    /// Fails if the system cannot provide random numbers.
    pub fn new() -> io::Result<TokenKey> {
        let random = SystemRandom::new();
        let failed =
            || io::Error::other("cannot create a token key: the system has no random numbers");
        let private = PrivateKey::generate(&random).ok_or_else(failed)?;
        Ok(TokenKey::from_keys(Arc::new(private), Vec::new()))
    }

    /// Reads a private key from a PEM file: RSA, or EC with the curve P-256.
    ///
    /// # Errors
    /// Fails if the file has no such private key.
    pub fn read(text: &str) -> Result<TokenKey, KeyError> {
        let private = PrivateKey::read(text, &SystemRandom::new())?;
        Ok(TokenKey::from_keys(Arc::new(private), Vec::new()))
    }

    /// Returns a key that signs like this one and also trusts the tokens that `keys` verify.
    #[must_use]
    pub fn believing(&self, keys: Vec<PublicKey>) -> TokenKey {
        TokenKey::from_keys(Arc::clone(&self.0.private), keys)
    }

    fn from_keys(private: Arc<PrivateKey>, further: Vec<PublicKey>) -> TokenKey {
        let mut public = vec![private.public()];
        for key in further {
            if !public.contains(&key) {
                public.push(key);
            }
        }
        TokenKey(Arc::new(Key {
            private,
            public,
            random: SystemRandom::new(),
            verified: Mutex::default(),
        }))
    }

    /// Returns the public part of the signing key.
    fn signs_by(&self) -> &PublicKey {
        self.0
            .public
            .first()
            .expect("the first public key belongs to the private key")
    }

    /// Returns the token for a Secret of a service account. The token is valid until the Secret or
    /// the service account is deleted. `None` if the system cannot provide random numbers.
    pub fn sign_for_secret(&self, account: &ObjectMeta, secret: &str) -> Option<String> {
        let (namespace, name) = (&account.namespace, &account.name);
        let claim = |name: &str| format!("{LEGACY}{name}");
        let mut claims = Map::new();
        claims.insert("iss".to_owned(), LEGACY_ISSUER.into());
        claims.insert("sub".to_owned(), user_name(namespace, name).into());
        claims.insert(claim("namespace"), (&**namespace).into());
        claims.insert(claim("secret.name"), secret.into());
        claims.insert(claim("service-account.name"), name.as_str().into());
        claims.insert(claim("service-account.uid"), account.uid.to_string().into());
        self.sign(&Value::Object(claims))
    }

    /// Returns a token with these claims. `None` if the system cannot provide random numbers.
    pub(crate) fn sign(&self, claims: &Value) -> Option<String> {
        let public = self.signs_by();
        let header = format!(
            r#"{{"alg":"{}","kid":"{}"}}"#,
            public.algorithm(),
            public.id
        );
        let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        let signed = format!("{}.{}", encode(&header), encode(&claims.to_string()));
        let signature = self.0.private.sign(signed.as_bytes(), &self.0.random)?;
        let signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
        Some(format!("{signed}.{signature}"))
    }

    /// Returns the claims of a token that was signed by this key or by a trusted one; `None` for
    /// any other token.
    pub(crate) fn verify(&self, token: &str) -> Option<Arc<Claims>> {
        let lock = || {
            let verified = self.0.verified.lock();
            verified.unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(known) = lock().get(token) {
            return Some(Arc::clone(known));
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).ok();
        let read = |text: &str| serde_json::from_slice::<Value>(&decode(text)?).ok();
        let header = read(header)?;
        let is_its = |key: &&PublicKey| header["kid"] == key.id && header["alg"] == key.algorithm();
        let public = self.0.public.iter().find(is_its)?;
        let signature = decode(signature)?;
        if !public.verifies(signed.as_bytes(), &signature) {
            return None;
        }
        let claims = Arc::new(Claims::read(&read(claims)?)?);
        let mut verified = lock();
        if verified.len() >= VERIFIED_MAX {
            verified.clear();
        }
        verified.insert(token.to_owned(), Arc::clone(&claims));
        Some(claims)
    }

    /// Returns the keys that verify tokens. The public part of the signing key comes first.
    pub(crate) fn public(&self) -> &[PublicKey] {
        &self.0.public
    }
}

/// Returns the user name of a service account.
pub(crate) fn user_name(namespace: &str, account: &str) -> String {
    format!("{USER}{namespace}:{account}")
}

/// An object that a token refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) name: String,
    /// Empty for a node that does not exist.
    pub(crate) uid: String,
}

impl Bound {
    pub(crate) fn to(metadata: &ObjectMeta) -> Bound {
        Bound {
            name: metadata.name.to_string(),
            uid: metadata.uid.to_string(),
        }
    }

    fn read(claim: &Value) -> Option<Bound> {
        let text = |member: &str| claim[member].as_str().unwrap_or("").to_owned();
        claim.is_object().then(|| Bound {
            name: text("name"),
            uid: text("uid"),
        })
    }

    fn to_json(&self) -> Value {
        match self.uid.is_empty() {
            true => json!({"name": self.name}),
            false => json!({"name": self.name, "uid": self.uid}),
        }
    }
}

/// The claims of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) namespace: String,
    pub(crate) account: Bound,
    pub(crate) pod: Option<Bound>,
    pub(crate) secret: Option<Bound>,
    pub(crate) node: Option<Bound>,
    /// The audiences; empty for a token in a Secret.
    pub(crate) audiences: Vec<String>,
    /// The validity period; `None` for a token in a Secret.
    pub(crate) lasts: Option<Lasting>,
    /// The time after which using the token is reported as stale, in seconds since the epoch.
    pub(crate) warn_after: Option<i64>,
    /// The claim `jti`; empty for a token in a Secret.
    pub(crate) id: String,
}

/// The period in which a token is valid, in seconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lasting {
    pub(crate) from: i64,
    pub(crate) until: i64,
}

impl Claims {
    /// Reports whether the token is that of a Secret, which has no expiry.
    pub(crate) fn is_of_secret(&self) -> bool {
        self.lasts.is_none()
    }

    /// Returns the claims of an expiring token as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let mut about = json!({"namespace": self.namespace,
            "serviceaccount": self.account.to_json()});
        for (member, bound) in [
            ("pod", &self.pod),
            ("secret", &self.secret),
            ("node", &self.node),
        ] {
            if let Some(bound) = bound {
                about[member] = bound.to_json();
            }
        }
        if let Some(seconds) = self.warn_after {
            about["warnafter"] = seconds.into();
        }
        let mut claims = json!({"iss": ISSUER, "sub": user_name(&self.namespace, &self.account.name),
            "aud": self.audiences, "jti": self.id, "kubernetes.io": about});
        if let Some(lasts) = self.lasts {
            claims["iat"] = lasts.from.into();
            claims["nbf"] = lasts.from.into();
            claims["exp"] = lasts.until.into();
        }
        claims
    }

    /// Parses claims. `None` if this server issues no tokens with such claims.
    fn read(claims: &Value) -> Option<Claims> {
        let text = |of: &Value| of.as_str().unwrap_or("").to_owned();
        if claims["iss"] == LEGACY_ISSUER {
            let claim = |name: &str| text(&claims[format!("{LEGACY}{name}")]);
            return Some(Claims {
                namespace: claim("namespace"),
                account: Bound {
                    name: claim("service-account.name"),
                    uid: claim("service-account.uid"),
                },
                secret: Some(Bound {
                    name: claim("secret.name"),
                    uid: String::new(),
                }),
                ..Claims::default()
            });
        }
        let about = &claims["kubernetes.io"];
        let audiences = claims["aud"].as_array().into_iter().flatten();
        (claims["iss"] == ISSUER).then_some(())?;
        Some(Claims {
            namespace: text(&about["namespace"]),
            account: Bound::read(&about["serviceaccount"])?,
            pod: Bound::read(&about["pod"]),
            secret: Bound::read(&about["secret"]),
            node: Bound::read(&about["node"]),
            audiences: audiences.map(text).collect(),
            lasts: Some(Lasting {
                from: claims["nbf"].as_i64()?,
                until: claims["exp"].as_i64()?,
            }),
            warn_after: about["warnafter"].as_i64(),
            id: text(&claims["jti"]),
        })
    }
}

/// Returns a random id for a new token. `None` if the system cannot provide random numbers.
pub(crate) fn token_id() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    let (version, variant) = (0x4_u128 << 76, 0x2_u128 << 62);
    let bits = u128::from_ne_bytes(bytes) & !(0xf_u128 << 76) & !(0x3_u128 << 62);
    Some(Uid::from_u128(bits | version | variant).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        let bound = |name: &str| Bound {
            name: name.to_owned(),
            uid: format!("{name}-uid"),
        };
        Claims {
            namespace: "shop".to_owned(),
            account: bound("builder"),
            pod: Some(bound("web")),
            secret: None,
            node: Some(bound("n1")),
            audiences: vec![ISSUER.to_owned()],
            lasts: Some(Lasting {
                from: 100,
                until: 700,
            }),
            warn_after: Some(400),
            id: "7".to_owned(),
        }
    }

    fn part(token: &str, number: usize) -> Value {
        let part = token.split('.').nth(number).unwrap();
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    #[test]
    fn a_token_has_upstreams_claims() {
        let key = TokenKey::new().unwrap();
        let token = key.sign(&claims().to_json()).unwrap();
        assert_eq!(
            part(&token, 0),
            json!({"alg": "ES256", "kid": key.public()[0].id})
        );
        let expected = json!({"aud": [ISSUER], "exp": 700, "iat": 100, "nbf": 100, "iss": ISSUER,
            "jti": "7", "sub": "system:serviceaccount:shop:builder", "kubernetes.io": {
                "namespace": "shop", "node": {"name": "n1", "uid": "n1-uid"},
                "pod": {"name": "web", "uid": "web-uid"},
                "serviceaccount": {"name": "builder", "uid": "builder-uid"}, "warnafter": 400}});
        assert_eq!(part(&token, 1), expected);
        assert_eq!(*key.verify(&token).unwrap(), claims());
        assert_eq!(*key.verify(&token).unwrap(), claims(), "from the cache");
    }

    #[test]
    fn the_token_of_a_secret_never_expires() {
        let key = TokenKey::new().unwrap();
        let account = ObjectMeta {
            namespace: "shop".into(),
            name: "builder".into(),
            uid: "u".into(),
            ..ObjectMeta::default()
        };
        let token = key.sign_for_secret(&account, "s").unwrap();
        let expected = json!({"iss": LEGACY_ISSUER, "sub": "system:serviceaccount:shop:builder",
            "kubernetes.io/serviceaccount/namespace": "shop",
            "kubernetes.io/serviceaccount/secret.name": "s",
            "kubernetes.io/serviceaccount/service-account.name": "builder",
            "kubernetes.io/serviceaccount/service-account.uid": "u"});
        assert_eq!(part(&token, 1), expected);
        let claims = key.verify(&token).unwrap();
        assert!(claims.is_of_secret());
        assert_eq!(
            (&*claims.account.uid, &*claims.secret.as_ref().unwrap().name),
            ("u", "s")
        );
    }

    #[test]
    fn only_tokens_signed_by_the_key_are_valid() {
        let (key, other) = (TokenKey::new().unwrap(), TokenKey::new().unwrap());
        let token = key.sign(&claims().to_json()).unwrap();
        assert!(other.verify(&token).is_none());
        let parts: Vec<&str> = token.split('.').collect();
        let forged = json!({"alg": "none", "kid": key.public()[0].id}).to_string();
        let forged = BASE64_URL_SAFE_NO_PAD.encode(forged);
        let mut richer = claims();
        richer.account.name = "admin".to_owned();
        let richer = BASE64_URL_SAFE_NO_PAD.encode(richer.to_json().to_string());
        for wrong in [
            format!("{}.{richer}.{}", parts[0], parts[2]),
            format!("{forged}.{}.{}", parts[1], parts[2]),
            format!("{forged}.{}.", parts[1]),
            format!("{}.{}", parts[0], parts[1]),
            format!("{token}."),
            String::new(),
            "..".to_owned(),
        ] {
            assert!(key.verify(&wrong).is_none(), "{wrong}");
        }
        let stranger = key.sign(&json!({"iss": "https://elsewhere"})).unwrap();
        assert!(key.verify(&stranger).is_none(), "a token of another issuer");
    }

    #[test]
    fn a_key_trusts_the_tokens_of_added_keys() {
        let (old, stranger) = (TokenKey::new().unwrap(), TokenKey::new().unwrap());
        let new = TokenKey::new().unwrap();
        let id = new.public()[0].id.clone();
        let own = new.public()[0].clone();
        let new = new.believing(vec![old.public()[0].clone(), own]);
        let ids: Vec<&str> = new.public().iter().map(|key| &*key.id).collect();
        assert_eq!(
            ids,
            [&*id, &*old.public()[0].id],
            "the key's own id first, no duplicates"
        );
        let token = |key: &TokenKey| key.sign(&claims().to_json()).unwrap();
        assert_eq!(*new.verify(&token(&old)).unwrap(), claims());
        assert_eq!(*new.verify(&token(&new)).unwrap(), claims());
        assert_eq!(part(&token(&new), 0)["kid"], *id);
        assert!(new.verify(&token(&stranger)).is_none());
        assert!(old.verify(&token(&new)).is_none());
    }

    #[test]
    fn token_ids_are_random_uuids() {
        let (one, other) = (token_id().unwrap(), token_id().unwrap());
        assert_ne!(one, other);
        assert_eq!((one.len(), &one[14..15]), (36, "4"));
    }
}

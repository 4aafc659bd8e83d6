//! Keys for tokens: EC keys with the curve P-256, which sign with ES256, and RSA keys, which sign
//! with RS256. Keys are generated or read from PEM files.
//!
//! `pem` splits a file into blocks; `der` reads and writes their content.
//!
//! Source: `PrivateKeyFromFile` and `PublicKeysFromFile` in Kubernetes' `client-go/util/keyutil`;
//! RFC 5280, 5915, 5958, 7518 and 8017.

pub(crate) mod der;
mod pem;
#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey,
    VerificationAlgorithm,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use der::{BIT_STRING, INTEGER, OBJECT, OCTET_STRING, Reader, SEQUENCE};

/// The encoded object identifiers of the algorithms and of the curve.
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];

/// Length of a P-256 point: one byte for its form, and two coordinates.
const POINT_BYTES: usize = 65;

/// The reason why a file has no usable key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The file has no PEM block.
    #[error("expected a key in PEM, which begins with `-----BEGIN PRIVATE KEY-----`")]
    NoKey,
    /// A block has no end, or is not valid base64.
    #[error("the block that begins with `-----BEGIN {0}-----` is damaged")]
    BadBlock(String),
    /// A block has another type.
    #[error(
        "the block `{0}` is not a key that can be used here; expected PRIVATE KEY, EC PRIVATE KEY, \
         RSA PRIVATE KEY{also_public}",
        also_public = if *.1 { ", PUBLIC KEY or RSA PUBLIC KEY" } else { "" }
    )]
    OtherBlock(String, bool),
    /// A block does not hold a valid key.
    #[error("the block `{0}` does not hold a valid key")]
    BadKey(String),
    /// A key has an unsupported algorithm or curve.
    #[error("the key is neither RSA nor EC of the curve P-256 (prime256v1)")]
    OtherAlgorithm,
    /// An EC private key lacks its public key.
    #[error("the EC key lacks its public key, which `openssl ec -in FILE` adds")]
    NoPublicKey,
    /// An RSA key has an unsupported size or inconsistent numbers.
    #[error("the RSA key cannot sign ({0}); expected a key of 2048 to 4096 bits")]
    BadRsa(String),
}

/// A key that signs tokens.
pub(crate) enum PrivateKey {
    Ec(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

/// A key that verifies signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    pub(crate) id: String,
    form: Form,
    /// The point of an EC key, or an `RSAPublicKey`.
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Ec,
    Rsa,
}

impl PrivateKey {
    /// Generates an EC key. `None` if the system cannot provide random numbers.
    pub(crate) fn generate(random: &SystemRandom) -> Option<PrivateKey> {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, random).ok()?;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), random).ok()?;
        Some(PrivateKey::Ec(pair))
    }

    /// Returns the private key in the first block of a PEM file, in PKCS #8, SEC 1 or PKCS #1.
    pub(crate) fn read(text: &str, random: &SystemRandom) -> Result<PrivateKey, KeyError> {
        let blocks = pem::blocks(text)?;
        let block = blocks.first().ok_or(KeyError::NoKey)?;
        PrivateKey::of_block(block, random)?
            .ok_or_else(|| KeyError::OtherBlock(block.label.clone(), false))
    }

    /// Reads the key of a block. `None` for a block of another type.
    fn of_block(block: &pem::Block, random: &SystemRandom) -> Result<Option<PrivateKey>, KeyError> {
        let bad = || KeyError::BadKey(block.label.clone());
        let key = match &*block.label {
            "EC PRIVATE KEY" => PrivateKey::sec1(&block.bytes, None, random).ok_or_else(bad)?,
            "RSA PRIVATE KEY" => PrivateKey::rsa(&block.bytes),
            "PRIVATE KEY" => PrivateKey::pkcs8(&block.bytes, random).ok_or_else(bad)?,
            _ => return Ok(None),
        };
        key.map(Some)
    }

    /// Reads a PKCS #8 key. `None` if the content is invalid.
    fn pkcs8(bytes: &[u8], random: &SystemRandom) -> Option<Result<PrivateKey, KeyError>> {
        let mut key = Reader(bytes).sequence()?;
        key.read(INTEGER)?;
        let mut algorithm = key.sequence()?;
        let (object, inner) = (algorithm.read(OBJECT)?, key.read(OCTET_STRING)?);
        match object {
            RSA => Some(PrivateKey::rsa(inner)),
            EC => PrivateKey::sec1(inner, Some(algorithm.read(OBJECT)?), random),
            _ => Some(Err(KeyError::OtherAlgorithm)),
        }
    }

    /// Reads a SEC 1 key. `None` if the content is invalid. `curve` is the curve named outside the
    /// key.
    fn sec1(
        bytes: &[u8],
        curve: Option<&[u8]>,
        random: &SystemRandom,
    ) -> Option<Result<PrivateKey, KeyError>> {
        let mut key = Reader(bytes).sequence()?;
        key.read(INTEGER)?;
        let secret = key.read(OCTET_STRING)?;
        let own = key.read(der::context(0));
        let own = own.and_then(|own| Reader(own).read(OBJECT));
        if own.or(curve)? != P256 {
            return Some(Err(KeyError::OtherAlgorithm));
        }
        let Some(public) = key.read(der::context(1)) else {
            return Some(Err(KeyError::NoPublicKey));
        };
        let public = Reader(public).bits()?;
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = EcdsaKeyPair::from_private_key_and_public_key(algorithm, secret, public, random);
        pair.ok().map(|pair| Ok(PrivateKey::Ec(pair)))
    }

    fn rsa(bytes: &[u8]) -> Result<PrivateKey, KeyError> {
        let pair = RsaKeyPair::from_der(bytes);
        let pair = pair.map_err(|rejected| KeyError::BadRsa(rejected.to_string()))?;
        Ok(PrivateKey::Rsa(pair))
    }

    /// Returns the key that verifies this key's signatures.
    pub(crate) fn public(&self) -> PublicKey {
        match self {
            PrivateKey::Ec(pair) => PublicKey::new(Form::Ec, pair.public_key().as_ref()),
            PrivateKey::Rsa(pair) => PublicKey::new(Form::Rsa, pair.public_key().as_ref()),
        }
    }

    /// Signs a string. `None` if the system cannot provide random numbers.
    pub(crate) fn sign(&self, text: &[u8], random: &SystemRandom) -> Option<Vec<u8>> {
        match self {
            PrivateKey::Ec(pair) => Some(pair.sign(random, text).ok()?.as_ref().to_vec()),
            PrivateKey::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let signed = pair.sign(&RSA_PKCS1_SHA256, random, text, &mut signature);
                signed.ok().map(|()| signature)
            }
        }
    }
}

impl PublicKey {
    /// Returns the public keys of all blocks of a PEM file, whose keys may be private or public.
    ///
    /// # Errors
    /// Fails if the file has no key, or has a block that is neither an RSA key nor an EC key with
    /// P-256.
    pub fn read_all(text: &str) -> Result<Vec<PublicKey>, KeyError> {
        let blocks = pem::blocks(text)?;
        if blocks.is_empty() {
            return Err(KeyError::NoKey);
        }
        blocks.iter().map(PublicKey::of_block).collect()
    }

    fn of_block(block: &pem::Block) -> Result<PublicKey, KeyError> {
        let bad = || KeyError::BadKey(block.label.clone());
        if let Some(private) = PrivateKey::of_block(block, &SystemRandom::new())? {
            return Ok(private.public());
        }
        match &*block.label {
            "PUBLIC KEY" => PublicKey::info(&block.bytes).ok_or_else(bad)?,
            "RSA PUBLIC KEY" => PublicKey::rsa(&block.bytes).ok_or_else(bad),
            _ => Err(KeyError::OtherBlock(block.label.clone(), true)),
        }
    }

    /// Reads a `SubjectPublicKeyInfo`. `None` if the content is invalid.
    fn info(bytes: &[u8]) -> Option<Result<PublicKey, KeyError>> {
        let mut info = Reader(bytes).sequence()?;
        let mut algorithm = info.sequence()?;
        let (object, key) = (algorithm.read(OBJECT)?, info.bits()?);
        match object {
            RSA => PublicKey::rsa(key).map(Ok),
            EC if algorithm.read(OBJECT)? != P256 => Some(Err(KeyError::OtherAlgorithm)),
            EC => (key.len() == POINT_BYTES).then(|| Ok(PublicKey::new(Form::Ec, key))),
            _ => Some(Err(KeyError::OtherAlgorithm)),
        }
    }

    /// Reads an `RSAPublicKey`. `None` if the content is invalid.
    fn rsa(bytes: &[u8]) -> Option<PublicKey> {
        let [_, _] = numbers(bytes)?;
        Some(PublicKey::new(Form::Rsa, bytes))
    }

    fn new(form: Form, bytes: &[u8]) -> PublicKey {
        let hash = Sha256::digest(info(form, bytes));
        PublicKey {
            id: BASE64_URL_SAFE_NO_PAD.encode(hash),
            form,
            bytes: bytes.to_vec(),
        }
    }

    /// Returns the name of the key's signature algorithm, as in tokens.
    pub(crate) fn algorithm(&self) -> &'static str {
        match self.form {
            Form::Ec => "ES256",
            Form::Rsa => "RS256",
        }
    }

    /// Reports whether `signature` is the private key's signature of a string.
    pub(crate) fn verifies(&self, text: &[u8], signature: &[u8]) -> bool {
        let algorithm: &dyn VerificationAlgorithm = match self.form {
            Form::Ec => &ECDSA_P256_SHA256_FIXED,
            Form::Rsa => &RSA_PKCS1_2048_8192_SHA256,
        };
        let key = UnparsedPublicKey::new(algorithm, &self.bytes);
        key.verify(text, signature).is_ok()
    }

    /// Returns the key as a JSON web key.
    pub(crate) fn to_json(&self) -> Value {
        let text = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let mut key = json!({"use": "sig", "kid": self.id, "alg": self.algorithm()});
        match self.form {
            Form::Ec => {
                let (x, y) = self.bytes[1..].split_at(POINT_BYTES / 2);
                key["kty"] = "EC".into();
                key["crv"] = "P-256".into();
                (key["x"], key["y"]) = (text(x).into(), text(y).into());
            }
            Form::Rsa => {
                let [n, e] = numbers(&self.bytes).expect("an RSA key has two numbers");
                key["kty"] = "RSA".into();
                (key["n"], key["e"]) = (text(n).into(), text(e).into());
            }
        }
        key
    }
}

/// Returns the modulus and the exponent of an `RSAPublicKey`, each without the leading zero byte.
/// `None` if the content is invalid.
fn numbers(bytes: &[u8]) -> Option<[&[u8]; 2]> {
    let mut key = Reader(bytes).sequence()?;
    let mut number = || {
        let number = key.read(INTEGER)?;
        Some(number.strip_prefix(&[0]).unwrap_or(number))
    };
    Some([number()?, number()?])
}

/// Returns the `SubjectPublicKeyInfo` of a key. Its hash is the id of the key, as in upstream.
fn info(form: Form, bytes: &[u8]) -> Vec<u8> {
    let algorithm = match form {
        Form::Ec => [der::value(OBJECT, EC), der::value(OBJECT, P256)],
        Form::Rsa => [der::value(OBJECT, RSA), der::value(der::NULL, &[])],
    };
    let key = [&[0], bytes].concat();
    let parts = [
        der::value(SEQUENCE, &algorithm.concat()),
        der::value(BIT_STRING, &key),
    ];
    der::value(SEQUENCE, &parts.concat())
}

//! Tests of keys in all forms that `openssl` writes.

use super::*;

/// `openssl ecparam -name prime256v1 -genkey -noout`.
const EC_SEC1: &str = "\
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIAsihInesaX0HscG/y+3ZE6z9pgCOfp+j1vBTbEzoI5yoAoGCCqGSM49
AwEHoUQDQgAEYusseJsl2H09VMCerr1O7EIeKbV8k2SM2d9lQkPqtqa4yG3EEOzx
2ViiC3FJvYoA7Gul731N4Pqng3CRAgcTqA==
-----END EC PRIVATE KEY-----
";

/// The same key: `openssl pkcs8 -topk8 -nocrypt`.
const EC_PKCS8: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgCyKEid6xpfQexwb/
L7dkTrP2mAI5+n6PW8FNsTOgjnKhRANCAARi6yx4myXYfT1UwJ6uvU7sQh4ptXyT
ZIzZ32VCQ+q2prjIbcQQ7PHZWKILcUm9igDsa6XvfU3g+qeDcJECBxOo
-----END PRIVATE KEY-----
";

/// The public key: `openssl ec -pubout`.
const EC_PUBLIC: &str = "\
-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEYusseJsl2H09VMCerr1O7EIeKbV8
k2SM2d9lQkPqtqa4yG3EEOzx2ViiC3FJvYoA7Gul731N4Pqng3CRAgcTqA==
-----END PUBLIC KEY-----
";

/// `openssl ecparam -name secp384r1 -genkey -noout`.
const EC_384: &str = "\
-----BEGIN EC PRIVATE KEY-----
MIGkAgEBBDBL6e1hLX9P6+kGd0RsLoJnGABhe+JjJWozEnC4aoxodTJgT+g0D5ts
U5LiTvV2uYmgBwYFK4EEACKhZANiAAQLiTrkmc+AHZRf6SN4/MCRJtYCWrYNJXOA
UODpz4sRgE2sSvgbe1WSB4otkW2OY9o3pC0CV3FyWvfQS7flyRF6m/dSQIfFbX0T
Hx66XosQ4klt+C0D0aIZbCHqNShQKpo=
-----END EC PRIVATE KEY-----
";

/// `openssl genrsa -traditional 2048`.
const RSA_PKCS1: &str = "\
-----BEGIN RSA PRIVATE KEY-----
MIIEowIBAAKCAQEAkc04yPUDy3p+5jnNAGZVlQTzBV5Okgbbaks10bbAV6bA2tJ8
A3/LWoY8irZBsVZGkwoZVNBDJHjKe59L1Cjp/0kCjxDvc2Kp7Ulxss7Z64VtmCz/
aqBzEcKegZVeTKrUBRyP7IcjZfwAi7+LTGNAW4GCVjVjzIu5bxyQF5JSYJs0ptvM
G2aDkYoTyM7nNuXfKnLeSn6VlHBQ8VZANjlwphVsTfQ1pKmiB6nuMVZSD74NWT2X
LaWwRzA0Gd4OU5yNdyIk7LZVPuAZK+dIefkNmuaZRsBIS6desvNT64scc+PXSQJT
swHGoT38P5rOgH2AEZ1ZLthj7gQ3OCsRoKKS/wIDAQABAoIBABCoWS4AbDQRpTDp
dqXuiyWQ4LEC0sg1N1lACYCRuAzrlMoLVTbTIWkQwBb69qtrl3mSJE2/04P1tvCD
xRaSrBVKApxUy36rzY06IF7U6inR3zENJwtIFI15ZkGYzqLEu59v4XOdBurObUOK
GUCbcE1kEP+HbwT+C6wJn97JjVbTCH4gwgRLtmoKHcLm8BdFtteKEvrM9iyNGtGG
FQEQ3Zt+gIqNq266V6ilAL43I8TWK03lrc2YfjjZ2egaBKgvEBlDqJ1RgWfZnNlT
9DBhuPGajWKTIEfEPoCFD+I6DwY7Hcval9Ta7Vx0jrZrk4k2bVCtkOoxBKXOoL6Q
b9vlnb0CgYEAwXONOcBJwwKpIAOVn4dyWAU+lxd/aGqnK+9jbQAS1zeXPj3pAqe3
RtEsC9NIk36cQSZPleHPo+DVD2zPaePkm0Uwkih74+TPTgKHh4gQUaFz1W4PvFWt
NuBKxghoZmLvzk3LN3LUkoN4tcPLgDgQQuFV74vMuzhE1F7/zZqTiNMCgYEAwPGV
pf8Uy7ZvlX1vMsmy8nFmc6ahZKu3a9zWnfjefG0JOxH34dLiGkkwNSs72b/ArNx6
5YHYwXXBmlOVbca5snzCprekZBLl2ACKWq/1gqSoDQ+H0Fy8PquK4V7ArdEDNvOC
Vv3N6GOFifEfvXFe8k7mg5zcANMKDlcjFGtZMaUCgYADFCa0O5Yw71LnuobgEhTE
x9iWKP6TF9dvQJERhAXIvQ7AI9YYf7jP/LY5vfQSvNoZw1VS6lQWpJZfd3jZk5Ho
0rISMWi/WL3f3PRxOL4hvnMMe4LumWJ3VBx8iFe5AWwVmXFZgY9WgZcjNWmAseO4
XMO0W0I33I5j3tstV39vlwKBgQC5bjTdkRZiZhY9fIzHKdPib5wAIC/SOboRXu+g
aRMiUARkEfPCw9LrYlWDc+aUclZxi4BNXIp9+3cyo4vkMe48HO1SHwJN71+YRYSy
fZOdmDOuQbPMS6PbMzBJQrA5HLxTLpqgklI3OpaXqPZRMkkG5U9jQ/iojiqG97XO
JRFWxQKBgAnAxiJv71xxBbz260SoEfHKHJ9e+NpPezRatsEJMks4hP7k2dVGKyZd
gkI10KSlsUTTNAhG+yIr63yN+8w4YF2wufigHdJ1q5DeTs1D46wyDrRmUkCx6x6j
e6gmC5IHK4bK2WY5L+WPcKw65OuUi3mV/DXVDiAuU8OuTyKIUYSM
-----END RSA PRIVATE KEY-----
";

/// The same key: `openssl pkcs8 -topk8 -nocrypt`.
const RSA_PKCS8: &str = "\
-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCRzTjI9QPLen7m
Oc0AZlWVBPMFXk6SBttqSzXRtsBXpsDa0nwDf8tahjyKtkGxVkaTChlU0EMkeMp7
n0vUKOn/SQKPEO9zYqntSXGyztnrhW2YLP9qoHMRwp6BlV5MqtQFHI/shyNl/ACL
v4tMY0BbgYJWNWPMi7lvHJAXklJgmzSm28wbZoORihPIzuc25d8qct5KfpWUcFDx
VkA2OXCmFWxN9DWkqaIHqe4xVlIPvg1ZPZctpbBHMDQZ3g5TnI13IiTstlU+4Bkr
50h5+Q2a5plGwEhLp16y81Prixxz49dJAlOzAcahPfw/ms6AfYARnVku2GPuBDc4
KxGgopL/AgMBAAECggEAEKhZLgBsNBGlMOl2pe6LJZDgsQLSyDU3WUAJgJG4DOuU
ygtVNtMhaRDAFvr2q2uXeZIkTb/Tg/W28IPFFpKsFUoCnFTLfqvNjTogXtTqKdHf
MQ0nC0gUjXlmQZjOosS7n2/hc50G6s5tQ4oZQJtwTWQQ/4dvBP4LrAmf3smNVtMI
fiDCBEu2agodwubwF0W214oS+sz2LI0a0YYVARDdm36Aio2rbrpXqKUAvjcjxNYr
TeWtzZh+ONnZ6BoEqC8QGUOonVGBZ9mc2VP0MGG48ZqNYpMgR8Q+gIUP4joPBjsd
y9qX1NrtXHSOtmuTiTZtUK2Q6jEEpc6gvpBv2+WdvQKBgQDBc405wEnDAqkgA5Wf
h3JYBT6XF39oaqcr72NtABLXN5c+PekCp7dG0SwL00iTfpxBJk+V4c+j4NUPbM9p
4+SbRTCSKHvj5M9OAoeHiBBRoXPVbg+8Va024ErGCGhmYu/OTcs3ctSSg3i1w8uA
OBBC4VXvi8y7OETUXv/NmpOI0wKBgQDA8ZWl/xTLtm+VfW8yybLycWZzpqFkq7dr
3Nad+N58bQk7Effh0uIaSTA1KzvZv8Cs3HrlgdjBdcGaU5VtxrmyfMKmt6RkEuXY
AIpar/WCpKgND4fQXLw+q4rhXsCt0QM284JW/c3oY4WJ8R+9cV7yTuaDnNwA0woO
VyMUa1kxpQKBgAMUJrQ7ljDvUue6huASFMTH2JYo/pMX129AkRGEBci9DsAj1hh/
uM/8tjm99BK82hnDVVLqVBakll93eNmTkejSshIxaL9Yvd/c9HE4viG+cwx7gu6Z
YndUHHyIV7kBbBWZcVmBj1aBlyM1aYCx47hcw7RbQjfcjmPe2y1Xf2+XAoGBALlu
NN2RFmJmFj18jMcp0+JvnAAgL9I5uhFe76BpEyJQBGQR88LD0utiVYNz5pRyVnGL
gE1cin37dzKji+Qx7jwc7VIfAk3vX5hFhLJ9k52YM65Bs8xLo9szMElCsDkcvFMu
mqCSUjc6lpeo9lEySQblT2ND+KiOKob3tc4lEVbFAoGACcDGIm/vXHEFvPbrRKgR
8cocn1742k97NFq2wQkySziE/uTZ1UYrJl2CQjXQpKWxRNM0CEb7IivrfI37zDhg
XbC5+KAd0nWrkN5OzUPjrDIOtGZSQLHrHqN7qCYLkgcrhsrZZjkv5Y9wrDrk65SL
eZX8NdUOIC5Tw65PIohRhIw=
-----END PRIVATE KEY-----
";

/// The public key: `openssl rsa -pubout`.
const RSA_PUBLIC: &str = "\
-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAkc04yPUDy3p+5jnNAGZV
lQTzBV5Okgbbaks10bbAV6bA2tJ8A3/LWoY8irZBsVZGkwoZVNBDJHjKe59L1Cjp
/0kCjxDvc2Kp7Ulxss7Z64VtmCz/aqBzEcKegZVeTKrUBRyP7IcjZfwAi7+LTGNA
W4GCVjVjzIu5bxyQF5JSYJs0ptvMG2aDkYoTyM7nNuXfKnLeSn6VlHBQ8VZANjlw
phVsTfQ1pKmiB6nuMVZSD74NWT2XLaWwRzA0Gd4OU5yNdyIk7LZVPuAZK+dIefkN
muaZRsBIS6desvNT64scc+PXSQJTswHGoT38P5rOgH2AEZ1ZLthj7gQ3OCsRoKKS
/wIDAQAB
-----END PUBLIC KEY-----
";

/// The same: `openssl rsa -RSAPublicKey_out`.
const RSA_PUBLIC_PKCS1: &str = "\
-----BEGIN RSA PUBLIC KEY-----
MIIBCgKCAQEAkc04yPUDy3p+5jnNAGZVlQTzBV5Okgbbaks10bbAV6bA2tJ8A3/L
WoY8irZBsVZGkwoZVNBDJHjKe59L1Cjp/0kCjxDvc2Kp7Ulxss7Z64VtmCz/aqBz
EcKegZVeTKrUBRyP7IcjZfwAi7+LTGNAW4GCVjVjzIu5bxyQF5JSYJs0ptvMG2aD
kYoTyM7nNuXfKnLeSn6VlHBQ8VZANjlwphVsTfQ1pKmiB6nuMVZSD74NWT2XLaWw
RzA0Gd4OU5yNdyIk7LZVPuAZK+dIefkNmuaZRsBIS6desvNT64scc+PXSQJTswHG
oT38P5rOgH2AEZ1ZLthj7gQ3OCsRoKKS/wIDAQAB
-----END RSA PUBLIC KEY-----
";

/// The hashes that `openssl pkey -pubin -outform DER | openssl dgst -sha256` gives.
const EC_ID: &str = "jC1ifcw99JI8sw4t8YUFPCD86fFT2NMEMxs7_ERiL-I";
const RSA_ID: &str = "FLVWsdrvnItk3FS47P_y21N8Ult_DJ67A-T99Vphb2k";

fn private(text: &str) -> Result<PrivateKey, KeyError> {
    PrivateKey::read(text, &SystemRandom::new())
}

#[test]
fn every_form_of_a_key_is_the_same_key() {
    for (id, algorithm, keys, public) in [
        (EC_ID, "ES256", [EC_SEC1, EC_PKCS8], [EC_PUBLIC, EC_SEC1]),
        (
            RSA_ID,
            "RS256",
            [RSA_PKCS1, RSA_PKCS8],
            [RSA_PUBLIC, RSA_PUBLIC_PKCS1],
        ),
    ] {
        let public = public.map(|text| PublicKey::read_all(text).unwrap().remove(0));
        for key in keys {
            let key = private(key).ok().unwrap();
            assert_eq!(key.public(), public[0]);
            let signature = key.sign(b"text", &SystemRandom::new()).unwrap();
            for public in &public {
                assert_eq!((&*public.id, public.algorithm()), (id, algorithm));
                assert!(public.verifies(b"text", &signature));
                assert!(!public.verifies(b"Text", &signature));
                assert!(!public.verifies(b"text", &signature[1..]));
            }
        }
    }
}

#[test]
fn a_json_web_key_has_the_keys_numbers() {
    let of = |text: &str| PublicKey::read_all(text).unwrap().remove(0).to_json();
    let bytes = |value: &Value| {
        BASE64_URL_SAFE_NO_PAD
            .decode(value.as_str().unwrap())
            .unwrap()
    };
    let ec = of(EC_PUBLIC);
    assert_eq!(
        (&ec["kty"], &ec["crv"], &ec["alg"]),
        (&json!("EC"), &json!("P-256"), &json!("ES256"))
    );
    // The file of the public key ends with its point.
    let file = &pem::blocks(EC_PUBLIC).unwrap()[0].bytes;
    let point = [bytes(&ec["x"]), bytes(&ec["y"])].concat();
    assert!(file.ends_with(&point) && point.len() == 64);
    let rsa = of(RSA_PUBLIC);
    assert_eq!(
        (&rsa["kty"], &rsa["alg"], &rsa["kid"]),
        (&json!("RSA"), &json!("RS256"), &json!(RSA_ID))
    );
    assert_eq!(bytes(&rsa["n"]).len(), 256);
    assert_eq!(bytes(&rsa["e"]), [1, 0, 1]);
}

#[test]
fn a_file_may_hold_several_keys_and_other_text() {
    let curve = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
    let file = format!("Bag Attributes\n{curve}{EC_SEC1}\r\n{RSA_PUBLIC}").replace('\n', "\r\n");
    let keys = PublicKey::read_all(&file).unwrap();
    let ids: Vec<&str> = keys.iter().map(|key| &*key.id).collect();
    assert_eq!(ids, [EC_ID, RSA_ID]);
    assert_eq!(private(&file).ok().unwrap().public().id, EC_ID);
}

#[test]
fn invalid_keys_are_refused_with_a_reason() {
    let problem = |text: &str| private(text).err().unwrap().to_string();
    assert!(problem("").contains("expected a key in PEM"));
    assert!(problem("token,user,1\n").contains("BEGIN PRIVATE KEY"));
    let cut = &EC_SEC1[..60];
    assert!(problem(cut).contains("`-----BEGIN EC PRIVATE KEY-----` is damaged"));
    let not_base64 = EC_SEC1.replace("MHcC", "M*cC");
    assert!(problem(&not_base64).contains("is damaged"));
    assert!(problem(&EC_SEC1.replace("MHcC", "MHcD")).contains("does not hold a valid key"));
    assert!(problem(EC_PUBLIC).contains("block `PUBLIC KEY` is not a key"));
    assert!(problem(EC_384).contains("neither RSA nor EC of the curve P-256"));
    assert!(problem(&RSA_PKCS1.replace("MII", "MIH")).contains("the RSA key cannot sign"));
    let certificate = EC_PUBLIC.replace("PUBLIC KEY", "CERTIFICATE");
    let error = PublicKey::read_all(&certificate).unwrap_err().to_string();
    assert!(
        error.contains("`CERTIFICATE`") && error.contains("PUBLIC KEY or RSA PUBLIC KEY"),
        "{error}"
    );
    assert_eq!(PublicKey::read_all("\n"), Err(KeyError::NoKey));
}

#[test]
fn a_truncated_key_is_an_error() {
    for (label, whole) in [
        ("EC PRIVATE KEY", EC_SEC1),
        ("PRIVATE KEY", EC_PKCS8),
        ("PUBLIC KEY", RSA_PUBLIC),
    ] {
        let bytes = &pem::blocks(whole).unwrap()[0].bytes;
        for length in 0..bytes.len() {
            let block = pem::Block {
                label: label.to_owned(),
                bytes: bytes[..length].to_vec(),
            };
            assert!(PublicKey::of_block(&block).is_err(), "{label} {length}");
        }
    }
}

#[test]
fn long_values_round_trip() {
    for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536] {
        let content = vec![7; length];
        let value = der::value(OCTET_STRING, &content);
        let mut reader = Reader(&value);
        assert_eq!(reader.read(INTEGER), None);
        assert_eq!(reader.read(OCTET_STRING), Some(&content[..]), "{length}");
        assert!(reader.0.is_empty());
    }
}

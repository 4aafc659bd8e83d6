//! Resource versions, and the continue tokens of lists.

use std::cmp::Ordering;

use podstorm::object::{Namespace, Now, Object, ResourceVersion};
use podstorm_apiserver::{Cluster, ClusterOptions, ListOptions};

use super::Target;

pub(super) const RESOURCE_VERSIONS: Target = Target {
    name: "resource-version",
    claim: "a version prints as it was read, and versions compare like numbers of any length",
    run: versions,
    runs: 20_000,
};

pub(super) const CONTINUE_TOKENS: Target = Target {
    name: "continue-token",
    claim: "a token continues the list, any number of times, or is refused with 400 or 410",
    run: tokens,
    runs: 2_000,
};

/// Runs an input of three versions, one per line.
fn versions(data: &[u8]) -> bool {
    let text = String::from_utf8_lossy(data);
    let texts: Vec<&str> = text.split('\n').take(3).collect();
    let versions: Vec<ResourceVersion> = texts
        .iter()
        .map(|text| ResourceVersion::new(text))
        .collect();
    for (a, a_text) in versions.iter().zip(&texts) {
        assert_eq!(a.to_string(), **a_text);
        assert_eq!(a.is_unset(), a_text.is_empty());
        assert_eq!(a.number().map(|number| number.to_string()), {
            let number = a_text.parse::<u64>().ok().filter(|&number| number > 0);
            // The decimal form of the number, unless the text has leading zeros or a sign.
            number
                .map(|number| number.to_string())
                .filter(|printed| printed == a_text)
        });
        for (b, b_text) in versions.iter().zip(&texts) {
            let expected = numerically(a_text, b_text);
            assert_eq!(a.compare(b), expected, "{a_text:?} and {b_text:?}");
        }
        assert_eq!(ResourceVersion::new(&a.to_string()), *a);
    }
    versions.iter().any(|version| version.number().is_some())
}

/// Compares strings as numbers of any length. `None` if a string has leading zeros, a sign or any
/// other character that is not a digit.
fn numerically(a: &str, b: &str) -> Option<Ordering> {
    let digits = |text: &str| -> Option<Vec<u32>> {
        let digits: Option<Vec<u32>> = text.chars().map(|char| char.to_digit(10)).collect();
        digits.filter(|digits| digits.first().is_some_and(|&first| first > 0))
    };
    let (mut a, mut b) = (digits(a)?, digits(b)?);
    let len = a.len().max(b.len());
    for number in [&mut a, &mut b] {
        let missing = len - number.len();
        number.splice(0..0, std::iter::repeat_n(0, missing));
    }
    Some(a.cmp(&b))
}

/// Runs an input that is a continue token.
fn tokens(data: &[u8]) -> bool {
    let token = String::from_utf8_lossy(data);
    let cluster = Cluster::new(ClusterOptions::default());
    for name in ["a", "b", "c"] {
        let mut namespace = Namespace::default();
        namespace.metadata.name = name.into();
        cluster
            .create(namespace, Now::default())
            .expect("the namespace is new");
    }
    let all = names(&cluster.list::<Namespace>(None).0);
    let list = |token: &str| {
        let options = ListOptions {
            limit: 2,
            continue_token: token,
            ..ListOptions::default()
        };
        cluster.list_page::<Namespace>(&options)
    };
    let first = list("").expect("a list begins");
    let page = list(&token);
    let given = &first.continue_token;
    match page {
        Ok(page) if token.is_empty() => assert_eq!(names(&page.items), names(&first.items)),
        Ok(page) => {
            // Whatever the token contains, the list continues with existing objects, and does so in
            // the same way each time.
            let rest = names(&page.items);
            let is_part = |rest: &[String]| all.windows(rest.len()).any(|part| part == rest);
            assert!(rest.is_empty() || is_part(&rest), "{rest:?}");
            let again = list(&token).expect("a token can be used any number of times");
            assert_eq!(names(&again.items), rest);
        }
        Err(error) => {
            assert!(matches!(error.code, 400 | 410), "{error:?}");
            assert_ne!(token, *given);
            return false;
        }
    }
    true
}

fn names(items: &[std::sync::Arc<Namespace>]) -> Vec<String> {
    let names = items.iter().map(|item| item.metadata().name.to_string());
    names.collect()
}

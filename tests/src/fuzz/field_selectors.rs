//! Field selectors of lists, compared with a literal evaluation.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Target;
use super::requests::{ask, runtime, with_default_namespace};

pub(super) const FIELDS: Target = Target {
    name: "selector-field",
    claim: "a field selector is refused with 400 or lists exactly the pods that it matches",
    run: list,
    runs: 150,
};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn list(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    runtime().block_on(async {
        let server = with_default_namespace().await;
        for (name, policy) in [("a", "Always"), ("b", "Never"), ("c", "Never")] {
            let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": format!("n-{name}"),
                "restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]}});
            assert_eq!(ask(&server, "POST", PODS, &pod).await.0, 201);
        }
        let (_, all) = ask(&server, "GET", PODS, &Value::Null).await;
        let mut path = format!("{PODS}?fieldSelector=");
        for byte in text.bytes() {
            let _ = write!(path, "%{byte:02X}");
        }
        let (code, found) = ask(&server, "GET", &path, &Value::Null).await;
        if code != 200 {
            assert_eq!((code, &found["code"]), (400, &json!(400)), "{found}");
            return false;
        }
        let wanted = all["items"].as_array().expect("a list").iter();
        let wanted: Vec<&Value> = wanted.filter(|pod| holds(text, pod)).collect();
        let found: Vec<&Value> = found["items"].as_array().expect("a list").iter().collect();
        assert_eq!(found, wanted, "{text:?}");
        true
    })
}

/// Reports whether a pod matches a field selector. Evaluates the requirements one by one; a
/// backslash escapes the next character.
fn holds(text: &str, pod: &Value) -> bool {
    let mut parts = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let part = parts.last_mut().expect("there is at least one part");
        match character {
            '\\' => {
                part.push(character);
                part.extend(characters.next());
            }
            ',' => parts.push(String::new()),
            _ => part.push(character),
        }
    }
    parts.iter().filter(|part| !part.is_empty()).all(|part| {
        let at = part
            .find(['=', '!'])
            .expect("the server accepted the selector");
        let (field, rest) = part.split_at(at);
        let wants = !rest.starts_with("!=");
        let value = rest.trim_start_matches('!');
        let value = value
            .strip_prefix("==")
            .or(value.strip_prefix('='))
            .unwrap_or(value);
        let mut unescaped = String::new();
        let mut characters = value.chars();
        while let Some(character) = characters.next() {
            match character {
                '\\' => unescaped.extend(characters.next()),
                _ => unescaped.push(character),
            }
        }
        let pointer = format!("/{}", field.replace('.', "/"));
        let is = pod.pointer(&pointer).and_then(Value::as_str).unwrap_or("");
        (is == unescaped) == wants
    })
}

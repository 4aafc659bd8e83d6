//! The order of the versions in a case.

use serde_json::Value;

use super::compare::Symbols;

/// Checks that versions ascend, either by the numbers of their symbols or in the order of
/// `rvOrder`. Skips the versions that `free` excludes.
///
/// # Errors
/// Returns the first two versions that do not ascend.
pub(super) fn check(symbols: &Symbols, case: &Value) -> Result<(), String> {
    let mut bound = symbols.versions();
    let names: Vec<String> = match case["rvOrder"].as_array() {
        Some(order) => {
            let names = order.iter().filter_map(Value::as_str);
            names
                .map(|name| name.trim_start_matches('$').to_owned())
                .collect()
        }
        None => {
            let mut names: Vec<String> = bound.keys().cloned().collect();
            names.sort_by_key(|name| name["rv".len()..].parse::<u64>().unwrap_or(0));
            names
        }
    };
    // Of several versions that were created at the same time, only the first is checked.
    let free = case["free"].as_str().unwrap_or("");
    if let Some(free) = free.strip_prefix("order of ") {
        for name in free.split(" and ").skip(1) {
            bound.remove(name.trim_start_matches('$'));
        }
    }
    let seen = names
        .iter()
        .filter_map(|name| Some((name, bound.get(name)?)));
    let seen: Vec<_> = seen.collect();
    for pair in seen.windows(2) {
        let [(first, earlier), (second, later)] = [pair[0], pair[1]];
        if earlier >= later {
            return Err(format!("${first} is {earlier}, ${second} is {later}"));
        }
    }
    Ok(())
}

//! A scenario's answer to its question: a template that is filled with the members of the result.

use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde::Serialize;

use crate::units::{count_for_people, counted, number_for_people, seconds_for_people};

const NAME: &str = "answer";

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    // A missing member is an error, and not an empty string.
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_filter("seconds", |value: f64| seconds_for_people(value));
    environment.add_filter("count", |value: f64| count_for_people(value.round() as u64));
    environment.add_filter("number", |value: f64| number_for_people(value));
    environment.add_filter("counted", |value: f64, noun: String| {
        counted(value.round() as u64, &noun)
    });
    environment.add_filter("were", |value: f64, noun: String| {
        let count = value.round() as u64;
        let verb = if count == 1 { "was" } else { "were" };
        format!("{} {verb}", counted(count, &noun))
    });
    environment.add_filter("total", |counts: minijinja::Value| {
        let mut total = 0.0;
        for key in counts.try_iter()? {
            total += f64::try_from(counts.get_item(&key)?)?;
        }
        Ok::<f64, minijinja::Error>(total)
    });
    environment.add_filter("rate", |count: f64, seconds: f64| {
        if seconds > 0.0 {
            format!("{} a second", number_for_people(count / seconds))
        } else {
            "at once".to_owned()
        }
    });
    environment.add_filter("percent", |value: f64| {
        format!("{} %", number_for_people(value * 100.0))
    });
    environment
}

/// Checks the syntax of a template.
pub(super) fn check(template: &str) -> Result<(), String> {
    let mut environment = environment();
    environment
        .add_template(NAME, template)
        .map_err(|error| described(&error))
}

/// Fills a template with the members of a result.
///
/// # Errors
/// The template can't be rendered, for example because a member is missing.
pub fn fill(template: &str, result: &impl Serialize) -> Result<String, String> {
    let mut environment = environment();
    environment
        .add_template(NAME, template)
        .map_err(|error| described(&error))?;
    let rendered = environment
        .get_template(NAME)
        .and_then(|template| template.render(Serde(result)));
    match rendered {
        Ok(text) => {
            let words: Vec<&str> = text.split_whitespace().collect();
            Ok(words.join(" "))
        }
        Err(error) => Err(described(&error)),
    }
}

fn described(error: &minijinja::Error) -> String {
    let what = match error.kind() {
        ErrorKind::UndefinedError => "the result has no such member".to_owned(),
        kind => kind.to_string(),
    };
    let detail = error.detail().map(|detail| format!(": {detail}"));
    format!("{what}{}", detail.unwrap_or_default())
}

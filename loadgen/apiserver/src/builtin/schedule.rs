//! Validation of the schedules and time zones of CronJobs, with the messages of upstream's parser
//! (`robfig/cron`).

/// The fields of a schedule: the lowest and highest number of each, and the names of numbers.
struct FieldBounds {
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const fn bounds(least: u32, most: u32, names: &'static [&'static str]) -> FieldBounds {
    FieldBounds { least, most, names }
}

const FIELDS: [FieldBounds; 5] = [
    bounds(0, 59, &[]),
    bounds(0, 23, &[]),
    bounds(1, 31, &[]),
    bounds(
        1,
        12,
        &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    ),
    bounds(0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

const DESCRIPTORS: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// Returns the problem with a schedule; `None` if the schedule is valid.
pub(super) fn problem(schedule: &str) -> Option<String> {
    if schedule.contains("TZ") {
        return Some("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned());
    }
    if schedule.starts_with('@') {
        let is_known = DESCRIPTORS.contains(&schedule) || schedule.starts_with("@every ");
        return (!is_known).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let found = fields.len();
        let all = fields.join(" ");
        return Some(format!("expected exactly 5 fields, found {found}: [{all}]"));
    }
    let mut fields = fields.into_iter().zip(FIELDS);
    fields.find_map(|(field, bounds)| {
        field
            .split(',')
            .find_map(|range| wrong_range(range, &bounds))
    })
}

fn wrong_range(range: &str, bounds: &FieldBounds) -> Option<String> {
    let FieldBounds { least, most, names } = *bounds;
    let mut parts = range.split('/');
    let (span, step) = (parts.next().unwrap_or(""), parts.next());
    let mut ends = span.split('-');
    let (from, to) = (ends.next().unwrap_or(""), ends.next());
    let parsed = if from == "*" || from == "?" {
        Ok((least, most))
    } else {
        number(from, names).and_then(|start| {
            let end = match (to, ends.next()) {
                (None, _) if step.is_some() => most,
                (None, _) => start,
                (Some(to), None) => number(to, names)?,
                (Some(_), Some(_)) => return Err(format!("too many hyphens: {range}")),
            };
            Ok((start, end))
        })
    };
    let (start, end) = match parsed {
        Ok(span) => span,
        Err(problem) => return Some(problem),
    };
    match (step.map(|step| number(step, &[])), parts.next()) {
        (_, Some(_)) => return Some(format!("too many slashes: {range}")),
        (Some(Err(problem)), None) => return Some(problem),
        (Some(Ok(0)), None) => {
            return Some(format!(
                "step of range should be a positive number: {range}"
            ));
        }
        _ => {}
    }
    if start < least {
        return Some(format!(
            "beginning of range ({start}) below minimum ({least}): {range}"
        ));
    }
    if end > most {
        return Some(format!(
            "end of range ({end}) above maximum ({most}): {range}"
        ));
    }
    (start > end)
        .then(|| format!("beginning of range ({start}) beyond end of range ({end}): {range}"))
}

fn number(text: &str, names: &[&str]) -> Result<u32, String> {
    let lower = text.to_lowercase();
    if let Some(at) = names.iter().position(|name| *name == lower) {
        // Months start at 1.
        return Ok(at as u32 + u32::from(names.len() == 12));
    }
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) => Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
        )),
    }
}

/// The areas of the time zone database.
const AREAS: [&str; 13] = [
    "Africa",
    "America",
    "Antarctica",
    "Arctic",
    "Asia",
    "Atlantic",
    "Australia",
    "Brazil",
    "Canada",
    "Etc",
    "Europe",
    "Indian",
    "Pacific",
];

/// Returns the problem with a time zone; `None` if the time zone is valid. Does not consult the
/// time zone database: any zone in one of its areas, or without an area, counts as known.
pub(super) fn zone_problem(zone: &str) -> Option<String> {
    if zone.is_empty() {
        return Some("timeZone must be nil or non-empty string".to_owned());
    }
    if zone.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in \
                      https://www.iana.org/time-zones";
        return Some(detail.to_owned());
    }
    let is_plain = |part: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+".contains(&byte);
        !part.is_empty() && part.bytes().all(fits)
    };
    let is_known = zone.split('/').all(is_plain)
        && zone.split_once('/').is_none_or(|(area, _)| {
            AREAS.contains(&area) || matches!(area, "US" | "Chile" | "Mexico")
        });
    (!is_known).then(|| format!("unknown time zone {zone}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_schedules_are_refused_with_their_problem() {
        for good in [
            "* * * * *",
            "*/5 0-6,12 1 jan-mar mon",
            "@hourly",
            "@every 5m",
            "5/15 * ? * 6",
        ] {
            assert_eq!(problem(good), None, "{good}");
        }
        for (bad, start) in [
            ("* * *", "expected exactly 5 fields, found 3"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "5-3 * * * *",
                "beginning of range (5) beyond end of range (3): 5-3",
            ),
            (
                "*/0 * * * *",
                "step of range should be a positive number: */0",
            ),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("@never", "unrecognized descriptor: @never"),
            ("CRON_TZ=UTC * * * * *", "cannot use TZ"),
        ] {
            let found = problem(bad).unwrap_or_default();
            assert!(found.starts_with(start), "{bad}: {found}");
        }
    }

    #[test]
    fn a_known_zone_has_a_known_area_or_none() {
        for good in [
            "UTC",
            "Europe/Berlin",
            "America/Argentina/Ushuaia",
            "Etc/GMT+1",
            "EST5EDT",
        ] {
            assert_eq!(zone_problem(good), None, "{good}");
        }
        for bad in ["", "local", "Nowhere/Land", "../etc", "Europe/"] {
            assert!(zone_problem(bad).is_some(), "{bad}");
        }
    }
}

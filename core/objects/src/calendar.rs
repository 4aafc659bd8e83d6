//! The Gregorian calendar, extended to the year 0: converts days since 1970-01-01 to dates and
//! back.
//!
//! Formatting times is a considerable part of the cost of an answer. In this module, years begin in
//! March, so that the leap day comes last and the first day of a month is a linear function of the
//! month.

/// The number of days from March 1 of the year 0 to 1970-01-01.
const MARCH_0: i32 = 719_468;
/// The number of days in 400 years, after which the calendar repeats.
const ERA: i32 = 146_097;

/// Returns the year, month and day of a day since 1970-01-01, which must be in the years 0 to 9999.
pub(crate) fn date(day: i32) -> (u32, u32, u32) {
    let since_march_0 = day + MARCH_0;
    let era = since_march_0.div_euclid(ERA);
    let day = since_march_0.rem_euclid(ERA) as u32;
    // Every fourth year, but not every hundredth, ends with a 366th day.
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (year * 365 + year / 4 - year / 100);
    // Five months have 153 days: 31, 30, 31, 30, 31.
    let month = (day * 5 + 2) / 153;
    let day = day - first_of(month) + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    ((era * 400 + (year + carry) as i32) as u32, month, day)
}

/// Returns the number of days from 1970-01-01 to a date. Months and days count from 1.
pub(crate) fn day(year: u32, month: u32, day: u32) -> i32 {
    let (year, month) = match month > 2 {
        true => (year as i32, month - 3),
        false => (year as i32 - 1, month + 9),
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (first_of(month) + day - 1) as i32 - MARCH_0
}

/// Returns the number of days in a month.
pub(crate) fn days_of_month(year: u32, month: u32) -> u32 {
    let ends = |years| year.is_multiple_of(years);
    let is_leap = ends(4) && (!ends(100) || ends(400));
    match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the number of days from March 1 to the first of `month`, where March is month 0.
fn first_of(month: u32) -> u32 {
    (month * 153 + 2) / 5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_agree_with_another_calendar() {
        let epoch = jiff::civil::date(1970, 1, 1);
        let first = jiff::civil::date(0, 1, 1);
        let mut number = first.duration_since(epoch).as_hours() as i32 / 24;
        for it in first.series(jiff::Span::new().days(1)) {
            let parts = (it.year() as u32, it.month() as u32, it.day() as u32);
            assert_eq!(date(number), parts);
            assert_eq!(day(parts.0, parts.1, parts.2), number, "{it}");
            assert_eq!(days_of_month(parts.0, parts.1), it.days_in_month() as u32);
            number += 1;
        }
        assert_eq!(date(number - 1), (9999, 12, 31));
    }
}

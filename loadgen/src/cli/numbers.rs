//! Flags for numbers that the rows of the controllers declare.

use std::collections::BTreeMap;

use clap::builder::ValueParser;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use podstorm::row::{NumberFlag, NumberForm};
use podstorm_sim::rows::Rows;

use crate::units::parse_duration_ns;

/// The numbers that were set, by flag name.
#[derive(Debug)]
pub(super) struct NumberFlags(pub(super) BTreeMap<&'static str, i64>);

impl Args for NumberFlags {
    fn augment_args(mut command: Command) -> Command {
        for number in Rows::installed().number_flags() {
            let arg = Arg::new(number.flag)
                .long(number.flag)
                .value_name(match number.form {
                    NumberForm::Count => "N",
                    NumberForm::Time => "TIME",
                    NumberForm::Millionths => "NUMBER",
                })
                .value_parser(parser(number.form))
                .allow_negative_numbers(true)
                .help(format!(
                    "{} [default: {}]",
                    number.help,
                    default_of(&number)
                ));
            command = command.arg(arg);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        NumberFlags::augment_args(command)
    }
}

fn parser(form: NumberForm) -> ValueParser {
    match form {
        NumberForm::Count => ValueParser::new(clap::value_parser!(i64)),
        NumberForm::Time => ValueParser::new(parse_duration_ns),
        NumberForm::Millionths => ValueParser::new(millionths),
    }
}

/// Formats the default in the syntax of the flag's values.
fn default_of(number: &NumberFlag) -> String {
    match number.form {
        NumberForm::Count => number.default.to_string(),
        NumberForm::Time => format!("{}s", number.default as f64 / 1e9),
        NumberForm::Millionths => (number.default as f64 / 1e6).to_string(),
    }
}

/// Parses a decimal number of at most 1,000 and returns it in millionths.
fn millionths(text: &str) -> Result<i64, String> {
    let number: f64 = text.parse().unwrap_or(f64::NAN);
    match (0.0..=1000.0).contains(&number) {
        // At most 10^9.
        true => Ok((number * 1e6).round() as i64),
        false => Err("expected a number from 0 to 1000".to_owned()),
    }
}

impl FromArgMatches for NumberFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let flags = Rows::installed().number_flags();
        let given = flags.filter_map(|it| Some((it.flag, *matches.get_one(it.flag)?)));
        Ok(NumberFlags(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = NumberFlags::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_number_has_its_syntax() {
        let of = |flags: &str| {
            let command = NumberFlags::augment_args(Command::new("serve"));
            let words = ["serve"].into_iter().chain(flags.split(' '));
            let matches = command.try_get_matches_from(words);
            matches.map(|matches| NumberFlags::from_arg_matches(&matches).unwrap().0)
        };
        let set = of("--node-monitor-period=2s --node-eviction-rate=0.25 \
                      --terminated-pod-gc-threshold=-1");
        let wanted = [
            ("node-eviction-rate", 250_000),
            ("node-monitor-period", 2_000_000_000),
            ("terminated-pod-gc-threshold", -1),
        ];
        assert_eq!(set.unwrap(), BTreeMap::from(wanted));
        for wrong in [
            "--node-monitor-period=5",
            "--node-monitor-period=-1s",
            "--node-eviction-rate=-1",
            "--node-eviction-rate=fast",
            "--large-cluster-size-threshold=0.5",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        let help = NumberFlags::augment_args(Command::new("serve"));
        let help = help.clone().render_help().to_string();
        for default in ["[default: 50s]", "[default: 0.1]", "[default: 12500]"] {
            assert!(help.contains(default), "{help}");
        }
    }
}

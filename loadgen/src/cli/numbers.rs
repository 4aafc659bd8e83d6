//! The flags for numbers that the rows of controllers declare.

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use podstorm_sim::rows::Rows;

/// The numbers that are given, by the names of their flags.
#[derive(Debug)]
pub(super) struct NumberFlags(pub(super) BTreeMap<&'static str, i64>);

impl Args for NumberFlags {
    fn augment_args(mut command: Command) -> Command {
        for number in Rows::installed().number_flags() {
            let arg = Arg::new(number.flag)
                .long(number.flag)
                .value_name("N")
                .value_parser(clap::value_parser!(i64))
                .allow_negative_numbers(true)
                .help(format!("{} [default: {}]", number.help, number.default));
            command = command.arg(arg);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        NumberFlags::augment_args(command)
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

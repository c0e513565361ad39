//! Settings that only some modes of a binary require.

use clap::{ArgMatches, Args, Command, FromArgMatches};

/// Settings that only some modes require. Parsed in all modes, and required by those that call [`ModeSettings::or_exit`].
#[derive(Clone, Debug)]
pub struct ModeSettings<S>(Result<S, String>);

impl<S> ModeSettings<S> {
    /// Returns the settings. If some are missing, exits with one line that names them.
    pub fn or_exit(self) -> S {
        self.0.unwrap_or_else(|missing| {
            eprintln!("{missing}");
            std::process::exit(2)
        })
    }
}

impl<S: Args> Args for ModeSettings<S> {
    fn augment_args(command: Command) -> Command {
        S::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        S::augment_args_for_update(command)
    }
}

impl<S: Args> FromArgMatches for ModeSettings<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let command = S::augment_args(Command::new("needed"));
        let is_missing = |argument: &&clap::Arg| argument.is_required_set() && !matches.contains_id(argument.get_id().as_str());
        let missing: Vec<&str> =
            command.get_arguments().filter(is_missing).filter_map(|argument| argument.get_env()?.to_str()).collect();
        if missing.is_empty() {
            return S::from_arg_matches(matches).map(|settings| Self(Ok(settings)));
        }
        Ok(Self(Err(format!("not set, but required in this mode: {} (--help lists every setting)", missing.join(", ")))))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

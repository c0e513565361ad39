//! Messages and questions for people, on standard error.

use crate::failure::{Failure, reason};
use crate::labels::capitalized;
use crate::output::visible;
use anstyle::{AnsiColor, Style};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{self, IsTerminal, Write};

pub(crate) fn print_message(text: &str) {
    let lines: Vec<String> = text.lines().map(visible).collect();
    let _ = writeln!(io::stderr(), "{}", lines.join("\n"));
}

pub(crate) fn print_error(failure: &Failure) {
    let (red, plain) = (Style::new().fg_color(Some(AnsiColor::Red.into())).bold(), Style::new());
    let lines: Vec<String> = failure.to_string().lines().map(visible).collect();
    // anstream removes the color without a terminal or with NO_COLOR.
    let _ = writeln!(anstream::stderr(), "{red}error{red:#}{plain}: {}{plain:#}", lines.join("\n"));
}

pub(crate) fn prompt(question: &str) -> Result<String, Failure> {
    let _ = write!(io::stderr(), "{question}: ");
    let _ = io::stderr().flush();
    let mut line = String::new();
    let taken = io::stdin().read_line(&mut line);
    let taken = taken.map_err(|error| Failure::Failed(format!("standard input: {}", reason(&error))))?;
    if taken == 0 {
        let _ = writeln!(io::stderr());
        return Err(Failure::Usage(format!("{question}: standard input ended without an answer")));
    }
    Ok(line.trim().to_owned())
}

/// Asks for a line that is not echoed on a terminal.
pub(crate) fn prompt_hidden(question: &str) -> Result<String, Failure> {
    let hidden = HiddenInput::start();
    let answer = prompt(question);
    drop(hidden);
    answer
}

/// Turns off the terminal's echo, except for the line end, until dropped.
struct HiddenInput(Termios);

impl HiddenInput {
    /// Returns `None` if standard input isn't a terminal.
    fn start() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        hidden.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden).ok()?;
        Some(Self(before))
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        // The shell restores its own settings, so ignore errors.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Asks for confirmation of an action such as "delete profile work". Without a terminal, `--yes` is required.
pub(crate) fn confirm(action: &str, is_sure: bool) -> Result<(), Failure> {
    if is_sure {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(format!("can't ask for confirmation without a terminal: add --yes to {action}")));
    }
    match prompt(&format!("{}? [y/N]", capitalized(action)))?.as_str() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::Failed("canceled, nothing was changed".to_owned())),
    }
}

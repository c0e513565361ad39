//! Prints the last screen of `cargo up`. It doesn't contain keys or passwords, because the output may end up in a log; the command reads
//! them from `demo.env`.

use crate::all::demo_env::DemoEnv;
use std::path::{Path, PathBuf};

/// The command line program, which `cargo up` builds next to the service.
const PROGRAM: &str = "telemetry";

pub(crate) fn print(demo: &DemoEnv, folder: &Path) {
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
    let shown = |path: PathBuf| quote_path(&path.canonicalize().unwrap_or(path), &here);
    let program = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(PROGRAM))).filter(|file| file.exists());
    let (keys, mail) = (shown(folder.join("demo.env")), shown(folder.join("mail")));
    println!("{}", screen(demo.get("BASE_URL"), &keys, &mail, &program.map_or(PROGRAM.to_owned(), shown)));
}

/// Returns the screen. With `cargo up`'s folders, each of the last three lines has at most 100 characters.
fn screen(base: &str, keys: &str, mail: &str, program: &str) -> String {
    format!(
        "\nThe service is running; Ctrl-C stops it. Demo keys and addresses are in {keys}.\n\
         Paste the command below into a second terminal, in the root of this clone.\n\n\
         Console  {base} (sign in as owner@example.com; emails are files in {mail})\n\
         Try it   . {keys}; TELEMETRY_KEY=$OWNER_KEY {program} doctor --url $BASE_URL\n\
         Docs     docs/README.md"
    )
}

/// Quotes a path for a shell, relative to `here` if it is inside that folder.
fn quote_path(path: &Path, here: &Path) -> String {
    let path = path.strip_prefix(here).unwrap_or(path).display().to_string();
    // Without a slash, the shell would search PATH.
    let path = if path.contains('/') { path } else { format!("./{path}") };
    let is_plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
    if is_plain { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_three_lines_fit_80_columns() {
        let here = Path::new("/srv/clone");
        for profile in ["debug", "release"] {
            let [keys, mail, program] = [".local/demo.env".into(), ".local/mail".into(), format!("target/{profile}/telemetry")]
                .map(|path| quote_path(&here.join(path), here));
            let screen = screen("http://127.0.0.1:28080", &keys, &mail, &program);
            let lines: Vec<&str> = screen.lines().rev().take(3).collect();
            assert!(lines.iter().all(|line| line.chars().count() <= 100), "{screen}");
            let command = format!(" . .local/demo.env; TELEMETRY_KEY=$OWNER_KEY target/{profile}/telemetry doctor ");
            assert!(lines[1].contains(&command), "{screen}");
        }
    }

    #[test]
    fn quotes_paths_for_a_shell() {
        let shown = |path: &str| quote_path(Path::new(path), Path::new("/srv/clone"));
        assert_eq!(shown("/srv/clone/demo.env"), "./demo.env");
        assert_eq!(shown("/srv/state/demo.env"), "/srv/state/demo.env");
        assert_eq!(shown("/srv/it's here/demo.env"), r"'/srv/it'\''s here/demo.env'");
    }
}

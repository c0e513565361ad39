//! Compares the grants that ClickHouse reports (`SHOW GRANTS`) with those in the accounts file.
//!
//! ClickHouse quotes names other than plain words in backquotes. They can contain any character.

use super::Role;

const ACCOUNTS: &str = include_str!("../../../schemas/clickhouse/accounts.xml");

/// Returns the service account's grants in the accounts file.
pub(super) fn expected_grants(role: Role) -> impl Iterator<Item = Grant<'static>> {
    let account = ACCOUNTS.split_once(&format!("<{}>\n            <password", role.name())).map_or("", |(_, rest)| rest);
    let account = account.split("</grants>").next().unwrap_or_default();
    account.lines().filter_map(|line| Grant::parse(line.trim().strip_prefix("<query>")?.strip_suffix("</query>")?))
}

pub(super) struct Grant<'a> {
    rights: &'a str,
    database: Name,
    table: Name,
    may_grant: bool,
}

impl<'a> Grant<'a> {
    /// Parses a line of `SHOW GRANTS`. Returns `None` for `REVOKE` lines, because they only narrow a grant.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (rights, rest) = split_outside_quotes(text.strip_prefix("GRANT ")?, " ON ")?;
        let object = split_outside_quotes(rest, " TO ").map_or(rest, |(object, _)| object);
        // Grants on accounts and on the server apply to every database.
        let (database, table) = split_outside_quotes(object, ".").unwrap_or(("*", "*"));
        let may_grant = rest.ends_with(" WITH GRANT OPTION");
        Some(Self { rights, database: Name::parse(database), table: Name::parse(table), may_grant })
    }

    /// Returns whether the grant applies to this database.
    pub(super) fn concerns(&self, database: &str) -> bool {
        self.database.covers(database)
    }

    /// Returns its first right that is not in `needed`.
    pub(super) fn first_excess_right(&self, needed: &[Grant<'_>]) -> Option<&'a str> {
        if self.may_grant {
            return Some("GRANT OPTION");
        }
        self.rights().into_iter().find(|right| match *right {
            "SELECT" | "SHOW" => false,
            // A right to insert into any table.
            "INSERT" => !needed.iter().any(|grant| grant.rights().contains(&"INSERT")),
            "SHOW ACCESS" => true,
            other if other.starts_with("SHOW ") => false,
            other => !needed.iter().any(|grant| grant.table == self.table && grant.rights().contains(&other)),
        })
    }

    /// Returns the rights without their column lists.
    fn rights(&self) -> Vec<&'a str> {
        let (mut rights, mut begin, mut depth) = (Vec::new(), 0, 0);
        for (at, char) in outside_quotes(self.rights) {
            match char {
                '(' => depth += 1,
                ')' => depth -= 1,
                ',' if depth == 0 => {
                    rights.push(&self.rights[begin..at]);
                    begin = at + 1;
                }
                _ => {}
            }
        }
        rights.push(&self.rights[begin..]);
        rights.into_iter().map(|right| right.split('(').next().unwrap_or(right).trim()).collect()
    }
}

/// A database or table name, or a prefix (`*`, `te*`).
#[derive(PartialEq, Eq)]
struct Name {
    text: String,
    is_beginning: bool,
}

impl Name {
    /// A star within backquotes is a literal character.
    fn parse(written: &str) -> Self {
        let (written, is_beginning) = written.strip_suffix('*').map_or((written, false), |beginning| (beginning, true));
        let quoted = written.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
        Self { text: quoted.map_or_else(|| written.to_owned(), unescaped), is_beginning }
    }

    fn covers(&self, name: &str) -> bool {
        if self.is_beginning { name.starts_with(&self.text) } else { name == self.text }
    }
}

/// Returns the text between backquotes, without escapes.
fn unescaped(quoted: &str) -> String {
    let mut chars = quoted.chars();
    let mut text = String::with_capacity(quoted.len());
    while let Some(char) = chars.next() {
        text.push(match char {
            '\\' => match chars.next().unwrap_or('\\') {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '0' => '\0',
                'b' => '\u{8}',
                'f' => '\u{c}',
                escaped => escaped,
            },
            // A literal backquote is doubled.
            '`' => chars.next().unwrap_or('`'),
            plain => plain,
        });
    }
    text
}

/// Splits at the first separator outside of quoted names.
fn split_outside_quotes<'a>(text: &'a str, separator: &str) -> Option<(&'a str, &'a str)> {
    let (at, _) = outside_quotes(text).find(|(at, _)| text[*at..].starts_with(separator))?;
    Some((&text[..at], &text[at + separator.len()..]))
}

/// Returns the characters outside of quoted names and strings, with their positions.
fn outside_quotes(text: &str) -> impl Iterator<Item = (usize, char)> + '_ {
    let (mut quote, mut is_escaped) = (None, false);
    text.char_indices().filter(move |(_, char)| {
        let Some(open) = quote else {
            quote = matches!(char, '`' | '"' | '\'').then_some(*char);
            return quote.is_none();
        };
        if is_escaped {
            is_escaped = false;
        } else if *char == open {
            quote = None;
        } else {
            is_escaped = *char == '\\';
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beyond(grant: &'static str, database: &str, role: Role) -> Option<&'static str> {
        let needed: Vec<Grant<'_>> = expected_grants(role).collect();
        Grant::parse(grant).filter(|grant| grant.concerns(database)).and_then(|grant| grant.first_excess_right(&needed))
    }

    #[test]
    fn a9_checks_every_privilege_in_a_grant() {
        for (grant, worker, query) in [
            ("GRANT SELECT ON telemetry.sites TO q", None, None),
            ("GRANT SELECT(a, b), SHOW COLUMNS ON telemetry.sites TO q", None, None),
            ("GRANT SELECT, INSERT ON telemetry.sites TO q", None, Some("INSERT")),
            ("GRANT SELECT(a), INSERT(a, b) ON telemetry.sites TO q", None, Some("INSERT")),
            ("GRANT SELECT, CREATE TABLE ON telemetry.* TO q", Some("CREATE TABLE"), Some("CREATE TABLE")),
            ("GRANT SELECT, ALTER DELETE ON telemetry.sites TO q", Some("ALTER DELETE"), Some("ALTER DELETE")),
            ("GRANT SELECT, ALTER DELETE ON telemetry.* TO q", Some("ALTER DELETE"), Some("ALTER DELETE")),
            ("GRANT ALTER DELETE ON te*.* TO q", Some("ALTER DELETE"), Some("ALTER DELETE")),
            ("GRANT ALTER DELETE ON test_*.* TO q", None, None),
            ("GRANT DROP TABLE ON other.* TO q", None, None),
            ("GRANT SHOW ACCESS ON *.* TO q", Some("SHOW ACCESS"), Some("SHOW ACCESS")),
            ("GRANT CREATE USER ON * TO q", Some("CREATE USER"), Some("CREATE USER")),
            ("GRANT SELECT ON telemetry.* TO q WITH GRANT OPTION", Some("GRANT OPTION"), Some("GRANT OPTION")),
            ("REVOKE SELECT ON telemetry.secrets FROM q", None, None),
        ] {
            assert_eq!(beyond(grant, "telemetry", Role::Worker), worker, "{grant}");
            assert_eq!(beyond(grant, "telemetry", Role::Query), query, "{grant}");
        }
    }

    #[test]
    fn parses_backquoted_names() {
        for (grant, database, expected) in [
            ("GRANT ALTER DELETE ON `my-telemetry`.* TO q", "my-telemetry", Some("ALTER DELETE")),
            ("GRANT ALTER DELETE ON `my-telemetry`.sites TO q", "my-telemetry", Some("ALTER DELETE")),
            ("GRANT ALTER DELETE ON `my-telemetry`.* TO q", "telemetry", None),
            ("GRANT ALTER DELETE ON `my-te`*.* TO q", "my-telemetry", Some("ALTER DELETE")),
            ("GRANT ALTER DELETE ON `my-te*`.* TO q", "my-telemetry", None),
            ("GRANT ALTER DELETE ON `my-te*`.* TO q", "my-te*", Some("ALTER DELETE")),
            ("GRANT ALTER DELETE ON `tele.metry`.* TO q", "tele.metry", Some("ALTER DELETE")),
            ("GRANT ALTER DELETE ON `a ON b TO c`.* TO q", "a ON b TO c", Some("ALTER DELETE")),
            ("GRANT ALTER DELETE ON `a\\`b\\\\c`.* TO q", "a`b\\c", Some("ALTER DELETE")),
            ("GRANT ALTER DELETE ON `a``b`.* TO q", "a`b", Some("ALTER DELETE")),
            ("GRANT ALTER DELETE ON `a\\nb`.* TO q", "a\nb", Some("ALTER DELETE")),
            ("GRANT SELECT ON `my-telemetry`.* TO `q TO r` WITH GRANT OPTION", "my-telemetry", Some("GRANT OPTION")),
            ("GRANT SELECT ON telemetry.* TO `q WITH GRANT OPTION`", "telemetry", None),
            ("GRANT SELECT(`a)`), ALTER DELETE ON telemetry.* TO q", "telemetry", Some("ALTER DELETE")),
            ("GRANT SELECT(`a ON b`, `c,d`), ALTER DELETE ON telemetry.* TO q", "telemetry", Some("ALTER DELETE")),
            ("GRANT SET DEFINER ON `a.b` TO q", "telemetry", Some("SET DEFINER")),
        ] {
            for role in [Role::Worker, Role::Query] {
                assert_eq!(beyond(grant, database, role), expected, "{grant}");
            }
        }
    }

    #[test]
    fn finds_every_grant_in_the_accounts_file() {
        let objects = |role| expected_grants(role).map(|grant| (grant.database.text, grant.table.text)).collect::<Vec<_>>();
        for role in [Role::Worker, Role::Query] {
            assert!(objects(role).contains(&("telemetry".to_owned(), "events".to_owned())), "{}", role.name());
        }
        let found = objects(Role::Worker).len() + objects(Role::Query).len();
        assert_eq!(found, ACCOUNTS.matches("<query>").count());
    }
}

//! What an account could do besides its service's work: production runs on none that could change what it only has to keep.
//!
//! Must ask the store itself, as the account it judges.

use super::Role;
use crate::connections;
use crate::settings::{ClickHouseSettings, PostgresSettings};
use anyhow::ensure;
use sqlx::PgPool;
use std::time::Duration;

/// Between two looks for a server that does not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// What came of a look at an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It can do no more than it needs.
    Good,
    /// The server did not answer, or let nobody in.
    NotYet,
}

/// What an account of PostgreSQL could do that its service has no need of, in the words that follow "which".
const BEYOND: &str = include_str!("privileges.sql");

async fn look(pool: &PgPool, role: Role) -> Result<Option<String>, sqlx::Error> {
    let others = Role::ALL.into_iter().filter(|other| *other != role).map(Role::name).collect::<Vec<_>>();
    sqlx::query_scalar(BEYOND).bind(role.name()).bind(others).fetch_one(pool).await
}

fn judge(pool: &PgPool, beyond: Option<String>, role: Role) -> anyhow::Result<()> {
    let Some(beyond) = beyond else { return Ok(()) };
    let options = pool.connect_options();
    let (host, port, user) = (options.get_host(), options.get_port(), options.get_username());
    let fix = if user == role.name() {
        "take that from it, and from PUBLIC".to_owned()
    } else {
        format!("sign in as {}, which `telemetry identity-api migrate` makes", role.name())
    };
    anyhow::bail!("DATABASE_URL={host}:{port}: production does not run as {user}, which {beyond}; {fix}")
}

/// Refuses an account of PostgreSQL that could do more than a service needs: one that may do everything or make others, or the
/// owner of the tables, of a function or of the schema, each of whom can change the audit trail; one of another service; and one
/// that may write what the service's own role may not. A server that does not answer is an error too.
pub async fn refuse_privileged(settings: &PostgresSettings, role: Role) -> anyhow::Result<()> {
    let pool = connections::postgres(settings)?;
    let found = look(&pool, role).await.map_err(|error| connections::absent_postgres(&pool, &error))?;
    judge(&pool, found, role)
}

/// The same for who starts without PostgreSQL: a server that does not answer is not judged yet.
pub async fn refuse_privileged_if_there(settings: &PostgresSettings, role: Role) -> anyhow::Result<Judged> {
    let pool = connections::postgres(settings)?;
    match look(&pool, role).await {
        Ok(found) => judge(&pool, found, role).map(|()| Judged::Good),
        Err(_) => Ok(Judged::NotYet),
    }
}

/// The same, however long it takes until the server answers.
pub async fn refuse_privileged_once_there(settings: &PostgresSettings, role: Role) -> anyhow::Result<()> {
    while refuse_privileged_if_there(settings, role).await? == Judged::NotYet {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// What each service may do in ClickHouse.
const ACCOUNTS: &str = include_str!("../../../../schemas/clickhouse/accounts.xml");

/// Refuses an account of ClickHouse that could do more with our database, or with accounts, than the file of accounts grants its
/// service; to read is granted to all. `telemetry stream-workers prepare` and `rebuild` make tables by an account that may; what runs does
/// not.
pub async fn refuse_privileged_clickhouse(settings: &ClickHouseSettings, role: Role) -> anyhow::Result<()> {
    let asked = connections::clickhouse(settings)?.query("SHOW GRANTS FINAL").fetch_all::<String>().await;
    let granted = asked.map_err(|error| connections::absent_clickhouse(settings, &error))?;
    let needed: Vec<Grant<'_>> = of_file(role).collect();
    let given = granted.iter().filter_map(|grant| Grant::parse(grant));
    let unneeded = given.filter(|grant| grant.concerns(&settings.clickhouse_database)).find_map(|grant| grant.beyond(&needed));
    ensure!(
        unneeded.is_none(),
        "CLICKHOUSE_URL={}: production does not run as {}, which has the right {}; sign in as {}, which schemas/clickhouse/accounts.xml makes",
        connections::address(settings),
        connections::clickhouse_user(settings),
        unneeded.unwrap_or_default(),
        role.name()
    );
    Ok(())
}

/// What the file grants the account of a service.
fn of_file(role: Role) -> impl Iterator<Item = Grant<'static>> {
    let account = ACCOUNTS.split_once(&format!("<{}>\n            <password", role.name())).map_or("", |(_, rest)| rest);
    let account = account.split("</grants>").next().unwrap_or_default();
    account.lines().filter_map(|line| Grant::parse(line.trim().strip_prefix("<query>")?.strip_suffix("</query>")?))
}

/// `GRANT SELECT, INSERT(a, b) ON database.table TO account WITH GRANT OPTION`.
struct Grant<'a> {
    rights: &'a str,
    object: &'a str,
    may_grant: bool,
}

impl<'a> Grant<'a> {
    /// Of a line of `SHOW GRANTS`; none of what is taken back again (`REVOKE`), which was granted as a whole.
    fn parse(text: &'a str) -> Option<Self> {
        let (rights, rest) = text.strip_prefix("GRANT ")?.split_once(" ON ")?;
        let object = rest.split(" TO ").next().unwrap_or(rest);
        Some(Self { rights, object, may_grant: rest.ends_with(" WITH GRANT OPTION") })
    }

    fn database(&self) -> &'a str {
        self.object.split_once('.').map_or("*", |(database, _)| database)
    }

    fn table(&self) -> &'a str {
        self.object.split_once('.').map_or("*", |(_, table)| table)
    }

    /// Whether it says anything of this database; what it says of accounts and of the server, it says of every one.
    fn concerns(&self, database: &str) -> bool {
        match self.database().strip_suffix('*') {
            Some(beginning) => database.starts_with(beginning),
            None => database == self.database(),
        }
    }

    /// The first right in it that none of these grants.
    fn beyond(&self, needed: &[Grant<'_>]) -> Option<&'a str> {
        if self.may_grant {
            return Some("GRANT OPTION");
        }
        self.rights().find(|right| match *right {
            "SELECT" | "SHOW" => false,
            // Rows of whatever table there is.
            "INSERT" => !needed.iter().any(|grant| grant.rights().any(|known| known == "INSERT")),
            "SHOW ACCESS" => true,
            other if other.starts_with("SHOW ") => false,
            other => !needed.iter().any(|grant| grant.table() == self.table() && grant.rights().any(|known| known == other)),
        })
    }

    /// Each without the columns it is for.
    fn rights(&self) -> impl Iterator<Item = &'a str> {
        let mut depth = 0;
        let names = self.rights.split(move |char| {
            depth += match char {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            depth == 0 && char == ','
        });
        names.map(|right| right.split('(').next().unwrap_or(right).trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a9_a_grant_is_judged_by_every_right_in_it() {
        let beyond = |grant: &'static str, role| {
            let needed: Vec<Grant<'_>> = of_file(role).collect();
            Grant::parse(grant).filter(|grant| grant.concerns("telemetry")).and_then(|grant| grant.beyond(&needed))
        };
        for (grant, worker, query) in [
            ("GRANT SELECT ON telemetry.observations TO q", None, None),
            ("GRANT SELECT(a, b), SHOW COLUMNS ON telemetry.observations TO q", None, None),
            ("GRANT SELECT, INSERT ON telemetry.observations TO q", None, Some("INSERT")),
            ("GRANT SELECT(a), INSERT(a, b) ON telemetry.observations TO q", None, Some("INSERT")),
            ("GRANT SELECT, CREATE TABLE ON telemetry.* TO q", Some("CREATE TABLE"), Some("CREATE TABLE")),
            ("GRANT SELECT, ALTER DELETE ON telemetry.observations TO q", Some("ALTER DELETE"), Some("ALTER DELETE")),
            ("GRANT SELECT, ALTER DELETE ON telemetry.* TO q", Some("ALTER DELETE"), Some("ALTER DELETE")),
            ("GRANT ALTER DELETE ON te*.* TO q", Some("ALTER DELETE"), Some("ALTER DELETE")),
            ("GRANT ALTER DELETE ON test_*.* TO q", None, None),
            ("GRANT DROP TABLE ON other.* TO q", None, None),
            ("GRANT SHOW ACCESS ON *.* TO q", Some("SHOW ACCESS"), Some("SHOW ACCESS")),
            ("GRANT CREATE USER ON * TO q", Some("CREATE USER"), Some("CREATE USER")),
            ("GRANT SELECT ON telemetry.* TO q WITH GRANT OPTION", Some("GRANT OPTION"), Some("GRANT OPTION")),
            ("REVOKE SELECT ON telemetry.secrets FROM q", None, None),
        ] {
            assert_eq!(beyond(grant, Role::Worker), worker, "{grant}");
            assert_eq!(beyond(grant, Role::Query), query, "{grant}");
        }
    }

    #[test]
    fn every_grant_of_the_file_is_found() {
        let objects = |role| of_file(role).map(|grant| grant.object).collect::<Vec<_>>();
        for role in [Role::Worker, Role::Query] {
            assert!(objects(role).contains(&"telemetry.observations"), "{}", role.name());
        }
        let found = objects(Role::Worker).len() + objects(Role::Query).len();
        assert_eq!(found, ACCOUNTS.matches("<query>").count());
    }
}

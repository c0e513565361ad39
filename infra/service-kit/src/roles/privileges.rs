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

/// What an account of PostgreSQL could do.
#[derive(Clone, Copy, sqlx::FromRow)]
struct Privileges {
    is_mighty: bool,
    is_owner: bool,
    is_another_service: bool,
}

/// By itself or as a member of a role, through whatever chain: whether a membership passes its rights on by itself is no matter,
/// because its holder may say `SET ROLE`. The server's own roles (`pg_…`) write every table, read files or run programs.
async fn look(pool: &PgPool, role: Role) -> Result<Privileges, sqlx::Error> {
    let others = Role::ALL.into_iter().filter(|other| *other != role).map(Role::name).collect::<Vec<_>>();
    let statement = sqlx::query_as(
        "SELECT coalesce(bool_or(rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls \
                                 OR starts_with(rolname, 'pg_')), false) AS is_mighty, \
             coalesce(bool_or(rolname = ANY($1)), false) AS is_another_service, \
             EXISTS (SELECT FROM pg_class WHERE relkind IN ('r', 'p', 'v') AND pg_has_role(session_user, relowner, 'MEMBER') \
                     AND relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)) AS is_owner \
         FROM pg_roles WHERE pg_has_role(session_user, oid, 'MEMBER')",
    );
    statement.bind(others).fetch_one(pool).await
}

fn judge(pool: &PgPool, found: Privileges, role: Role) -> anyhow::Result<()> {
    let options = pool.connect_options();
    let (host, port, user) = (options.get_host(), options.get_port(), options.get_username());
    let what = match found {
        Privileges { is_mighty: true, .. } => "has rights over the whole server",
        Privileges { is_owner: true, .. } => "owns the tables",
        Privileges { is_another_service: true, .. } => "has the rights of another service",
        _ => return Ok(()),
    };
    anyhow::bail!(
        "DATABASE_URL={host}:{port}: production does not run as {user}, which {what}; sign in as {}, which `telemetry identity-api migrate` makes",
        role.name()
    );
}

/// Refuses an account of PostgreSQL that could do more than a service needs: one that may do everything or make others, or the
/// owner of the tables, each of whom can change the audit trail; and one of another service. A server that does not answer is an
/// error too.
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

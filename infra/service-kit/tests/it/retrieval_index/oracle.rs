//! What an owner's figures are: by the index, as a read merges it, and by force from every observation there is.

use clickhouse::Client;
use service_kit::retrieval_index::{Compactor, DeltaPart, client};
use service_kit::settings::ClickHouseSettings;
use service_kit::stores;
use service_kit::testing::TestStores;

/// A report, as `others` holds it.
const REPORT: &str = "(rank, received, org, observer, role, at, event_type, url, session, platform, agent, link_site)";
const NOBODY: &str = "toUUID('00000000-0000-0000-0000-000000000000')";
/// As the view tells rank and role.
const RANK: &str = "if(source_role = '', 5, toUInt8(source_role))";
const ROLE: &str = "if(source_role = '' AND event_type IN ('content_grounded', 'content_cited', 'content_presented', \
    'content_engaged', 'turn_started', 'turn_completed'), 1, toUInt8(source_role))";

/// Who reads, and of which time: hosts at or beneath a site, and a condition on `at`.
const READS: [(&str, &str); 3] = [
    ("com.a", "at > '2000-01-01'"),
    ("com", "at >= '2026-11-03 00:00:00' AND at < '2026-11-08 12:00:00'"),
    ("com.b", "at >= '2026-11-02 06:00:00'"),
];

/// A store with its index.
pub(crate) struct Store {
    pub(crate) settings: ClickHouseSettings,
    pub(crate) admin: Client,
    pub(crate) compactor: Compactor,
    index: Client,
}

impl Store {
    pub(crate) async fn fresh() -> Self {
        Self::at(TestStores::fresh().await.clickhouse)
    }

    pub(crate) fn at(settings: ClickHouseSettings) -> Self {
        let admin = stores::clickhouse(&settings).unwrap();
        Self { admin, compactor: Compactor::connect(&settings).unwrap(), index: client(&settings).unwrap(), settings }
    }

    pub(crate) async fn run(&self, statement: &str) {
        self.admin.query(statement).execute().await.unwrap();
    }

    pub(crate) async fn count(&self, table: &str) -> u64 {
        self.admin.query(&format!("SELECT count() FROM {table}")).fetch_one().await.unwrap()
    }

    /// The retrievals of the base, each as it is now, without the number of the compaction that wrote it.
    pub(crate) async fn base(&self) -> Vec<String> {
        let rows = format!(
            "SELECT toString((site, placed_at, key_low, key_high, needs_merge, roles, {REPORT}, others)) AS row \
             FROM retrieval_index FINAL WHERE tier = 'base' AND site != '' ORDER BY row"
        );
        self.admin.query(&rows).fetch_all().await.unwrap()
    }

    /// A part of the delta, once it is there.
    pub(crate) async fn parts(&self) -> Vec<DeltaPart> {
        self.compactor.parts().await.unwrap()
    }

    /// Inserts so many reports of at most `keys` events: repeats, several observers, roles, hosts and organisations, turns, and
    /// sessions that not everybody is told.
    pub(crate) async fn insert(&self, reports: u64, seed: u64, keys: u64) {
        self.run(&reports_of(reports, seed, keys)).await;
    }

    /// Every figure by the index is what it is by force.
    pub(crate) async fn agrees(&self, when: &str) {
        for (site, window) in READS {
            for (read, force) in
                [(figures(site, window), figures_by_force(site, window)), (agents(site, window), agents_by_force(site, window))]
            {
                let told: Vec<String> = self.index.query(&read).fetch_all().await.unwrap();
                let expected: Vec<String> = self.admin.query(&force).fetch_all().await.unwrap();
                assert_eq!(told, expected, "{when}: {site}, {window}");
            }
        }
    }
}

/// The statement that inserts reports, which are the same for the same numbers. Most keys are known on one site: what is known on
/// several is never read as a compaction left it.
pub(crate) fn reports_of(reports: u64, seed: u64, keys: u64) -> String {
    format!(
        "INSERT INTO observations (site, event_key, org_id, observer, version, source_role, event_type, at, session_id, platform_id, \
             link, link_site, agent_id, content_url) \
         SELECT ['com.a', 'com.a.blog', 'com.b'][1 + if(r1 % 20 = 0, r2, intDiv(k, 3)) % 3], toUInt128(cityHash64(k)) * 18446744073709551557 + k, org, \
             if(k % 4 = 0, 0, toUInt8(role)), bitNot(toUInt64(1000 + r2 % 100000) * 4096 + r1 % 5), role, \
             ['content_retrieved', 'content_grounded', 'content_cited', 'turn_started', 'content_engaged', 'com.x.y'][1 + if(r3 % 30 = 0, 3, k % 3)] AS kind, \
             toDateTime64('2026-11-01 00:00:00', 3, 'UTC') + toIntervalMillisecond((k * 7919000 + r1 % 600000) % 864000000), \
             if(role IN (1, 0), toUUID(concat('00000000-0000-0000-0000-', leftPad(toString(intDiv(k, 5) % 1000), 12, '0'))), {NOBODY}), org, \
             if(r3 % 50 = 1, 'other', ''), if(r3 % 100 = 1, 'com.a', ''), if(role = 1, concat('agent', toString(r2 % 4)), ''), \
             concat('https://', toString(k % 17), '.example/', toString(r1 % 2)) \
         FROM (SELECT cityHash64(number, {seed}, 1) AS r1, cityHash64(number, {seed}, 2) AS r2, cityHash64(number, {seed}, 3) AS r3, \
             cityHash64(number, {seed}, 4) % {keys} AS k, toInt8(r3 % 5) AS role, \
             toUUID(concat('10000000-0000-0000-0000-', leftPad(toString(r2 % 3), 12, '0'))) AS org FROM numbers({reports}))"
    )
}

fn of(column: &str, site: &str) -> String {
    format!("({column} = '{site}' OR startsWith({column}, '{site}.'))")
}

/// The steps of a read: `fresh`, `open` and what each retrieval is, with these columns of the index, told from `open` so.
fn retrievals(site: &str, window: &str, columns: &str, of_open: &str) -> String {
    let of_open_window = window.replace("at ", "told[1].6 ");
    let hosts = of("site", site);
    format!(
        "(SELECT {columns} FROM retrieval_index FINAL \
          WHERE tier = 'base' AND {hosts} AND NOT needs_merge AND key_low NOT IN (SELECT key_low FROM fresh) AND {window} \
          UNION ALL SELECT {of_open} FROM open WHERE {of_open_window})"
    )
}

fn steps(site: &str) -> String {
    let hosts = of("site", site);
    format!(
        "WITH fresh AS MATERIALIZED (SELECT site, key_low, key_high, {REPORT} AS report FROM retrieval_index WHERE tier = 'delta' AND {hosts}), \
         open AS MATERIALIZED ( \
            SELECT key_low, key_high, arraySort(groupArray(kept)) AS told FROM ( \
                SELECT site, key_low, key_high, min((report.2, report)).2 AS kept FROM ( \
                    SELECT site, key_low, key_high, report FROM fresh UNION ALL \
                    SELECT site, key_low, key_high, arrayJoin(arrayConcat([{REPORT}], others)) AS report FROM retrieval_index FINAL \
                    WHERE tier = 'base' AND {hosts} AND (needs_merge OR key_low IN (SELECT key_low FROM fresh))) \
                GROUP BY site, key_low, key_high, report.3, report.4) \
            WHERE NOT startsWith(kept.7, 'turn_') GROUP BY key_low, key_high) "
    )
}

/// How many retrievals of each type and set of roles.
fn figures(site: &str, window: &str) -> String {
    let roles = "toUInt8(arrayReduce('groupBitOr', arrayMap(r -> toUInt8(bitShiftLeft(1, r.5)), told)))";
    let rows = retrievals(site, window, "event_type, roles", &format!("told[1].7 AS event_type, {roles} AS roles"));
    format!(
        "{}SELECT toString((event_type, roles, count())) AS row FROM {rows} GROUP BY event_type, roles ORDER BY row",
        steps(site)
    )
}

/// What each agent did: role, platform, agent, sessions, reports that name one of those.
fn agents(site: &str, window: &str) -> String {
    let may = |column: &str| format!("({column} = '' OR {})", of(column, site));
    let named = |org: &str| format!("reinterpretAsUUID(bitOr(bitShiftLeft({org}, 64), bitShiftRight({org}, 64)))");
    let first = retrievals(
        site,
        window,
        "role, org, platform, toString(agent) AS agent, session, toString(link_site) AS link_site",
        "told[1].5 AS role, told[1].3 AS org, told[1].10 AS platform, toString(told[1].11) AS agent, told[1].9 AS session, \
         toString(told[1].12) AS link_site",
    );
    let others = retrievals(site, window, "others", "arraySlice(told, 2) AS others");
    let (own, other) = (may("link_site"), may("o.12"));
    let (own_org, other_org) = (named("org"), named("o.3"));
    format!(
        "{} SELECT toString((r, p, a, uniqExactIf(s, s != 0), countIf(r = 1 OR s != 0))) AS row FROM ( \
             SELECT role AS r, if({own}, platform, {own_org}) AS p, if({own}, agent, '') AS a, if({own}, session, 0) AS s FROM {first} \
             UNION ALL \
             SELECT o.5, if({other}, o.10, {other_org}), if({other}, toString(o.11), ''), if({other}, o.9, 0) FROM {others} ARRAY JOIN others AS o) \
         GROUP BY r, p, a ORDER BY row",
        steps(site)
    )
}

/// Of each retrieval on these hosts what represents it.
fn by_force(site: &str, columns: &str) -> String {
    let precedence = format!("({RANK}, bitNot(version), toUInt128(org_id))");
    format!(
        "SELECT event_key, argMin(at, {precedence}) AS shown{columns} FROM observations FINAL \
         WHERE {} AND NOT startsWith(event_type, 'turn_') GROUP BY event_key",
        of("site", site)
    )
    .replace("PRECEDENCE", &precedence)
}

fn figures_by_force(site: &str, window: &str) -> String {
    let columns =
        format!(", argMin(toString(event_type), PRECEDENCE) AS kind, groupBitOr(toUInt8(bitShiftLeft(1, {ROLE}))) AS roles");
    let (rows, window) = (by_force(site, &columns), window.replace("at ", "shown "));
    format!("SELECT toString((kind, roles, count())) AS row FROM ({rows}) WHERE {window} GROUP BY kind, roles ORDER BY row")
}

fn agents_by_force(site: &str, window: &str) -> String {
    let (hosts, window) = (of("site", site), window.replace("at ", "shown "));
    let hidden = format!("(link = 'other' AND NOT {})", of("link_site", site));
    let keys = by_force(site, "");
    format!(
        "SELECT toString((r, p, a, uniqExactIf(s, s != {NOBODY}), countIf(r = 1 OR s != {NOBODY}))) AS row FROM ( \
             SELECT {ROLE} AS r, if({hidden}, org_id, platform_id) AS p, if({hidden}, '', toString(agent_id)) AS a, \
                 if({hidden}, {NOBODY}, session_id) AS s FROM observations FINAL \
             WHERE {hosts} AND NOT startsWith(event_type, 'turn_') \
                 AND event_key IN (SELECT event_key FROM ({keys}) WHERE {window})) \
         GROUP BY r, p, a ORDER BY row"
    )
}

//! Random reports around a month: joins, copies, late and untimely reports, several observers, statuses and gaps in coverage.

use serde_json::{Value, json};

/// 2026-10-01 and 2026-11-01, in milliseconds.
pub(crate) const SINCE_MS: i64 = 1_790_812_800_000;
pub(crate) const UNTIL_MS: i64 = 1_793_491_200_000;
pub(crate) const HOUR_MS: i64 = 3_600_000;
/// Times at which the revisions are closed.
pub(crate) const CLOSED_MS: [i64; 2] = [UNTIL_MS + 48 * HOUR_MS, UNTIL_MS + 96 * HOUR_MS];

const TYPES: [&str; 7] = [
    "content_retrieved",
    "content_grounded",
    "content_cited",
    "content_presented",
    "content_engaged",
    "com.exämple.shared",
    "checkout_completed",
];
const URLS: [&str; 6] = ["/", "/blog/a?b=1", "/blog/b#c", "/blog/\"quoted\"\u{7f}/é", "/about", "?a=/b/c"];

/// A linear congruential generator, so that a seed produces the same month in every program.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()].clone()
    }

    fn is_one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

pub(crate) struct Month {
    pub(crate) by: &'static str,
    pub(crate) operator: Value,
    /// Reports and log lines as accepted, with copies, in no particular order.
    pub(crate) accepted: Vec<Value>,
    pub(crate) hours: Vec<Value>,
}

impl Month {
    pub(crate) fn new(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let observers = if seed.is_multiple_of(8) { 40 } else { 3 };
        let count = if observers == 40 { 90 } else { random.below(50) };
        let mut accepted: Vec<Value> = (0..count).map(|n| report(random, n, observers)).collect();
        accepted.extend((0..random.below(5)).map(|n| log_line(random, count + n)));
        for _ in 0..count / 8 {
            let mut copy = random.pick(&accepted);
            copy["accepted_us"] =
                json!(copy["accepted_us"].as_i64().unwrap() + (random.below(3).cast_signed() - 1) * 40 * HOUR_MS * 1_000);
            accepted.push(copy);
        }
        let hours = (0..random.below(20)).map(|_| {
            let at_ms = SINCE_MS + random.below(31 * 24).cast_signed() * HOUR_MS;
            json!({"row": "hour", "at_ms": at_ms, "host": random.pick(&["example.com", "blog.example.com", "shop.example.org"])})
        });
        let hours = hours.collect();
        Self {
            by: random.pick(&["url", "url", "section"]),
            operator: random.pick(&[Value::Null, Value::Null, json!("Example AI")]),
            accepted,
            hours,
        }
    }
}

fn times(random: &mut Random) -> (i64, i64) {
    let near = random.pick(&[SINCE_MS, UNTIL_MS, UNTIL_MS, SINCE_MS + 300 * HOUR_MS, CLOSED_MS[0]]);
    let accepted_ms = near + random.pick(&[-1, 0, 1, -HOUR_MS, HOUR_MS, 20 * HOUR_MS]);
    let (hour, day) = (HOUR_MS, 24 * HOUR_MS);
    let late = random.pick(&[-3 * day, -4 * day, -70 * hour]);
    let at_ms = accepted_ms
        + if near == CLOSED_MS[0] { late } else { random.pick(&[0, 0, -1, -hour, hour, hour + 1, -day, -day - 1, -3 * day]) };
    (accepted_ms * 1_000 + random.pick(&[0, 0, 1]), at_ms)
}

fn identity(n: u64) -> String {
    format!("{:032x}", (u128::from(n) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

fn report(random: &mut Random, n: u64, observers: u64) -> Value {
    let group = if random.is_one_in(3) { None } else { Some(random.below(if observers == 40 { 1 } else { 5 })) };
    let kind = if group.is_some() { "content_retrieved" } else { random.pick(&TYPES) };
    let host = match group.unwrap_or(random.below(9)) % 3 {
        0 => "example.com",
        1 => "blog.example.com",
        _ => "shop.example.org",
    };
    let (accepted_us, at_ms) = times(random);
    let has_url = group.is_some() || !random.is_one_in(9);
    let described = random.is_one_in(2);
    let digest = |n: u64| format!("{n:016x}");
    json!({
        "row": "report",
        "accepted_us": accepted_us,
        "at_ms": at_ms,
        "bot": if described { random.pick(&["", "GPTBot"]) } else { "" },
        "click": random.is_one_in(2),
        "content_id": if has_url { "" } else { "doi:10.1000/1" },
        "drain": random.pick(&["", "", "d1"]),
        "group": group.map(|group| format!("{:032x}", u128::from(group) << 60)),
        "host": if has_url { host } else { "" },
        "identity": identity(n),
        "license": random.pick(&["", "", "RSL 1"]),
        "operator": random.pick(&["", "Example AI", "Other"]),
        "organization": format!("org-{}", random.below(observers)),
        "owner": random.is_one_in(4),
        "place": random.below(3),
        "response": (!random.is_one_in(3)).then(|| digest(random.below(3))),
        "role": random.pick(&["agent", "agent", "edge", "origin", "index", ""]),
        "session": random.is_one_in(2).then(|| digest(random.below(4))),
        "signature": random.pick(&["none", "none", "valid", "invalid"]),
        "status": described.then(|| random.pick(&[0, 200, 206, 304, 404, 503])),
        "type": kind,
        "url": if has_url { format!("https://www.{host}{}", random.pick(&URLS)) } else { String::new() },
    })
}

fn log_line(random: &mut Random, n: u64) -> Value {
    let (accepted_us, at_ms) = times(random);
    json!({
        "row": "line",
        "accepted_us": accepted_us,
        "at_ms": at_ms,
        "bot": "GPTBot",
        "host": "example.com",
        "identity": identity(n),
        "operator": random.pick(&["Example AI", "Other"]),
        "place": 0,
        "status": random.pick(&[0, 304, 404]),
        "url": "https://example.com/blog/a",
    })
}

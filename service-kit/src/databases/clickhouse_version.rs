//! ClickHouse versions that return correct counts.
//!
//! ClickHouse caches which granules match a condition. Before its pull request 105686, it could cache part of a condition as the whole, and
//! later reads returned too few rows (ClickHouse#104781). The services disable that cache (`use_query_condition_cache=0`), but other
//! readers of the tables don't, so the server needs the fix too.

/// The first fixed release of each line. Every later line has the fix, and no earlier one does.
const FIXED: [[u32; 4]; 3] = [[26, 3, 13, 13], [26, 4, 4, 15], [26, 5, 2, 12]];

/// Returns an error with the reason if this version is not supported.
pub(super) fn refuse(version: &str) -> Result<(), String> {
    let Some(found) = parse(version) else { return Err(format!("unknown ClickHouse version {version:?}")) };
    let line = |of: &[u32; 4]| [of[0], of[1]];
    let is_fixed = match FIXED.iter().find(|fixed| line(fixed) == line(&found)) {
        Some(fixed) => found >= *fixed,
        None => FIXED.iter().all(|fixed| line(fixed) < line(&found)),
    };
    if is_fixed {
        return Ok(());
    }
    let [oldest, _, newest] = FIXED.map(dotted);
    Err(format!("ClickHouse {version} can return too few rows (ClickHouse#104781); use {newest} or later, or LTS {oldest}"))
}

/// Parses the first four numbers and ignores vendor suffixes.
fn parse(version: &str) -> Option<[u32; 4]> {
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??, numbers.next()??])
}

fn dotted(version: [u32; 4]) -> String {
    version.map(|number| number.to_string()).join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_fixed_versions() {
        for version in ["26.3.13.13", "26.3.14.1", "26.4.4.15.altinitystable", "26.5.2.12", "26.6.1.1", "26.7.2.1", "27.1.1.1"] {
            assert_eq!(refuse(version), Ok(()), "{version}");
        }
        for version in ["25.12.9.9", "26.2.19.43", "26.3.13.12", "26.4.4.14", "26.5.1.587", "26.5.2.11", "26.5", "", "new"] {
            let why = refuse(version).expect_err(version);
            assert!(!why.contains('\n'), "{why}");
        }
        assert_eq!(
            refuse("26.4.2.10").unwrap_err(),
            "ClickHouse 26.4.2.10 can return too few rows (ClickHouse#104781); use 26.5.2.12 or later, or LTS 26.3.13.13"
        );
    }
}

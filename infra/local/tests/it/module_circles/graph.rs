//! Finds import cycles among sibling modules.

use super::source::ModulePath;
use std::collections::{BTreeMap, BTreeSet};

type Edges = BTreeMap<String, BTreeSet<String>>;

/// Returns every cycle in a crate. At each level, it compares the children of one module, including their submodules.
pub(super) fn cycles(imports: &[(ModulePath, ModulePath)]) -> Vec<Vec<String>> {
    let mut levels: BTreeMap<&[String], Edges> = BTreeMap::new();
    for (from, to) in imports {
        let shared = from.iter().zip(to).take_while(|(one, other)| one == other).count();
        if let (Some(one), Some(other)) = (from.get(shared), to.get(shared)) {
            levels.entry(&from[..shared]).or_default().entry(one.clone()).or_default().insert(other.clone());
        }
    }
    let named = |level: &[String], names: BTreeSet<String>| -> Vec<String> {
        names.into_iter().map(|name| [level, &[name]].concat().join("::")).collect()
    };
    levels.iter().flat_map(|(level, edges)| groups(edges).into_iter().map(|names| named(level, names))).collect()
}

/// Returns sets of at least two names that reach each other.
fn groups(edges: &Edges) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<String>> = edges.keys().map(|name| (name, reachable_from(edges, name))).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (name, ahead) in &reached {
        let returns = |other: &&String| reached.get(*other).is_some_and(|back| back.contains(*name));
        let group: BTreeSet<String> = ahead.iter().filter(returns).cloned().collect();
        if group.len() > 1 && !found.contains(&group) {
            found.push(group);
        }
    }
    found
}

/// Returns every name that can be reached from `from`.
fn reachable_from(edges: &Edges, from: &str) -> BTreeSet<String> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(next) = open.pop() {
        let ahead = edges.get(&next).into_iter().flatten();
        open.extend(ahead.filter(|name| found.insert((*name).clone())).cloned());
    }
    found
}

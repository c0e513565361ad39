//! Random months: the model creates both revisions, and both programs verify them.

use crate::model::statements;
use crate::months::Month;

#[test]
fn verifies_both_revisions_of_random_months() {
    let mut changed = 0;
    for seed in 0..400 {
        for files in statements(&Month::new(seed)) {
            let found = files.verify();
            assert!(found.is_ok(), "seed {seed}: {found}");
            changed += files.statement["corrections"]["changes"].as_array().map_or(0, Vec::len);
        }
    }
    assert!(changed > 1_000, "late reports change figures");
}

#[test]
fn e1_both_programs_agree_on_random_months() {
    for seed in 0..15 {
        let [_, files] = statements(&Month::new(seed));
        let text = files.statement.to_string();
        files.assert_python_agrees(&text, &format!("seed-{seed}"), &files.verify());
    }
}

/// Changes a random line's or total's figure by one and signs the statement again.
#[test]
fn both_programs_find_random_changes() {
    for seed in 100..110 {
        let [files, _] = statements(&Month::new(seed));
        let text = files.statement.to_string();
        let figures: Vec<usize> = text.match_indices("\"signed\":").map(|(at, name)| at + name.len()).collect();
        let Some(at) = figures.get(seed as usize % figures.len().max(1)) else { continue };
        let digit = text.as_bytes()[*at] - b'0';
        let mut changed = text.clone();
        changed.replace_range(*at..at + 1, &((digit + 1) % 10).to_string());
        let mut altered = files.clone();
        altered.statement = serde_json::from_str(&changed).unwrap();
        altered.sign();
        let found = altered.verify();
        assert_eq!(found.differences.len(), 1, "seed {seed}: {found}");
        altered.assert_python_agrees(&altered.statement.to_string(), &format!("changed-{seed}"), &found);
    }
}

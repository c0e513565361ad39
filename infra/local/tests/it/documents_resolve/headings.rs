//! Links and headings of a Markdown file.

/// Returns the lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_fenced = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

pub(crate) fn links(text: &str) -> impl Iterator<Item = &str> {
    prose(text).flat_map(|line| line.split("](").skip(1).filter_map(|rest| rest.split(')').next()))
}

/// Returns the anchors that GitHub generates for the headings.
pub(crate) fn slugs(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in prose(text) {
        let heading = line.trim_start_matches('#');
        let is_heading = (1..=6).contains(&(line.len() - heading.len())) && heading.starts_with(' ');
        if !is_heading {
            continue;
        }
        let slug = slug(heading.trim());
        let repeats =
            found.iter().filter(|other| **other == slug || other.strip_prefix(&format!("{slug}-")).is_some_and(is_number));
        let count = repeats.count();
        found.push(if count == 0 { slug } else { format!("{slug}-{count}") });
    }
    found
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|char| if char == ' ' { '-' } else { char }).collect()
}

//! Pastes every block of a document from top to bottom, in bash and in zsh, and compares the output with the document.

use super::blocks::Page;
use super::expected::missing;
use super::shell::{FakeClone, PasteResult, Rejected, Shell};
use crate::demo::Demo;
use service_kit::testing::size;
use std::time::Duration;

/// Time limit for a whole document in one shell, which ends infinite loops.
const LIMIT: Duration = Duration::from_secs(300);

/// Documents that `cargo verify` pastes in every shell. It pastes the others only in bash; `DOCUMENT_SHELLS=2` pastes all of them in every
/// shell.
const IN_EVERY_SHELL: [&str; 2] = ["README.md", "docs/cli.md"];

/// Defines the documents to paste and a test for each.
macro_rules! documents {
    ($($(#[$mark:meta])* $test:ident $path:literal)*) => {
        pub(super) const DOCUMENTS: &[&str] = &[$($path),*];
        $(
            #[tokio::test]
            $(#[$mark])*
            async fn $test() {
                paste($path).await;
            }
        )*
    };
}

documents! {
    readme "README.md"
    cli "docs/cli.md"
    publisher "docs/start/publisher.md"
    cdn "docs/start/cdn.md"
    agent "docs/start/agent.md"
    partner "docs/start/partner.md"
    analyst "docs/start/analyst.md"
    operator "docs/start/operator.md"
    counting "docs/start/counting.md"
    statements "docs/guides/statements.md"
    signatures "docs/api/signatures.md"
}

/// Reports the errors that can be found before anything runs.
#[test]
fn commands_in_documents_work_when_pasted() {
    let read = |name: &&str| Page::read(name, &std::fs::read_to_string(super::command_search::root().join(name)).unwrap());
    let faults: Vec<String> = DOCUMENTS.iter().flat_map(|name| read(name).faults()).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Each shell uses its own service, so that the numbers in the document are correct in both.
async fn paste(document: &str) {
    let text = std::fs::read_to_string(super::command_search::root().join(document)).unwrap();
    let page = Page::read(document, &text);
    let mut faults = Vec::new();
    let shells = if IN_EVERY_SHELL.contains(&document) { Shell::ALL.len() } else { size("DOCUMENT_SHELLS", 1) };
    for shell in Shell::ALL.into_iter().take(shells) {
        let demo = Demo::start().await;
        faults.extend(faults_in(&page, shell, &FakeClone::new(demo.folder()), &demo.process.stdout()).await);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Returns the failures in this shell. `screen` is the output of `cargo up`.
async fn faults_in(page: &Page, shell: Shell, desk: &FakeClone, screen: &str) -> Vec<String> {
    let pasted: Vec<_> = page.pasted().collect();
    let once: Vec<&str> = pasted.iter().map(|block| block.text.as_str()).collect();
    // Pasting a page twice must work too.
    let times = if shell == Shell::Bash { 2 } else { 1 };
    let PasteResult { outputs, mut failures, rejected } = desk.paste(shell, &once.repeat(times), LIMIT).await;
    let block_of = |place: usize| pasted.get(place % pasted.len().max(1)).copied();
    let again = |place: usize| if place < pasted.len() { "" } else { "pasted again, " };
    for Rejected { block, status, command } in rejected {
        // A document shows the status of a request that it expects to fail.
        let expected = block_of(block).and_then(|block| block.expected.as_deref()).unwrap_or_default();
        if !expected.lines().any(|line| line == status) {
            failures.push((block, format!("status {status}: {command}")));
        }
    }
    let mut faults = Vec::new();
    let mut add = |line: usize, text: &str| faults.push(format!("{}:{line} in {shell}: {text}", page.name));
    for (place, failure) in failures {
        let again = again(place);
        let printed = outputs.get(place).map_or("", String::as_str);
        let line = block_of(place).map_or(0, |block| block.line);
        add(line, &format!("{again}{failure}\n  its output:\n{printed}"));
    }
    let started = page.blocks.iter().filter(|block| block.starts_service()).map(|block| ("", block, screen));
    let printed =
        outputs.iter().enumerate().filter_map(|(place, output)| Some((again(place), block_of(place)?, output.as_str())));
    for (again, block, output) in printed.chain(started) {
        for line in missing(block.expected.as_deref().unwrap_or_default(), output) {
            add(block.line, &format!("{again}the output has no line `{line}`:\n{output}"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn faults_of(shell: Shell, document: &str) -> Vec<String> {
        let local = tempfile::tempdir().unwrap();
        std::fs::write(local.path().join("demo.env"), "BASE_URL='http://localhost'\n").unwrap();
        let page = Page::read("a page", document);
        faults_in(&page, shell, &FakeClone::new(local.path()), "Console  http://127.0.0.1:8080").await
    }

    fn sh(block: &str) -> String {
        format!("# Page\n\n```sh\n{block}\n```\n")
    }

    #[tokio::test]
    async fn reports_failing_commands() {
        for (block, expected) in [
            ("ls /nonexistent\ntrue", "ls /nonexistent"),
            ("false | cat\ntrue", "false | cat"),
            ("X=$(false)\necho \"$X\"", "X="),
            ("nosuchprogram\ntrue", "nosuchprogram"),
            ("echo \"$UNSET_VARIABLE\"\ntrue", "UNSET_VARIABLE"),
            ("echo \"wow!bar\"\ntrue", "event not found"),
            ("echo )\ntrue", "error near"),
            ("export PATH=\"$PWD/target/debug:$PATH\"\ntelemetry nosuchcommand | cat\ntrue", "telemetry nosuchcommand"),
            ("X=$(curl -sS http://127.0.0.1:1/ | cat)\ntrue", "status 7: curl -sS http://127.0.0.1:1/"),
        ] {
            for shell in Shell::ALL {
                let faults = faults_of(shell, &sh(block)).await.join("\n");
                assert!(faults.contains(&format!("a page:3 in {shell}: ")) && faults.contains(expected), "{block}: {faults}");
            }
        }
    }

    #[tokio::test]
    async fn reports_different_output() {
        let page = "```sh\necho one\n```\n\n```text\none\ntwo\n```\n\n```sh\ncargo up\n```\n\n```text\nAddress  …\n```\n";
        for shell in Shell::ALL {
            let faults = faults_of(shell, page).await;
            let (screen, pasted) = faults.split_last().unwrap();
            assert_eq!(pasted.len(), if shell == Shell::Bash { 2 } else { 1 }, "{faults:?}");
            let is_named = |fault: &String| fault.contains("a page:1") && fault.contains("the output has no line `two`");
            assert!(pasted.iter().all(is_named), "{faults:?}");
            assert!(screen.contains("a page:10") && screen.contains("no line `Address  …`"), "{faults:?}");
        }
    }
}

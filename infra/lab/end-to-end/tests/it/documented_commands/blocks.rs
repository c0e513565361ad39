//! The `sh` blocks of a document, and the output that the document shows for them.

/// Begins of command lines that no test pastes, with the reason. Other commands of the same block aren't pasted either, so a block
/// with one of these must contain nothing else.
const NOT_PASTED: [(&str, &str); 6] = [
    ("git clone", "downloads the repository"),
    ("cd", "enters the clone, which the folder of the test stands for"),
    ("cargo", "compiles the program, or starts and stops the servers that tests use"),
    ("docker", "needs Docker, which the machines of the tests don't have"),
    ("telemetry login", "waits for the link of an email"),
    ("telemetry webhook listen", "runs until Ctrl-C"),
];

/// Other names for blocks of commands, which would not be pasted.
const OTHER_NAMES: [&str; 6] = ["bash", "shell", "zsh", "console", "shell-session", "shellscript"];

/// The last screen of `cargo up` is the output of this block.
const CARGO_UP: &str = "cargo up";

struct Fence<'a> {
    language: &'a str,
    text: String,
    /// Of the fence's first line, from 1.
    line: usize,
    /// The number of headings before it.
    section: usize,
}

fn fences(document: &str) -> Vec<Fence<'_>> {
    let (mut found, mut open, mut section) = (Vec::new(), None::<(usize, Fence<'_>)>, 0);
    for (number, line) in (1..).zip(document.lines()) {
        let trimmed = line.trim_start();
        match &mut open {
            None if trimmed.starts_with("```") => {
                let (language, indent) = (trimmed.trim_start_matches('`').trim(), line.len() - trimmed.len());
                open = Some((indent, Fence { language, text: String::new(), line: number, section }));
            }
            None => section += usize::from(line.starts_with('#')),
            Some(_) if trimmed.trim_end() == "```" => found.extend(open.take().map(|(_, fence)| fence)),
            Some((indent, fence)) => {
                let own_indent = (line.len() - trimmed.len()).min(*indent);
                fence.text.push_str(&line[own_indent..]);
                fence.text.push('\n');
            }
        }
    }
    found
}

/// A block of commands.
pub(super) struct Block {
    /// Of its fence, from 1.
    pub(super) line: usize,
    pub(super) text: String,
    /// The `text` block that follows in the same section.
    pub(super) expected: Option<String>,
}

impl Block {
    /// The reason why it isn't pasted, if there is one.
    pub(super) fn reason(&self) -> Option<&'static str> {
        self.lines().iter().find_map(|line| reason(line))
    }

    pub(super) fn is_pasted(&self) -> bool {
        self.reason().is_none()
    }

    pub(super) fn starts_service(&self) -> bool {
        self.text.lines().next().is_some_and(|line| line.starts_with(CARGO_UP))
    }

    /// Its command lines, with quoted text masked.
    fn lines(&self) -> Vec<String> {
        let lines = unquoted(&self.text);
        lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// What is wrong with its form.
    fn faults(&self) -> Vec<String> {
        let lines = self.lines();
        let mut found = Vec::new();
        if let (Some(reason), Some(other)) = (self.reason(), lines.iter().find(|line| reason(line).is_none())) {
            return vec![format!("`{other}` is not pasted, because the block {reason}; move it to a block of its own")];
        }
        if !self.is_pasted() {
            let has_output = self.expected.is_some() && !self.starts_service();
            return Vec::from_iter(has_output.then(|| "its output can't be compared, because it isn't pasted".to_owned()));
        }
        if lines.iter().any(|line| line.split(' ').any(|word| word.starts_with('#'))) {
            found.push("it contains a comment, which zsh takes for a command".to_owned());
        }
        if self.text.contains('…') || self.text.lines().any(has_placeholder) {
            found.push("it contains a placeholder".to_owned());
        }
        let separators = [' ', ';', '&', '|', '(', ')', '{', '}'];
        let mut words = lines.iter().flat_map(|line| line.split(separators)).filter(|word| !word.is_empty()).peekable();
        while let Some(word) = words.next() {
            let reads_lines = matches!(words.peek(), Some(&("read" | "IFS=")));
            if word == "until" || word == "while" && !reads_lines {
                found.push(format!("it contains `{word}`, which may never end: use `for try in 1 2 3`"));
            }
        }
        found
    }
}

/// `<name>` and `<your key>`, also in quotes.
fn has_placeholder(line: &str) -> bool {
    line.split('<').skip(1).any(|rest| {
        let name = rest.split_once('>').map_or("", |(name, _)| name);
        let is_name = |c: char| c.is_ascii_alphanumeric() || " _-".contains(c);
        name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_name)
    })
}

fn reason(line: &str) -> Option<&'static str> {
    let begins = |start: &str| line.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    NOT_PASTED.iter().find(|(start, _)| begins(start)).map(|(_, reason)| *reason)
}

/// The text with `_` for everything in quotes, and with continued lines joined, so that each line begins a command.
fn unquoted(text: &str) -> String {
    let (mut masked, mut quote, mut is_comment) = (String::new(), None, false);
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        is_comment |= quote.is_none() && char == '#' && masked.ends_with([' ', '\n']) || masked.is_empty() && char == '#';
        is_comment &= char != '\n';
        match (quote, char) {
            _ if is_comment => masked.push(char),
            (Some('\''), _) if char != '\'' => masked.push('_'),
            (_, '\\') => {
                let next = chars.next();
                masked.push(if next == Some('\n') && quote.is_none() { ' ' } else { '_' });
            }
            (Some(open), _) => {
                quote = Some(open).filter(|open| char != *open);
                masked.push('_');
            }
            (None, '\'' | '"') => {
                quote = Some(char);
                masked.push('_');
            }
            (None, _) => masked.push(char),
        }
    }
    masked
}

/// A document to paste from top to bottom.
pub(super) struct Page {
    pub(super) name: String,
    pub(super) blocks: Vec<Block>,
    other_names: Vec<String>,
}

impl Page {
    pub(super) fn read(name: &str, document: &str) -> Self {
        let fences = fences(document);
        let mut blocks = Vec::new();
        for (place, fence) in fences.iter().enumerate().filter(|(_, fence)| fence.language == "sh") {
            let next = fences.get(place + 1).filter(|next| next.language == "text" && next.section == fence.section);
            blocks.push(Block { line: fence.line, text: fence.text.clone(), expected: next.map(|next| next.text.clone()) });
        }
        let others = fences.iter().filter(|fence| OTHER_NAMES.contains(&fence.language));
        let other_names = others.map(|fence| format!("{name}:{}: name this block `sh`, or no test pastes it", fence.line));
        Self { name: name.to_owned(), other_names: other_names.collect(), blocks }
    }

    pub(super) fn pasted(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|block| block.is_pasted())
    }

    /// What is wrong with the document before anything of it runs.
    pub(super) fn faults(&self) -> Vec<String> {
        let of = |block: &Block| {
            let place = format!("{}:{}", self.name, block.line);
            block.faults().into_iter().map(move |fault| format!("{place}: {fault}")).collect::<Vec<_>>()
        };
        let empty = (self.pasted().next().is_none()).then(|| format!("{}: no block of it is pasted", self.name));
        self.other_names.iter().cloned().chain(empty).chain(self.blocks.iter().flat_map(of)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(block: &str) -> Vec<String> {
        Page::read("a page", &format!("# Page\n\n```sh\n{block}\n```\n")).faults()
    }

    #[test]
    fn finds_blocks_with_their_lines_and_outputs() {
        let page = "# A\n\n```sh\none\n```\n\nprints:\n\n```text\n1\n```\n\n- item:\n  ```sh\n  two\n    x\n  ```\n\n## B\n\n```text\nchart\n```\n";
        let page = Page::read("a page", page);
        let found: Vec<_> =
            page.blocks.iter().map(|block| (block.line, block.text.as_str(), block.expected.as_deref())).collect();
        assert_eq!(found, [(3, "one\n", Some("1\n")), (14, "two\n  x\n", None)]);
    }

    #[test]
    fn a_page_without_pasted_blocks_is_a_fault() {
        assert_eq!(Page::read("a page", "# A\n").faults(), ["a page: no block of it is pasted"]);
        assert_eq!(faults("cargo up"), ["a page: no block of it is pasted"]);
        let other = Page::read("a page", "```sh\ntrue\n```\n\n```bash\ntrue\n```\n").faults();
        assert_eq!(other, ["a page:5: name this block `sh`, or no test pastes it"]);
    }

    #[test]
    fn blocks_that_cannot_be_pasted_contain_nothing_else() {
        let block = |text: &str| Block { line: 1, text: text.to_owned(), expected: None };
        for alone in ["cargo up --demo-data", "git clone x\ncd x", "docker compose up \\\n  -d", "telemetry login --url 'a\nb'"] {
            assert!(!block(alone).is_pasted() && block(alone).faults().is_empty(), "{alone}");
        }
        for pasted in ["telemetry logout", "cargo-x", "echo 'a\ncargo up'", "export A=1 \\\n  cargo=2"] {
            assert!(block(pasted).is_pasted(), "{pasted}");
        }
        assert_eq!(block("cargo up\ncurl x").faults().len(), 1);
        let with_output = |text: &str| Block { expected: Some(String::new()), ..block(text) };
        assert_eq!((with_output("cargo up").faults().len(), with_output("docker ps").faults().len()), (0, 1));
    }

    #[test]
    fn comments_are_faults() {
        for bad in ["# don't", "a # b", "a\n# it's\nb", "a 'x' #b"] {
            assert_eq!(faults(bad), ["a page:3: it contains a comment, which zsh takes for a command"], "{bad}");
        }
        for good in ["a '# b'", "a \"# b\"", "a'\n# b\n'", "echo ${#a} $#", "sed 's/#/ # /'", r"echo \# \\ \' \'"] {
            assert_eq!(faults(good), [""; 0], "{good}");
        }
    }

    #[test]
    fn placeholders_are_faults() {
        for bad in ["a <id>", "a '{\"key\": \"<your key>\"}'", "a …"] {
            assert_eq!(faults(bad), ["a page:3: it contains a placeholder"], "{bad}");
        }
        for good in ["a < file > other", "a <<EOF\nEOF", "a 2>/dev/null <x"] {
            assert_eq!(faults(good), [""; 0], "{good}");
        }
    }

    #[test]
    fn loops_without_a_bound_are_faults() {
        for bad in ["until a; do b; done", "while true; do b; done", "(until a; do b; done)"] {
            assert_eq!(faults(bad).len(), 1, "{bad}");
        }
        for good in ["for try in 1 2; do a; done", "a | while read line; do b; done", "echo 'while true'", "b --until 2026"] {
            assert_eq!(faults(good), [""; 0], "{good}");
        }
    }
}

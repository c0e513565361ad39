//! The `sh` blocks of a document, and the output that the document shows for them.

/// Beginnings of commands that no test pastes, with the reason. Other commands of the same block aren't pasted either, so a block with
/// one of these must contain nothing else.
const NOT_PASTED: [(&str, &str); 6] = [
    ("git clone", "downloads the repository"),
    ("cd", "enters the clone, which the folder of the test stands for"),
    ("cargo", "compiles the program, or starts and stops the servers that tests use"),
    ("docker", "needs Docker, which the machines of the tests don't have"),
    ("telemetry login", "waits for the link of an email"),
    ("telemetry webhook listen", "runs until Ctrl-C"),
];

/// Those of them that may run until they are stopped, or that read what is pasted behind them.
const ALONE: [&str; 3] = ["cargo", "telemetry login", "telemetry webhook listen"];

/// Other names for blocks of commands, which would not be pasted.
const OTHER_NAMES: [&str; 6] = ["bash", "shell", "zsh", "console", "shell-session", "shellscript"];

/// The last screen of `cargo up` is the output of this block.
const CARGO_UP: &str = "cargo up";

struct Fence<'a> {
    language: &'a str,
    text: String,
    /// Of the fence's first line, from 1.
    line: usize,
}

impl Fence<'_> {
    /// Whether it shows what commands print. A diagram has corners.
    fn is_output(&self) -> bool {
        self.language == "text" && !self.text.contains('┌')
    }
}

fn fences(document: &str) -> Vec<Fence<'_>> {
    let (mut found, mut open) = (Vec::new(), None::<(usize, Fence<'_>)>);
    for (number, line) in (1..).zip(document.lines()) {
        let trimmed = line.trim_start();
        match &mut open {
            None if trimmed.starts_with("```") => {
                let (language, indent) = (trimmed.trim_start_matches('`').trim(), line.len() - trimmed.len());
                open = Some((indent, Fence { language, text: String::new(), line: number }));
            }
            None => {}
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

pub(super) struct Block {
    /// Of its fence, from 1.
    pub(super) line: usize,
    pub(super) text: String,
    /// The `text` block that follows.
    pub(super) expected: Option<String>,
}

impl Block {
    /// The reason why it isn't pasted, if there is one.
    pub(super) fn reason(&self) -> Option<&'static str> {
        self.commands().iter().find_map(|command| reason(command))
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

    /// Its commands, also those that share a line.
    fn commands(&self) -> Vec<String> {
        let lines = self.lines();
        let commands = lines.iter().flat_map(|line| line.split([';', '|', '&'])).map(str::trim);
        // `2>&1` has no second command.
        commands.filter(|command| !command.is_empty() && !command.starts_with(char::is_numeric)).map(str::to_owned).collect()
    }

    /// What is wrong with its form.
    fn faults(&self) -> Vec<String> {
        let mut found = self.misread_text();
        let commands = self.commands();
        if let Some(reason) = self.reason() {
            found.extend(
                commands
                    .iter()
                    .find(|command| self::reason(command).is_none())
                    .map(|other| format!("`{other}` is not pasted, because the block {reason}; move it to a block of its own")),
            );
            let alone = commands.iter().find(|command| ALONE.iter().any(|start| begins(command, start)));
            found.extend(alone.filter(|_| commands.len() > 1).map(|alone| {
                format!("`{alone}` may not end, and the other commands of the block wait for it; move it to a block of its own")
            }));
            if self.expected.is_some() && !self.starts_service() {
                found.push("its output can't be compared, because it isn't pasted".to_owned());
            }
        } else if self.expected.is_none() && commands.iter().any(|command| command.split(' ').any(|word| word == "break")) {
            found.push("its loop may end without success: show the output".to_owned());
        }
        found
    }

    /// Text that a shell reads in another way than the reader of the document.
    fn misread_text(&self) -> Vec<String> {
        let lines = self.lines();
        let mut found = Vec::new();
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

fn reason(command: &str) -> Option<&'static str> {
    NOT_PASTED.iter().find(|(start, _)| begins(command, start)).map(|(_, reason)| *reason)
}

fn begins(command: &str, start: &str) -> bool {
    command.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
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
    /// Blocks that no test would look at.
    overlooked: Vec<String>,
}

impl Page {
    pub(super) fn read(name: &str, document: &str) -> Self {
        let fences = fences(document);
        let mut blocks = Vec::new();
        for (place, fence) in fences.iter().enumerate().filter(|(_, fence)| fence.language == "sh") {
            let next = fences.get(place + 1).filter(|next| next.is_output());
            blocks.push(Block { line: fence.line, text: fence.text.clone(), expected: next.map(|next| next.text.clone()) });
        }
        let others = fences.iter().filter(|fence| OTHER_NAMES.contains(&fence.language));
        let others = others.map(|fence| format!("{name}:{}: name this block `sh`, or no test pastes it", fence.line));
        let is_orphan =
            |place: usize| fences[place].is_output() && place.checked_sub(1).is_none_or(|place| fences[place].language != "sh");
        let orphans = (0..fences.len()).filter(|place| is_orphan(*place)).map(|place| {
            format!("{name}:{}: put this output behind the `sh` block that prints it, or no test compares it", fences[place].line)
        });
        Self { name: name.to_owned(), overlooked: others.chain(orphans).collect(), blocks }
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
        self.overlooked.iter().cloned().chain(empty).chain(self.blocks.iter().flat_map(of)).collect()
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
        let page = "# A\n\n```sh\none\n```\n\nprints:\n\n```text\n1\n```\n\n- item:\n  ```sh\n  two\n    x\n  ```\n\n## B\n\n```text\n2\n```\n\n\
            ```text\n┌─┐\n```\n";
        let page = Page::read("a page", page);
        let found: Vec<_> =
            page.blocks.iter().map(|block| (block.line, block.text.as_str(), block.expected.as_deref())).collect();
        assert_eq!(found, [(3, "one\n", Some("1\n")), (14, "two\n  x\n", Some("2\n"))]);
        assert_eq!(page.faults(), [""; 0]);
    }

    #[test]
    fn outputs_without_a_command_are_faults() {
        for page in ["```sh\ntrue\n```\n\n```text\n1\n```\n\n```text\n2\n```\n", "```text\n1\n```\n\n```sh\ntrue\n```\n"] {
            let found = Page::read("a page", page).faults();
            assert!(found.len() == 1 && found[0].contains("no test compares it"), "{found:?}");
        }
    }

    #[test]
    fn loops_without_output_are_faults() {
        for wait in ["a | grep -q b && break", "case $a in *b*) break ;; esac"] {
            let page = format!("```sh\nfor try in 1 2 3; do\n  {wait}\ndone\n```\n");
            assert_eq!(Page::read("a page", &page).faults(), ["a page:1: its loop may end without success: show the output"]);
            assert_eq!(Page::read("a page", &format!("{page}\n```text\nb\n```\n")).faults(), [""; 0]);
        }
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
        for several in ["cargo up\ncargo verify", "cargo up; cargo verify", "telemetry login && cargo up", "cargo up &\ncargo up"]
        {
            let found = block(several).faults();
            assert!(found.len() == 1 && found[0].contains("may not end"), "{several}: {found:?}");
        }
        for mixed in ["docker ps\ncurl x", "docker ps && curl x", "curl x | docker load"] {
            let found = block(mixed).faults();
            assert!(found.len() == 1 && found[0].contains("`curl x` is not pasted"), "{mixed}: {found:?}");
        }
        assert_eq!(block("cargo up 2>&1").faults(), [""; 0]);
        let with_output = |text: &str| Block { expected: Some(String::new()), ..block(text) };
        assert_eq!((with_output("cargo up").faults().len(), with_output("docker ps").faults().len()), (0, 1));
    }

    #[test]
    fn comments_are_faults() {
        for bad in ["# don't", "a # b", "a\n# it's\nb", "a 'x' #b"] {
            assert_eq!(faults(bad), ["a page:3: it contains a comment, which zsh takes for a command"], "{bad}");
        }
        let in_other_block =
            Page::read("a page", "```sh\ntrue\n```\n\n```sh\ncargo up       # the whole service\n```\n").faults();
        assert_eq!(in_other_block, ["a page:5: it contains a comment, which zsh takes for a command"]);
        for good in ["a '# b'", "a \"# b\"", "a'\n# b\n'", "echo ${#a} $#", "sed 's/#/ # /'", r"echo \# \\ \' \'"] {
            assert_eq!(faults(good), [""; 0], "{good}");
        }
    }

    #[test]
    fn placeholders_are_faults() {
        for bad in ["a <id>", "a '{\"key\": \"<your key>\"}'", "a …"] {
            assert_eq!(faults(bad), ["a page:3: it contains a placeholder"], "{bad}");
        }
        let in_other_block = Page::read("a page", "```sh\ntrue\n```\n\n```sh\ndocker run <image>\n```\n").faults();
        assert_eq!(in_other_block, ["a page:5: it contains a placeholder"]);
        for good in ["a < file > other", "a <<EOF\nEOF", "a 2>/dev/null <x"] {
            assert_eq!(faults(good), [""; 0], "{good}");
        }
    }

    #[test]
    fn loops_without_a_bound_are_faults() {
        for bad in ["until a; do b; done", "while true; do b; done", "(until a; do b; done)"] {
            assert_eq!(faults(bad).len(), 1, "{bad}");
        }
        for good in
            ["for try in 1 2; do a; done", "b 2>&1 | c", "a | while read line; do b; done", "echo 'while true'", "b --until 2026"]
        {
            assert_eq!(faults(good), [""; 0], "{good}");
        }
    }
}

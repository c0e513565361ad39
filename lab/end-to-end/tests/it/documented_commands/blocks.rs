//! The `sh` blocks of a document, and the output that the document shows for them.

/// Beginnings of commands that no test pastes, with the reason. Blocks that contain such a command aren't pasted at all, so they must not
/// contain other commands.
const NOT_PASTED: [(&str, &str); 6] = [
    ("git clone", "downloads the repository"),
    ("cd", "enters the clone, which the test's folder replaces"),
    ("cargo", "compiles the program, or starts and stops the servers that tests use"),
    ("docker", "needs Docker, which the machines of the tests don't have"),
    ("telemetry login", "waits for the link of an email"),
    ("telemetry webhook listen", "runs until Ctrl-C"),
];

/// Commands that run until they are stopped, or that consume the following lines.
const ALONE: [&str; 3] = ["cargo", "telemetry login", "telemetry webhook listen"];

/// Other languages for shell blocks, which are not pasted.
const OTHER_NAMES: [&str; 6] = ["bash", "shell", "zsh", "console", "shell-session", "shellscript"];

/// The following block shows the last screen of `cargo up`.
const CARGO_UP: &str = "cargo up";

struct Fence<'a> {
    language: &'a str,
    text: String,
    /// Line number of the fence that starts the block, from 1.
    line: usize,
}

impl Fence<'_> {
    /// Returns whether the block shows command output. Blocks with box corners are diagrams.
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
    /// Line number of its fence, from 1.
    pub(super) line: usize,
    pub(super) text: String,
    /// The `text` block that follows.
    pub(super) expected: Option<String>,
}

impl Block {
    /// Returns why the block isn't pasted, or `None` if it is.
    pub(super) fn reason(&self) -> Option<&'static str> {
        self.commands().iter().find_map(|command| reason(command))
    }

    pub(super) fn is_pasted(&self) -> bool {
        self.reason().is_none()
    }

    pub(super) fn starts_service(&self) -> bool {
        self.text.lines().next().is_some_and(|line| line.starts_with(CARGO_UP))
    }

    /// Returns the command lines, with quoted text masked.
    fn lines(&self) -> Vec<String> {
        let lines = unquoted(&self.text);
        lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Returns the commands, also those that share a line.
    fn commands(&self) -> Vec<String> {
        let lines = self.lines();
        let commands = lines.iter().flat_map(|line| line.split([';', '|', '&'])).map(str::trim);
        // `2>&1` doesn't start a second command.
        commands.filter(|command| !command.is_empty() && !command.starts_with(char::is_numeric)).map(str::to_owned).collect()
    }

    /// Returns errors in the form of the block.
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
            found.push("its loop can end without success: show the output".to_owned());
        }
        found
    }

    /// Returns text that a shell reads differently from a person.
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

/// Returns whether the line contains a placeholder such as `<name>` or `<your key>`, even in quotes.
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

/// Returns the text with `_` in place of quoted text and with continued lines joined, so that each line starts a command.
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
    /// Blocks that tests would ignore.
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

    /// Returns the errors that can be found before anything runs.
    pub(super) fn faults(&self) -> Vec<String> {
        let of = |block: &Block| {
            let place = format!("{}:{}", self.name, block.line);
            block.faults().into_iter().map(move |fault| format!("{place}: {fault}")).collect::<Vec<_>>()
        };
        let empty = (self.pasted().next().is_none()).then(|| format!("{}: no block of it is pasted", self.name));
        self.overlooked.iter().cloned().chain(empty).chain(self.blocks.iter().flat_map(of)).collect()
    }
}

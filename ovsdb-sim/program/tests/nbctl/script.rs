//! Parser of command lists.
//!
//! A line is an `ovn-nbctl` command line, with words split and quoted as in a shell. `#` begins a
//! comment line. Marks before a command:
//!
//! - `!`: the command must fail. Every other one must succeed;
//! - `~`: the program prints rows in an arbitrary order, such as that of a hash table of UUIDs;
//! - `NAME :=`: the output becomes `$NAME` for later lines.

/// Command line of a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The line in the file, for messages.
    pub(crate) text: String,
    pub(crate) words: Vec<String>,
    pub(crate) fails: bool,
    pub(crate) unordered: bool,
    pub(crate) variable: Option<String>,
}

/// Parses a list. Panics at a line that is not a command.
pub(crate) fn parse(text: &str) -> Vec<Step> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(step)
        .collect()
}

fn step(line: &str) -> Step {
    let mut rest = line;
    let (mut fails, mut unordered, mut variable) = (false, false, None);
    loop {
        if let Some(after) = rest.strip_prefix('!') {
            (fails, rest) = (true, after.trim_start());
        } else if let Some(after) = rest.strip_prefix('~') {
            (unordered, rest) = (true, after.trim_start());
        } else if let Some((name, after)) =
            rest.split_once(" := ").filter(|(name, _)| is_name(name))
        {
            (variable, rest) = (Some(name.to_owned()), after.trim_start());
        } else {
            break;
        }
    }
    Step { text: line.to_owned(), words: words(rest), fails, unordered, variable }
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Splits a line at blanks outside of quotes. Outside of single quotes, a backslash quotes the next
/// character.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match (char, quote) {
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(chars.next()),
            (char, Some(open)) if char == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (' ', None) => words.extend(word.take()),
            (char, _) => word.get_or_insert_default().push(char),
        }
    }
    assert!(quote.is_none(), "a quote stays open: {line}");
    words.extend(word);
    words
}

#[test]
fn marks_and_quotes_are_parsed() {
    let steps = parse(
        "# comment\n\n! ~ show 'a \"b\"' \"\"x \"\\\"\" \\\"\nv4 := --bare find ACL name=a:=b\n",
    );
    assert_eq!(steps.len(), 2);
    assert!(steps[0].fails && steps[0].unordered);
    assert_eq!(steps[0].words, ["show", "a \"b\"", "x", "\"", "\""]);
    assert_eq!(steps[1].variable.as_deref(), Some("v4"));
    assert_eq!(steps[1].words, ["--bare", "find", "ACL", "name=a:=b"]);
}

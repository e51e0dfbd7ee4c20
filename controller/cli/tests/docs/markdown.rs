//! Links and code of a Markdown document.

use std::fmt;
use std::path::PathBuf;

/// Parts of one document that the tests check.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// The file, from the root of the repository.
    pub(crate) path: PathBuf,
    /// Targets of links and pictures.
    pub(crate) links: Vec<String>,
    /// Text in code font.
    pub(crate) spans: Vec<String>,
    /// Fenced blocks.
    pub(crate) blocks: Vec<Block>,
    /// Headings, as the anchors that GitHub makes of them.
    pub(crate) anchors: Vec<String>,
}

/// A fenced block.
#[derive(Debug)]
pub(crate) struct Block {
    /// The word after the fence.
    pub(crate) language: String,
    /// The lines.
    pub(crate) text: String,
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

/// Returns `true` for blocks of commands.
pub(crate) fn is_shell(language: &str) -> bool {
    matches!(language, "sh" | "bash" | "console")
}

impl Document {
    /// Parses the Markdown that the repository's documents use.
    pub(crate) fn parse(path: PathBuf, text: &str) -> Self {
        let mut document = Self { path, ..Self::default() };
        let mut prose = String::new();
        let mut open: Option<Block> = None;
        for line in text.lines() {
            let fence = line.trim_start().strip_prefix("```");
            match (&mut open, fence) {
                (None, Some(language)) => {
                    open =
                        Some(Block { language: language.trim().to_owned(), text: String::new() });
                }
                (Some(_), Some(_)) => document.blocks.extend(open.take()),
                (Some(block), None) => block.text.extend([line, "\n"]),
                (None, None) => {
                    if line.starts_with('#') {
                        document.anchors.push(anchor(line));
                    }
                    prose.extend([line, "\n"]);
                }
            }
        }
        document.read_prose(&prose);
        document
    }

    /// Code font may span lines, and links may contain it.
    fn read_prose(&mut self, prose: &str) {
        let mut without_code = String::new();
        for (place, part) in prose.split('`').enumerate() {
            if place % 2 == 1 {
                let span = part.split_whitespace().collect::<Vec<_>>().join(" ");
                self.spans.push(span);
            } else {
                without_code.push_str(part);
            }
        }
        for rest in without_code.split("](").skip(1) {
            if let Some((target, _)) = rest.split_once(')') {
                self.links.push(target.to_owned());
            }
        }
    }
}

/// Returns the anchor of a heading: lower case, words joined by dashes, without punctuation.
fn anchor(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            letter if letter.is_alphanumeric() => Some(letter),
            _ => None,
        })
        .collect()
}

#[test]
fn a_document_has_links_code_and_anchors() {
    let text = "# A `b` (c)\n[x](y.md#z) and `two\nwords` ![p](q.svg)\n```sh\nls `date`\n```\n";
    let document = Document::parse("a.md".into(), text);
    assert_eq!(document.links, ["y.md#z", "q.svg"]);
    assert_eq!(document.spans, ["b", "two words"]);
    assert_eq!(document.anchors, ["a-b-c"]);
    assert_eq!(document.blocks[0].language, "sh");
    assert_eq!(document.blocks[0].text, "ls `date`\n");
}

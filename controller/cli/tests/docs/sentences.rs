//! Sentences of a Markdown document, and their numbers of words.

use regex::Regex;

/// Stands for code in code font, which counts as one word.
const CODE: &str = "code";

/// A sentence with its number of words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sentence {
    pub(crate) words: usize,
    pub(crate) text: String,
}

/// Returns the sentences of a document. A sentence ends with its text, or at `.`, `!` or `?` before
/// white space.
pub(crate) fn sentences(markdown: &str) -> Vec<Sentence> {
    let mut sentences = Vec::new();
    for text in texts(&without_code(markdown)) {
        let mut words = Vec::new();
        for word in text.split_whitespace() {
            words.push(word);
            if word.ends_with(['.', '!', '?']) {
                sentences.push(sentence(&words));
                words.clear();
            }
        }
        if !words.is_empty() {
            sentences.push(sentence(&words));
        }
    }
    sentences
}

fn sentence(words: &[&str]) -> Sentence {
    Sentence { words: words.len(), text: words.join(" ") }
}

/// Removes fenced blocks, code and marks of emphasis.
fn without_code(markdown: &str) -> String {
    let mut is_fenced = false;
    let lines = markdown.lines().map(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        if is_fence || is_fenced { "" } else { line }
    });
    let prose = lines.collect::<Vec<_>>().join("\n");
    let span = Regex::new("`[^`]*`").expect("a pattern");
    let emphasis = Regex::new(r"\*+(\S)|(\S)\*+").expect("a pattern");
    let plain = span.replace_all(&prose, CODE);
    emphasis.replace_all(&plain, "$1$2").into_owned()
}

/// Returns the paragraphs, headings, list items and table cells.
fn texts(prose: &str) -> Vec<String> {
    let marker = Regex::new(r"^\s*(?:#+|[-*]|\d+\.|>)\s+").expect("a pattern");
    let mut texts = vec![String::new()];
    for line in prose.lines() {
        let own = marker.replace(line, "");
        let trimmed = line.trim();
        if trimmed.starts_with('|') {
            let cells = trimmed.split('|').map(str::to_owned);
            texts.extend(cells.chain([String::new()]));
        } else if trimmed.is_empty() || own.len() < line.len() {
            texts.push(own.into_owned());
        } else if let Some(text) = texts.last_mut() {
            text.extend([" ", line]);
        }
        if trimmed.starts_with('#') {
            texts.push(String::new());
        }
    }
    texts
}

#[test]
fn cells_items_headings_and_paragraphs_have_their_own_sentences() {
    let text = "# A title\nOne two. **Three.** Four\nfive 2.5 `six\nseven`?\n\n\
                * an item\n  of two lines\n1. another\n\n| a | b c |\n|---|---|\n```\nleft out\n```\n";
    let sentences = sentences(text);
    let found: Vec<&str> = sentences.iter().map(|one| one.text.as_str()).collect();
    let expected = [
        "A title",
        "One two.",
        "Three.",
        "Four five 2.5 code?",
        "an item of two lines",
        "another",
        "a",
        "b c",
        "---",
        "---",
    ];
    assert_eq!(found, expected);
    assert_eq!(sentences[3].words, 4);
}

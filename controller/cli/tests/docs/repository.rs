//! Files of the repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::markdown::Document;

/// Endings of file names by which a word is taken for a path.
const EXTENSIONS: [&str; 10] =
    ["case", "json", "md", "ovsschema", "py", "rs", "sh", "svg", "toml", "yaml"];

/// All paths of the repository.
#[derive(Debug)]
pub(crate) struct Repository {
    root: PathBuf,
    /// Files and folders, from the root, with `/` between names.
    paths: BTreeSet<String>,
    /// Names of folders.
    folders: BTreeSet<String>,
    /// Names of the folders in the root.
    rooms: BTreeSet<String>,
}

impl Repository {
    /// Finds the repository of this package.
    pub(crate) fn find() -> Self {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = package
            .ancestors()
            .find(|folder| folder.join("Cargo.lock").exists())
            .expect("the package is in a workspace");
        let mut repository = Self {
            root: root.to_owned(),
            paths: BTreeSet::new(),
            folders: BTreeSet::new(),
            rooms: BTreeSet::new(),
        };
        repository.list("");
        repository
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Lists a folder; build results and hidden folders are not part of the repository.
    fn list(&mut self, folder: &str) {
        let entries = fs::read_dir(self.root.join(folder)).expect("a folder can be listed");
        for entry in entries {
            let entry = entry.expect("a folder can be listed");
            let name = entry.file_name().into_string().expect("names are UTF-8");
            let is_folder = entry.file_type().expect("an entry has a type").is_dir();
            if is_folder && (name == "target" || name.starts_with('.')) {
                continue;
            }
            let path = match folder {
                "" => name.clone(),
                folder => format!("{folder}/{name}"),
            };
            self.paths.insert(path.clone());
            if is_folder {
                if folder.is_empty() {
                    self.rooms.insert(name.clone());
                }
                self.folders.insert(name);
                self.list(&path);
            }
        }
    }

    /// Reads the Markdown files, with their paths from the root.
    pub(crate) fn markdown(&self) -> impl Iterator<Item = (&str, String)> {
        let is_markdown = |path: &&String| Path::new(path).extension().is_some_and(|it| it == "md");
        let files = self.paths.iter().filter(is_markdown);
        files.map(|path| {
            let text = fs::read_to_string(self.root.join(path)).expect("a document is text");
            (path.as_str(), text)
        })
    }

    /// Reads the documents.
    pub(crate) fn documents(&self) -> Vec<Document> {
        let is_document = |path: &str| path.matches('/').count() <= 1 || path.starts_with("docs/");
        let documents: Vec<Document> = self
            .markdown()
            .filter(|(path, _)| is_document(path))
            .map(|(path, text)| Document::parse(path.into(), &text))
            .collect();
        assert!(documents.len() > 10, "{documents:?}");
        documents
    }

    /// Returns all words of the sources that identifiers can consist of.
    pub(crate) fn source_words(&self) -> BTreeSet<String> {
        let is_source = |path: &&String| {
            let extension = path.rsplit_once('.').map(|(_, extension)| extension);
            matches!(extension, Some("rs" | "ovsschema"))
        };
        let texts = self
            .paths
            .iter()
            .filter(is_source)
            .map(|path| fs::read_to_string(self.root.join(path)).unwrap_or_default());
        let mut words = BTreeSet::new();
        for text in texts {
            let parts = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            for part in parts {
                if !words.contains(part) {
                    words.insert(part.to_owned());
                }
            }
        }
        words
    }

    /// Returns `true` if a link leads to a file and a heading that exist, or out of the repository.
    pub(crate) fn has_target(&self, document: &Document, link: &str) -> bool {
        if link.contains("://") {
            return true;
        }
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let file = match path {
            "" => self.root.join(&document.path),
            path => {
                self.root.join(&document.path).parent().expect("a file is in a folder").join(path)
            }
        };
        if anchor.is_empty() {
            return file.exists();
        }
        let text = fs::read_to_string(&file).unwrap_or_default();
        let target = Document::parse(file, &text);
        target.anchors.iter().any(|known| known == anchor)
    }

    /// Returns `true` for words that name a path of the repository: they end as files do, or begin
    /// with one of its folders.
    pub(crate) fn is_path(&self, word: &str) -> bool {
        let is_plain = word
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "_-./*{},".contains(letter));
        let has_extension = word
            .rsplit_once('.')
            .is_some_and(|(name, extension)| !name.is_empty() && EXTENSIONS.contains(&extension));
        let begins_with_folder = word
            .trim_start_matches("./")
            .trim_start_matches("../")
            .split_once('/')
            .is_some_and(|(first, _)| self.folders.contains(first));
        is_plain && !word.starts_with(['*', '/']) && (has_extension || begins_with_folder)
    }

    /// Returns `true` for words that begin with a folder in the root, or with `./`.
    pub(crate) fn is_rooted(&self, word: &str) -> bool {
        match word.split_once('/') {
            Some((".", _)) => true,
            Some((first, _)) => self.rooms.contains(first),
            None => false,
        }
    }

    /// Returns `true` if the repository has a path that ends with this one. `{a,b}` stands for
    /// both, `*` for anything in one name.
    pub(crate) fn has_path(&self, path: &str) -> bool {
        let path = path.trim_start_matches("./").trim_start_matches("../").trim_end_matches('/');
        expand(path).iter().all(|path| {
            let wanted: Vec<&str> = path.split('/').collect();
            self.paths.iter().any(|known| {
                let known: Vec<&str> = known.split('/').collect();
                let start = known.len().checked_sub(wanted.len());
                start.is_some_and(|start| {
                    let pairs = known[start..].iter().zip(&wanted);
                    pairs.into_iter().all(|(known, wanted)| matches(known, wanted))
                })
            })
        })
    }
}

/// Writes out `{a,b}`.
fn expand(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let Some((choices, after)) = rest.split_once('}') else {
        return vec![path.to_owned()];
    };
    choices.split(',').flat_map(|choice| expand(&format!("{before}{choice}{after}"))).collect()
}

/// Compares a name with a pattern of at most one `*`.
fn matches(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => name == pattern,
        Some((start, end)) => name.starts_with(start) && name.ends_with(end),
    }
}

//! Which databases a server begins with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use patchbay_engine::db::Database;
use patchbay_schemas::nb;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::uuids::UuidSource;

use super::journal::UnreadJournal;
use super::{DatabaseFile, FileError, Journal};

/// The schemas and files that a server is started with.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub(crate) schemas: Vec<Arc<DatabaseSchema>>,
    /// Files to read.
    pub(crate) loads: Vec<PathBuf>,
    /// Files to go on with, or to begin, and the databases that they are said to be of.
    pub(crate) journals: Vec<(Option<String>, PathBuf)>,
}

/// A database to be served.
#[derive(Debug)]
pub(crate) struct Source {
    schema: Arc<DatabaseSchema>,
    content: Content,
    /// The journal to make.
    new_journal: Option<PathBuf>,
}

#[derive(Debug)]
enum Content {
    Nothing,
    File(DatabaseFile),
    /// The database's own file.
    Journal(UnreadJournal),
}

impl Given {
    /// Opens the files and finds out what belongs together. Without any database, OVN_Northbound is one.
    pub(crate) fn sources(self) -> anyhow::Result<Vec<Source>> {
        let mut sources: Vec<Source> = Vec::new();
        for schema in self.schemas {
            sources.push(Source::new(schema, Content::Nothing));
        }
        for path in self.loads {
            let file = DatabaseFile::open(&path)?;
            sources.push(Source::new(file.schema().clone(), Content::File(file)));
        }
        let (old, new): (Vec<_>, Vec<_>) = self
            .journals
            .into_iter()
            .partition(|(_, path)| path.exists());
        for (database, path) in old {
            resume(&mut sources, database.as_deref(), &path)?;
        }
        if sources.is_empty() {
            sources.push(Source::new(nb::schema(), Content::Nothing));
        }
        for (database, path) in new {
            begin(&mut sources, database.as_deref(), path)?;
        }
        Ok(sources)
    }
}

/// Goes on with a journal: its database begins with what it holds.
fn resume(sources: &mut Vec<Source>, database: Option<&str>, path: &Path) -> anyhow::Result<()> {
    let journal = Journal::open(path)?;
    let schema = journal.content().schema().clone();
    let (name, path) = (&schema.name, path.display());
    if let Some(database) = database {
        ensure!(
            database == name,
            "{path} is of database {name}, not {database}"
        );
    }
    let Some(source) = sources
        .iter_mut()
        .find(|source| source.schema.name == *name)
    else {
        sources.push(Source::new(schema, Content::Journal(journal)));
        return Ok(());
    };
    ensure!(
        source.schema.to_json() == schema.to_json(),
        "{path} has another schema of {name} ({}) than the one given ({})",
        describe(&schema),
        describe(&source.schema)
    );
    match &source.content {
        Content::Nothing => {}
        Content::File(file) if is_same(file.path(), journal.content().path())? => {}
        Content::File(file) => bail!(
            "{path} has content of {name} already, and {} is to be loaded: give only one of them, or a journal \
             that does not exist yet",
            file.path().display()
        ),
        Content::Journal(_) => bail!("database {name} is given two journals"),
    }
    source.content = Content::Journal(journal);
    Ok(())
}

/// Finds the database that a new journal is for.
fn begin(sources: &mut [Source], database: Option<&str>, path: PathBuf) -> anyhow::Result<()> {
    let source = match (database, &mut *sources) {
        (Some(database), sources) => sources
            .iter_mut()
            .find(|source| source.schema.name == database)
            .with_context(|| {
                format!(
                    "there is no database {database} to keep in {}",
                    path.display()
                )
            })?,
        (None, [source]) => source,
        (None, _) => bail!(
            "several databases are served: say whose journal {} is (DATABASE={})",
            path.display(),
            path.display()
        ),
    };
    let has_journal = source.new_journal.is_some() || matches!(source.content, Content::Journal(_));
    ensure!(
        !has_journal,
        "database {} is given two journals",
        source.schema.name
    );
    source.new_journal = Some(path);
    Ok(())
}

impl Source {
    fn new(schema: Arc<DatabaseSchema>, content: Content) -> Self {
        Self {
            schema,
            content,
            new_journal: None,
        }
    }

    /// An empty database.
    pub(crate) fn empty(schema: Arc<DatabaseSchema>) -> Self {
        Self::new(schema, Content::Nothing)
    }

    /// The database that a file holds, to be kept there.
    pub(crate) fn resumed(path: &Path) -> Result<Self, FileError> {
        let journal = Journal::open(path)?;
        let schema = journal.content().schema().clone();
        Ok(Self::new(schema, Content::Journal(journal)))
    }

    pub(crate) fn schema(&self) -> &Arc<DatabaseSchema> {
        &self.schema
    }

    /// The database with its content, and the journal of what will be committed to it.
    pub(crate) fn open(self, uuids: UuidSource) -> Result<(Database, Option<Journal>), FileError> {
        let mut database = Database::with_uuids(self.schema, uuids);
        let resumed = match self.content {
            Content::Nothing => None,
            Content::File(file) => {
                file.replay(&mut database)?;
                None
            }
            Content::Journal(journal) => Some(journal.replay(&mut database)?),
        };
        let journal = match self.new_journal {
            Some(path) => Some(Journal::create(&path, &database.snapshot())?),
            None => resumed,
        };
        Ok((database, journal))
    }
}

/// A schema in few words.
fn describe(schema: &DatabaseSchema) -> String {
    format!("version {:?}, checksum {:?}", schema.version, schema.cksum)
}

fn is_same(a: &Path, b: &Path) -> anyhow::Result<bool> {
    let canonical = |path: &Path| {
        path.canonicalize()
            .with_context(|| path.display().to_string())
    };
    Ok(canonical(a)? == canonical(b)?)
}

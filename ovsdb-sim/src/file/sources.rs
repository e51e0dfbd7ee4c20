//! Databases that a server begins with: schemas and files, and which of them belong together.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use patchbay_engine::db::Database;
use patchbay_schemas::nb;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::uuids::UuidSource;

use crate::model::Model;

use super::unread::UnreadJournal;
use super::{DatabaseFile, FileError, Storage};

/// Schemas and files that a server is started with.
#[derive(Debug, Default)]
pub(crate) struct InitialDatabases {
    /// Paths of existing files, which are journals.
    pub(crate) files: Vec<PathBuf>,
    /// `true` if there may be no database at all.
    pub(crate) is_default_omitted: bool,
    pub(crate) schemas: Vec<Arc<DatabaseSchema>>,
    /// Files that are only read.
    pub(crate) loads: Vec<PathBuf>,
    /// Journals, existing or new, with the names of their databases if these are given.
    pub(crate) journals: Vec<(Option<String>, PathBuf)>,
}

/// Error: schemas and files do not fit together, or a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitialDatabasesError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// An existing journal belongs to another database than the given one.
    #[error("{} is of database {database}, not {given}", path.display())]
    OtherDatabase {
        /// The journal.
        path: PathBuf,
        /// Name of its database.
        database: String,
        /// Name of the given database.
        given: String,
    },
    /// An existing journal has another schema than the given one.
    #[error(
        "{} has another schema of {database} ({found}) than the given one ({given})",
        path.display()
    )]
    OtherSchema {
        /// The journal.
        path: PathBuf,
        /// Name of its database.
        database: String,
        /// Version and checksum of the journal's schema.
        found: String,
        /// Version and checksum of the given schema.
        given: String,
    },
    /// Both an existing journal and a file to load have content of a database.
    #[error(
        "{} has content of {database}, and {} is to be loaded: give only one of them, or a journal \
         that does not exist yet",
        path.display(),
        loaded.display()
    )]
    TwoContents {
        /// The journal.
        path: PathBuf,
        /// Name of its database.
        database: String,
        /// The file to load.
        loaded: PathBuf,
    },
    /// A database is given two journals.
    #[error("database {database} is given two journals, the second one is {}", path.display())]
    TwoJournals {
        /// The second journal.
        path: PathBuf,
        /// Name of the database.
        database: String,
    },
    /// A new journal is given for a database that is not served.
    #[error("there is no database {database} for journal {}", path.display())]
    NoDatabase {
        /// The journal.
        path: PathBuf,
        /// Name of the given database.
        database: String,
    },
    /// A new journal is given without a database, and there are several.
    #[error(
        "several databases are served: name the database of journal {path} (DATABASE={path})",
        path = path.display()
    )]
    DatabaseOmitted {
        /// The journal.
        path: PathBuf,
    },
}

/// Origin of a database that is to be served.
#[derive(Debug)]
pub(crate) struct DatabaseSource {
    schema: Arc<DatabaseSchema>,
    content: InitialContent,
    /// Path of the journal to create. `None`: the database has an existing journal, or none.
    new_journal: Option<PathBuf>,
}

/// Database with its content.
#[derive(Debug)]
pub(crate) struct OpenedDatabase {
    pub(crate) database: Database,
    /// `None`: the database has no file yet.
    pub(crate) storage: Option<Storage>,
    /// Path of the journal to create.
    pub(crate) new_journal: Option<PathBuf>,
}

#[derive(Debug)]
enum InitialContent {
    Empty,
    /// Content of a file that is only read.
    File(DatabaseFile),
    /// Content of the database's journal.
    Journal(UnreadJournal),
}

impl InitialDatabases {
    /// Opens the files and assigns them to databases. Without any database, OVN_Northbound is
    /// served, unless it is omitted.
    pub(crate) fn open(self) -> Result<Vec<DatabaseSource>, InitialDatabasesError> {
        let mut sources: Vec<DatabaseSource> =
            self.schemas.into_iter().map(DatabaseSource::empty).collect();
        for path in self.loads {
            let file = DatabaseFile::open(&path)?;
            sources.push(DatabaseSource::new(file.schema().clone(), InitialContent::File(file)));
        }
        let (existing, new): (Vec<_>, Vec<_>) =
            self.journals.into_iter().partition(|(_, path)| path.exists());
        for path in self.files {
            assign_existing_journal(&mut sources, None, &path)?;
        }
        for (database, path) in existing {
            assign_existing_journal(&mut sources, database.as_deref(), &path)?;
        }
        if sources.is_empty() && !self.is_default_omitted {
            sources.push(DatabaseSource::empty(nb::schema()));
        }
        for (database, path) in new {
            assign_new_journal(&mut sources, database.as_deref(), path)?;
        }
        Ok(sources)
    }
}

/// Assigns an existing journal to its database, whose initial content it has.
fn assign_existing_journal(
    sources: &mut Vec<DatabaseSource>,
    given: Option<&str>,
    path: &Path,
) -> Result<(), InitialDatabasesError> {
    let journal = UnreadJournal::open(path)?;
    let schema = journal.schema().clone();
    let database = schema.name.clone();
    let path = path.to_owned();
    if let Some(given) = given
        && given != database
    {
        return Err(InitialDatabasesError::OtherDatabase {
            path,
            database,
            given: given.to_owned(),
        });
    }
    let Some(source) = sources.iter_mut().find(|source| source.schema.name == database) else {
        sources.push(DatabaseSource::new(schema, InitialContent::Journal(journal)));
        return Ok(());
    };
    if source.schema.to_json() != schema.to_json() {
        return Err(InitialDatabasesError::OtherSchema {
            path,
            database,
            found: describe_schema(&schema),
            given: describe_schema(&source.schema),
        });
    }
    match &source.content {
        InitialContent::Empty => {}
        InitialContent::File(file) if is_same_file(file.path(), journal.path())? => {}
        InitialContent::File(file) => {
            return Err(InitialDatabasesError::TwoContents {
                path,
                database,
                loaded: file.path().to_owned(),
            });
        }
        InitialContent::Journal(_) => {
            return Err(InitialDatabasesError::TwoJournals { path, database });
        }
    }
    source.content = InitialContent::Journal(journal);
    Ok(())
}

/// Assigns a new journal to its database.
fn assign_new_journal(
    sources: &mut [DatabaseSource],
    given: Option<&str>,
    path: PathBuf,
) -> Result<(), InitialDatabasesError> {
    let source = match (given, sources) {
        (Some(given), sources) => {
            let found = sources.iter_mut().find(|source| source.schema.name == given);
            let Some(source) = found else {
                let database = given.to_owned();
                return Err(InitialDatabasesError::NoDatabase { path, database });
            };
            source
        }
        (None, [source]) => source,
        (None, _) => return Err(InitialDatabasesError::DatabaseOmitted { path }),
    };
    let has_journal =
        source.new_journal.is_some() || matches!(source.content, InitialContent::Journal(_));
    if has_journal {
        let database = source.schema.name.clone();
        return Err(InitialDatabasesError::TwoJournals { path, database });
    }
    source.new_journal = Some(path);
    Ok(())
}

impl DatabaseSource {
    fn new(schema: Arc<DatabaseSchema>, content: InitialContent) -> Self {
        Self { schema, content, new_journal: None }
    }

    /// Makes the source of an empty database.
    pub(crate) fn empty(schema: Arc<DatabaseSchema>) -> Self {
        Self::new(schema, InitialContent::Empty)
    }

    /// The model of the database. `None`: it has no file, and that of the server.
    pub(crate) fn model(&self) -> Option<Model> {
        match &self.content {
            InitialContent::Journal(journal) => Some(journal.model()),
            InitialContent::Empty | InitialContent::File(_) => None,
        }
    }

    /// Makes the source of a database with an existing journal.
    pub(crate) fn from_journal(path: &Path) -> Result<Self, FileError> {
        let journal = UnreadJournal::open(path)?;
        let schema = journal.schema().clone();
        Ok(Self::new(schema, InitialContent::Journal(journal)))
    }

    pub(crate) fn schema(&self) -> &Arc<DatabaseSchema> {
        &self.schema
    }

    /// Makes the database with its content. `versions` are those of its rows. If it has a file,
    /// `ids` are those of its next transactions.
    pub(crate) fn open(
        self,
        versions: UuidSource,
        ids: UuidSource,
    ) -> Result<OpenedDatabase, FileError> {
        let new_journal = self.new_journal;
        let (database, storage) = match self.content {
            InitialContent::Empty => (Database::with_uuids(self.schema, versions), None),
            InitialContent::File(file) => {
                let mut database = Database::with_uuids(self.schema, versions);
                file.replay(&mut database)?;
                (database, None)
            }
            InitialContent::Journal(journal) => {
                let (database, storage) = journal.replay(versions, ids)?;
                (database, Some(storage))
            }
        };
        Ok(OpenedDatabase { database, storage, new_journal })
    }
}

/// Version and checksum of a schema, for an error message.
fn describe_schema(schema: &DatabaseSchema) -> String {
    format!("version {:?}, checksum {:?}", schema.version, schema.cksum)
}

fn is_same_file(a: &Path, b: &Path) -> Result<bool, FileError> {
    let canonical = |path: &Path| -> Result<PathBuf, FileError> {
        path.canonicalize().map_err(|source: io::Error| FileError::io(path, source))
    };
    Ok(canonical(a)? == canonical(b)?)
}

//! Records of a clustered database's file: the server's RAFT log (ovsdb(5), "Clustered Database
//! Format").
//!
//! The first record is the header, with ids, addresses and a snapshot of the database. Every other
//! one is an entry of the log, or a change of the server's own state:
//!
//! ```text
//! {"server_id":U,"cluster_id":U,"name":"D","local_address":"unix:PATH","prev_servers":{U:"unix:PATH"},
//!  "prev_index":1,"prev_term":1,"prev_eid":U,"prev_election_timer":1000,"prev_data":[SCHEMA,TRANSACTION]}
//! {"term":1,"vote":U}                                       this server votes for U
//! {"term":1,"leader":U}                                     U leads
//! {"term":1,"index":2}                                      entry without data: an election
//! {"term":1,"index":3,"eid":U,"data":[null,TRANSACTION]}    entry of a transaction
//! {"term":1,"index":4,"eid":U,"data":[SCHEMA,TRANSACTION]}  conversion; null: the content is converted
//! {"term":1,"index":5,"election_timer":2000}                change of the election timer
//! {"commit_index":5}                                        entries up to the fifth are committed
//! {"note":"left"}                                           the server has left the cluster
//! ```

use std::collections::BTreeMap;

use patchbay_schemas::json::{Json, Reader, Text, write};
use patchbay_schemas::schema::DatabaseSchema;
use uuid::Uuid;

use crate::cluster::{ClusterMember, DEFAULT_ELECTION_TIMER_MS, LogEntry, LogPosition};

/// Error: a record has a member of a wrong type, or lacks one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("member '{0}' is missing or invalid")]
pub(super) struct MemberError(&'static str);

impl MemberError {
    /// The error of data that are not a schema and a transaction.
    pub(super) const DATA: Self = Self("data");
}

/// Members of a record, without those that have a schema and rows.
struct RecordMembers(BTreeMap<Vec<u8>, Json>);

impl RecordMembers {
    /// Reads a record, and passes over the member `skipped`.
    fn read(text: Text<'_>, skipped: &[u8]) -> Self {
        let mut members = BTreeMap::new();
        let mut reader = Reader::new(text);
        reader.enter_object();
        while let Some(name) = reader.next_member() {
            if &*name == skipped {
                reader.skip();
                members.insert(name.into_owned(), Json::Null);
            } else {
                members.insert(name.into_owned(), Json::read(&mut reader));
            }
        }
        Self(members)
    }

    fn get(&self, name: &'static str) -> Option<&Json> {
        self.0.get(name.as_bytes())
    }

    fn number(&self, name: &'static str) -> Result<Option<u64>, MemberError> {
        match self.get(name) {
            None => Ok(None),
            // As in ovsdb-server, numbers of 64 bits are written with a sign.
            Some(Json::Integer(number)) => Ok(Some(*number as u64)),
            Some(_) => Err(MemberError(name)),
        }
    }

    fn text(&self, name: &'static str) -> Result<Option<&str>, MemberError> {
        self.get(name).map(|member| member.as_str().ok_or(MemberError(name))).transpose()
    }

    fn id(&self, name: &'static str) -> Result<Option<Uuid>, MemberError> {
        self.text(name)?
            .map(|text| Uuid::try_parse(text).map_err(|_| MemberError(name)))
            .transpose()
    }

    /// Ids of the servers in an object, whose values are their addresses.
    fn servers(&self, name: &'static str) -> Result<Option<Vec<Uuid>>, MemberError> {
        let invalid = MemberError(name);
        match self.get(name) {
            None => Ok(None),
            Some(Json::Object(servers)) if !servers.is_empty() => {
                let id = |id: &Vec<u8>| Uuid::try_parse_ascii(id).map_err(|_| invalid.clone());
                servers.keys().map(id).collect::<Result<_, _>>().map(Some)
            }
            Some(_) => Err(invalid),
        }
    }
}

fn required<T>(name: &'static str, value: Option<T>) -> Result<T, MemberError> {
    value.ok_or(MemberError(name))
}

/// First record of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClusterHeader {
    pub(super) member: ClusterMember,
    /// Ids of the servers at the snapshot. `None`: this server has not joined its cluster yet, and
    /// has no snapshot.
    pub(super) snapshot: Option<SnapshotHeader>,
}

/// Snapshot in a header, without its data.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SnapshotHeader {
    pub(super) servers: Vec<Uuid>,
    /// Position at the end of the snapshot.
    pub(super) position: LogPosition,
    /// Id of the last transaction in the snapshot.
    pub(super) id: Uuid,
}

impl ClusterHeader {
    pub(super) fn parse(text: Text<'_>) -> Result<Self, MemberError> {
        let members = RecordMembers::read(text, b"prev_data");
        let address = required("local_address", members.text("local_address")?)?;
        let is_joining = members.get("remote_addresses").is_some();
        let cluster_id = members.id("cluster_id")?;
        let cluster_id = if is_joining {
            cluster_id.unwrap_or_default()
        } else {
            required("cluster_id", cluster_id)?
        };
        let snapshot = if is_joining {
            None
        } else {
            let index = required("prev_index", members.number("prev_index")?)?;
            let timer = members.number("prev_election_timer")?;
            required("prev_data", find_data(text, "prev_data"))?;
            Some(SnapshotHeader {
                servers: required("prev_servers", members.servers("prev_servers")?)?,
                position: LogPosition {
                    term: required("prev_term", members.number("prev_term")?)?,
                    index,
                    start: index.checked_add(1).ok_or(MemberError("prev_index"))?,
                    election_timer_ms: timer.unwrap_or(DEFAULT_ELECTION_TIMER_MS),
                },
                id: required("prev_eid", members.id("prev_eid")?)?,
            })
        };
        Ok(Self {
            member: ClusterMember {
                cluster_id,
                server_id: required("server_id", members.id("server_id")?)?,
                address: Some(address.to_owned()),
            },
            snapshot,
        })
    }
}

/// Record behind the header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClusterRecord {
    Entry {
        entry: LogEntry,
        /// Ids of the servers, if the entry changes them.
        servers: Option<Vec<Uuid>>,
        election_timer_ms: Option<u64>,
    },
    /// Begin of a term, or a vote or a leader in it.
    Term(u64),
    CommitIndex(u64),
    Note(String),
}

impl ClusterRecord {
    pub(super) fn parse(text: Text<'_>) -> Result<Self, MemberError> {
        let members = RecordMembers::read(text, b"data");
        if let Some(note) = members.text("note")? {
            return Ok(Self::Note(note.to_owned()));
        }
        if let Some(index) = members.number("commit_index")? {
            return Ok(Self::CommitIndex(index));
        }
        let term = required("term", members.number("term")?)?;
        let Some(index) = members.number("index")? else {
            return Ok(Self::Term(term));
        };
        let id = match members.get("data") {
            Some(_) => {
                required("data", find_data(text, "data"))?;
                Some(required("eid", members.id("eid")?)?)
            }
            None => None,
        };
        Ok(Self::Entry {
            entry: LogEntry { term, index, id },
            servers: members.servers("servers")?,
            election_timer_ms: members.number("election_timer")?,
        })
    }
}

/// Finds the schema and the transaction in the member `name` of a record, each of which may be
/// null.
pub(super) fn find_data<'t>(text: Text<'t>, name: &str) -> Option<(Reader<'t>, Reader<'t>)> {
    let mut reader = Reader::new(text);
    reader.enter_object();
    while let Some(member) = reader.next_member() {
        if &*member != name.as_bytes() {
            reader.skip();
            continue;
        }
        if !reader.enter_array() || !reader.next_element() {
            return None;
        }
        let schema = reader;
        reader.skip();
        return reader.next_element().then_some((schema, reader));
    }
    None
}

/// Writer of a record's members.
pub(super) struct RecordText(Vec<u8>);

impl RecordText {
    fn new() -> Self {
        Self(b"{".to_vec())
    }

    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        write::string(&mut self.0, name.as_bytes());
        self.0.push(b':');
        &mut self.0
    }

    fn number(mut self, name: &str, value: u64) -> Self {
        write::integer(self.name(name), value as i64);
        self
    }

    fn text(mut self, name: &str, value: &str) -> Self {
        write::string(self.name(name), value.as_bytes());
        self
    }

    fn id(self, name: &str, value: Uuid) -> Self {
        self.text(name, &value.to_string())
    }

    /// Writes a schema and a transaction. `None`: null.
    fn data(
        mut self,
        name: &str,
        schema: Option<&DatabaseSchema>,
        transaction: Option<&[u8]>,
    ) -> Self {
        let out = self.name(name);
        out.push(b'[');
        match schema {
            Some(schema) => schema.to_json().write(out),
            None => out.extend_from_slice(b"null"),
        }
        out.push(b',');
        out.extend_from_slice(transaction.unwrap_or(b"null"));
        out.push(b']');
        self
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}

/// Text of a header with a snapshot: the id of its last transaction, its schema and its content.
pub(super) fn header(
    member: &ClusterMember,
    position: &LogPosition,
    id: Uuid,
    schema: &DatabaseSchema,
    content: &[u8],
) -> Vec<u8> {
    let address = member.address.as_deref().unwrap_or_default();
    let mut text = RecordText::new()
        .id("server_id", member.server_id)
        .id("cluster_id", member.cluster_id)
        .text("local_address", address)
        .text("name", &schema.name);
    let servers = [(&*member.server_id.to_string(), Json::string(address))];
    Json::object(servers).write(text.name("prev_servers"));
    text.number("prev_index", position.index)
        .number("prev_term", position.term)
        .id("prev_eid", id)
        .number("prev_election_timer", position.election_timer_ms)
        .data("prev_data", Some(schema), Some(content))
        .finish()
}

/// Texts of an entry with a transaction, and of its commit. `schema`: the entry is a conversion.
pub(super) fn transaction(
    entry: &LogEntry,
    schema: Option<&DatabaseSchema>,
    transaction: &[u8],
) -> Vec<Vec<u8>> {
    let text = entry_text(entry).data("data", schema, Some(transaction));
    vec![text.finish(), commit(entry)]
}

/// Texts of the vote of this server for itself, of its election, and of its commit.
pub(super) fn election(entry: &LogEntry, server: Uuid) -> Vec<Vec<u8>> {
    let state = |name| {
        let text = RecordText::new().number("term", entry.term);
        text.id(name, server).finish()
    };
    let entry_text = entry_text(entry).finish();
    vec![state("vote"), state("leader"), entry_text, commit(entry)]
}

/// Text of this server's vote for itself in a term.
pub(super) fn vote(term: u64, server: Uuid) -> Vec<u8> {
    let text = RecordText::new().number("term", term);
    text.id("vote", server).finish()
}

/// Texts of an entry that changes the election timer, and of its commit.
#[cfg(feature = "unixctl")]
pub(super) fn election_timer(entry: &LogEntry, election_timer_ms: u64) -> Vec<Vec<u8>> {
    let text = entry_text(entry).number("election_timer", election_timer_ms);
    vec![text.finish(), commit(entry)]
}

fn entry_text(entry: &LogEntry) -> RecordText {
    let text = RecordText::new().number("term", entry.term).number("index", entry.index);
    match entry.id {
        Some(id) => text.id("eid", id),
        None => text,
    }
}

fn commit(entry: &LogEntry) -> Vec<u8> {
    let text = RecordText::new().number("commit_index", entry.index);
    text.finish()
}

//! Rows that decide on a packet, as the logical flows of a trace name them.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_ovn_programs::testing::RealServer;
use patchbay_reach::{Answer, Northbound};
use serde_json::{Value, json};

use crate::compare::{Asked, has_choice, has_hidden_source};
use crate::json_rpc::transact;
use crate::trace_server::{Format, TraceServer};

/// Tables whose rows ovn-northd names in the flows that it makes of them.
const NAMED_TABLES: [&str; 5] =
    ["ACL", "Load_Balancer", "Logical_Router_Policy", "Logical_Router_Static_Route", "NAT"];
/// Columns that do not make a flow.
const OTHER_COLUMNS: [&str; 4] = ["_uuid", "_version", "external_ids", "name"];
/// Number of digits of a UUID in outputs of ovn-trace and hints of ovn-northd.
const DIGITS: usize = 8;

/// Rows of the Northbound database, by the logical flows that ovn-northd has made of them. Both are
/// the first digits of their UUIDs.
#[derive(Debug)]
pub(crate) struct DecidingRows {
    rows: BTreeMap<String, String>,
    /// Columns of rows. Equal rows of several datapaths have one flow, which names one of them. ACLs
    /// with `allow` are equal to those with `allow-related` wherever both are.
    contents: BTreeMap<String, String>,
}

impl DecidingRows {
    /// Reads the flows of a translated Southbound database, and the rows.
    ///
    /// # Panics
    /// The server does not answer.
    pub(crate) fn read(server: &RealServer) -> Self {
        let select = json!({"op": "select", "table": "Logical_Flow", "where": [],
            "columns": ["_uuid", "external_ids"]});
        let selected = transact(server.socket(), &json!(["OVN_Southbound", select]));
        let flows = selected[0]["rows"].as_array().into_iter().flatten();
        let rows = flows.filter_map(|flow| {
            let mut pairs = flow["external_ids"][1].as_array()?.iter();
            let hint = pairs.find(|pair| pair[0] == "stage-hint")?[1].as_str()?.to_owned();
            Some((flow["_uuid"][1].as_str()?.get(..DIGITS)?.to_owned(), hint))
        });
        let rows = rows.collect();
        let mut request = vec![json!("OVN_Northbound")];
        let select = |table| json!({"op": "select", "table": table, "where": []});
        request.extend(NAMED_TABLES.map(select));
        let selected = transact(server.socket(), &Value::Array(request));
        let tables = selected.as_array().into_iter().flatten();
        let found = tables.flat_map(|table| table["rows"].as_array().into_iter().flatten());
        let contents = found.filter_map(|row| {
            let uuid = row["_uuid"][1].as_str()?.get(..DIGITS)?.to_owned();
            let columns = row.as_object()?.iter();
            let own = columns.filter(|(column, _)| !OTHER_COLUMNS.contains(&column.as_str()));
            let text = format!("{:?}", own.collect::<Vec<_>>());
            Some((uuid, text.replace("allow-related", "allow")))
        });
        Self { rows, contents: contents.collect() }
    }

    /// The rows of a path that the trace of the packet does not have. `None`: it has all of them, or
    /// OVN may choose others, or ovn-trace shows ACLs another source.
    pub(crate) fn difference(
        &self,
        northbound: &Northbound,
        trace: &mut TraceServer,
        asked: &Asked,
    ) -> Option<String> {
        let answer = northbound.answer(&asked.question).ok()?;
        if has_choice(&answer) || has_hidden_source(&answer) {
            return None;
        }
        let named = named_rows(&answer);
        let packet = asked.packet.as_ref().filter(|_| !named.is_empty())?;
        let text = trace.trace_as(Format::Detailed, &packet.datapath, &packet.expression)?;
        let flows = text.split("uuid ").skip(1).filter_map(|rest| rest.get(..DIGITS));
        let traced = flows.filter_map(|flow| self.contents.get(self.rows.get(flow)?));
        let traced: BTreeSet<_> = traced.collect();
        let is_missing =
            |row: &&String| self.contents.get(*row).is_none_or(|own| !traced.contains(own));
        let missing: Vec<_> = named.iter().filter(is_missing).collect();
        (!missing.is_empty()).then(|| {
            let question = &asked.question;
            format!("{question:?}\nrows {missing:?} are not in the trace\n{answer:#?}\n{text}")
        })
    }
}

/// First digits of the UUIDs of the rows that decide on a packet.
fn named_rows(answer: &Answer) -> BTreeSet<String> {
    let rows = answer.hops.iter().filter_map(|hop| hop.row);
    let named = rows.filter(|row| NAMED_TABLES.contains(&row.table));
    named.filter_map(|row| Some(row.uuid.to_string().get(..DIGITS)?.to_owned())).collect()
}

//! Normalization of two servers' messages: random UUIDs get names, and parts in arbitrary order are
//! sorted.

mod lenient;

pub(crate) use lenient::forget_versions;

use std::collections::{BTreeMap, HashMap};

use patchbay_schemas::atom::parse_uuid;
use patchbay_schemas::json::Json;
use uuid::Uuid;

const UUID_LEN: usize = 36;

/// Kind of requests, which determines the differences that are allowed in the replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Directed: the parts in arbitrary order are known.
    Directed,
    /// Random: the row that an error names may differ if there are several, and so may empty
    /// changes of rows.
    Random,
    /// Broken in several places: the value that an error names may differ, too.
    Broken,
}

/// Names of one server's UUIDs.
pub(crate) struct Names {
    names: HashMap<String, String>,
    named: usize,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self { names: HashMap::new(), named: 0 };
        names.keep_those_in(Uuid::nil().to_string().as_bytes());
        names
    }
}

impl Names {
    /// The UUIDs in a request are the same on both servers and keep their names.
    pub(crate) fn keep_those_in(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes).to_lowercase();
        for uuid in uuids_in(&text) {
            self.names.entry(uuid.to_owned()).or_insert_with(|| uuid.to_owned());
        }
    }

    /// Names all UUIDs of a log in the order of its structure, and sorts the parts in arbitrary
    /// order. The log has replies to some of the requests.
    pub(crate) fn normalise(
        &mut self,
        log: &mut Vec<(char, Json)>,
        requests: &[Json],
        scope: Scope,
    ) {
        if scope != Scope::Directed {
            lenient::forget_what_may_differ(log, requests, scope);
        }
        // The order of messages for different monitors of one connection is arbitrary.
        for run in log.chunk_by_mut(|(a, one), (b, other)| {
            a == b && is_of_monitor(one) && is_of_monitor(other)
        }) {
            run.sort_by_cached_key(|(_, message)| message.get("params").map(monitor_of));
        }
        // The rows that the request made are named in the order of its operations.
        for (_, message) in log.iter() {
            if let Some(Json::Array(results)) = message.get("result") {
                for uuid in results.iter().filter_map(|result| result.get("uuid")) {
                    self.name(&uuid.to_text());
                }
            }
        }
        sort_replies(log, requests, |text| self.shown(text));
        // Of broken requests, only UUIDs that an insert has returned get names: the connections of
        // most know no others, and one reply does not distinguish them well.
        if scope != Scope::Broken {
            for (_, message) in log.iter() {
                self.walk(message);
            }
        }
        for (_, message) in log.iter_mut() {
            *message = self.renamed(message);
        }
        // Now by the new names, where rows differ in nothing else.
        sort_replies(log, requests, str::to_owned);
    }

    fn name(&mut self, text: &str) {
        for uuid in uuids_in(text) {
            if !self.names.contains_key(uuid) {
                self.named += 1;
                self.names.insert(uuid.to_owned(), format!("U{}", self.named));
            }
        }
    }

    /// Names the UUIDs of a value, in an order that does not depend on UUIDs. UUIDs whose order
    /// would depend on them get no names until something distinguishes them.
    fn walk(&mut self, json: &Json) {
        match json {
            Json::String(bytes) => self.name(&String::from_utf8_lossy(bytes)),
            Json::Array(elements) if in_order(json) => {
                for element in elements {
                    self.walk(element);
                }
            }
            Json::Array(elements) => {
                let shown = |element: &Json| self.shown(&element.to_text());
                for element in distinct(elements.iter(), |element| shown(element)) {
                    self.walk(element);
                }
            }
            Json::Object(members) => {
                let shown = |(name, value): &(&Vec<u8>, &Json)| {
                    let name = self.shown(&String::from_utf8_lossy(name));
                    (name, self.shown(&value.to_text()))
                };
                for (name, value) in distinct(members.iter(), shown) {
                    self.name(&String::from_utf8_lossy(name));
                    self.walk(value);
                }
            }
            _ => {}
        }
    }

    /// The text with names instead of UUIDs.
    fn shown(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(uuid) = uuids_in(rest).next() {
            let (before, after) = rest.split_once(uuid).expect("it is in there");
            out.push_str(before);
            out.push_str(self.names.get(uuid).map_or("?", String::as_str));
            rest = after;
        }
        out + rest
    }

    fn renamed(&self, json: &Json) -> Json {
        match json {
            Json::String(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Json::string(settled(self.shown(text))),
                Err(_) => json.clone(),
            },
            Json::Array(elements) => {
                let mut renamed: Vec<Json> = elements.iter().map(|e| self.renamed(e)).collect();
                if !in_order(json) {
                    renamed.sort_by_cached_key(Json::to_text);
                }
                Json::Array(renamed)
            }
            Json::Object(members) => {
                let member = |(name, value): (&Vec<u8>, &Json)| {
                    let name = self.shown(&String::from_utf8_lossy(name)).into_bytes();
                    (name, self.renamed(value))
                };
                let mut renamed: Vec<_> = members.iter().map(member).collect();
                renamed.sort_by_cached_key(|(name, value)| (name.clone(), value.to_text()));
                let mut object = BTreeMap::new();
                for (mut name, value) in renamed {
                    while object.contains_key(&name) {
                        name.push(b'\'');
                    }
                    object.insert(name, value);
                }
                Json::Object(object)
            }
            other => other.clone(),
        }
    }
}

/// The elements whose text `shown` is unique, in the order of the text.
fn distinct<T, K: Ord + Clone>(all: impl Iterator<Item = T>, shown: impl Fn(&T) -> K) -> Vec<T> {
    let mut groups: BTreeMap<K, Vec<T>> = BTreeMap::new();
    for one in all {
        groups.entry(shown(&one)).or_default().push(one);
    }
    let alone = groups.into_values().filter(|group| group.len() == 1);
    alone.flatten().collect()
}

/// `true` if the order of the elements has a meaning. The order of UUIDs has none.
fn in_order(array: &Json) -> bool {
    let Json::Array(elements) = array else {
        return true;
    };
    let first = match elements.first() {
        Some(Json::Array(pair)) if pair.first().is_some_and(is_uuid) => &pair[0],
        Some(first) => first,
        None => return true,
    };
    !is_uuid(first)
}

fn is_uuid(json: &Json) -> bool {
    matches!(json, Json::Array(two) if two.len() == 2 && two[0] == Json::string("uuid"))
}

fn is_of_monitor(message: &Json) -> bool {
    let method = message.get("method").and_then(Json::as_str);
    method.is_some_and(|method| method.starts_with("update") || method == "monitor_canceled")
}

fn monitor_of(params: &Json) -> String {
    match params {
        Json::Array(params) => params.first().map(Json::to_text).unwrap_or_default(),
        _ => String::new(),
    }
}

/// `true` if a message is the reply to a request.
pub(crate) fn is_reply(message: &Json, request: &Json) -> bool {
    // Invalid UTF-8 may be replaced in the message.
    let is_same = |one: &Json, other: &Json| match (one, other) {
        (Json::String(one), Json::String(other)) => {
            String::from_utf8_lossy(one) == String::from_utf8_lossy(other)
        }
        _ => one == other,
    };
    let ids = message.get("id").zip(request.get("id"));
    ids.is_some_and(|(one, other)| is_same(one, other)) && message.get("method").is_none()
}

/// Sorts results in arbitrary order by the names that `shown` gives to their UUIDs.
fn sort_replies(log: &mut [(char, Json)], requests: &[Json], shown: impl Fn(&str) -> String) {
    for (_, message) in log {
        if let Some(request) = requests.iter().find(|request| is_reply(message, request)) {
            sort_reply(message, request, &shown);
        }
    }
}

fn sort_reply(reply: &mut Json, request: &Json, shown: impl Fn(&str) -> String) {
    let Json::Object(reply) = reply else {
        return;
    };
    let Some(Json::Array(results)) = reply.get_mut(&b"result"[..]) else {
        return;
    };
    let method = request.get("method").and_then(Json::as_str);
    match (method, request.get("params")) {
        (Some("list_dbs"), _) => results.sort_by_cached_key(Json::to_text),
        (Some("transact"), Some(Json::Array(params))) => {
            for (result, operation) in results.iter_mut().zip(params.iter().skip(1)) {
                if let Json::Object(members) = result
                    && let Some(Json::Array(rows)) = members.get_mut(&b"rows"[..])
                {
                    sort_rows(rows, operation, &shown);
                }
            }
        }
        _ => {}
    }
}

/// Sorts the rows of a `select`, as far as their order is arbitrary.
fn sort_rows(rows: &mut [Json], select: &Json, shown: impl Fn(&str) -> String) {
    let sorted_by: Vec<Json> = match select.get("sort") {
        Some(Json::Array(columns)) => columns.clone(),
        _ => Vec::new(),
    };
    let projection = |row: &Json| {
        let column = |column: &Json| row.get(column.as_str()?).map(Json::to_text);
        sorted_by.iter().map(column).collect::<Vec<_>>()
    };
    for tied in rows.chunk_by_mut(|a, b| projection(a) == projection(b)) {
        tied.sort_by_cached_key(|row| shown(&row.to_text()));
    }
}

/// An error's text without the parts that ovsdb-server chooses arbitrarily.
fn settled(text: String) -> String {
    if let Some((head, rows)) = text.split_once("  First row, with UUID ")
        && let Some((first, second)) = rows.split_once("  Second row, with UUID ")
    {
        let mut rows = [first, second];
        rows.sort_unstable();
        return format!("{head}  One row, {}  Another, {}", rows[0], rows[1]);
    }
    if let Some(time) = text.strip_prefix("\"wait\" timed out after ") {
        let unit = time.trim_start_matches(|c: char| c.is_ascii_digit());
        return format!("\"wait\" timed out after some{unit}");
    }
    if let Some((head, rest)) = text.split_once("Member '")
        && let Some((_, tail)) = rest.split_once("' and ")
    {
        return format!("{head}Some member and {tail}");
    }
    text
}

fn uuids_in(text: &str) -> impl Iterator<Item = &str> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at + UUID_LEN <= text.len() {
            let start = at;
            let candidate = text.get(start..start + UUID_LEN);
            match candidate.filter(|text| parse_uuid(text.as_bytes()).is_some()) {
                Some(uuid) => {
                    at += UUID_LEN;
                    return Some(uuid);
                }
                None => at += 1,
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(names: &mut Names, text: &str) -> String {
        let mut log = vec![('A', Json::parse(text.as_bytes()).unwrap())];
        names.normalise(&mut log, &[], Scope::Directed);
        log[0].1.to_text()
    }

    const A: &str = "00000000-0000-4000-8000-00000000000a";
    const B: &str = "00000000-0000-4000-8000-00000000000b";

    #[test]
    fn uuids_are_named_by_their_context() {
        let rows = |one: &str, other: &str| {
            let texts = [(one, 1), (other, 2)].map(|(uuid, i)| format!(r#""{uuid}":{{"i":{i}}}"#));
            format!("{{{}}}", texts.join(","))
        };
        assert_eq!(
            normal(&mut Names::default(), &rows(A, B)),
            normal(&mut Names::default(), &rows(B, A))
        );
    }

    #[test]
    fn a_uuid_keeps_its_name_and_another_gets_another() {
        let mut names = Names::default();
        let one = normal(&mut names, &format!(r#"[["uuid","{A}"]]"#));
        assert_eq!(one, r#"[["uuid","U1"]]"#);
        let both = normal(&mut names, &format!(r#"["set",[["uuid","{B}"],["uuid","{A}"]]]"#));
        assert_eq!(both, r#"["set",[["uuid","U1"],["uuid","U2"]]]"#);
    }

    #[test]
    fn uuids_that_nothing_distinguishes_have_no_name() {
        let mut names = Names::default();
        let both = normal(&mut names, &format!(r#"["set",[["uuid","{B}"],["uuid","{A}"]]]"#));
        assert_eq!(both, r#"["set",[["uuid","?"],["uuid","?"]]]"#);
        let rows = normal(&mut names, &format!(r#"{{"{A}":{{}},"{B}":{{}}}}"#));
        assert_eq!(rows, r#"{"?":{},"?'":{}}"#);
        let one = normal(&mut names, &format!(r#"[["uuid","{B}"]]"#));
        assert_eq!(one, r#"[["uuid","U1"]]"#);
    }

    #[test]
    fn the_order_of_other_values_matters() {
        let mut names = Names::default();
        assert_eq!(normal(&mut names, r#"["set",["b","a"]]"#), r#"["set",["b","a"]]"#);
    }
}

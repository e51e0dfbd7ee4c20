//! Random topologies with spoiled texts: questions about them have some answer.

use std::cell::RefCell;

use patchbay_engine::db::{Access, Database, Execution};
use patchbay_reach::{Northbound, Protocol, Zones};
use patchbay_schemas::json::{Reader, TextBuf};
use patchbay_schemas::nb;
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::decode_transaction;

use crate::arp::ArpRequest;
use crate::free_topology::{Rows, Topology, question};
use crate::neighbor::Resolved;
use crate::random::Random;

/// Topologies of one database.
const TOPOLOGIES: usize = 3;
/// Questions about one topology.
const QUESTIONS_PER_TOPOLOGY: usize = 20;
/// Columns whose texts the schema does not restrict.
const COLUMNS: [&str; 24] = [
    "addresses",
    "dst_ip",
    "external_ip",
    "external_mac",
    "ip_port_mappings",
    "ip_prefix",
    "jump_chain",
    "logical_ip",
    "logical_port",
    "mac",
    "match",
    "networks",
    "nexthop",
    "nexthops",
    "options",
    "other_config",
    "output_port",
    "parent_name",
    "peer",
    "port_security",
    "route_table",
    "type",
    "vip",
    "vips",
];
/// Texts in place of others.
const TEXTS: [&str; 22] = [
    "",
    " ",
    "?",
    "0",
    "router",
    "unknown",
    "switch",
    "virtual",
    "dynamic",
    "true",
    "0.0.0.0/0",
    "255.255.255.255/32",
    "10.1.0.10/0",
    "10.1.0.10/99",
    "::/0",
    "fe80::1/128",
    "ff:ff:ff:ff:ff:ff",
    "00:00:00:00:00:00 10.1.0.10 fd00::1/0",
    "[fd00::1]:99999",
    "10.1.0.10:0",
    "((((((((((ip4",
    "^x ! @y $z \"\u{1F980}",
];

/// Asks about a database of random topologies in whose rows some texts are others. Returns the
/// number of answers. `None`: the schema does not accept the database.
///
/// # Panics
/// A question has no answer although its sender is known.
pub fn ask_spoiled(random: &mut Random) -> Option<usize> {
    let mut rows = Rows::default();
    let topologies: Vec<_> =
        (0..TOPOLOGIES).map(|number| Topology::new(number, random, &mut rows)).collect();
    let percent = 1 + random.below(20);
    let source = RefCell::new(random.clone());
    rows.rewrite_columns(&COLUMNS, |text| {
        let mut random = source.borrow_mut();
        random.chance(percent).then(|| spoil(text, &mut random))
    });
    *random = source.into_inner();
    let northbound = Northbound::new(&fill(&rows.request())?.snapshot(), None);
    let mut answers = 0;
    for topology in &topologies {
        for _ in 0..QUESTIONS_PER_TOPOLOGY {
            let mut resolve = |_: &str, _: &ArpRequest| Resolved::Asked(Vec::new());
            let Some(asked) = question(topology, random, &mut resolve) else {
                continue;
            };
            answers += usize::from(northbound.answer(&asked.question).is_ok());
        }
    }
    Zones::new("", northbound).network_matrix(Protocol::Icmp);
    Some(answers)
}

/// Another text in place of a text.
fn spoil(text: &str, random: &mut Random) -> String {
    let place = random.below(text.len().max(1));
    match random.below(4) {
        0 => text.chars().take(place).collect(),
        1 => text.chars().skip(place).collect(),
        2 => {
            let digit = char::from(b'0' + random.below(10) as u8);
            let is_digit = |c: char| c.is_ascii_digit();
            text.replacen(is_digit, &digit.to_string(), 1 + random.below(3))
        }
        _ => (*random.pick(&TEXTS)).to_owned(),
    }
}

/// A database in memory that a request fills. `None`: the schema does not accept the rows.
fn fill(request: &str) -> Option<Database> {
    let mut uuids = UuidSource::seeded(1);
    let mut database = Database::with_uuids(nb::schema(), UuidSource::seeded(2));
    let text = TextBuf::parse(request.as_bytes().to_vec()).expect("the request is JSON");
    let mut reader = Reader::new(text.as_text());
    assert!(reader.enter_array() && reader.next_element());
    reader.skip();
    let schema = database.schema().clone();
    let mut strings = StringCache::default();
    let mut decoded = decode_transaction(reader, &schema, &mut strings, &mut uuids);
    match database.execute(&mut decoded, &Access::unrestricted()) {
        Execution::Committed { .. } => Some(database),
        Execution::Failed { .. } | Execution::Waiting { .. } => None,
    }
}

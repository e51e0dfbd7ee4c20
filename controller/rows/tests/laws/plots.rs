//! Parts of the synthetic capability that need more than their own rows and cells: policies follow
//! from the reports of links, and a tally counts the rows of links.

use patchbay_rows::{PartRows, Phase, Phases, Reader};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::nb::{AddressSet, LogicalRouterPolicy};

use crate::farm::{Cell, Farming, Node, Part, Site};

/// Report of a link that has its rows.
pub(crate) const MADE: &str = "made";

/// Key of a value that links share.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Terms {
    /// Half of the setting.
    All,
    /// Half of the setting and the key of a site.
    OfSite(u8),
}

impl Farming {
    pub(crate) fn terms(key: Terms, reader: &Reader<'_, Self>) -> u8 {
        match key {
            Terms::All => reader.read(&Cell::Setting).setting / 2,
            Terms::OfSite(number) => {
                let site = reader.read(&Cell::Site(number)).sites.get(&number);
                *reader.shared(&Terms::All) + 10 * site.map_or(0, |site| site.key)
            }
        }
    }

    /// A link keeps its rows, and the names of its ports from links after it.
    pub(crate) fn frozen_link(&self, reader: &Reader<'_, Self>, rows: &mut PartRows<String>) {
        for row in reader.owned() {
            let is_taken =
                row.is_of(self.ports) && reader.claim_row(self.ports, row.view().name()).is_some();
            if !is_taken {
                rows.keep(row);
            }
        }
        rows.report("frozen".to_owned());
    }

    /// An address set of the site: a bit of `members` for each address.
    pub(crate) fn set(&self, number: u8, site: &Site, rows: &mut PartRows<String>) {
        let addresses = (0..8).filter(|bit| site.members & 1 << bit != 0);
        let ids = [("owner", "farm".to_owned()), ("site", number.to_string())];
        let set = AddressSet {
            name: format!("set{number}"),
            addresses: addresses.map(|bit| format!("10.0.0.{bit}")).collect(),
            external_ids: ids.map(|(key, value)| (key.to_owned(), value)).into(),
            ..AddressSet::default()
        };
        rows.put(self.sets, &set);
    }

    /// An address set of the site for the addresses of its links. Most sites have one. A site with
    /// a group lets it shrink before it grows.
    pub(crate) fn crowd(&self, number: u8, site: &Site, rows: &mut PartRows<String>) {
        if site.key == 3 {
            return;
        }
        let ids = [("kind", "crowd".to_owned()), ("site", number.to_string())];
        let set = AddressSet {
            name: format!("crowd{number}"),
            external_ids: ids.map(|(key, value)| (key.to_owned(), value)).into(),
            ..AddressSet::default()
        };
        let mut row = rows.put(self.crowds, &set);
        if site.has_group {
            row.phases(Phases { come: Phase(0), change: Phase(4), go: Phase(1) });
        }
    }

    /// Addresses of a link in the address set of its site, which other links may have, too, and in
    /// that of the next site.
    pub(crate) fn join_crowds(
        &self,
        (site, node): (u8, u8),
        facts: &Node,
        rows: &mut PartRows<String>,
    ) {
        let mut join = |site: u8, address: String| {
            rows.member(self.crowds, format!("crowd{site}"), Atom::from(address));
        };
        if facts.routes > 0 {
            join(site, format!("10.1.0.{}", facts.address % 2));
            join(site, format!("10.2.0.{node}"));
        }
        join((site + 1) % 4, format!("10.3.{site}.{node}"));
    }

    /// A policy for each of the first nodes whose link is made. A site changes all of them at once.
    pub(crate) fn policies(
        &self,
        number: u8,
        reader: &Reader<'_, Self>,
        rows: &mut PartRows<String>,
    ) {
        let inputs = reader.read(&Cell::Site(number));
        let Some(site) = inputs.sites.get(&number) else {
            return;
        };
        for node in 0..4 {
            let report = reader.report(&Part::Link(number, node));
            if report.is_none_or(|report| report != MADE) {
                continue;
            }
            let ids = [
                ("owner", "farm".to_owned()),
                ("site", number.to_string()),
                ("kind", "policies".to_owned()),
                ("id", node.to_string()),
            ];
            let policy = LogicalRouterPolicy {
                priority: site.key.into(),
                r#match: node.to_string(),
                external_ids: ids.map(|(key, value)| (key.to_owned(), value)).into(),
                ..LogicalRouterPolicy::default()
            };
            rows.put(self.policies, &policy)
                .held_by(self.router_policies, format!("router{number}"))
                .together(number.into());
        }
    }

    pub(crate) fn tally(number: u8, reader: &Reader<'_, Self>, rows: &mut PartRows<String>) {
        let links = Part::Link(number, 0)..=Part::Link(number, u8::MAX);
        let count = reader.owned_in(links).count();
        rows.report(format!("{count} rows of links"));
    }
}

//! Range of ports from which a NAT rule takes those of packets.

/// `external_port_range` of a NAT rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Parses `PORT`, or `PORT-PORT` with a greater second one. `None`: another text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        // OVN keeps 16 bits of a number.
        let port = |text: &str| text.trim().parse::<u64>().ok().map(|port| port as u16);
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => (port(first)?, Some(port(last)?)),
            None => (port(text)?, None),
        };
        let is_valid = first != 0 && last.is_none_or(|last| last > first);
        is_valid.then_some(Self { first, last: last.unwrap_or(first) })
    }

    pub(super) fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

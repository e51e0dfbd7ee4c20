//! Rules about the ranges of a cluster.

use ipnet::IpNet;
use patchbay_model::arithmetic::{nth_address, overlap};

use super::{ClusterSettingsSpec, override_per_family};

/// Largest place in join and transit subnets that a cluster of two nodes uses: the id of a node.
const LAST_NODE_PLACE: u128 = 2;
/// Largest reserved place in masquerade subnets, that of hairpin packets.
const LAST_MASQUERADE_PLACE: u128 = 5;

/// Kind of ranges, by its flag and its field in [`ClusterSettingsSpec`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RangeKind {
    /// Name of the flag.
    pub flag: &'static str,
    /// Path of the field.
    pub field: &'static str,
}

impl RangeKind {
    const SERVICE: Self = Self::new("--service-cidr", "spec.serviceCIDRs");
    const POD: Self = Self::new("--pod-cidr", "spec.podCIDRs");
    const JOIN: Self = Self::new("--join-cidr", "spec.joinCIDRs");
    const TRANSIT: Self = Self::new("--transit-cidr", "spec.transitCIDRs");
    const MASQUERADE: Self = Self::new("--masquerade-cidr", "spec.masqueradeCIDRs");

    const fn new(flag: &'static str, field: &'static str) -> Self {
        Self { flag, field }
    }
}

/// A range that breaks a rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RangeViolation {
    /// Kind of the range.
    pub kind: RangeKind,
    /// The range.
    pub range: IpNet,
    rule: RangeRule,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RangeRule {
    /// No two ranges overlap, as in OVN-Kubernetes.
    Overlap(NamedRange),
    /// A range has an address at this place.
    Place(u128),
}

/// A range of the settings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct NamedRange {
    kind: RangeKind,
    range: IpNet,
    /// `true`: the range is not given, but the default one.
    is_default: bool,
}

impl RangeViolation {
    /// Text about the rule. `name` is the name of a kind of ranges for the reader.
    pub fn message(&self, name: impl Fn(RangeKind) -> &'static str) -> String {
        match self.rule {
            RangeRule::Overlap(NamedRange { kind, range, is_default }) => {
                let of = if is_default { ", the default of" } else { " of" };
                format!("the range overlaps with {range}{of} {}", name(kind))
            }
            RangeRule::Place(place) => {
                // The number of the bits that the place takes.
                let bits = u128::BITS - place.leading_zeros();
                let length = u32::from(self.range.max_prefix_len()) - bits;
                format!("the range is too small: its length is at most {length}")
            }
        }
    }
}

impl ClusterSettingsSpec {
    /// Rules that the given and default ranges break.
    pub fn range_violations(&self) -> Vec<RangeViolation> {
        let ranges = self.ranges();
        let mut found = Vec::new();
        for (place, one) in ranges.iter().enumerate() {
            let violation = |rule| RangeViolation { kind: one.kind, range: one.range, rule };
            let last = match one.kind {
                RangeKind::JOIN | RangeKind::TRANSIT => LAST_NODE_PLACE,
                RangeKind::MASQUERADE => LAST_MASQUERADE_PLACE,
                _ => 0,
            };
            if nth_address(one.range, last).is_none() {
                found.push(violation(RangeRule::Place(last)));
            }
            let mut earlier = ranges[..place].iter();
            let other = earlier.find(|other| overlap(one.range, other.range));
            found.extend(other.map(|other| violation(RangeRule::Overlap(*other))));
        }
        found
    }

    /// All ranges: first the default ones.
    fn ranges(&self) -> Vec<NamedRange> {
        let defaults = Self::default().settings();
        let kinds = [
            (RangeKind::SERVICE, &self.service_cidrs, &[][..]),
            (RangeKind::POD, &self.pod_cidrs, &[]),
            (RangeKind::JOIN, &self.join_cidrs, &defaults.join_subnets),
            (RangeKind::TRANSIT, &self.transit_cidrs, &defaults.transit_subnets),
            (RangeKind::MASQUERADE, &self.masquerade_cidrs, &defaults.masquerade_subnets),
        ];
        let mut ranges = Vec::new();
        for (kind, given, default) in kinds {
            let others = override_per_family(default, given);
            let others = others.iter().filter(|range| !given.contains(range));
            ranges.extend(given.iter().chain(others).map(|range| NamedRange {
                kind,
                range: *range,
                is_default: !given.contains(range),
            }));
        }
        // The later one of two ranges breaks the rule, and a default range is not to be corrected.
        ranges.sort_by_key(|range| !range.is_default);
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(spec: &ClusterSettingsSpec) -> Vec<String> {
        let found = spec.range_violations().into_iter();
        let texts = found.map(|one| {
            let message = one.message(|kind| kind.flag);
            format!("{} {}: {message}", one.kind.flag, one.range)
        });
        texts.collect()
    }

    fn ranges(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn ranges_do_not_overlap() {
        assert_eq!(messages(&ClusterSettingsSpec::default()), [] as [&str; 0]);
        let one = ranges(&["10.0.0.0/16"]);
        let equal = ClusterSettingsSpec {
            service_cidrs: one.clone(),
            pod_cidrs: ranges(&["10.0.128.0/17", "10.1.0.0/16"]),
            join_cidrs: one.clone(),
            transit_cidrs: one.clone(),
            masquerade_cidrs: one,
            ..ClusterSettingsSpec::default()
        };
        let expected = [
            "--pod-cidr 10.0.128.0/17: the range overlaps with 10.0.0.0/16 of --service-cidr",
            "--join-cidr 10.0.0.0/16: the range overlaps with 10.0.0.0/16 of --service-cidr",
            "--transit-cidr 10.0.0.0/16: the range overlaps with 10.0.0.0/16 of --service-cidr",
            "--masquerade-cidr 10.0.0.0/16: the range overlaps with 10.0.0.0/16 of --service-cidr",
        ];
        assert_eq!(messages(&equal), expected);
        let default = ClusterSettingsSpec {
            pod_cidrs: ranges(&["100.64.0.0/10"]),
            ..ClusterSettingsSpec::default()
        };
        let expected = "--pod-cidr 100.64.0.0/10: the range overlaps with 100.64.0.0/16, the \
                        default of --join-cidr";
        assert_eq!(messages(&default), [expected]);
    }

    #[test]
    fn ranges_have_addresses_for_two_nodes_and_the_reserved_places() {
        let spec = |join: &[&str], transit: &[&str], masquerade: &[&str]| ClusterSettingsSpec {
            join_cidrs: ranges(join),
            transit_cidrs: ranges(transit),
            masquerade_cidrs: ranges(masquerade),
            ..ClusterSettingsSpec::default()
        };
        let smallest = spec(&["100.64.0.0/30"], &["fd97::/126"], &["169.254.0.0/29", "fd69::/125"]);
        assert_eq!(messages(&smallest), [] as [&str; 0]);
        let small = spec(&["100.64.0.0/31"], &["fd97::/127"], &["169.254.0.0/30", "fd69::/126"]);
        let expected = [
            "--join-cidr 100.64.0.0/31: the range is too small: its length is at most 30",
            "--transit-cidr fd97::/127: the range is too small: its length is at most 126",
            "--masquerade-cidr 169.254.0.0/30: the range is too small: its length is at most 29",
            "--masquerade-cidr fd69::/126: the range is too small: its length is at most 125",
        ];
        assert_eq!(messages(&small), expected);
    }
}

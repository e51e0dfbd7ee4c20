//! Control plane protection: how many packets of a kind may reach a node's `ovn-controller`.

use patchbay_schemas::nb::{Copp, Meter, MeterBand, MeterBandAction, MeterUnit};

use super::MeterRows;

/// Name of the one control plane protection of a zone.
pub const COPP: &str = "ovnkube-default";
/// Packets per second of each kind.
const RATE: i64 = 25;
/// Kinds of packets.
const PROTOCOLS: [&str; 9] = [
    "arp",
    "arp-resolve",
    "bfd",
    "event-elb",
    "icmp4-error",
    "icmp6-error",
    "reject",
    "svc-monitor",
    "tcp-reset",
];

fn meter_name(protocol: &str) -> String {
    format!("{protocol}-rate-limiter")
}

/// The control plane protection that every router refers to.
pub fn copp() -> Copp {
    Copp {
        name: COPP.to_owned(),
        meters: PROTOCOLS
            .iter()
            .map(|protocol| ((*protocol).to_owned(), meter_name(protocol)))
            .collect(),
        ..Copp::default()
    }
}

/// Meters of the control plane protection.
pub fn meters() -> Vec<MeterRows> {
    let rows = |protocol: &&str| MeterRows {
        meter: Meter {
            name: meter_name(protocol),
            fair: Some(true),
            unit: MeterUnit::Pktps,
            ..Meter::default()
        },
        band: MeterBand {
            action: MeterBandAction::Drop,
            rate: RATE,
            ..MeterBand::default()
        },
    };
    PROTOCOLS.iter().map(rows).collect()
}

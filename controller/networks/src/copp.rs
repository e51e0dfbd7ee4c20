//! Control plane protection: how many packets of a kind may reach a node's `ovn-controller`.

use patchbay_schemas::nb::{Copp, Meter, MeterBand, MeterBandAction, MeterUnit};

use super::MeterRows;

/// Name of the one control plane protection of a zone.
pub const COPP: &str = "ovnkube-default";
/// Packets of each kind per second at most.
const RATE: i64 = 25;
/// Meter of log messages of ACLs.
const ACL_LOGGING: &str = "acl-logging";
/// Log messages of ACLs per second at most.
const LOGGING_RATE: i64 = 20;
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

/// Meters of the control plane protection and of log messages. Meters of one rate share the band.
pub fn meters() -> Vec<MeterRows> {
    let protocols = PROTOCOLS.iter();
    let meters = protocols.map(|protocol| meter(meter_name(protocol), RATE));
    let logging = meter(ACL_LOGGING.to_owned(), LOGGING_RATE);
    meters.chain([logging]).collect()
}

fn meter(name: String, rate: i64) -> MeterRows {
    MeterRows {
        meter: Meter { name, fair: Some(true), unit: MeterUnit::Pktps, ..Meter::default() },
        band: MeterBand { action: MeterBandAction::Drop, rate, ..MeterBand::default() },
    }
}

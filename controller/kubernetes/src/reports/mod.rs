//! Reports and leases of zones, from the zone to the leader.

pub(crate) mod connect_revision;
pub(crate) mod observed_zones;
pub(crate) mod report_publisher;
pub(crate) mod zone_lease;
pub(crate) mod zone_liveness;
pub(crate) mod zone_reports;

//! Rows of VPCs in a database, from manifests.

#![allow(clippy::unwrap_used, reason = "helpers of tests may stop a test")]

mod acls;
mod balancers;
mod changes;
mod dhcp;
mod groups;
mod ip_pools;
mod recorded;
mod refused;
mod virtual_ips;
mod world;

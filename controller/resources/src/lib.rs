//! Kubernetes objects that the controller reads and writes.
//!
//! | module | content |
//! |---|---|
//! | [`object`] | types of the Kubernetes API: metadata, conditions, nodes, services |
//! | [`cnc`], [`udn`], [`nad`], [`ipam_claim`] | types of the custom resources, with their rules |
//! | [`selector`] | label selectors: conversion, matching, errors |
//! | [`aggregate`] | text of several errors |
//! | [`manifests`] | the inventory of a run, and its decoding from manifests |
//! | [`settings`] | `ClusterSettings`, the settings of a cluster |
//! | [`state`] | the state folder, which replaces annotations and status between runs on files |
//! | [`conversion`] | values of `patchbay_model` from objects |
//!
//! ```
//! use patchbay_resources::manifests::read_manifests;
//!
//! let yaml = "{apiVersion: v1, kind: Node, metadata: {name: node-1}}";
//! let inventory = read_manifests(&["-".into()], &mut yaml.as_bytes())?;
//! assert!(inventory.nodes.named("node-1").is_some());
//! # Ok::<(), patchbay_resources::manifests::LoadError>(())
//! ```

mod address;
pub mod aggregate;
pub mod cnc;
mod condition;
pub mod conversion;
pub mod ipam_claim;
pub mod manifests;
pub mod nad;
pub mod object;
pub mod selector;
pub mod settings;
pub mod state;
pub mod udn;

pub use condition::set_condition;

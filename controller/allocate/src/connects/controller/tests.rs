//! Reconciles of whole clusters.

mod annotations;
mod bed;
mod conflicts;
mod random;
mod selection;
mod subnets;

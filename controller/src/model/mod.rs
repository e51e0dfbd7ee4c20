//! Validated domain types.

//! Placeholder while the walls go up.

pub mod testing;

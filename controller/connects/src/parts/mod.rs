//! Rows that each part of a connect wants, and what it reads for them.

mod isolation;
mod link;
mod policies;
mod services;

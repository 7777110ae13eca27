//! Filters, alone and together, and the files that routes serve.

mod basics;
mod cache;
mod content;
mod files;
mod files_faults;
mod policies;
mod tokens;

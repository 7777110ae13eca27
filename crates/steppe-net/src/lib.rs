//! Sockets and threads: workers, listeners, connections to servers, names, deadlines, drain.

mod address;

pub use address::{ListenAddress, ServerAddress};

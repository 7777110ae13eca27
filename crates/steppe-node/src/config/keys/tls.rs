//! Tables of TLS of the admin endpoint.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use steppe_config::keys;
use steppe_config::table::Table;
use steppe_net::config::tls::{CERT, KEY};

pub(super) static ADMIN_TLS: Table = Table::new(
    "admin.tls",
    "TLS of `admin.listen`. The files are read again when they change.",
    keys! { CERT, KEY },
);

//! Changes of the configuration under load, and the service manager that requests them.

mod changes;
mod included;
mod random;
mod service_manager;
mod signals;

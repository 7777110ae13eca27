//! Changes of the configuration under load, and the service manager that asks for them.

mod changes;
mod included;
mod random;
mod service_manager;
mod signals;

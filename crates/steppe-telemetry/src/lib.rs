//! steppe-telemetry.

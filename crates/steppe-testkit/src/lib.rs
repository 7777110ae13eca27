//! steppe-testkit.

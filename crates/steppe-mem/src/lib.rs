//! steppe-mem.

//! The C ABI of steppe-malloc (placeholder).

//! Passes the linker what a library needs that replaces malloc.
//!
//! It is never unloaded: a thread's exit calls a destructor in it, long after a `dlclose`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libsteppe_malloc.so.0");
}

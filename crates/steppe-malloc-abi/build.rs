//! Passes the linker the options of a library that replaces malloc.
//!
//! The library is never unloaded: a thread's exit calls a destructor in it, long after a `dlclose`. With glibc it names
//! functions by their oldest version (`src/glibc.rs`).

/// Functions that glibc moved into libc after 2.28.
const MOVED: [&str; 8] = [
    "dlsym",
    "pthread_attr_setstacksize",
    "pthread_create",
    "pthread_getspecific",
    "pthread_join",
    "pthread_key_create",
    "pthread_setspecific",
    "pthread_sigmask",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libsteppe_malloc.so.0");
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|environment| environment == "gnu") {
        for name in MOVED {
            println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap={name}");
        }
    }
}

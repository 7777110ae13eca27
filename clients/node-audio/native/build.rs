//! Passes the linker flags of a Node.js addon on this platform.

fn main() {
    napi_build::setup();
}

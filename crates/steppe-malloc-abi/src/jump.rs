//! Jumps to the function that a name stands for in the whole process.
//!
//! The name is looked up when the program is linked or started, so the function is the program's own where it has one, or
//! another allocator's.

/// The body of a naked function that jumps to another one, with the same arguments; further ones are ignored there.
macro_rules! jump_to {
    ($name:literal) => {{
        #[cfg(target_arch = "x86_64")]
        core::arch::naked_asm!(concat!("jmp ", $name, "@PLT"));
        #[cfg(target_arch = "aarch64")]
        core::arch::naked_asm!(concat!("b ", $name));
    }};
}

pub(crate) use jump_to;

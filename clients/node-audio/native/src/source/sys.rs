//! Libraries of sound systems, loaded when they are first needed.

/// Declares the functions of a library as a struct of pointers, with a loader.
macro_rules! library {
    ($(#[$doc:meta])* $name:ident = $file:literal { $(fn $symbol:ident($($argument:ty),*) $(-> $result:ty)?;)* }) => {
        $(#[$doc])*
        pub struct $name {
            $(pub $symbol: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $name {
            /// The library, loaded once and never unloaded: it keeps thread-local state. `Err` is the
            /// reason why it can't be loaded.
            pub fn get() -> Result<&'static Self, &'static str> {
                static LOADED: std::sync::OnceLock<Result<$name, String>> = std::sync::OnceLock::new();
                let loaded = LOADED.get_or_init(|| Self::load().map_err(|error| error.to_string()));
                loaded.as_ref().map_err(String::as_str)
            }

            fn load() -> Result<Self, libloading::Error> {
                // SAFETY: the system's own library, whose initialization is what every program that links
                // it runs.
                let library = unsafe { libloading::Library::new($file)? };
                let functions = Self {
                    $($symbol: {
                        // SAFETY: the signature is that of the library's header, which its ABI keeps.
                        let symbol = unsafe { library.get(concat!(stringify!($symbol), "\0").as_bytes())? };
                        *symbol
                    },)*
                };
                std::mem::forget(library);
                Ok(functions)
            }
        }
    };
}

pub(super) use library;

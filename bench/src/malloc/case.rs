//! The cases of the load program, and the units of each in a run.

use clap::ValueEnum;

/// A case of `steppe-malloc-load`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Case {
    /// One thread, 400 slots, sizes of 16 to 1,039 bytes
    #[value(name = "random-400")]
    Random400,
    /// The same with 8,192 slots
    #[value(name = "random-8192")]
    Random8192,
    /// The same with 100,000 slots
    #[value(name = "random-100000")]
    Random100000,
    /// Two threads, tables of blocks that pass from thread to thread
    Larson,
    /// Producer and consumer
    Handover,
    /// Buffers that grow
    Realloc,
    /// 96 threads in waves, then silence, light work, and the end
    Server,
    /// 20,000 short threads
    Churn,
    /// A thread that only frees what another allocates
    Freeing,
    /// Blocks of 1 to 16 MiB, every page written
    Large,
    /// g++ translates a file of templates
    Compile,
    /// The sqlite3 shell fills a database in memory, and queries it
    Sqlite,
}

impl Case {
    /// The case's name in the load program.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random400 => "random-400",
            Self::Random8192 => "random-8192",
            Self::Random100000 => "random-100000",
            Self::Larson => "larson",
            Self::Handover => "handover",
            Self::Realloc => "realloc",
            Self::Server => "server",
            Self::Churn => "churn",
            Self::Freeing => "freeing",
            Self::Large => "large",
            Self::Compile => "compile",
            Self::Sqlite => "sqlite",
        }
    }

    /// The heading of the case's table.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Random400 => "random mixed, one thread, 400 slots",
            Self::Random8192 => "random mixed, one thread, 8,192 slots",
            Self::Random100000 => "random mixed, one thread, 100,000 slots",
            Self::Larson => "Larson-like, two threads",
            Self::Handover => "producer and consumer, two threads",
            Self::Realloc => "growth by realloc",
            Self::Server => "a server's life: 96 threads in waves",
            Self::Churn => "thread churn: 20,000 short threads",
            Self::Freeing => "a thread that only frees, 45 MB alive",
            Self::Large => "large blocks, 1 to 16 MiB",
            Self::Compile => "g++, one file",
            Self::Sqlite => "sqlite3, one script",
        }
    }

    /// The label of the case's rows on the page of figures.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Random400 => "random mixed, 400 slots",
            Self::Random8192 => "random mixed, 8,192 slots",
            Self::Random100000 => "random mixed, 100,000 slots",
            Self::Larson => "Larson-like, 2 threads",
            Self::Handover => "producer and consumer",
            Self::Realloc => "growth by realloc",
            Self::Server => "a server's life",
            Self::Churn => "thread churn",
            Self::Freeing => "a thread that only frees",
            Self::Large => "blocks of 1 to 16 MiB",
            Self::Compile => "g++",
            Self::Sqlite => "sqlite3",
        }
    }

    /// One operation of the case, in words.
    pub const fn operation(self) -> &'static str {
        match self {
            Self::Realloc => "a realloc",
            Self::Server => "a request",
            Self::Churn => "a thread",
            Self::Large => "a block allocated, written and freed",
            Self::Compile => "a file translated",
            Self::Sqlite => "a script run",
            _ => "a malloc or a free",
        }
    }

    /// Units of a run at this scale: about a second of work at 1, the server's life five.
    pub fn units(self, scale: f64) -> u64 {
        let (units, least) = match self {
            Self::Random400 | Self::Random8192 | Self::Random100000 => (20_000_000, 100_000),
            Self::Larson => (60_000_000, 100_000),
            Self::Handover => (20_000_000, 10_000),
            Self::Realloc => (300_000, 548),
            // Requests a thread, in four waves.
            Self::Server => (96, 8),
            Self::Churn => (20_000, 800),
            Self::Freeing => (5_000_000, 100_000),
            Self::Large => (1_000, 20),
            Self::Compile => (1, 1),
            Self::Sqlite => (4, 1),
        };
        scaled(units, scale).max(least)
    }

    /// Units of the two runs whose difference is counted under callgrind, which is 50 times slower.
    pub const fn counted_units(self) -> (u64, u64) {
        match self {
            Self::Random400 | Self::Random8192 => (200_000, 1_200_000),
            // Until the table is full, the case allocates more than it frees.
            Self::Random100000 => (1_000_000, 3_000_000),
            Self::Larson | Self::Handover | Self::Freeing => (200_000, 800_000),
            Self::Realloc => (5_480, 16_440),
            Self::Server => (4, 8),
            Self::Churn => (160, 480),
            Self::Large => (20, 60),
            Self::Compile | Self::Sqlite => (1, 2),
        }
    }

    /// True for third-party programs, which report no figures of their memory. Their instructions are not counted:
    /// callgrind would take minutes.
    pub const fn is_of_programs(self) -> bool {
        matches!(self, Self::Compile | Self::Sqlite)
    }

    /// True if idle memory is read each round, since the case is about it.
    pub const fn is_about_silence(self) -> bool {
        matches!(self, Self::Server)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "units are few, and no scale is negative"
)]
fn scaled(units: u64, scale: f64) -> u64 {
    (units as f64 * scale) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_a_multiple_with_a_floor() {
        assert_eq!(Case::Random400.units(1.0), 20_000_000);
        assert_eq!(Case::Random400.units(0.5), 10_000_000);
        assert_eq!(Case::Server.units(0.001), 8);
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for case in Case::value_variants() {
            let value = case.to_possible_value().expect("none is hidden");
            assert_eq!(value.get_name(), case.name());
            let (few, many) = case.counted_units();
            assert!(few < many, "{case:?}");
        }
    }
}

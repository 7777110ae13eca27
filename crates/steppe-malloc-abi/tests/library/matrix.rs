//! Real programs print the same with the library as without, and end with the same code. Long tier only.
//!
//! Each test is a script of `testdata/programs`, which says by exit code 77 that its program is not installed. The
//! library is preloaded into the shell that runs it, so all that the script starts has it too.

use std::path::Path;
use std::process::Command;

use steppe_testkit::{heavy, is_left_to_long_tier, skip};

use crate::large_programs::same;
use crate::support::testdata;

/// Exit code of a script whose program is not installed.
const MISSING: i32 = 77;

fn same_as_without(test: &str, words: &[&str]) {
    if is_left_to_long_tier(test) {
        return;
    }
    let _one = heavy();
    let ended = same(|folder| {
        let mut command = Command::new("sh");
        let script = testdata("programs").join(words[0]);
        command.arg(script).args(&words[1..]);
        let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
        command
            .current_dir(folder)
            .env("HOME", folder)
            .env("RUSTC", rustc);
        command
    });
    if ended.code == Some(MISSING) {
        let reason = ended.errors.lines().last().unwrap_or("not installed");
        return skip(test, reason);
    }
    let ended = ended.succeeded();
    assert!(!ended.out.trim().is_empty(), "{ended:#?}");
}

macro_rules! scripts {
    ($($test:ident: $($word:literal)+;)*) => {
        $(#[test]
        fn $test() {
            same_as_without(stringify!($test), &[$($word),+]);
        })*
    };
}

scripts! {
    numpy: "numpy.sh";
    redis: "redis.sh";
    mariadb: "mariadb.sh";
    postgres: "postgres.sh";
    haproxy: "haproxy.sh";
    php: "php.sh";
    php_fpm: "php-fpm.sh";
    ruby: "ruby.sh";
    perl: "perl.sh";
    java: "java.sh";
    compilers: "compilers.sh";
    ffmpeg: "ffmpeg.sh";
    imagemagick: "imagemagick.sh";
    ripgrep_and_fd: "search.sh";
    gdb: "gdb.sh";
    valgrind: "valgrind.sh";
    loading: "loading.sh";
    chromium: "browsers.sh" "chromium";
    firefox: "browsers.sh" "firefox-esr";
    libreoffice: "libreoffice.sh";
}

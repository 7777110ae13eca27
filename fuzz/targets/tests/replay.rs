//! Replays the committed seeds of the fuzz targets, a test each, and mutated ones of `h2_connection`.
//!
//! The allocator's target has `malloc.rs`, a program of its own: here the node's global allocator would keep the
//! books from being empty.

#[path = "support/corpus.rs"]
mod corpus;
#[path = "support/mutated_connections.rs"]
mod mutated_connections;

use std::collections::BTreeSet;
use std::path::PathBuf;

use corpus::{files_in, replay};

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        /// The targets of this program.
        const REPLAYED: &[&str] = &[$(stringify!($name)),*];

        $(
            #[test]
            fn $name() {
                replay(stringify!($name), steppe_fuzz_targets::$name::run);
            }
        )*
    };
}

targets! {
    cache_control,
    certificate,
    chunked,
    client_hello,
    config,
    dns_cache,
    dns_list,
    dns_message,
    dns_over_https,
    dns_receive,
    dns_snapshot,
    file_fields,
    grpc_timeout,
    grpc_web,
    h2_client,
    h2_connection,
    h2_hpack,
    json_content,
    path,
    plane_connection,
    plane_frame,
    proxy_protocol,
    request_head,
    response_head,
    trace_context,
}

#[test]
fn every_target_is_replayed_and_every_corpus_has_a_target() {
    let mut replayed: BTreeSet<String> = REPLAYED.iter().map(|&name| name.to_owned()).collect();
    replayed.insert("malloc".to_owned());
    assert_eq!(names_in("fuzz_targets"), replayed, "programs of libFuzzer");
    assert_eq!(names_in("corpus"), replayed, "corpora");
}

/// Names without their extensions.
fn names_in(folder: &str) -> BTreeSet<String> {
    let stem = |path: PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
    let paths = files_in(folder).into_iter();
    paths
        .map(|path| stem(path).expect("a plain name"))
        .collect()
}

//! Filters that rewrite content, as seen by clients and servers on the wire: by curl over HTTP/1.1 and HTTP/2, with
//! independent decoders.

mod compress;
mod error_pages;
mod gathered;
mod giving_way;
mod pressure;
mod transform;
mod unused;

use steppe_testkit::{Curl, CurlOutput, NodeConfig, RawOrigin, Steppe};

/// The option of curl for each version of HTTP.
const VERSIONS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

/// A node whose one route has the filter `f` with these keys, in front of `origin`.
#[track_caller]
fn filtered(origin: &RawOrigin, keys: &str) -> Steppe {
    Steppe::builder()
        .with("origin", origin.address())
        .start(filtering(keys))
}

/// A configuration whose one route has the filter `f` with these keys.
#[track_caller]
fn filtering(keys: &str) -> NodeConfig {
    NodeConfig::plain()
        .protocols(["h1", "h2c"])
        .route("all", |r| r.filters(["f"]))
        .add_filter("f", |f| f.with_toml(keys))
}

/// The output of `steppe check` for a filter with these invalid keys.
#[track_caller]
fn refused(keys: &str) -> String {
    let config = NodeConfig::plain().add_filter("f", |f| f.with_toml(keys));
    let builder = Steppe::builder().with("origin", "127.0.0.1:1");
    let (status, said) = builder.run(&["check"], &config);
    assert!(!status.success(), "{keys}: {said}");
    said
}

/// The response that curl gets for `path`, with these arguments.
#[track_caller]
fn get(node: &Steppe, path: &str, args: &[&str]) -> CurlOutput {
    let curl = Curl::new(&node.url(path));
    let got = args.iter().fold(curl, |curl, arg| curl.args([*arg])).run();
    assert_eq!(got.exit, 0, "{path} {args:?}: {}", got.errors);
    got
}

/// A whole response.
fn response(fields: &str, content: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\n{fields}content-length: {}\r\n\r\n",
        content.len()
    );
    [head.as_bytes(), content].concat()
}

/// Records like those of APIs, in JSON; the same for the same seed.
fn records(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed << 1 | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    const WORDS: [&str; 8] = [
        "amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heath",
    ];
    let mut text = String::from("[");
    while text.len() < bytes {
        let word = |number: u64| WORDS[usize::try_from(number % 8).expect("below eight")];
        text += &format!(
            "{{\"id\":{},\"name\":\"{} {}\",\"active\":{},\"score\":{}.{:02},\"key\":\"{:08x}\"}},",
            next() % 100_000,
            word(next()),
            word(next()),
            next().is_multiple_of(2),
            next() % 100,
            next() % 100,
            next() & 0xffff_ffff,
        );
    }
    text += "null]";
    text.into_bytes()
}

/// Random bytes, which no coding can shorten.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

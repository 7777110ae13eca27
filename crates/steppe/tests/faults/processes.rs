//! Real servers that are killed and started again, or hang.

use steppe_testkit::heavy;

use crate::bench::{Bench, good, retries};

#[test]
fn a_server_is_killed_and_started_again() {
    let _alone = heavy();
    let mut nginx = [good(), good(), good()];
    let bench = Bench::start(&nginx.each_ref().map(|each| each.address().to_string()));
    nginx[1].kill();
    bench.wait_until_ejected(1, "connection refused");
    nginx[1].restart();
    bench.wait_until_back(1);
    let node = bench.end_without_error();
    assert!(retries(&node, "tried") >= 3.0, "it was missed");
}

#[test]
fn a_server_hangs_and_goes_on() {
    let _alone = heavy();
    let nginx = [good(), good(), good()];
    let bench = Bench::start(&nginx.each_ref().map(|each| each.address().to_string()));
    nginx[1].hang();
    bench.wait_until_ejected(1, "in time");
    nginx[1].go_on();
    bench.wait_until_back(1);
    let node = bench.end_without_error();
    assert!(retries(&node, "tried") >= 3.0, "it was missed");
}

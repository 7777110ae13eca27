//! Two ends against each other in random steps, with their bytes split and delayed at random: neither is
//! dismissed, bodies arrive as they were sent, and all credit is returned.

use std::time::Duration;

use proptest::prelude::*;
use steppe_plane::frame::{Payment, Service};
use steppe_plane::{Processing, Status};

use crate::support::{Newer, World};

#[derive(Debug, Clone)]
enum Step {
    Open(Payment, Option<u64>),
    Respond(usize, Payment),
    Send(usize, usize),
    End(usize, Status),
    Stop(usize),
    Reset(usize, Processing),
    Grant(usize, usize),
    Release,
    Carry(usize),
    Depart(usize),
    Arrive(usize),
    Wait(u64),
    Register,
    Drain,
}

fn payment() -> impl Strategy<Value = Payment> {
    prop_oneof![Just(Payment::Standing), Just(Payment::Granted)]
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![
        Just(0_usize),
        1..200_usize,
        Just(65_536_usize),
        60_000..300_000_usize,
    ];
    let status = prop_oneof![Just(Status::Ok), Just(Status::Internal)];
    let processing = prop_oneof![Just(Processing::None), Just(Processing::Begun)];
    let grant = prop_oneof![1..100_usize, 4000..400_000_usize];
    prop_oneof![
        6 => (payment(), prop::option::of(1..50_u64)).prop_map(|(a, b)| Step::Open(a, b)),
        4 => (any::<usize>(), payment()).prop_map(|(a, b)| Step::Respond(a, b)),
        12 => (any::<usize>(), len).prop_map(|(a, b)| Step::Send(a, b)),
        3 => (any::<usize>(), status).prop_map(|(a, b)| Step::End(a, b)),
        1 => any::<usize>().prop_map(Step::Stop),
        2 => (any::<usize>(), processing).prop_map(|(a, b)| Step::Reset(a, b)),
        8 => (any::<usize>(), grant).prop_map(|(a, b)| Step::Grant(a, b)),
        4 => Just(Step::Release),
        20 => prop_oneof![1..100_usize, 1..100_000_usize].prop_map(Step::Carry),
        8 => prop_oneof![1..100_usize, 1..100_000_usize].prop_map(Step::Depart),
        8 => prop_oneof![1..100_usize, 1..100_000_usize].prop_map(Step::Arrive),
        1 => (0..10_u64).prop_map(Step::Wait),
        1 => Just(Step::Register),
    ]
}

fn run(steps: &[(usize, Step)], newer: Option<Newer>) {
    let mut world = World::connected(newer);
    for (end, step) in steps {
        let now = world.now;
        let side = &mut world.ends[*end];
        let pick = |index: &usize| side.pick(*index);
        match step {
            Step::Open(payment, millis) => {
                side.open(*payment, millis.map(Duration::from_millis), now);
            }
            Step::Respond(index, payment) => {
                if let Some(stream) = pick(index) {
                    side.respond(stream, *payment);
                }
            }
            Step::Send(index, len) => {
                if let Some(stream) = pick(index) {
                    side.send(stream, *len);
                }
            }
            Step::End(index, status) => {
                if let Some(stream) = pick(index) {
                    side.end(stream, *status);
                }
            }
            Step::Stop(index) => {
                if let Some(stream) = pick(index) {
                    side.stop(stream);
                }
            }
            Step::Reset(index, processing) => {
                if let Some(stream) = pick(index) {
                    side.reset(stream, *processing);
                }
            }
            Step::Grant(index, bytes) => {
                if let Some(stream) = pick(index) {
                    side.grant(stream, *bytes);
                }
            }
            Step::Release => _ = side.release(),
            Step::Carry(max) => _ = world.carry(*end, *max),
            Step::Depart(max) => _ = world.depart(*end, *max),
            Step::Arrive(max) => _ = world.arrive(*end, *max),
            Step::Wait(millis) => world.now += Duration::from_millis(*millis),
            Step::Register => {
                let service = Service {
                    name: "service",
                    calls_max: Some(1),
                };
                side.connection.register(&[service]).expect("it fits");
            }
            Step::Drain => side.connection.drain(),
        }
    }
    world.settle();
    world.compare();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn all_credit_comes_back(steps in prop::collection::vec((0..2_usize, step()), 1..200)) {
        run(&steps, None);
    }

    #[test]
    fn a_newer_peer_is_understood(steps in prop::collection::vec((0..2_usize, step()), 1..100)) {
        run(&steps, Some(Newer::default()));
    }

    #[test]
    fn whoever_drains_finishes_first(
        before in prop::collection::vec((0..2_usize, step()), 1..60),
        end in 0..2_usize,
        after in prop::collection::vec((0..2_usize, step()), 1..60),
    ) {
        let steps = [&before[..], &[(end, Step::Drain)], &after].concat();
        run(&steps, None);
    }
}

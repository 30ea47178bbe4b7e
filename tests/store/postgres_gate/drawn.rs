//! Worlds that are drawn: what is asked, which statement is next, and what breaks between statements.

use retrial::store::{Commit, Request};

use super::turns::{Choice, Next};
use super::world::World;
use crate::postgres_faults::seed::Seed;
use crate::store_model::script::{Op, Script};

const STORES: usize = 3;
const ROUNDS: u64 = 14;
/// Worlds of each test.
const WORLDS: u64 = 12;

/// What may break.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    Nothing,
    Connections,
    /// Once in each world.
    Server,
}

/// The store that is asked: each writer has its own.
fn place_of(request: &Request) -> usize {
    let writer = match request {
        Request::Claim(claim) => claim.id.writer,
        Request::Commit(commit) => commit.id.writer,
        _ => STORES as u64 - 1,
    };
    writer as usize
}

/// Without guards: which of the tasks they let through depends on what others have locked.
fn without_guards(request: Request) -> Request {
    match request {
        Request::Commit(commit) => Request::Commit(Commit { guards: vec![], ..commit }),
        other => other,
    }
}

async fn live(world: &mut World, mut seed: Seed, trouble: Trouble) {
    world.begin_again().await;
    let mut script = Script::default();
    let crash_in = seed.below(ROUNDS);
    for round in 0..ROUNDS {
        let mut requests: Vec<(usize, Request)> = Vec::new();
        for _ in 0..=seed.below(8) {
            let request = without_guards(script.call(Op::drawn(|limit| seed.below(limit))));
            let place = place_of(&request);
            if requests.iter().all(|(taken, _)| *taken != place) {
                requests.push((place, request));
            }
        }
        let mut crashes = trouble == Trouble::Server && round == crash_in;
        let choose = |choices: &[Choice]| {
            let place = seed.below(choices.len() as u64) as usize;
            let is_last = choices[place].waiting.text == "COMMIT";
            match seed.below(60) {
                0..=3 => Next::Tick,
                4 | 5 if trouble == Trouble::Connections => Next::Cut(place),
                6 | 7 if trouble == Trouble::Connections => Next::LoseAnswer(place),
                // What is lost with this one is known to nobody.
                30..=41 if trouble == Trouble::Connections && is_last => Next::LoseAnswer(place),
                8..=20 if crashes => {
                    crashes = false;
                    Next::Crash
                }
                _ => Next::Release(place),
            }
        };
        for (_, request, answer) in world.ask_together(requests, choose).await {
            script.saw(&request, &answer);
        }
        world.turn(1_000 * seed.below(60)).await;
        let place = seed.below(STORES as u64) as usize;
        world.ask(place, Request::Leases { after: None, limit: 9 }).await;
        world.ask(place, Request::Expired { limit: 9 }).await;
    }
    for request in Script::everything() {
        for place in 0..STORES {
            world.ask(place, request.clone()).await;
        }
    }
}

async fn live_many(worlds: u64, trouble: Trouble) {
    let mut seed = Seed::drawn();
    let mut world = World::of(STORES).await;
    for _ in 0..worlds {
        let of_world = seed.draw();
        println!("a world from {of_world}");
        live(&mut world, Seed::of(of_world), trouble).await;
    }
    let each = world.statements / worlds;
    let troubles = world.troubles;
    println!("{each} statements of a world were let go one at a time, and {troubles} things broke");
    assert!(each > 50, "hardly a statement waited");
    assert_eq!(troubles > 0, trouble != Trouble::Nothing, "{troubles} things broke");
}

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_any_order_of_statements_is_as_one_request_after_the_other() {
    live_many(WORLDS, Trouble::Nothing).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_connections_break_between_any_two_statements() {
    live_many(WORLDS, Trouble::Connections).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_the_server_crashes_between_any_two_statements() {
    live_many(WORLDS / 5, Trouble::Server).await;
}

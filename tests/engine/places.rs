//! The places of a node: no action takes them all (X15).

use retrial::action::Call;
use retrial::engine::Config;
use retrial::run::Outcome;
use retrial::workflow::Step;
use serde_json::json;

use crate::kit::*;

/// Steps of two actions: those of `sick` hang.
fn acts() -> Acts {
    Acts::new(|call: Call| async move {
        if call.name == "sick" {
            return std::future::pending().await;
        }
        pass(10).await;
        Ok(json!("well"))
    })
}

fn of(action: &str) -> Step {
    Step { action: action.to_owned(), ..step("a", patient(1), &[], json!({})) }
}

fn hanging(acts: &Acts) -> usize {
    acts.calls().iter().filter(|call| call.name == "sick").count()
}

// X15: seventy runs whose action hangs take three quarters of the places, and the others go on.
#[tokio::test(start_paused = true)]
async fn x15_one_sick_action_never_takes_all_places() {
    let acts = acts();
    let engine = alone(&acts, Config { concurrency: 8, ..Config::default() }).await;
    for _ in 0..70 {
        submit(&engine, workflow(vec![of("sick")])).await;
    }
    pass(5_000).await;
    assert_eq!(hanging(&acts), 6);
    for _ in 0..20 {
        let run = submit(&engine, workflow(vec![of("well")])).await;
        pass(100).await;
        let ended = engine.state(run).await.unwrap();
        assert_eq!(ended.outcome(), Some(&Outcome::Completed));
    }
    assert_eq!(hanging(&acts), 6);
}

// X15: a place that an action gives back is for its next task at once.
#[tokio::test(start_paused = true)]
async fn x15_a_place_given_back_is_taken_at_once() {
    let acts = Acts::new(|_| async {
        pass(100).await;
        Ok(json!("done"))
    });
    let config = Config { concurrency: 4, ..Config::default() };
    let engine = alone(&acts, Config { poll: SECOND.saturating_mul(60), ..config }).await;
    let begun = tokio::time::Instant::now();
    let run = submit(&engine, fan_out(30, patient(1))).await;
    let ended = soon(engine.outcome(run)).await.unwrap();
    assert_eq!((ended.outcome, acts.most()), (Outcome::Completed, 3));
    // Thirty tasks, three at a time.
    let took = begun.elapsed().as_millis();
    assert!((1_000..1_500).contains(&took), "{took}");
}

// X15: the share is a setting, is never less than one place, and is all for what is alone.
#[tokio::test(start_paused = true)]
async fn x15_the_share_is_a_setting() {
    for (concurrency, action_share, most) in
        [(1, 75, 1), (2, 75, 1), (3, 75, 2), (4, 25, 1), (4, 1, 1), (4, 100, 4), (8, 50, 4)]
    {
        let acts = acts();
        let config = Config { concurrency, action_share, ..Config::default() };
        let engine = alone(&acts, config).await;
        for _ in 0..10 {
            submit(&engine, workflow(vec![of("sick")])).await;
        }
        pass(5_000).await;
        assert_eq!(hanging(&acts), most, "{action_share} % of {concurrency}");
    }
}

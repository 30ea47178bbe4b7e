//! Each part of the model in a case small enough to compute by hand.

use retrial_core::time::Nanos;
use retrial_lab::measure::Bucket;

use super::kit::run;

/// One client's burst of `tasks` at the start, and a service; what each says besides.
fn burst(tasks: u32, client: &str, service: &str, triggers: &str) -> Bucket {
    run(&format!(
        "length = \"100s\"\n[clients.c]\narrivals = {{ burst = {tasks} }}\nto = \"s\"\n{client}\n[services.s]\n{service}\n{triggers}\n"
    ))
    .total
}

fn trigger(kind: &str, at: &str, length: &str, more: &str) -> String {
    format!(
        "[[triggers]]\nkind = \"{kind}\"\non = \"s\"\nat = \"{at}\"\nlength = \"{length}\"\n{more}"
    )
}

fn mean(bucket: &Bucket) -> Nanos {
    bucket.classes[0].latency.mean()
}

const ONE: &str = "workers = 1\ntime = \"10s\"";
const MANY: &str = "workers = 1000\ntime = \"10s\"";

#[test]
fn latency_is_messages_wait_and_work() {
    // Three on one worker end after 10, 20 and 30 s, and each message takes 1 s.
    let seen = burst(3, "latency = \"1s\"", ONE, "");
    assert_eq!((mean(&seen), seen.services[0].longest), (Nanos::from_secs(22), 2));
    assert_eq!(seen.services[0].waited as u64, Nanos::from_secs(30).get());
    assert_eq!(seen.services[0].busy as u64, Nanos::from_secs(30).get());
}

#[test]
fn a_pause_stops_what_is_worked_on_and_goes_on_where_it_was() {
    let seen = burst(1, "", ONE, &trigger("pause", "4s", "5s", ""));
    assert_eq!(mean(&seen), Nanos::from_secs(15));
    // Two pauses at once end with the later one.
    let both = [trigger("pause", "4s", "5s", ""), trigger("pause", "6s", "10s", "")].concat();
    assert_eq!(mean(&burst(1, "", ONE, &both)), Nanos::from_secs(22));
}

#[test]
fn a_crash_loses_what_is_there_and_refuses_what_comes() {
    // Lost at 4 s; refused at 5 s; done 10 s after the retry at 7 s.
    let client = "retry = \"[retry: 5, backoff: 1s]\"";
    let seen = burst(1, client, ONE, &trigger("crash", "4s", "2500ms", ""));
    assert_eq!((mean(&seen), seen.edges[0].attempts), (Nanos::from_secs(17), 3));
    // A cold start: three times as long at first, at the half of its time twice.
    let cold = format!("{ONE}\ncold = {{ factor = 3, length = \"1s\" }}");
    let seen = burst(1, client, &cold, &trigger("crash", "4s", "2500ms", ""));
    assert_eq!(mean(&seen), Nanos::from_secs(27));
}

#[test]
fn a_deploy_restarts_one_part_after_the_other() {
    // Four in work on four workers, in two parts: each loses two, at 2 s and at 4 s. One that comes
    // later, to a part that is back, stays.
    let four = "workers = 4\ntime = \"10s\"";
    let deploy = trigger("deploy", "2s", "4s", "parts = 2");
    let seen = burst(4, "retry = \"[retry: 1, backoff: 5s]\"", four, &deploy);
    assert_eq!((seen.good(), seen.edges[0].attempts), (4, 8));
    assert_eq!(mean(&seen), Nanos::from_secs(18), "half of them at 17 s, half at 19 s");
}

#[test]
fn capacity_slowness_and_errors_hold_while_their_trigger_does() {
    // With half of two workers the second waits until the whole is back at 6 s.
    let two = "workers = 2\ntime = \"10s\"";
    let seen = burst(2, "latency = \"1s\"", two, &trigger("capacity", "0s", "6s", "share = 0.5"));
    assert_eq!(mean(&seen), Nanos::new(Nanos::from_secs(12 + 17).get() / 2));
    let seen = burst(1, "latency = \"1s\"", ONE, &trigger("slow", "0s", "6s", "factor = 3"));
    assert_eq!(mean(&seen), Nanos::from_secs(32));
    let client = "retry = \"[retry: 9, backoff: 1s]\"";
    let quick = "workers = 1\ntime = \"0s\"";
    let seen = burst(1, client, quick, &trigger("errors", "0s", "6s", "share = 1"));
    // Attempts at 0, 1, 3 and 7 s: the delays double.
    assert_eq!((seen.good(), mean(&seen), seen.edges[0].attempts), (1, Nanos::from_secs(7), 4));
}

#[test]
fn queues_are_bounded_in_length_and_time() {
    let seen = burst(5, "", &format!("{ONE}\nqueue = {{ capacity = 2 }}"), "");
    assert_eq!((seen.good(), seen.bad(), seen.services[0].rejected), (3, 2, 2));
    let seen = burst(5, "", &format!("{ONE}\nqueue = {{ timeout = \"15s\" }}"), "");
    assert_eq!((seen.good(), seen.bad()), (2, 3));
    // Where nobody answers a caller, only its timeout tells it.
    let full = format!("{ONE}\nqueue = {{ capacity = 2, full = \"drop\" }}");
    let seen = burst(5, "retry = \"[retry: 1, backoff: 5s] [timeout: 40s]\"", &full, "");
    assert_eq!((seen.good(), seen.services[0].rejected, seen.edges[0].timeouts), (5, 2, 2));
    assert_eq!(seen.latency().most(), Nanos::from_secs(65), "40 s, 5 s and two others' work");
}

#[test]
fn the_last_comes_first_in_a_lifo_queue_and_in_an_adaptive_one_while_it_is_long() {
    // Twice as many come as can be done. The last that came is done in time, the first that came is not.
    let done = |order: &str| {
        let text = format!(
            "length = \"100s\"\n[clients.c]\narrivals = {{ constant = 1 }}\nto = \"s\"\nretry = \"[timeout: 3500ms]\"\n\
             [services.s]\nworkers = 1\ntime = \"2s\"\n{order}\n"
        );
        run(&text).total.good()
    };
    let (fifo, lifo) = (done(""), done("queue = { order = \"lifo\" }"));
    let adaptive =
        |over: u32| done(&format!("queue = {{ order = \"adaptive_lifo\", lifo_over = {over} }}"));
    assert!(fifo <= 4 && lifo > 40, "{fifo} and {lifo}");
    assert_eq!((adaptive(0), adaptive(1_000)), (lifo, fifo));
}

#[test]
fn work_for_nobody_is_done_or_left() {
    let client = "retry = \"[timeout: 5s]\"";
    let seen = burst(4, client, ONE, "").services[0].clone();
    assert_eq!((seen.wasted, seen.skipped), (4, 0));
    let seen = burst(4, client, &format!("{ONE}\nwork_for_gone = false"), "").services[0].clone();
    assert_eq!((seen.wasted, seen.skipped), (1, 3));
}

#[test]
fn a_service_slows_down_with_what_is_in_flight() {
    // The third and the fourth add a half each, to themselves: 10, 10, 15 and 20 s.
    let seen = burst(4, "", &format!("{MANY}\nslower = {{ from = 2, by = 0.5 }}"), "");
    assert_eq!(mean(&seen), Nanos::new(Nanos::from_secs(55).get() / 4));
}

#[test]
fn a_rate_limit_says_when_to_come_again() {
    // Two at once, then one each 5 s. Those who come again too soon need a second retry.
    let limit = "workers = 9\ntime = \"0s\"\nrate_limit = { calls = 2, per = \"10s\" }";
    let client = "retry = \"[retry: 9]\"";
    let seen = burst(4, client, limit, "");
    assert_eq!((seen.good(), seen.services[0].throttled), (4, 3));
    let seen = burst(4, client, &format!("{limit}\nretry_after = false"), "");
    assert_eq!(seen.good(), 2, "retries at once are throttled at once");
}

#[test]
fn clients_wait_for_their_own_and_do_what_they_are_told_after_a_failure() {
    let seen = burst(3, "tasks_per_client = 1", MANY, "");
    assert_eq!(mean(&seen), Nanos::from_secs(20), "from the intended start");
    let failing = "workers = 9\ntime = \"0s\"\nerrors = [[\"0s\", 1], [\"9s\", 0]]";
    let seen = burst(2, "give_up = { again = \"4s\" }", failing, "");
    assert_eq!(
        (seen.good(), seen.classes[0].begun_anew, mean(&seen)),
        (2, 6, Nanos::from_secs(12))
    );
    // Each failure is tried again in a quarter of cases: the sum of (0.8 / 4)^k calls for each task.
    let share = "give_up = { again = \"1s\", share = 0.25 }";
    let seen = burst(20_000, share, "workers = 9\ntime = \"0s\"\nerrors = 0.8", "");
    let calls = seen.services[0].arrived as f64 / 20_000.0;
    assert!((calls / 1.25 - 1.0).abs() < 0.01, "{calls}");
    let seen = burst(2, "give_up = \"dead_letter\"", failing, "");
    assert_eq!((seen.classes[0].failed, seen.classes[0].dead_letters), (2, 2));
    let closed = |more: &str| {
        run(&format!(
            "length = \"100s\"\n[clients.c]\ncount = 3\narrivals = {{ closed = \"4s\" }}\nto = \"s\"\n{more}\n[services.s]\n{failing}\n"
        ))
        .total
    };
    assert_eq!((closed("").offered(), closed("give_up = \"leave\"").offered()), (3 * 24, 3));
    let late = burst(3, "deadline = \"15s\"", ONE, "");
    assert_eq!((late.good(), late.classes[0].late), (1, 2));
}

#[test]
fn messages_are_lost_both_ways_and_timeouts_notice() {
    let text = |loss: f64| {
        format!(
            "length = \"1000s\"\n[clients.c]\narrivals = {{ constant = 50 }}\nto = \"s\"\nloss = {loss}\nretry = \"[timeout: 1s]\"\n\
             [services.s]\nworkers = 9\ntime = \"0s\"\n"
        )
    };
    let total = run(&text(0.1)).total;
    let (arrived, good) = (total.services[0].arrived as f64, total.good() as f64);
    assert!((arrived / 50_000.0 - 0.9).abs() < 0.01 && (good / 50_000.0 - 0.81).abs() < 0.01);
    assert!(total.edges[0].timeouts.abs_diff(total.bad()) < 60);
}

#[test]
fn a_row_is_written_in_one_transaction_or_read_first() {
    // Of three transactions at once the first to end wins, and the retries of the others follow.
    let service = "workers = 9\ntime = \"1s\"\nrow = \"transaction\"";
    let seen = burst(3, "retry = \"[retry: 9]\"", service, "");
    assert_eq!((seen.good(), seen.services[0].conflicts, mean(&seen)), (3, 3, Nanos::from_secs(2)));
    let service = service.replace("transaction", "read_then_write");
    let seen = burst(3, "retry = \"[retry: 9]\"", &service, "");
    // Each try reads for a second and writes for a second.
    assert_eq!((seen.good(), seen.services[0].arrived, mean(&seen)), (3, 12, Nanos::from_secs(4)));
}

#[test]
fn a_worker_waits_for_what_its_request_calls_or_goes_on() {
    let took = |holds: bool| {
        let text = format!(
            "length = \"100s\"\n[clients.c]\narrivals = {{ burst = 2 }}\nto = \"a\"\n\
             [services.a]\nworkers = 1\ntime = \"1s\"\nholds_worker = {holds}\ncalls = [{{ to = \"b\" }}]\n\
             [services.b]\nworkers = 9\ntime = \"10s\"\n"
        );
        run(&text).total.classes[0].latency.mean()
    };
    assert_eq!(took(true), Nanos::new(Nanos::from_secs(11 + 22).get() / 2));
    assert_eq!(took(false), Nanos::new(Nanos::from_secs(11 + 12).get() / 2));
}

#[test]
fn guards_hold_calls_until_they_may_start() {
    let seen = burst(3, "concurrency = 1", MANY, "");
    assert_eq!((mean(&seen), seen.edges[0].held), (Nanos::from_secs(20), 2));
    let seen = burst(3, "rate = { calls = 1, per = \"30s\" }", MANY, "");
    assert_eq!(mean(&seen), Nanos::from_secs(40), "0, 30 and 60 s later");
}

/// A map's cells stay within the limits, and have the same time to recover.
#[test]
fn more_load_and_longer_triggers_stay_within_bounds() {
    let text = "length = \"100s\"\n[clients.c]\ncount = 9\narrivals = { closed = \"1s\" }\nto = \"s\"\n\
                [services.s]\nworkers = 1\ntime = \"1s\"\n";
    let text = format!("{text}{}", trigger("pause", "10s", "5s", ""));
    let model = super::kit::scenario(&text);
    assert_eq!(model.clone().with_load(2.0).classes[0].count, 18);
    assert_eq!(model.clone().with_load(1e9).classes[0].count, 1_000_000);
    let longer = model.clone().with_trigger(3.0);
    assert_eq!(
        (longer.length, longer.last_trigger_end().unwrap()),
        (Nanos::from_secs(110), Nanos::from_secs(25))
    );
    let none = model.with_trigger(0.0);
    assert_eq!((none.length, none.triggers.len()), (Nanos::from_secs(100), 0));
}

#[test]
fn tokens_come_back_with_time() {
    // Most looks come after less than a millionth of a token has.
    let text = "length = \"20s\"\n[clients.c]\narrivals = { poisson = 20000 }\nto = \"s\"\nretry = \"[retry: 1]\"\n\
                tokens = { capacity = 1, initial = 0, per_retry = 0.001, per_second = 0.01 }\n\
                [services.s]\nworkers = 9\ntime = \"0s\"\nerrors = 1\n";
    let edge = &run(text).total.edges[0];
    assert!((edge.attempts - edge.calls).abs_diff(200) <= 1, "{}", edge.attempts - edge.calls);
}

#[test]
fn classes_with_policies_of_their_own_share_a_service() {
    // The first request of each second fails; the one that retries comes back within it.
    let text = "length = \"99500ms\"\n\
                [clients.patient]\narrivals = { constant = 1 }\nto = \"s\"\nretry = \"[retry: 1, backoff: 500ms]\"\n\
                [clients.hasty]\narrivals = { constant = 1 }\nto = \"s\"\n\
                [services.s]\nworkers = 2\ntime = \"0s\"\nrate_limit = { calls = 1, per = \"400ms\" }\nretry_after = false\n";
    let total = run(text).total;
    let done: Vec<_> = total.classes.iter().map(|class| (class.good, class.failed)).collect();
    assert_eq!(total.services[0].arrived, total.edges[0].attempts + total.edges[1].attempts);
    assert_eq!((total.edges[0].attempts, total.edges[1].attempts), (99, 99), "{done:?}");
    assert_eq!(done, [(99, 0), (0, 99)]);
}

//! What `retrial-sim` prints of a scenario file that is wrong.

use super::cli_run::{CALM, THRICE, folder_with, run, run_in, scenario};

/// What is printed of a scenario file that makes no sense, for a sweep and for one seed alike.
fn refused(name: &str, text: &str) -> String {
    let folder = folder_with(name, text);
    let swept = run_in(folder.path(), &format!("run --seeds 2 --scenario {name}"));
    let alone = run_in(folder.path(), &format!("repro 1 --scenario {name}"));
    assert_eq!((swept.code, alone.code), (2, 2), "{swept:?}");
    assert_eq!((&swept.err, swept.out.as_str()), (&alone.err, ""));
    swept.err
}

#[test]
fn a_bad_scenario_ends_with_2_and_names_file_line_and_field() {
    let all = [
        scenario("retry = \"[retry: -2]\"", CALM),
        scenario("retries = 3", CALM),
        scenario("after = [\"nothing\"]", CALM),
        scenario(THRICE, "node = 2"),
        scenario(THRICE, "nodes = 4"),
        scenario(THRICE, "runs = 0"),
        scenario(THRICE, "runs = \"many\""),
        scenario(THRICE, "nodes = 2\nfaults = [\"eio\", \"flood\"]"),
        scenario(THRICE, "heal_after_ms = -1"),
        scenario(THRICE, "endpoints.refund.replies = []"),
        scenario(THRICE, "[simulate.endpoints.charge]\nreply = []"),
        scenario(THRICE, "[simulate.endpoints.charge]\nreplies = [\n\"ok\",\n\"fine\"]"),
        scenario(THRICE, "[simulate.endpoints.charge]\nthen = { status = { cod = 503 } }"),
        "workflow = \"pay".to_owned(),
    ];
    let told: Vec<String> = all.iter().map(|text| refused("pay.toml", text)).collect();
    insta::assert_snapshot!(told.concat(), @r#"
     x `retry` must be a whole number, found `-2`
       ,-[pay.toml:10:18]
    10 | retry = "[retry: -2]"
       :                  ^|
       :                   `-- steps.0.retry
       `----
     help: use 0 to 4294967294
     x unknown key `retries`
       ,-[pay.toml:10:1]
    10 | retries = 3
       : ^^^|^^^
       :    `-- steps.0.retries
       `----
     help: use id, action, args, after, join, for_each, success, fail_fast, goal, requires, ensures, compensates, heartbeat_timeout, retry, work_config, execution, retry_config, preset
     x there is no step `nothing`
       ,-[pay.toml:10:10]
    10 | after = ["nothing"]
       :          ^^^^|^^^^
       :              `-- steps.0.after.0
       `----
     help: there is `charge`
     x unknown field `node`, expected one of `nodes`, `runs`, `faults`, `heal_after_ms`, `endpoints_heal`, `endpoints`
       ,-[pay.toml:13:1]
    13 | node = 2
       : ^^|^
       :   `-- simulate.node
       `----
     x `nodes` must be 1, 2 or 3
       ,-[pay.toml:13:9]
    13 | nodes = 4
       :         |
       :         `-- simulate.nodes
       `----
     x `runs` must be 1 to 100
       ,-[pay.toml:13:8]
    13 | runs = 0
       :        |
       :        `-- simulate.runs
       `----
     x invalid type: string "many", expected u32
       ,-[pay.toml:13:8]
    13 | runs = "many"
       :        ^^^|^^
       :           `-- simulate.runs
       `----
     x unknown variant `flood`, expected one of `crash`, `pause`, `slow_node`, `shutdown`, `refuse`, `connect_hang`, `reset`, `stall`, `cut`, `delay`, `partition`, `one_way`, `loss`, `server_error`, `client_error`, `rate_limit`, `slow_stream`, `malformed`, `endpoint_hang`, `poison`, `late_success`, `torn_write`, `lost_write`, `eio`, `disk_full`, `slow_sync`, `bit_rot`, `skew`, `jump`, `drift`, `store_request_lost`, `store_answer_lost`, `store_duplicate`
       ,-[pay.toml:14:10]
    14 | faults = ["eio", "flood"]
       :          ^^^^^^^^|^^^^^^^
       :                  `-- simulate.faults
       `----
     x invalid value: integer `-1`, expected u64
       ,-[pay.toml:13:17]
    13 | heal_after_ms = -1
       :                 ^|
       :                  `-- simulate.heal_after_ms
       `----
     x no action has the name `refund`
       ,-[pay.toml:13:11]
    13 | endpoints.refund.replies = []
       :           ^^^|^^
       :              `-- simulate.endpoints.refund
       `----
     x unknown field `reply`, expected `replies` or `then`
       ,-[pay.toml:13:21]
    13 | [simulate.endpoints.charge]
       :                     ^^^|^^
       :                        `-- simulate.endpoints.charge
       `----
     x invalid type: unit variant, expected newtype variant
       ,-[pay.toml:15:1]
    15 | "ok",
       : ^^|^
       :   `-- simulate.endpoints.charge.replies.0
       `----
     x unknown field `cod`, expected one of `code`, `retry_after`, `body`
       ,-[pay.toml:14:8]
    14 | then = { status = { cod = 503 } }
       :        ^^^^^^^^^^^^^|^^^^^^^^^^^^
       :                     `-- simulate.endpoints.charge.then
       `----
     x invalid basic string, expected `"`
      ,-[pay.toml:1:15]
    1 | workflow = "pay
      :               |
      :               `-- here
      `----
     help: the text is read as TOML
    "#);
    assert!(run("run --scenario nowhere.toml").err.starts_with("error: nowhere.toml: "));
    assert_eq!(run("run --scenario nowhere.toml").code, 2);
}

//! A policy in any dialect, as a line of a step.

use super::Dice;

const IR: &[&str] = &[
    "[retry: 0]",
    "[retry: 2]",
    "[retry: 3, backoff: 1s]",
    "[5xx -> retry: 4, backoff: 200ms] [429 -> retry: 2, backoff: 2s]",
    "[(TimeoutError, NetworkError) -> retry: 3, backoff: 500ms] [retry: 1]",
    "[retry: 5, backoff: 300ms] [timeout: 2s]",
    "[CardError -> retry: 1] [503 -> retry: 3] [timeout: 5s, max_retry_after: 2s]",
    "[retry: 3, backoff: 1s] [counting: per_rule]",
    "[5xx -> retry: 2] [RetryLater -> retry: 3, backoff: 1s] [counting: per_rule, total_attempts: 4]",
    "[retry: 2, backoff: 2h]",
    "[POSTCONDITION_FAILED -> retry: 4, backoff: 1s] [LEASE_LOST -> retry: 2] [retry: 1]",
    "[retry: 6, backoff: 1s] [total_timeout: 8s, at_deadline: truncate]",
    "[retry: 6, backoff: 1s] [total_timeout: 8s, timeout: 1s, timeout_retries: 1]",
    "[(BAD_RESPONSE, WORK_FAILED, 4xx) -> retry: 2] [retry_unknown_outcome: true]",
];

const TABLES: &[&str] = &[
    "work_config = { max_retries = 3, backoff = 100 }",
    "work_config = { max_retries = 4, backoff = 200, backoff_type = \"exponential\", max_backoff = 900, jitter = \"full\" }",
    "work_config = { max_retries = 4, backoff = 200, backoff_type = \"linear\", backoff_step = 50, jitter = \"equal\" }",
    "work_config = { max_retries = 5, backoff = 50, jitter = \"decorrelated\", max_backoff = 2000, retryable_errors = [\"429\", \"BUSY\", \"5xx\"] }",
    "work_config = { max_retries = 3, delays = [0, 500, 100], attempt_timeout = 2 }",
    "work_config = { max_retries = 3, backoff_type = \"polynomial\", backoff = 20, backoff_degree = 3, retry_budget = 0.2 }",
    "execution = { retry_policy = { max_attempts = 3, backoff = \"exponential\", initial_delay_ms = 100 } }",
    "execution = { timeout_ms = 3000, retry_policy = { max_attempts = 4, delays_ms = [100, 500] } }",
    "retry_config = { max_attempts = 3, initial_delay = 0.5, backoff_strategy = \"exponential\" }",
    "retry_config = { max_attempts = 4, initial_delay = 0.1, backoff_strategy = \"fibonacci\", jitter = true, retry_timeout = 20 }",
    "preset = \"aws-standard-2.1\"",
    "preset = \"google-sre\"",
    "preset = { name = \"google-sre\", attempt_timeout = 2 }",
    "preset = \"none\"",
];

const UNLIMITED: &str = "work_config = { max_retries = -1, backoff = 300, jitter = \"full\" }";

/// `may_end` says that whatever is tried often enough succeeds.
pub(super) fn policy(dice: &mut Dice, may_end: bool) -> String {
    match dice.below(20) {
        0 if may_end => UNLIMITED.to_owned(),
        0 | 1 => String::new(),
        2..=11 => format!("retry = \"{}\"", dice.pick(IR)),
        _ => dice.pick(TABLES).to_owned(),
    }
}

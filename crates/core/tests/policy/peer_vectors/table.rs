//! The outcome of each entry.

use retrial_core::policy::Jitter;

use super::{Entry, checks, decisions, share};

/// How an entry is checked.
pub(crate) enum How {
    /// Our delays without jitter are the peer's, and we give up where it does.
    Same,
    /// The same but for the peer's own jitter, whose range begins at our delay.
    FromOurs,
    /// The peer's delays, drawn by its own chance, lie in our range with this jitter.
    Within(Jitter),
    /// The peer's ranges are ours with this jitter.
    Range(Jitter),
    /// In its own way.
    By(fn(&Entry)),
    /// A decision of the specification contradicts some of it; the check holds the rest, and ours.
    Against(&'static str, fn(&Entry)),
    /// Not checked here.
    Apart(&'static str),
}

use How::{Against, Apart, By, FromOurs, Range, Same, Within};

impl How {
    /// Whether there was anything to check.
    pub(crate) fn check(&self, entry: &Entry) -> bool {
        match self {
            Self::Same => checks::same(entry),
            Self::FromOurs => checks::from_ours(entry),
            Self::Within(jitter) => checks::within(entry, *jitter),
            Self::Range(jitter) => checks::range(entry, *jitter),
            Self::By(check) => check(entry),
            Self::Against(decision, check) => {
                assert!(!decision.is_empty());
                check(entry);
            }
            Self::Apart(_) => return false,
        }
        true
    }
}

fn fifth() -> Jitter {
    Jitter::Proportional(share(0.2))
}

pub(crate) static TABLE: [(usize, &str, How); 79] = [
    (0, "WithMaximumInterval capped", Within(Jitter::Equal)),
    (1, "nextBackoffInterval", Apart("a server's own delay, without numbers; Decision 7 is ours")),
    (2, "Test_nextBackoffInterval", Against("W8: no attempt -1", decisions::temporal_decisions)),
    (3, "TestExponentialBackoff", Same),
    (4, "TestConditionalRetryPolicy", By(decisions::conditional_on_error)),
    (5, "TestExponentialBackoffOverflow", Against("Decision 4: u64, not i64", checks::overflow)),
    (6, "TestDefaultPublishRetryPolicy", Against("Decision 8, X5", decisions::publish_policy)),
    (7, "ExampleExponentialRetryPolicy", Within(Jitter::Equal)),
    (8, "TestErrorDependentPolicy", By(decisions::error_dependent)),
    (9, "DefaultDefaultRetrySettings", Apart("defaults and what is refused at load; no delays")),
    (
        10,
        "delay_calculation_does_not_overflow",
        Against("Decision 4: at most 584 years", checks::cap_of_a_thousand_years),
    ),
    (11, "explicit_delay_is_used", By(decisions::explicit_delay)),
    (12, "Constant_Jitter_Ok", By(checks::drawn_by_rand)),
    (13, "Linear_Ok", Same),
    (14, "MaxDelay_Ok", Against("Decision 4: the cap comes first", checks::cap_of_every_shape)),
    (15, "Linear_Jitter_Ok", By(checks::drawn_by_rand)),
    (16, "Is_Positive_When_No_Maximum", Apart("Polly's own formula (v2), without numbers")),
    (
        17,
        "DecorrelatedJitterBackoffV2",
        Against("Decision 4: [base, 3 x previous]", checks::other_decorrelated),
    ),
    (
        18,
        "DecorrelatedJitterBackoffV2",
        Against("Decision 4: [base, 3 x previous]", checks::other_decorrelated),
    ),
    (19, "LinearBackoffSpecs", By(checks::linear_with_its_own_step)),
    (20, "AwsDecorrelatedJitterBackoffSpecs", By(checks::decorrelated_within_min_and_max)),
    (21, "generatesRandomizedIntervals", By(checks::constant_within_half)),
    (22, "exponential.go NextBackOff", Apart("defaults alone; no delays")),
    (23, "TestGetRandomizedInterval", By(checks::integer_jitter)),
    (24, "exponential-backoff.md", By(checks::powers_of_e)),
    (25, "backoff.ex doctests", By(checks::oban)),
    (26, "delay_for/process_retry", By(checks::sidekiq)),
    (
        27,
        "test_get_exponential_backoff_interval",
        Against("H2: no delay below zero", checks::celery),
    ),
    (
        28,
        "x_amz_retry_after",
        Apart("a header that is not ours, capped at 5 s more; Decision 7 is ours"),
    ),
    (29, "test_quota.py", Apart("a token bucket alone, no delays")),
    (30, "RETRYABLE_THROTTLED_RESPONSES", By(decisions::aws_classes)),
    (31, "TestRetryQuotaChecker", By(decisions::aws_costs)),
    (32, "TestMaxAttemptsInRequestHeader", Apart("a header of AWS's own")),
    (33, "test_dynamodb_base_backoff", By(checks::full_jitter_at_its_most)),
    (34, "v2_1_*", Against("Decision 7: no cap on a server's delay", decisions::aws_delays)),
    (35, "quota_replenishes_on_first_try_success", Apart("a token bucket alone, no delays")),
    (36, "overflow tests", By(checks::capped_cases)),
    (
        37,
        "quota_replenishes_on_success",
        Apart("a server's delay that lowers ours; Decision 7 never does"),
    ),
    (38, "test_client_sending_rates", Apart("adaptive sending rates, not retries")),
    (39, "max_backoff_time", Same),
    (40, "calculate_exponential_backoff", Same),
    (41, "eventual_success", By(checks::two_then_success)),
    (42, "calculate_exponential_backoff", Same),
    (43, "test_calculated_rate_with_throttles", Apart("adaptive sending rates, not retries")),
    (44, "A6-client-retries.md", By(|e| checks::range(e, fifth()))),
    (45, "hedging", Apart("hedged requests, not retries")),
    (46, "TestRetryThrottling", Apart("gRPC's own token counting, no delays")),
    (47, "TestRetryStreaming pushback", Apart("a server's own delay in gRPC trailers")),
    (
        48,
        "LowerBoundBackOffStrategyTest",
        Apart("jitter above a server's delay; Decision 7 adds none"),
    ),
    (49, "FixedBackOffBasicReset", Same),
    (50, "JitteredBackOffBasicFlow", Within(Jitter::Full)),
    (51, "OverFlow", By(checks::capped_cases)),
    (52, "TestItemExponentialFailureRateLimiter", Same),
    (
        53,
        "test_exponential_with_min_wait_and_multiplier",
        By(|e| checks::raised_to_a_minimum(e, 1_048_576_000.0)),
    ),
    (54, "test_exponential_with_max_wait", Same),
    (55, "test_wait_chain", By(checks::list)),
    (56, "test_wait_exponential_jitter", FromOurs),
    (57, "test_exponential_with_min_wait", By(|e| checks::raised_to_a_minimum(e, 524_288_000.0))),
    (58, "test_wait_random_exponential", Range(Jitter::Full)),
    (59, "test_exponential_max_delay_with_default", Same),
    (
        60,
        "test_exponential_total_delay",
        Against("Decision 8: none at the timeout", decisions::total_delay),
    ),
    (61, "test_exponential_factor", Same),
    (
        62,
        "fibonacci.rs",
        Against("Decision 3: the cap is for every shape", checks::fibonacci_capped),
    ),
    (63, "test_exponential_jitter", FromOurs),
    (64, "exponential_retry_policy_with_max_interval", Same),
    (65, "fast_forward_*", By(checks::resumed)),
    (66, "retry_after.rs", Apart("how Retry-After is read; no delays of a policy")),
    (67, "TestGetFixedOrRandomDelay", Same),
    (
        68,
        "testMultiBackOff",
        Against("Decision 4: whole nanoseconds, not milliseconds", checks::truncated_milliseconds),
    ),
    (69, "test_status_forcelist", By(decisions::statuses_and_methods)),
    (70, "test_parse_retry_after", Apart("how Retry-After is read; no delays of a policy")),
    (
        71,
        "test_backoff",
        Against("Decision 2: the first retry waits too", checks::first_retry_waits),
    ),
    (72, "retry.md", Apart("how Retry-After is read; no delays of a policy")),
    (73, "tower/src/retry/backoff.rs", Apart("what is refused at load; no delays")),
    (74, "004_58ff2a06f37d1083", Same),
    (
        75,
        "004_58ff2a06f37d1083",
        Against("Decision 4: jitter stays below the cap", checks::rh_agents),
    ),
    (76, "003_0f28292e5805fc69", Same),
    (77, "001_7db43f30b935e3c3", Same),
    (78, "000_bd675b66ddfd2d6a", Same),
];

/// Why guard settings are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// Nothing opens the breaker.
    #[error("nothing opens the breaker; set `failures`, `rate` or both")]
    NeverOpens,
    /// An open breaker must hold something back.
    #[error("the breaker would open for no time; leave `open` out for 30 s")]
    OpenForNoTime,
    /// A rate of zero, or one over no time, is met before anything failed.
    #[error("a failure rate of 0, or over no time, says nothing; use more than 0")]
    BareRate,
    /// A rate limit over no time limits nothing.
    #[error("a rate over no time limits nothing; use a time such as 1s")]
    NoTime,
    /// An error budget of nothing, or of everything.
    #[error(
        "the target leaves nothing to burn, or asks for nothing; use more than 0 and less than 1, such as 0.99"
    )]
    NoErrorBudget,
    /// An error budget over no time.
    #[error("an error budget over no time says nothing; use a time such as 1h")]
    NoWindow,
    /// No alert, or one that is always raised.
    #[error("an alert is a share of the budget above 0; write alerts = [0.5, 0.9, 1.0]")]
    NoAlert,
    /// More alerts than anybody reads.
    #[error("there are more than 10 alerts; leave some out")]
    TooManyAlerts,
    /// Even if every outcome were a failure, less would be burnt.
    #[error("an alert is out of reach even if everything fails; use at most 1 / (1 - target)")]
    AlertOutOfReach,
}

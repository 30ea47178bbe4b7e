//! Error budgets, pure: when an alert is raised, by table; and how a workflow file says them (C18).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::num::NonZeroU32;

use retrial_core::dialect::{Document, Environment, Format, parse_workflow};
use retrial_core::guard::{Alert, Ended, ErrorBudget, GuardInput, GuardRules, GuardState};
use retrial_core::policy::{ActionKind, Share};
use retrial_core::time::{Nanos, Timestamp};

fn share(millionths: u32) -> Share {
    Share::from_millionths(millionths).unwrap()
}

/// One action, its error budget, and a clock that is turned by hand.
struct Lab {
    rules: GuardRules,
    state: GuardState<u32>,
    now: Timestamp,
    next: u32,
}

impl Lab {
    /// A tenth may fail within ten seconds.
    fn new(min_calls: u32, alerts: &[u64]) -> Self {
        let min_calls = NonZeroU32::new(min_calls).unwrap();
        let ten = Nanos::from_secs(10);
        let budget = ErrorBudget::new(share(900_000), ten, min_calls, alerts.to_vec()).unwrap();
        let rules = GuardRules { error_budget: Some(budget), ..GuardRules::default() };
        let now = Timestamp::from_nanos(1_000_000_000_000);
        Self { rules, state: GuardState::default(), now, next: 0 }
    }

    fn take(&mut self, input: &GuardInput<u32>) -> Vec<Alert> {
        // What is stored is all there is to know.
        let stored = serde_json::to_string(&self.state).unwrap();
        self.state = serde_json::from_str(&stored).unwrap();
        self.state.take(&self.rules, input, self.now).unwrap()
    }

    fn start(&mut self) -> u32 {
        self.next += 1;
        let alerts = self.take(&GuardInput::Admit { attempt: self.next, first: true, tokens: 0 });
        assert_eq!(alerts, []);
        self.next
    }

    fn end(&mut self, attempt: u32, how: Ended) -> Vec<Alert> {
        self.take(&GuardInput::Ended { attempt, how, refill: 0 })
    }

    /// Attempts one after another: `w` well, `b` badly, `s` silently; `.` is a second, `-` ten.
    /// Gives the percents that raised an alert, after the letter that raised them.
    fn go(&mut self, how: &str) -> String {
        let mut told = String::new();
        for c in how.chars() {
            let end = match c {
                'w' => Ended::Well,
                'b' => Ended::Badly,
                's' => Ended::Silently,
                '.' | '-' => {
                    let by = if c == '.' { 1 } else { 10 };
                    self.now = self.now.after(Nanos::from_secs(by));
                    told.push(c);
                    continue;
                }
                _ => panic!("{c}"),
            };
            let attempt = self.start();
            told.push(c);
            for alert in self.end(attempt, end) {
                told.push_str(&format!("[{}]", alert.threshold / 10_000));
            }
        }
        told
    }
}

#[test]
fn c18_when_an_alert_is_raised_and_lowered() {
    let cases = [
        // One of ten is all of it: too few outcomes raise nothing, then each reached share raises
        // an alert.
        (10, "wwwwwwwwwb", "wwwwwwwwwb[50][100]"),
        (10, "bwwwwwwwww", "bwwwwwwwww"),
        (10, "bwwwwwwwwwb", "bwwwwwwwwwb[50][100]"),
        (1, "b", "b[50][100]"),
        // One of twenty is a half; one of eleven is less than all.
        (10, "wwwwwwwwwwb", "wwwwwwwwwwb[50]"),
        (10, "wwwwwwwwwwwwwwwwwwwb", "wwwwwwwwwwwwwwwwwwwb[50]"),
        (10, "wwwwwwwwwwwwwwwwwwwwb", "wwwwwwwwwwwwwwwwwwwwb"),
        // While the share rises, each alert is raised once.
        (10, "wwwwwwwwwwwwwwwwwwwbbb", "wwwwwwwwwwwwwwwwwwwb[50]bb[100]"),
        // What says nothing is no outcome.
        (10, "wwwwwsssssb", "wwwwwsssssb"),
        // It falls below, not below half of it, and rises again: that is the same alert.
        (2, "wwwwwwwwwbwwwwb", "wwwwwwwwwb[50][100]wwwwb"),
        // One of 21 is less than half of all: that is lowered, and half of it is not.
        (2, "wwwwwwwwwbwwwwwwwwwwwb", "wwwwwwwwwb[50][100]wwwwwwwwwwwb"),
        (2, "wwwwwwwwwbwwwwwwwwwwwbb", "wwwwwwwwwb[50][100]wwwwwwwwwwwbb[100]"),
        // Nothing is left within the window: every alert can be raised again.
        (1, "b-b", "b[50][100]-b[50][100]"),
        (1, "b-wb", "b[50][100]-wb[50][100]"),
        (2, "wb-bb", "wb[50][100]-bb[50][100]"),
        // Something is.
        (1, "b.........b", "b[50][100].........b"),
        (1, "b.....b.....b.....b", "b[50][100].....b.....b.....b"),
    ];
    for (min_calls, outcomes, expected) in cases {
        let mut lab = Lab::new(min_calls, &[500_000, 1_000_000]);
        assert_eq!(lab.go(outcomes), expected, "from {min_calls} calls");
    }
}

#[test]
fn c18_an_alert_says_what_was_counted() {
    let mut lab = Lab::new(7, &[1_500_000, 400_000]);
    lab.go("wwwwww");
    let attempt = lab.start();
    // A seventh is 1.428571... times the tenth.
    let expected = [Alert { threshold: 400_000, burnt: 1_428_571, failures: 1, calls: 7 }];
    assert_eq!(lab.end(attempt, Ended::Badly), expected);
    assert_eq!(lab.end(attempt, Ended::Badly), [], "an attempt ends once");
    assert_eq!(lab.end(99, Ended::Badly), [], "and nobody's end is none");
    let attempt = lab.start();
    let expected = [Alert { threshold: 1_500_000, burnt: 2_500_000, failures: 2, calls: 8 }];
    assert_eq!(lab.end(attempt, Ended::Badly), expected);
}

#[test]
fn c18_large_counts_are_exact() {
    let most = ErrorBudget::new(share(999_999), Nanos::MAX, NonZeroU32::MIN, [1_000_000_000_000]);
    let rules = GuardRules { error_budget: Some(most.unwrap()), ..GuardRules::default() };
    let mut lab = Lab { rules, ..Lab::new(1, &[1]) };
    assert_eq!(lab.go("b"), "b[100000000]");
}

/// Where a tenth may fail, nothing burns more than ten times that.
#[test]
fn c18_the_last_alert_is_raised_when_everything_fails() {
    let budget =
        |most| ErrorBudget::new(share(900_000), Nanos::MAX, NonZeroU32::MIN, [1_000_000, most]);
    assert!(budget(10_000_001).is_err());
    let alerts = |n: u64| ErrorBudget::new(share(900_000), Nanos::MAX, NonZeroU32::MIN, 1..=n);
    assert!(alerts(10).is_ok() && alerts(11).is_err());
    let mut lab = Lab::new(1, &[10_000_000]);
    assert_eq!(lab.go("bb"), "b[1000]b");
    let mut lab = Lab::new(1, &[10_000_000]);
    assert_eq!(lab.go("wb"), "wb");
}

fn document(actions: &str) -> Result<Document, String> {
    let file = format!("workflow = \"w\"\n[[steps]]\nid = \"a\"\naction = \"act\"\n{actions}\n");
    let environment = Environment::default();
    let found = parse_workflow("w.toml", &file, Format::Toml, &environment);
    found.map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

const NOTIFY: &str =
    "[actions.notify]\nhttp = \"POST http://pager/alerts\"\nkind = \"agent_call\"\n";

#[test]
fn c18_a_file_says_the_error_budget_of_an_action() {
    let budget = r#"error_budget = { target = 0.995, window = "30m", min_calls = 50, alerts = [1.0, 0.25], webhook = "notify" }"#;
    let found = document(&format!("[actions.act]\n{budget}\n{NOTIFY}")).unwrap();
    let act = &found.workflow.actions()["act"];
    let (window, fifty) = (Nanos::from_secs(1_800), NonZeroU32::new(50).unwrap());
    let expected = ErrorBudget::new(share(995_000), window, fifty, [250_000, 1_000_000]).unwrap();
    assert_eq!(act.guard.error_budget, Some(expected.clone()));
    assert_eq!(expected.alerts(), [250_000, 1_000_000], "in rising order");
    let stored = serde_json::to_string(&expected).unwrap();
    assert_eq!(serde_json::from_str::<ErrorBudget>(&stored).unwrap(), expected);
    // The webhook is pinned whole, with the policy of its kind.
    let webhook = act.webhook.as_ref().unwrap();
    assert_eq!((webhook.name(), webhook.action()), ("notify", &found.workflow.actions()["notify"]));
    assert_eq!(webhook.policy(), &ActionKind::AgentCall.built_in());
    // What is left out.
    let least = document("[actions.act]\nerror_budget = { target = 0.9 }").unwrap();
    let act = &least.workflow.actions()["act"];
    let usual = ErrorBudget::new(
        share(900_000),
        Nanos::from_secs(3_600),
        NonZeroU32::new(20).unwrap(),
        [500_000, 900_000, 1_000_000],
    );
    assert_eq!((act.guard.error_budget.clone(), act.webhook.clone()), (usual.ok(), None));
}

#[test]
fn c18_a_webhook_calls_no_other() {
    let chain = "[actions.act]\nerror_budget = { target = 0.9, webhook = \"notify\" }\n\
        [actions.notify]\nerror_budget = { target = 0.9, webhook = \"last\" }\n[actions.last]";
    let found = document(chain).unwrap();
    let webhook = found.workflow.actions()["act"].webhook.clone().unwrap();
    assert!(webhook.action().guard.error_budget.is_some() && webhook.action().webhook.is_none());
    let workflow = webhook.workflow("act").unwrap();
    assert!(workflow.actions()["notify"].webhook.is_none());
}

/// Each action keeps its webhook whole: many with a large one would outgrow every bound.
#[test]
fn c18_webhooks_that_are_too_large_together_are_refused() {
    let hook = format!(
        "[actions.notify]\nhttp = \"POST http://h/\"\nheaders = {{ a = \"{}\" }}\n",
        "x".repeat(60_000)
    );
    let text = |actions: usize| {
        let one = |n| {
            format!("[actions.a{n}]\nerror_budget = {{ target = 0.9, webhook = \"notify\" }}\n")
        };
        "[actions.act]\n".to_owned() + &(0..actions).map(one).collect::<String>() + &hook
    };
    document(&text(4)).unwrap();
    let error = document(&text(5)).unwrap_err();
    assert!(error.contains("the webhooks take more than 256 KiB"), "{error}");
    assert!(error.contains("actions.a4.error_budget.webhook"), "{error}");
}

#[test]
fn c18_error_budgets_that_make_no_sense_are_refused() {
    let cases = [
        "error_budget = {}",
        "error_budget = 0.99",
        "error_budget = { target = 1.0 }",
        "error_budget = { target = 0 }",
        "error_budget = { target = 99 }",
        "error_budget = { target = 0.9, window = 0 }",
        "error_budget = { target = 0.9, min_calls = 0 }",
        "error_budget = { target = 0.9, alerts = [] }",
        "error_budget = { target = 0.9, alerts = [0.5, 0] }",
        "error_budget = { target = 0.9, alerts = [10.1] }",
        "error_budget = { target = 0.9, alerts = 0.5 }",
        "error_budget = { target = 0.9, alerts = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0.1] }",
        "error_budget = { target = 0.9, treshold = 0.5 }",
        "error_budget = { target = 0.9, webhook = \"notfy\" }",
        "error_budget = { target = 0.9, webhook = \"act\" }",
        "error_budget = { target = 0.9, webhook = 5 }",
        "error_budget = { target = 0.9, webhook = \"\" }",
    ];
    let said = |text: &&str| {
        let said = document(&format!("[actions.act]\n{text}\n{NOTIFY}"));
        format!("{text}\n  {}", said.map(|_| ()).unwrap_err())
    };
    insta::assert_snapshot!(cases.iter().map(said).collect::<Vec<_>>().join("\n"), @r#"
    error_budget = {}
      w.toml:6:16: actions.act.error_budget.target: `target` is missing (write target = 0.99)
    error_budget = 0.99
      w.toml:6:16: actions.act.error_budget: expected a table, found the number 0.99
    error_budget = { target = 1.0 }
      w.toml:6:27: actions.act.error_budget.target: the target leaves nothing to burn, or asks for nothing (use more than 0 and less than 1, such as 0.99)
    error_budget = { target = 0 }
      w.toml:6:27: actions.act.error_budget.target: the target leaves nothing to burn, or asks for nothing (use more than 0 and less than 1, such as 0.99)
    error_budget = { target = 99 }
      w.toml:6:27: actions.act.error_budget.target: the share is above 1 (use 0 to 1)
    error_budget = { target = 0.9, window = 0 }
      w.toml:6:41: actions.act.error_budget.window: an error budget over no time says nothing (use a time such as 1h)
    error_budget = { target = 0.9, min_calls = 0 }
      w.toml:6:44: actions.act.error_budget.min_calls: `0` is out of range (use 1 to 4294967295)
    error_budget = { target = 0.9, alerts = [] }
      w.toml:6:41: actions.act.error_budget.alerts: an alert is a share of the budget above 0 (write alerts = [0.5, 0.9, 1.0])
    error_budget = { target = 0.9, alerts = [0.5, 0] }
      w.toml:6:41: actions.act.error_budget.alerts: an alert is a share of the budget above 0 (write alerts = [0.5, 0.9, 1.0])
    error_budget = { target = 0.9, alerts = [10.1] }
      w.toml:6:41: actions.act.error_budget.alerts: an alert is out of reach even if everything fails (use at most 1 / (1 - target))
    error_budget = { target = 0.9, alerts = 0.5 }
      w.toml:6:41: actions.act.error_budget.alerts: expected a list, found the number 0.5
    error_budget = { target = 0.9, alerts = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0.1] }
      w.toml:6:41: actions.act.error_budget.alerts: there are more than 10 alerts (leave some out)
    error_budget = { target = 0.9, treshold = 0.5 }
      w.toml:6:32: actions.act.error_budget.treshold: unknown key `treshold` (use target, window, min_calls, alerts, webhook)
    error_budget = { target = 0.9, webhook = "notfy" }
      w.toml:6:42: actions.act.error_budget.webhook: there is no action `notfy` in [actions] (did you mean `notify`?)
    error_budget = { target = 0.9, webhook = "act" }
      w.toml:6:42: actions.act.error_budget.webhook: an action can't be the webhook of its own alerts (name another action: this one is failing)
    error_budget = { target = 0.9, webhook = 5 }
      w.toml:6:42: actions.act.error_budget.webhook: expected a text, found the number 5
    error_budget = { target = 0.9, webhook = "" }
      w.toml:6:42: actions.act.error_budget.webhook: the text is empty (write a name)
    "#);
    // Where a program registers no functions, a webhook that is one can't be called.
    let function = "[actions.act]\nhttp = \"POST http://x/y\"\n\
        error_budget = { target = 0.9, webhook = \"notify\" }\n[actions.notify]";
    let found = document(function).unwrap().registered;
    insta::assert_snapshot!(found.iter().map(ToString::to_string).collect::<String>(), @r#"w.toml:7:42: actions.act.error_budget.webhook: action `notify` has no HTTP endpoint, and no function of that name is registered (declare it: [actions.notify] http = "POST http://...")"#);
}

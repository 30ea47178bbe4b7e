//! A sweep as a test report in JUnit's XML, which build servers read.

use quick_junit::{NonSuccessKind, Report, SerializeError, TestCase, TestCaseStatus, TestSuite};
use retrial_sim::unstable::report::{Breach, SeedReport, Verdict};

/// The report's text: a test case a seed, in the order of the seeds. `again` is the command that
/// reproduces one, less the seed.
pub(crate) fn written(seeds: &[SeedReport], again: &str) -> Result<String, SerializeError> {
    let mut seeds: Vec<&SeedReport> = seeds.iter().collect();
    seeds.sort_by_key(|seed| seed.seed);
    let mut suite = TestSuite::new("seeds");
    suite.add_test_cases(seeds.into_iter().map(|seed| case(seed, again)));
    let mut report = Report::new("retrial-sim");
    report.add_test_suite(suite);
    report.to_string()
}

fn case(seed: &SeedReport, again: &str) -> TestCase {
    let status = match seed.verdict {
        Verdict::Held | Verdict::Unbounded => TestCaseStatus::success(),
        Verdict::Wrong => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Verdict::Stuck | Verdict::Panicked => TestCaseStatus::non_success(NonSuccessKind::Error),
    };
    let mut case = TestCase::new(format!("seed {}", seed.seed), status);
    case.set_classname("retrial_sim");
    if seed.verdict.is_failure() {
        let found = |b: &Breach| format!("{} ({}): {}\n", b.oracle, b.reason, b.text);
        let found: String = seed.breaches.iter().map(found).collect();
        let first = seed.breaches.first().map(|b| format!("{} ({})", b.oracle, b.reason));
        case.status.set_message(first.unwrap_or_default());
        case.status.set_type(seed.verdict.words());
        case.status.set_description(format!("{found}{again} {}", seed.seed));
    }
    case
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failing test panics")]

    use super::*;

    #[test]
    fn a_case_a_seed_with_what_was_found() {
        let held =
            |seed| SeedReport { verdict: Verdict::Held, breaches: vec![], ..wrong(seed, "") };
        let text = written(&[wrong(2, "a <b> & \"c\""), held(1)], "again").unwrap();
        let told = text.lines().skip(1).map(|l| l.trim_start().to_owned() + "\n");
        let told = told.filter(|line| !line.starts_with("</")).collect::<String>();
        insta::assert_snapshot!(told, @r#"
        <testsuites name="retrial-sim" tests="2" skipped="0" failures="1" errors="0">
        <testsuite name="seeds" tests="2" skipped="0" errors="0" failures="1">
        <testcase name="seed 1" classname="retrial_sim"/>
        <testcase name="seed 2" classname="retrial_sim">
        <failure message="durability (lost)" type="wrong">durability (lost): a &lt;b&gt; &amp; &quot;c&quot;
        again 2</failure>
        "#);
    }

    fn wrong(seed: u64, what: &str) -> SeedReport {
        let report = SeedReport::broken_off(seed, Verdict::Wrong, "durability", what.to_owned());
        let breaches = report.breaches.into_iter().map(|b| Breach { reason: "lost".into(), ..b });
        SeedReport {
            breaches: breaches.collect(),
            ..SeedReport::broken_off(seed, Verdict::Wrong, "", String::new())
        }
    }
}

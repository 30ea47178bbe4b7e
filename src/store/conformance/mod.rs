//! The suite that every store passes.
//!
//! Decides what the seam's documentation means, by example. Must never know how a store keeps its
//! records. To add a case, write a function over `Bench` and add it to [`cases`]. Waits are short,
//! and no case races a clock, so the suite runs against real clocks as well as manual ones.

mod alerts;
mod definitions;
mod guards;
mod heartbeat;
mod kit;
mod letters;
mod listing;
mod queue;
mod record;

use std::future::Future;
use std::pin::Pin;

use kit::Bench;
pub use kit::Wrong;

use super::DynStore;
use crate::time::Nanos;

/// A store under test, empty at first, and its world.
pub trait Harness {
    /// The store.
    fn store(&self) -> DynStore;

    /// Lets at least `by` pass in the store's time.
    fn sleep(&self, by: Nanos) -> Doing<'_, ()>;

    /// Closes the store and opens it again. A store that loses everything when closed returns false
    /// and stays open.
    fn reopen(&mut self) -> Doing<'_, bool>;

    /// Whether reservations survive the reopening, because other nodes use the store meanwhile.
    fn keeps_reservations(&self) -> bool {
        false
    }
}

/// Something that takes its time.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// One case. It needs a harness with an empty store.
pub struct Case {
    /// What must hold.
    pub name: &'static str,
    /// Checks it.
    pub run: for<'a> fn(&'a mut dyn Harness) -> Doing<'a, Result<(), Wrong>>,
}

/// Every case.
#[must_use]
pub fn cases() -> Vec<Case> {
    macro_rules! cases {
        ($($room:ident :: $case:ident,)*) => {
            vec![$(Case {
                name: stringify!($case),
                run: |harness| Box::pin($room::$case(Bench::new(harness))),
            }),*]
        };
    }
    cases![
        record::create_is_idempotent,
        record::a_run_is_created_by_one_submission,
        record::x8_a_key_leads_to_the_first_run,
        record::a_commit_lands_once_and_its_receipt_comes_first,
        record::a_receipt_outlives_the_token,
        record::a_late_duplicate_of_an_older_commit_never_lands,
        record::the_newest_sixteen_writers_keep_their_receipts,
        record::a_conflict_brings_the_exact_tail,
        record::a_commit_lands_whole_or_not_at_all,
        record::w11_results_are_append_only,
        record::loading_gives_snapshot_and_tail,
        record::trimming_forgets_only_what_the_snapshot_holds,
        record::heads_come_in_pages,
        record::a12_active_runs_without_rows_are_found,
        record::an_unknown_run_is_not_there,
        record::reopening_keeps_what_was_acknowledged,
        record::time_never_goes_back,
        queue::claims_come_earliest_first,
        queue::a_repeated_claim_gets_the_same_answer,
        queue::a_reservation_lapses_and_uses_up_nothing,
        queue::the_commit_of_the_start_is_the_lease,
        queue::r7_a_stale_token_changes_nothing,
        queue::r6_a_lease_ends_at_the_earlier_of_lease_and_deadline,
        queue::leases_of_active_runs_are_told_by_run_and_task,
        queue::a_lapsed_fence_wants_a_lapsed_lease,
        queue::renewing_extends_but_never_past_the_deadline,
        queue::renewing_past_the_deadline_is_lost,
        queue::renewing_with_a_stale_token_is_lost,
        queue::nothing_is_claimed_before_it_is_due,
        queue::a_removed_task_is_gone,
        queue::a12_a_run_at_rest_is_not_claimed,
        queue::reopening_keeps_leases_and_reservations_of_a_shared_store_alone,
        guards::a_held_start_leaves_everything_as_it_was,
        guards::a_hold_is_told_again_until_its_time,
        guards::x6_an_end_lets_the_first_that_waits_through,
        guards::what_a_commit_means_counts_once_however_often_it_is_sent,
        guards::guards_are_shared_by_all_writers_and_survive_reopening,
        guards::c18_probes_are_bounded_across_writers,
        guards::x6_a_rate_lets_its_calls_through_one_interval_apart,
        guards::h17_a_budget_holds_a_withdrawal_and_not_the_lease,
        guards::a_place_is_free_again_when_a_run_at_rest_has_lost_its_lease,
        guards::x6_runs_take_turns,
        guards::guards_are_shown_as_they_stand,
        alerts::c18_an_alert_is_raised_exactly_where_it_is_told,
        alerts::c18_a_commit_that_left_an_alert_untold_never_lands,
        alerts::c18_alerts_are_shared_by_all_writers_and_survive_reopening,
        alerts::c18_a_commit_adds_its_runs_once_and_only_where_it_lands,
        heartbeat::x1_a_missed_heartbeat_ends_a_lease,
        heartbeat::x1_no_heartbeat_revives_a_lease,
        heartbeat::x1_progress_reaches_the_next_attempt,
        heartbeat::x12_what_the_claimer_cannot_run_is_not_claimed,
        heartbeat::x15_tasks_of_full_actions_are_passed_over,
        letters::c18_letters_land_with_their_commit,
        letters::c18_a_letter_is_redriven_once,
        letters::c18_a_discarded_letter_is_not_redriven,
        letters::a12_only_a_run_at_rest_is_archived,
        letters::h17_a_paused_run_is_claimed,
        letters::x9_pruning_removes_all_of_a_run_and_nothing_else,
        listing::lists_are_newest_first,
        listing::of_runs_created_at_once_the_greatest_id_comes_first,
        listing::lists_go_on_where_they_stopped,
        listing::lists_hold_only_what_is_wanted,
        listing::runs_are_found_by_key_code_and_time,
        listing::x20_runs_are_found_by_fields,
        listing::text_finds_ids_and_workflows,
        listing::a_tally_follows_the_runs,
        definitions::definitions_keep_revisions,
        definitions::definitions_come_in_pages_by_name,
        definitions::reports_are_kept_by_node,
    ]
}

//! The test site of the suite, and the list of its tests.

use std::sync::Arc;

use crate::{Error, Store};

/// A new store that processes can join.
pub trait StoreFixture: Send + Sync {
    /// Adds a process to the store.
    fn join(&self) -> Arc<dyn Store>;
    /// Adds a process whose commits go to the outbox.
    fn join_publishing(&self) -> Arc<dyn Store>;
}

pub(super) fn expect_ok<T>(result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| panic!("the store returned an error: {error:?}"))
}

/// Runs the suite; the expression creates a new [`StoreFixture`] for each test.
#[macro_export]
macro_rules! contract_suite {
    ($site:expr) => {
        $crate::contract_suite!(@each $site;
            a_commit_is_read_back_as_it_was_written,
            a_commit_on_an_old_version_writes_nothing,
            creating_twice_creates_once,
            seqs_with_a_gap_are_refused,
            a_cause_after_its_effect_is_refused,
            an_event_from_outside_is_found_by_its_id_and_kept_once,
            an_end_is_recorded_once_per_generation,
            one_members_violation_does_not_touch_the_others,
            the_row_follows_the_log_through_a_life,
            snapshots_shorten_the_tail_and_other_versions_are_passed_over,
            lists_are_narrowed_and_newest_first,
            executions_are_searched_by_text_error_and_duration,
            executions_are_listed_by_label,
            labels_are_rebuilt_from_the_log,
            projections_rebuilt_are_the_same,
            iterations_are_found_by_their_index,
            iterations_are_counted_and_a_retry_counts_failures_anew,
            many_iterations_are_read_in_pages,
            an_iteration_has_the_time_of_its_last_run,
            an_outline_has_everything_but_iterations,
            outcomes_of_iterations_are_read_in_bounded_memory,
            the_latest_ends_of_a_loop_task_are_found,
            rows_of_iterations_rebuilt_are_the_same,
            a_wait_lasts_until_its_signal,
            a_wait_ends_with_what_contains_it,
            signals_have_any_name,
            waits_are_narrowed_and_paged,
            signals_that_no_task_took_are_removed,
            only_runs_that_keep_a_body_for_good_last,
            a_command_is_claimed_by_one_worker_only,
            paused_and_cancelling_executions_offer_nothing,
            a_released_command_comes_back_with_a_higher_epoch,
            a_stale_claim_is_fenced_and_leaves_nothing,
            a_claim_is_lost_with_its_session,
            a_session_belongs_to_its_holder,
            a_pending_command_becomes_overdue,
            the_same_work_is_not_offered_twice_at_once,
            timers_are_due_in_order_until_cleared,
            a_message_arrives_once,
            a_message_to_a_new_execution_goes_to_its_senders_driver,
            a_message_to_an_execution_of_a_dead_process_goes_to_a_live_one,
            a_refused_message_is_answered,
            old_rows_are_removed,
            keys_of_consumed_messages_are_removed,
            states_of_ended_batches_are_removed,
            old_rows_are_removed_in_slices,
            the_catalog_counts_only_changes,
            versions_of_a_path_are_listed_newest_first,
            an_execution_of_a_dead_process_can_be_adopted,
            two_processes_appending_at_once_lose_nothing,
            another_processes_commit_is_noticed,
            a_token_is_found_by_its_hash_and_keeps_its_revocation,
            the_audit_trail_is_one_chain,
            a_setting_is_set_once,
            a_command_goes_only_to_a_worker_that_serves_its_kinds,
            a_worker_sees_what_it_holds,
            a_command_issued_to_a_worker_is_held_by_it,
            work_withdrawn_first_may_be_offered_again_in_one_commit,
            processes_see_each_other,
            processes_that_publish_are_marked,
            appends_wait_in_the_outbox_until_they_are_published,
            a_store_that_does_not_publish_leaves_the_outbox_empty,
            a_store_that_works_is_healthy,
            a_credential_is_kept_version_by_version,
            a_resolved_entry_is_kept_by_scope_until_it_expires,
            data_keys_are_wrapped_anew_one_by_one,
            pending_commands_are_listed_by_pool_and_by_execution,
            claimed_commands_are_listed_with_their_sessions,
            the_audit_log_is_read_from_its_end,
            a_store_knows_its_size
        );
    };
    (@each $site:expr; $($fact:ident),*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $fact() {
                $crate::contract::$fact(&$site).await;
            }
        )*
    };
}

//! The list of all cases, from which the table and the macro are made.

use super::{Case, cases};

/// Makes the table of cases and the macro that emits a test for each, from one list. (`$d` is a dollar sign for the inner macro.)
macro_rules! suite {
    ($d:tt $($group:ident { $($case:ident),* $(,)? })*) => {
        /// Every case of the suite.
        pub const CASES: &[Case] = &[
            $($(Case {
                group: stringify!($group),
                name: stringify!($case),
                run: |handles| Box::pin(cases::$group::$case(handles)),
            },)*)*
        ];

        /// Emits one test for each case of the conformance suite. Takes the path of an `async fn(count: usize) -> Handles`.
        #[macro_export]
        macro_rules! conformance {
            ($d open:path) => {
                $(mod $group {
                    #[allow(unused_imports, reason = "the path may be absolute")]
                    use super::*;

                    $(#[test]
                    fn $case() {
                        $crate::testkit::run(stringify!($group), stringify!($case), $d open);
                    })*
                })*
            };
        }
    };
}

suite! { $
    commits {
        a_value_is_read_as_it_was_written,
        a_later_value_replaces_an_earlier_one,
        a_deleted_key_is_gone,
        deleting_what_is_missing_is_fine,
        an_empty_commit_is_acknowledged,
        version_holds_for_the_last_write,
        version_fails_for_any_other_version,
        version_fails_after_the_deletion,
        absent_holds_only_without_the_key,
        empty_holds_only_without_entries,
        a_key_and_a_list_of_one_name_do_not_meet,
        the_failed_check_is_named,
        one_of_several_failed_checks_is_named,
        a_refused_commit_writes_nothing,
        a_commit_of_checks_alone_changes_nothing,
        checks_see_the_state_before_the_commit,
        a_check_may_be_made_twice,
        writes_of_every_kind_are_made_together,
        a_commit_may_have_a_thousand_keys,
        a_commit_may_have_a_thousand_checks,
    }
    versions {
        a_version_grows_with_each_write,
        a_version_grows_though_the_value_stays,
        a_receipt_tells_the_version_of_every_key,
        no_version_is_reused_after_a_delete,
        no_version_is_reused_after_a_deleted_range,
        no_version_is_reused_after_everything_was_deleted,
        a_stale_version_is_refused_after_a_new_start,
        other_writes_leave_a_version_alone,
        a_refused_write_leaves_the_version_alone,
        every_read_shows_the_same_version,
        one_of_many_writers_of_a_version_wins,
    }
    serializable {
        no_increment_is_lost,
        transfers_keep_the_sum,
        absent_is_not_skewed,
        version_is_not_skewed,
        empty_is_not_skewed,
        present_is_not_skewed,
        a_deleted_range_is_not_skewed,
        a_deleted_range_spares_nothing_seen_before,
        one_of_many_creators_wins,
        what_is_acknowledged_is_seen_everywhere,
        what_is_acknowledged_is_checked_everywhere,
        a_snapshot_never_shows_half_a_commit,
        a_long_page_is_one_instant,
        reads_never_go_back,
        readers_agree_on_the_order_of_writes,
        different_keys_never_conflict,
        appends_keep_the_order_of_time,
    }
    present {
        present_holds_only_with_the_key,
        present_holds_in_any_version,
        a_guarded_commit_may_write_its_guard,
        present_fails_after_the_deletion,
        present_holds_after_a_new_start,
        present_bears_concurrent_overwrites,
        many_guards_hold_at_once,
        nothing_guarded_follows_the_deletion,
    }
    lists {
        entries_of_one_commit_keep_their_order,
        an_entry_sorts_behind_those_acknowledged_before,
        a_consumer_at_the_head_takes_every_entry_once,
        removal_takes_one_entry_and_no_other,
        removing_what_is_not_there_changes_nothing,
        an_id_of_a_strange_form_names_no_entry,
        ids_are_never_used_again,
        ids_sort_as_the_list_does,
        pages_of_a_list_visit_every_entry_once,
        a_page_of_a_list_says_whether_there_is_more,
        a_key_and_a_list_of_one_name_are_apart,
        checks_of_a_key_and_of_a_list_are_apart,
        empty_holds_while_there_is_no_entry,
        empty_fails_once_an_append_was_acknowledged,
        an_entry_moves_to_the_tail_in_one_commit,
        an_entry_that_changes_lists_is_always_in_one,
        lists_whose_names_begin_one_another_do_not_mix,
        an_entry_holds_any_bytes,
    }
    ranges {
        keys_come_in_byte_order,
        a_range_holds_what_it_says,
        a_range_between_two_keys_holds_its_start_alone,
        a_range_of_one_key_holds_that_key_alone,
        a_page_of_a_range_says_whether_there_is_more,
        pages_of_a_range_visit_every_key_once,
        paging_goes_on_while_keys_come_and_go,
        an_empty_range_holds_nothing,
        a_range_shows_no_lists,
        deleting_a_range_deletes_what_is_in_it_alone,
        deleting_everything_leaves_nothing,
        ranges_beside_each_other_go_in_one_commit,
        a_deleted_range_can_be_filled_again,
    }
    watches {
        a_set_wakes,
        a_deletion_wakes,
        the_deletion_of_a_range_wakes_for_its_keys,
        the_deletion_of_a_range_wakes_for_its_lists,
        an_append_wakes,
        a_removal_wakes,
        one_write_among_many_wakes,
        a_change_before_the_wait_wakes,
        a_change_while_a_watch_is_made_is_not_missed,
        a_dropped_wait_loses_no_waking,
        the_last_of_many_changes_is_seen,
        the_right_ones_of_many_watches_wake,
        every_watch_of_one_key_wakes,
        a_dropped_watch_harms_nobody,
        a_watch_wakes_again_and_again,
    }
    bytes {
        hostile_keys_are_just_keys,
        deleting_a_hostile_key_deletes_it_alone,
        hostile_lists_are_just_lists,
        hostile_values_are_just_values,
        a_conflict_names_a_hostile_key,
        every_byte_is_a_key_in_order,
        the_longest_keys_differ_in_their_last_byte,
        an_empty_value_is_a_value,
        values_of_all_sizes_come_back,
    }
    limits {
        the_longest_key_is_taken_everywhere,
        a_key_that_is_too_long_is_refused,
        the_bound_of_a_range_has_a_limit,
        an_entry_id_that_is_too_long_is_refused,
        a_value_that_is_too_long_is_refused,
        a_commit_of_too_many_operations_is_refused,
        a_commit_of_too_many_bytes_is_refused,
        a_read_of_too_many_questions_is_refused,
        a_page_of_too_many_items_is_refused,
        a_page_of_too_many_entries_is_refused,
        a_page_of_too_many_bytes_is_cut_short,
        an_empty_key_is_refused,
        a_page_of_nothing_is_refused,
        writes_that_meet_are_refused,
        writes_that_do_not_meet_are_made,
    }
    cancel {
        a_dropped_commit_is_whole_or_absent,
        a_dropped_commit_happens_at_most_once,
        a_dropped_commit_keeps_its_checks,
        a_dropped_read_harms_nobody,
        neighbours_of_dropped_commits_are_made,
        tasks_ended_from_outside_leave_nothing_half_done,
    }
}

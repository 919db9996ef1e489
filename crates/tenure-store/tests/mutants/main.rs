//! The suite is not empty talk: stores with a planted flaw each fail the cases that are about it.

mod broken;

use std::{panic, sync::Arc};

use broken::{Broken, Flaw};
use tenure_store::{
    Store,
    testkit::{self, CASES, Case, Handles},
};

/// Groups of which every case must be known to notice something.
const PROVEN_GROUPS: [&str; 4] = ["commits", "versions", "serializable", "present"];

/// Each flaw, and the cases that must notice it.
const FLAWS: &[(Flaw, &[&str])] = &[
    (
        Flaw::IgnoresVersion,
        &[
            "commits::version_fails_for_any_other_version",
            "commits::version_fails_after_the_deletion",
            "versions::a_stale_version_is_refused_after_a_new_start",
            "versions::one_of_many_writers_of_a_version_wins",
            "serializable::no_increment_is_lost",
        ],
    ),
    (
        Flaw::IgnoresAbsent,
        &[
            "commits::absent_holds_only_without_the_key",
            "commits::a_commit_of_checks_alone_changes_nothing",
            "serializable::one_of_many_creators_wins",
            "serializable::absent_is_not_skewed",
        ],
    ),
    (
        Flaw::IgnoresPresent,
        &[
            "present::present_holds_only_with_the_key",
            "present::a_guarded_commit_may_write_its_guard",
            "present::present_fails_after_the_deletion",
            "present::present_holds_after_a_new_start",
            "present::nothing_guarded_follows_the_deletion",
            "serializable::present_is_not_skewed",
        ],
    ),
    (
        Flaw::IgnoresEmpty,
        &[
            "commits::empty_holds_only_without_entries",
            "commits::the_failed_check_is_named",
            "serializable::empty_is_not_skewed",
            "serializable::a_deleted_range_is_not_skewed",
            "serializable::what_is_acknowledged_is_checked_everywhere",
        ],
    ),
    (Flaw::HalvesPages, &["serializable::a_long_page_is_one_instant"]),
    (Flaw::LooksThenDeletes, &["serializable::a_deleted_range_spares_nothing_seen_before"]),
    (Flaw::MixesKeysAndLists, &["commits::a_key_and_a_list_of_one_name_do_not_meet"]),
    (Flaw::ChecksAfterWriting, &["commits::checks_see_the_state_before_the_commit"]),
    (
        Flaw::NamesTheFirstCheck,
        &[
            "commits::the_failed_check_is_named",
            "commits::one_of_several_failed_checks_is_named",
            "commits::a_commit_may_have_a_thousand_checks",
        ],
    ),
    (
        Flaw::WritesThoughRefused,
        &[
            "commits::a_refused_commit_writes_nothing",
            "versions::a_refused_write_leaves_the_version_alone",
            "serializable::no_increment_is_lost",
        ],
    ),
    (
        Flaw::HalvesCommits,
        &["serializable::a_snapshot_never_shows_half_a_commit", "serializable::transfers_keep_the_sum"],
    ),
    (
        Flaw::HalvesReads,
        &[
            "serializable::a_snapshot_never_shows_half_a_commit",
            "serializable::readers_agree_on_the_order_of_writes",
            "serializable::transfers_keep_the_sum",
        ],
    ),
    (
        Flaw::ChecksThenWrites,
        &[
            "serializable::no_increment_is_lost",
            "serializable::one_of_many_creators_wins",
            "versions::one_of_many_writers_of_a_version_wins",
            "present::nothing_guarded_follows_the_deletion",
        ],
    ),
    (
        Flaw::IsolatesSnapshots,
        &[
            "serializable::absent_is_not_skewed",
            "serializable::version_is_not_skewed",
            "serializable::empty_is_not_skewed",
            "serializable::present_is_not_skewed",
            "serializable::a_deleted_range_is_not_skewed",
        ],
    ),
    (
        Flaw::ConflictsFreely,
        &["serializable::different_keys_never_conflict", "present::many_guards_hold_at_once"],
    ),
    (
        Flaw::ReadsLate,
        &[
            "commits::a_value_is_read_as_it_was_written",
            "serializable::what_is_acknowledged_is_seen_everywhere",
            "serializable::appends_keep_the_order_of_time",
        ],
    ),
    (
        Flaw::ReusesVersions,
        &[
            "versions::no_version_is_reused_after_a_delete",
            "versions::no_version_is_reused_after_a_deleted_range",
            "versions::no_version_is_reused_after_everything_was_deleted",
            "versions::a_stale_version_is_refused_after_a_new_start",
        ],
    ),
    (Flaw::ReadsLateAtTimes, &["serializable::reads_never_go_back"]),
    (Flaw::SkipsSameValues, &["versions::a_version_grows_though_the_value_stays"]),
    (Flaw::PresentAsVersion, &["present::present_bears_concurrent_overwrites"]),
    (Flaw::ReversesAppends, &["lists::entries_of_one_commit_keep_their_order"]),
    (
        Flaw::DeleteRangeForgetsLists,
        &[
            "commits::empty_holds_only_without_entries",
            "commits::writes_of_every_kind_are_made_together",
            "ranges::deleting_everything_leaves_nothing",
        ],
    ),
    (
        Flaw::IgnoresLimits,
        &["limits::a_key_that_is_too_long_is_refused", "limits::a_commit_of_too_many_operations_is_refused"],
    ),
    (
        Flaw::RefusesChecks,
        &[
            "commits::version_holds_for_the_last_write",
            "present::present_holds_in_any_version",
            "present::present_holds_after_a_new_start",
        ],
    ),
    (Flaw::RefusesDoubleChecks, &["commits::a_check_may_be_made_twice"]),
    (Flaw::RefusesEmptyCommits, &["commits::an_empty_commit_is_acknowledged"]),
    (Flaw::RefusesVainDeletes, &["commits::deleting_what_is_missing_is_fine"]),
    (
        Flaw::ForgetsOverwrites,
        &["commits::a_later_value_replaces_an_earlier_one", "versions::a_version_grows_with_each_write"],
    ),
    (
        Flaw::ForgetsDeletes,
        &["commits::a_deleted_key_is_gone", "versions::no_version_is_reused_after_a_delete"],
    ),
    (
        Flaw::CutsCommits,
        &["commits::a_commit_may_have_a_thousand_keys", "commits::a_commit_may_have_a_thousand_checks"],
    ),
    (Flaw::SharesVersions, &["versions::other_writes_leave_a_version_alone"]),
    (
        Flaw::MisreadsVersionsInRanges,
        &[
            "versions::a_receipt_tells_the_version_of_every_key",
            "versions::every_read_shows_the_same_version",
        ],
    ),
];

#[test]
fn every_flaw_is_noticed() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let wrong: Vec<String> = FLAWS.iter().flat_map(|(flaw, cases)| unnoticed(*flaw, cases)).collect();
    panic::set_hook(hook);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_case_notices_a_flaw() {
    let vain: Vec<String> = CASES
        .iter()
        .filter(|case| PROVEN_GROUPS.contains(&case.group))
        .map(name)
        .filter(|name| !FLAWS.iter().any(|(_, cases)| cases.contains(&name.as_str())))
        .collect();
    assert!(vain.is_empty(), "no flaw is known that these cases notice: {vain:#?}");
}

/// What speaks against the claim that these cases notice the flaw.
/// How often a case is run at most before it counts as blind: some flaws only show in a race, which a busy machine may leave out.
const RACES: usize = 5;

fn unnoticed(flaw: Flaw, cases: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    for named in cases {
        let case = CASES.iter().find(|case| name(case) == *named);
        match case {
            None => wrong.push(format!("there is no case {named}")),
            Some(case) if !passes(Flaw::None, case) => wrong.push(format!("{named} fails without a flaw")),
            Some(case) if (0..RACES).all(|_| passes(flaw, case)) => {
                wrong.push(format!("{named} does not notice {flaw:?}"));
            }
            Some(_) => {}
        }
    }
    wrong
}

fn passes(flaw: Flaw, case: &Case) -> bool {
    panic::catch_unwind(|| testkit::run(case.group, case.name, |count| open(flaw, count))).is_ok()
}

async fn open(flaw: Flaw, count: usize) -> Handles {
    let store: Arc<dyn Store> = Arc::new(Broken::new(flaw));
    Handles::new(vec![store; count], ())
}

fn name(case: &Case) -> String {
    format!("{}::{}", case.group, case.name)
}

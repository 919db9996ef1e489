//! The flows of a durable server, step by step, on every store.
//!
//! Steps have the numbers of the design that they follow: the call request flow has twelve, the cast request flow eight. A node that calls and one that consumes
//! are in one process, each with a store of its own that it opened by the same URL.
//!
//! | to find | look in |
//! | --- | --- |
//! | the steps | `call`, `cast`, `terms` |
//! | the server | `ledger` |
//! | nodes, and what is in the store | `stage` |

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod call;
mod cast;
mod ledger;
#[path = "../support/place.rs"]
mod place;
mod stage;
mod terms;

use std::{pin::Pin, process::ExitCode};

use libtest_mimic::{Arguments, Trial};

use self::{place::Place, stage::Stage};

/// How many trials run at a time: they wait most of the time.
const TRIALS_AT_A_TIME: usize = 4;

type Work = fn(Stage) -> Pin<Box<dyn Future<Output = ()>>>;

/// Steps by their names.
macro_rules! steps {
    ($($group:ident::$name:ident),* $(,)?) => {
        [$((concat!(stringify!($group), "::", stringify!($name)), (|stage| Box::pin($group::$name(stage))) as Work)),*]
    };
}

fn main() -> ExitCode {
    let given = Arguments::from_args();
    let arguments = Arguments { test_threads: given.test_threads.or(Some(TRIALS_AT_A_TIME)), ..given };
    let all = steps![
        call::steps_1_to_3_a_call_is_in_the_queue_with_its_address,
        call::steps_4_to_8_a_consumer_takes_it_and_changes_the_state,
        call::steps_9_and_10_state_and_answer_are_one_commit,
        call::step_11_side_effects_run_after_the_commit,
        call::steps_11_and_12_side_effects_and_the_answer_do_not_wait_for_each_other,
        call::step_12_the_answer_is_read_and_cleared,
        call::a_call_that_timed_out_still_executes_and_leaves_nothing,
        call::a_failing_call_is_told_and_changes_nothing,
        cast::step_1_a_cast_is_durable_in_the_queue,
        cast::steps_2_to_7_it_is_taken_and_applied_in_one_commit,
        cast::step_8_side_effects_run_after_the_commit,
        cast::many_casts_keep_their_order,
        terms::a_server_lives_longer_than_every_node,
        terms::zero_consumers_the_messages_wait,
        terms::one_consumer_serves_itself_and_others,
        terms::many_consumers_apply_each_message_once,
        terms::a_priority_request_passes_the_queue,
        terms::answers_and_messages_above_the_limit_of_a_value,
        terms::tenants_do_not_see_each_other,
        terms::locked_work_keeps_others_waiting,
        terms::a_delayed_message_comes_later,
    ];
    let mut trials = Vec::new();
    for (name, work) in all {
        for place in Place::ALL {
            trials.push(Trial::test(format!("{place}::{name}"), move || {
                run(place, work);
                Ok(())
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn run(place: Place, work: Work) {
    let folder = tempfile::tempdir().unwrap();
    let url = place.url(folder.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let stage = Stage::new(url).await;
        work(stage).await;
    });
}

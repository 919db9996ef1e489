//! The dashboard in a real browser: a daemon, nodes that die, and a script that looks at the page as a person would. What is looked for is in `page/cases.py`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test tells what it found by panicking, and by what it prints"
)]

#[path = "page/keeper.rs"]
mod keeper;
#[path = "page/stage.rs"]
mod stage;

use crate::{keeper::Keeper, stage::Stage};

/// Elections for the page to be fast with.
const ELECTIONS: u32 = 10_000;

/// Members beside them.
const MEMBERS: u32 = 1000;

#[test]
fn it_shows_who_is_there_and_every_change_within_a_second() {
    let mut stage = Stage::new(&[]);
    stage.start("one");
    stage.start("two");
    stage.look("shows", &[]);
}

#[test]
fn it_survives_the_daemon() {
    let mut stage = Stage::new(&[]);
    stage.start("two");
    stage.look("restart", &[]);
}

#[test]
fn it_works_by_keyboard() {
    let mut stage = Stage::new(&[]);
    stage.start("one");
    stage.look("keyboard", &[]);
}

#[test]
fn what_operators_do_is_confirmed_and_done() {
    let mut stage = Stage::new(&[]);
    stage.start("one");
    stage.start("two");
    let keeper = Keeper::join(&stage.store());
    keeper.refuse(&[700, 900]);
    stage.look("actions", &[]);
}

#[test]
fn who_may_only_read_is_offered_nothing_else() {
    let (reader, operator) = ("reader-reader-reader", "operator-operator");
    let tokens = format!("read {reader}\noperate {operator}\n");
    let mut stage = Stage::new(&[("tokens", &tokens)]);
    stage.start("one");
    stage.look("roles", &[reader, operator]);
}

#[test]
fn a_thousand_members_and_ten_thousand_elections_are_told_once_and_then_what_changes() {
    let mut stage = Stage::new(&[]);
    let mut keeper = Keeper::join(&stage.store());
    keeper.gather(MEMBERS);
    keeper.lead(ELECTIONS);
    stage.look("many", &[]);
}

#[test]
fn it_can_be_read_in_light_and_dark_wide_and_narrow_and_takes_no_text_for_markup() {
    let mut stage = Stage::new(&[]);
    stage.start("one");
    stage.start("two");
    stage.start("three");
    let mut keeper = Keeper::join(&stage.store());
    keeper.refuse(&[700, 900]);
    keeper.furnish();
    stage.look("tour", &[]);
}

#[test]
fn an_empty_cluster_is_no_riddle() {
    Stage::new(&[]).look("empty", &[]);
}

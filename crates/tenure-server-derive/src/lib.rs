//! `#[derive(State)]`, for [`tenure-server`](https://docs.rs/tenure-server): use it from there.

mod field;
mod state;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `State` for a struct with named fields, each a part of its own.
///
/// | attribute | of | means |
/// | --- | --- | --- |
/// | none | a field | its type is a serde type with a default, and is written as a whole when it changed |
/// | `#[state(parts)]` | a field | its type is itself a `State`: a `Map`, a `List`, another struct that derives it |
/// | `#[state(rename = "name")]` | a field | it is stored under this name |
/// | `#[state(crate = "path")]` | the struct | where `tenure_server` is found, if not under its own name |
#[proc_macro_derive(State, attributes(state))]
pub fn derive_state(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    state::implement(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

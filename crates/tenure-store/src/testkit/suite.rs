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
    }
}

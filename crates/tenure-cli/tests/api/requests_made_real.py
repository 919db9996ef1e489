"""Requests of schemathesis, of which every other one that the document allows is for something that exists."""

import itertools

import schemathesis

# What is in the cluster that the test makes.
REAL = {
    "kind": ["picky"],
    "id": ["fussy", "orders-1", "paused"],
    "name": ["lease", "billing", "alice"],
    "registry": ["users"],
    "number": ["1", "2", "3"],
}

# Nobody answers most calls: none is to be waited for as long as it may say.
TIMEOUT_MS = 20

turns = itertools.count()


@schemathesis.hook
def before_call(context, case, kwargs):
    if isinstance(case.body, dict) and isinstance(case.body.get("timeout_ms"), int):
        case.body["timeout_ms"] = min(case.body["timeout_ms"], TIMEOUT_MS)
    elif isinstance(case.body, dict) and case.path.endswith("/call") and "timeout_ms" not in case.body:
        case.body["timeout_ms"] = TIMEOUT_MS
    turn = next(turns)
    if turn % 2 == 0 and case.meta is not None and case.meta.generation.mode.is_positive:
        for parameter in case.path_parameters or {}:
            choices = REAL.get(parameter)
            if choices:
                case.path_parameters[parameter] = choices[turn // 2 % len(choices)]

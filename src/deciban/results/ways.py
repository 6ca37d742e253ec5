"""How a row is evaluated as if the model had never seen it; a separate file, so that saved models load quickly."""

EXACT = "leave-one-out"  # exact: the model's sums without the row
CROSS_FITTED = "cross-fitted leave-one-out"  # also with choices made without the row, or its fold
HELD = "leave-one-out, choices held"  # with choices that the row had a part in

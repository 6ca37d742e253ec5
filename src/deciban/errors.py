"""What can go wrong, in words that say what to do."""


class DecibanError(ValueError):
    """Base of every error that deciban raises about its input."""


class SchemaError(DecibanError):
    """Two things that should fit together (batches, models) do not."""


class ForgetError(DecibanError):
    """Rows were to be forgotten that the model had not learned."""


class FileError(DecibanError):
    """A model file is broken, foreign, or from a later version."""


class ZeroEvidenceWarning(UserWarning):
    """Every class gave some row probability zero, so its posterior fell back to the prior."""

"""What `make package`, `deploy`, `deploy-code`, `destroy` and `verify-aws` do."""


class StackError(Exception):
    """What happened, to what, and what to do about it."""

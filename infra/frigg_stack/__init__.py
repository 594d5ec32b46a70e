"""What `make package`, `deploy`, `deploy-code` and `destroy` do."""


class StackError(Exception):
    """What happened, to what, and what to do about it."""

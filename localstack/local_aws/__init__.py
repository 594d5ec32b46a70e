"""Starts, provisions and stops local AWS. Standard library only: it runs before anything is installed.

cli          the subcommands
flavours     which emulator, how it is started and asked whether it is up
venv         the emulator's own virtual environment, below `.local/`
supervisor   one emulator process: port, temp folder, clean environment, and its end
state        what `up` leaves for `env` and `down`
docker       LocalStack in a container
report       the `export` lines
"""


class LocalAwsError(Exception):
    """Something the user can act on: printed without a traceback."""

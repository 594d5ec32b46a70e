"""Where things are."""

import os

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROVISION = os.path.join(HERE, "init", "ready.d", "10_frigg.py")
COMPOSE = os.path.join(HERE, "docker-compose.yml")


def local_folder():
    """The git-ignored folder for virtual environments, state and logs."""
    folder = os.environ.get("FRIGG_LOCAL_DIR") or os.path.join(os.path.dirname(HERE), ".local")
    os.makedirs(folder, exist_ok=True)
    return os.path.abspath(folder)


def requirements(flavour_name):
    return os.path.join(HERE, "requirements", f"{flavour_name}.txt")

"""The project's own cases, by theme. Importing this declares them all (see case.py)."""
from cases import asking, connecting, delivering, limits, resuming, subscribing  # noqa: F401

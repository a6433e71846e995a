"""Settings of all tests."""

from hypothesis import settings

# A busy machine is not a failure.
settings.register_profile("project", deadline=None)
settings.load_profile("project")

collect_ignore = ["typed_user.py"]  # for mypy: some of its lines are wrong on purpose

"""Runs the versions, then brings functions, views and grants to their files.

Called by skiplane.schema.migrate, inside its transaction; not by the alembic command.
"""

from typing import Any

from alembic import context

from skiplane.schema.install.run import Installation


def run_migrations() -> None:
    """Apply what is new."""
    installation: Installation = context.config.attributes["installation"]

    # The parameters' names are part of Alembic's interface.
    def noted(ctx: Any, step: Any, heads: Any, run_args: Any) -> None:
        installation.version_applied(step.up_revision_id, step.up_revision.doc)

    installation.before_versions()
    context.configure(
        connection=context.config.attributes["connection"],
        version_table="schema_version",
        version_table_schema="skiplane",
        on_version_apply=noted,
    )
    with context.begin_transaction():
        context.run_migrations()
    installation.after_versions()


run_migrations()

"""initial tables

They are in schema/tables, where they can be read as what they are. From the first
release on those files stay as they are and later versions change the tables: a
new database runs through all versions like an old one.
"""

from alembic import context

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    from skiplane.schema.install.files import execute_file, read_files

    installation = context.config.attributes["installation"]
    for file in read_files(installation.root, "tables"):
        execute_file(installation.connection, file.name, file.text)

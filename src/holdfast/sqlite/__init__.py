"""SQLite files: opening, transactions, migrations, and SQL kept in files of its own."""

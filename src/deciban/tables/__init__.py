"""Models of tables: encoded columns, experts that each use a row in their own way, and how they are chosen."""

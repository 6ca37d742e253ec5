"""Models of tables: columns encoded, experts that each look at a row in their own way, and how they are chosen."""

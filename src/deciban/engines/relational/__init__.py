"""What engines over databases share: connections, statements, and rows of answers read as statistics."""

"""The engine: the nursery of a connection, its reader, its writer, its workers."""

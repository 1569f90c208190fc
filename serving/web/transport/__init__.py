"""HTTP: listening, connections, what is refused before the application."""

"""Starts the server under test and talks to it. Used by the Python tests and by bench/."""

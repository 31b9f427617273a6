"""Profilers and checkers: a module each, which builds the command line, runs it, and leaves a report."""

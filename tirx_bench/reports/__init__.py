"""What profilers and checkers wrote -> findings: a module for each form of report. Nothing here runs anything."""

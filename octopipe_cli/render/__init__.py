"""Output for people: the Gantt chart, reports, tables, progress. Only this package knows rich."""

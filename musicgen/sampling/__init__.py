"""Music from a model: what comes next, and the page that shows it."""

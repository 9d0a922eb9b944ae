"""Video analytics: resume positions, viewer profiles, recommendations and an analytics store."""

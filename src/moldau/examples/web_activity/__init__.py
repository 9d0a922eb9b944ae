"""Web activity: page views, sessions and top pages; and the logs of the web servers, collected from their files."""

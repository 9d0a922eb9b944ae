"""The broker process: listeners, sessions, requests that wait, and one handler a file for every API served."""

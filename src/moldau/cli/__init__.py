"""Command line of Moldau: each command is a thin layer over a package that also works without it."""

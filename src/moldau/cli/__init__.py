"""`moldau ...`: what people type. Each command is a thin shell around a package that could be used without it."""

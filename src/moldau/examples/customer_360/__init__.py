"""Customer 360: one always current view per customer, from personal data, payments and cards."""

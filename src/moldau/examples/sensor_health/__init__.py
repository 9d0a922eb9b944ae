"""Health of sensors: alerts with a critical partition, the latest status of each sensor, and silent sensors."""

"""Programs that measure how fast this project is; :mod:`benchmarks.speed` is the main one."""

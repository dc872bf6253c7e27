"""Programs that measure the speed of this project; :mod:`benchmarks.speed` is the main one."""

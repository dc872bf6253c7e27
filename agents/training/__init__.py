"""Learning: configs, PPO, runs, imitation, the value of positions."""

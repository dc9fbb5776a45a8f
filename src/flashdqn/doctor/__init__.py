"""Why a training is slow: ours, by experiment (`flashdqn profile`), and anybody's script (`flashdqn doctor`)."""

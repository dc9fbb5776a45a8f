"""Trainings on a cluster, by Ray: the extra flashdqn[ray]."""

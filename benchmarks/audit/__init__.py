"""`botgrpo audit`: what is known of a reward before a step is trained on it.

labels       rollouts and what is known to be true of them
observe      a reward's passes over the rollouts as arrays
estimate     statistics as sums over prompts, with intervals
stability, bounded, advantages, truth, side, richness    the figures, by what they tell
probes       completions that no reward should pay for
alarms       which figures are a reason not to train, and the sentence
card         all of it for one reward; evidence, page and command beside it
"""

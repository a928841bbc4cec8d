"""What can be computed about a model: functions of arrays, and the states that they are given."""

# What is installed where.

"""The parts of the command `sdp4bit`: main.py has the table of its commands, each of which is a module."""

"""Reads the machine code of kernels and runs a recorded launch of it, warp by warp."""

"""The GPU's kernels on the CPU: their source compiled as C++, on a machine of one core (machine.cuh)."""
